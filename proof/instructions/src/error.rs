//! What can keep instructions from being counted.

use std::path::PathBuf;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to count with.
    #[error(
        "valgrind is not installed: install the package valgrind (Debian, Ubuntu: apt-get install valgrind; Fedora: dnf \
         install valgrind)"
    )]
    NoValgrind,
    /// What is to be counted has not been built.
    #[error("{} is not there: `make instructions` builds it", .0.display())]
    NotBuilt(PathBuf),
    /// A process did not do what it was started for.
    #[error("{0}")]
    Counting(String),
    /// Under valgrind everything takes fifty times as long, and a request that times out is sent again.
    #[error(
        "{0} sent requests again in each run: this machine is too slow or too busy for the library's time limits"
    )]
    TooSlow(String),
    /// The embedded database.
    #[error(transparent)]
    Local(#[from] leasehold_local::Error),
    /// The lease table or one of its rows.
    #[error(transparent)]
    Table(#[from] leasehold::Error),
    /// The server's side of TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// The budget cannot be read.
    #[error("{}: {message}", .file.display())]
    Budget {
        /// The file.
        file: PathBuf,
        /// What is wrong in it.
        message: String,
    },
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// What was tried, as a verb phrase.
        what: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

/// Names what was tried when the operating system refuses.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
