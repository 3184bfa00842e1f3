//! Why a soak could not run. What it finds is no error.

use std::path::PathBuf;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A binary is not there.
    #[error("{} is missing: cargo build --workspace --locked", .0.display())]
    Missing(PathBuf),
    /// Something did not start.
    #[error("could not start: {0}")]
    Start(String),
    /// A part of the local stack failed.
    #[error(transparent)]
    Local(#[from] leasehold_local::Error),
    /// The protected resource, which meets no faults, failed.
    #[error("the protected resource failed: {0}")]
    Resource(String),
    /// A log could not be read.
    #[error("could not read a log: {0}")]
    Log(std::io::Error),
}
