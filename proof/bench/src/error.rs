//! What can keep a benchmark from running.

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded database, the proxy, or Python.
    #[error(transparent)]
    Local(#[from] leasehold_local::Error),
    /// A contestant could not be set up.
    #[error("{contestant}: {message}")]
    Contestant {
        /// Its name.
        contestant: &'static str,
        /// What went wrong.
        message: String,
    },
    /// A part that was asked for could not be measured; what it told says why.
    #[error("nothing was measured of {0}: see above")]
    NothingMeasured(&'static str),
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
