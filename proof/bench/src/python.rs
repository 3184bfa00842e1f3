//! The Python that has the other lock clients.

use std::path::{Path, PathBuf};

use leasehold_local::{PythonEnvironment, prepare_python};

use crate::Error;

/// Where our scripts are, below the repository.
pub(crate) const HOME: &str = "proof/bench/python";

/// Makes sure of the packages, and answers the interpreter that has them.
pub(crate) async fn prepare(root: &Path) -> Result<PathBuf, Error> {
    let environment = PythonEnvironment {
        name: "bench-venv",
        requirements: &root.join(HOME).join("requirements.txt"),
        purpose: "python_dynamodb_lock",
        without: "install python3 and python3-venv, or leave this contestant out with --only",
    };
    Ok(prepare_python(root, &environment).await?)
}
