//! What a test has counted on both sides, kept until the table is printed.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What happened, there and here, in one sentence each.
#[derive(Debug, Deserialize, Serialize)]
pub struct Finding {
    /// At the peer.
    pub there: String,
    /// With ours.
    pub here: String,
}

impl Finding {
    /// Keeps it as the newest of its entry.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, entry: &str) -> io::Result<()> {
        std::fs::create_dir_all(directory())?;
        std::fs::write(file(entry), serde_json::to_vec_pretty(self)?)
    }

    /// The newest one of an entry, if its test has run.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn of(entry: &str) -> io::Result<Option<Self>> {
        match std::fs::read(file(entry)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/track-record")
}

fn file(entry: &str) -> PathBuf {
    directory().join(format!("{entry}.json"))
}
