//! One stack per run directory.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::Error;

/// Takes the run directory for this process. The lock goes when the file is closed, also by a crash.
pub(super) fn take(run_directory: &Path) -> Result<File, Error> {
    let io = |what: &str, source| Error::Io {
        what: format!("{what} {}", run_directory.display()),
        source,
    };
    std::fs::create_dir_all(run_directory).map_err(|source| io("create", source))?;
    // Left behind when the stack ends: whoever removed it could remove the lock of the next.
    let file = File::create(run_directory.join("up.lock")).map_err(|source| io("lock", source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let told = "another stack runs on this directory; stop it, or use --run-directory for a second one";
            Err(io(
                "start in",
                std::io::Error::new(ErrorKind::ResourceBusy, told),
            ))
        }
        Err(TryLockError::Error(source)) => Err(io("lock", source)),
    }
}
