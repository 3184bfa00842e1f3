//! The errors of the local stack, with what the reader can do about them.

use std::fmt::{Debug, Display};
use std::path::PathBuf;

use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use leasehold::Cause;

/// Why the local stack, or a part of it, could not be started or called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused: a port, a file, a process.
    #[error("could not {what}")]
    Io {
        /// The failed act, as a verb phrase.
        what: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The embedded DynamoDB refused.
    #[error("the embedded DynamoDB: {0}")]
    DynamoDb(String),
    /// The template cannot be read or names something that it does not define.
    #[error("{}: {message}", .file.display())]
    Template {
        /// The template file.
        file: PathBuf,
        /// What is wrong in it.
        message: String,
    },
    /// A user's definition is refused.
    #[error("{place}: {message}")]
    Definition {
        /// The file, with line and column if they are known.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// Function binaries are missing.
    #[error("no binary for {} in {}: build them with `cargo build --workspace` (`make local` and `make test` do it first)", .missing.join(", "), .directory.display())]
    MissingBinaries {
        /// The verbs without a binary.
        missing: Vec<String>,
        /// The searched directory.
        directory: PathBuf,
    },
    /// No function has this logical id or verb.
    #[error("no function is called {0:?}")]
    UnknownFunction(String),
    /// A Python environment could not be created.
    #[error("{0}")]
    Python(String),
    /// The state machine engine did not start.
    #[error("the state machine engine: {0}")]
    Engine(String),
    /// A call to one of the local endpoints failed.
    #[error("{what}: {message}")]
    Call {
        /// The call that failed.
        what: String,
        /// The service's response.
        message: String,
    },
}

impl Error {
    /// Makes an error of the operating system that names the failed act.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        io(what)
    }

    /// A call that failed, and why.
    pub fn call(what: impl Display, message: impl Display) -> Self {
        Self::Call {
            what: what.to_string(),
            message: message.to_string(),
        }
    }
}

/// The failure of a request that an SDK has sent, with the name of its operation.
impl<E, R> From<SdkError<E, R>> for Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: Debug + 'static,
{
    fn from(error: SdkError<E, R>) -> Self {
        // `StartExecutionError`, after its modules.
        let kind = std::any::type_name::<E>().rsplit(':').next();
        let operation = kind.unwrap_or_default().trim_end_matches("Error");
        Self::call(operation, said(&error))
    }
}

/// What a service answered, in one line: the name of its error, and its message. Without an answer, why there is none.
pub(crate) fn said<E, R>(error: &SdkError<E, R>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: Debug + 'static,
{
    let text = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => Cause::of(error).to_string(),
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// Makes an error of the operating system that names the failed act.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
