//! What can keep the test from being made; what a function answers is not an error of it.

/// Why the test could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be run, or ended badly.
    #[error("{program}: {told}")]
    Program { program: String, told: String },
    /// A file, a port.
    #[error("could not {what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
    /// The local stack.
    #[error(transparent)]
    Local(#[from] leasehold_local::Error),
    /// A function on an emulator or behind `sam local start-lambda` could not be called.
    #[error("invoke {function}: {told}")]
    Invoke { function: String, told: String },
}

/// Names what was tried when the operating system refuses.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
