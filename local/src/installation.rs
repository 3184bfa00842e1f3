//! Where the local stack's own files are: in a clone of the repository, or in the package `leasehold-local`, whose launcher
//! sets these variables.

use std::path::{Path, PathBuf};

/// The directory that has `local/` and `templates/statemachines/`.
const HOME: &str = "LEASEHOLD_HOME";
/// A Python that has the engine's packages, so that no environment is created.
const PYTHON: &str = "LEASEHOLD_PYTHON";
/// Where that Python finds them, as in `PYTHONPATH`.
const PYTHON_PATH: &str = "LEASEHOLD_PYTHONPATH";
/// All of these. Programs of the user's do not get them.
pub const VARIABLES: [&str; 3] = [HOME, PYTHON, PYTHON_PATH];

/// Would make an SDK ignore the endpoints or the credentials of the stack.
pub const HIDING: [&str; 3] = [
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
];

/// Whether this is the package, not a clone.
#[must_use]
pub fn is_packaged() -> bool {
    std::env::var_os(HOME).is_some()
}

/// The directory that has `local/` and `templates/statemachines/`. A clone is on the machine that built the program.
#[must_use]
pub fn home() -> PathBuf {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    std::env::var_os(HOME).map_or_else(|| clone.unwrap_or(Path::new(".")).to_owned(), PathBuf::from)
}

/// The package's Python, and its search path.
pub(crate) fn python() -> Option<(PathBuf, String)> {
    let python = std::env::var_os(PYTHON)?;
    Some((
        python.into(),
        std::env::var(PYTHON_PATH).unwrap_or_default(),
    ))
}

/// Where `up` keeps its files: below `target/` of a clone, or in the user's cache.
#[must_use]
pub fn run_directory() -> PathBuf {
    if !is_packaged() {
        return home().join("target/local");
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let own = || std::env::home_dir().unwrap_or_default().join(".cache");
    cache
        .filter(|path| path.is_absolute())
        .unwrap_or_else(own)
        .join("leasehold-local")
}
