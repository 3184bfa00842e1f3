//! The run directory: where a stack keeps its logs, and what others need to find it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, io};

/// The run directory of one stack. A temporary one is deleted with it.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
    /// A second stack would overwrite the files of the first, and lose them when the first ends. Closing the file releases the lock,
    /// also after a crash.
    _lock: Option<File>,
    _temporary: Option<TempDir>,
}

impl RunDirectory {
    /// Creates the directory if need be and locks it, or makes a temporary one.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else {
            let made = tempfile::tempdir().map_err(io("create a temporary directory"))?;
            return Ok(Self {
                path: made.path().to_owned(),
                _lock: None,
                _temporary: Some(made),
            });
        };
        let io = |what: &str| io(format!("{what} {}", path.display()));
        std::fs::create_dir_all(path).map_err(io("create"))?;
        // The file stays when the stack ends, because removing it could remove the next stack's lock.
        let file = File::create(path.join("stack.lock")).map_err(io("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: Some(file),
                _temporary: None,
            }),
            Err(TryLockError::WouldBlock) => {
                let message = "another stack runs on this directory; stop it, or use --run-directory for a second one";
                let busy = std::io::Error::new(ErrorKind::ResourceBusy, message);
                Err(io("start in")(busy))
            }
            Err(TryLockError::Error(source)) => Err(io("lock")(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
