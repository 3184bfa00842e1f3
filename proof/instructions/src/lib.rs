//! How many instructions the library and the functions take, counted by valgrind.
//!
//! Instructions are the same on a busy machine as on an idle one, which times are not, so that a small step back is seen. They
//! are counted by difference: of two runs of one program, one does more of one thing, and everything else drops out.

use std::path::{Path, PathBuf};

pub mod budget;
mod error;
pub mod functions;
mod ground;
pub mod operations;
mod runtime_api;
mod tls;
pub mod valgrind;

use budget::Count;
pub use error::Error;
pub(crate) use error::io;
use functions::{Cold, Function, Invoked};
use operations::Operation;

/// How often something is counted whose requests time out.
const TRIES: usize = 8;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the functions are, as cargo-lambda leaves them: `<built>/<name>/bootstrap`.
    pub built: PathBuf,
    /// The driver, whose crate is `calls`.
    pub driver: PathBuf,
    /// Calls of each operation by which two runs differ.
    pub calls: usize,
    /// Invocations by which two runs differ.
    pub invocations: usize,
    /// Which functions.
    pub functions: Vec<Function>,
}

impl Options {
    /// What was built below `target`, often enough for a figure that is steady within a hundredth.
    #[must_use]
    pub fn new(target: &Path) -> Self {
        Self {
            built: target.join("instructions"),
            driver: target.join("instructions/calls/bootstrap"),
            calls: 100,
            invocations: 40,
            functions: functions::ALL.into(),
        }
    }

    /// Less of everything.
    #[must_use]
    pub fn quick(target: &Path) -> Self {
        Self {
            calls: 40,
            invocations: 15,
            functions: functions::ALL[..3].into(),
            ..Self::new(target)
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Each operation, by the library and by the SDK alone.
    pub operations: Vec<Operation>,
    /// Each function's process.
    pub functions: Vec<(&'static str, Invoked)>,
    /// The first function's process, from its start to its first answer over TLS.
    pub cold: Cold,
}

/// Counts everything.
///
/// # Errors
/// [`Error::NoValgrind`]; [`Error::NotBuilt`]; what [`operations::measure`] and [`functions::invoked`] say.
pub async fn measure(options: &Options) -> Result<Found, Error> {
    valgrind::find().await?;
    let mut operations = Vec::new();
    for name in operations::NAMES {
        operations.push(Box::pin(operations::measure(&options.driver, name, options.calls)).await?);
    }
    let mut invoked = Vec::new();
    for function in &options.functions {
        let binary = function.built(&options.built);
        let counted = Box::pin(functions::invoked(*function, &binary, options.invocations)).await?;
        invoked.push((function.name, counted));
    }
    let acquire = functions::ALL[0];
    let cold = functions::cold(acquire, &acquire.built(&options.built)).await?;
    Ok(Found {
        operations,
        functions: invoked,
        cold,
    })
}

impl Found {
    /// Every count by itself, as the budget knows it.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let count = |name: String, figure| Count { name, figure };
        let mut counts = Vec::new();
        for operation in &self.operations {
            let (name, above) = (operation.name, operation.library - operation.sdk);
            counts.push(count(format!("{name} by the library"), operation.library));
            counts.push(count(format!("{name}, above the SDK's request"), above));
        }
        for (name, invoked) in &self.functions {
            counts.push(count(
                format!("{name} function, warm invocation"),
                invoked.warm,
            ));
        }
        for (name, invoked) in &self.functions {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let first = invoked.first as f64;
            counts.push(count(
                format!("{name} function, process and first answer"),
                first,
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let cold = self.cold.instructions as f64;
        let name = "acquire function, process and first answer by TLS";
        counts.push(count(name.to_owned(), cold));
        counts
    }
}
