//! What a lease costs, beside what one would use instead: requests, capacity units, state transitions and instructions, which are
//! the same on every machine, and ratios of times.
//!
//! [`clients`] has ours and the others behind one trait; [`sections`], [`waiting`], [`workflows`] and [`instructions`]
//! are what is measured of them; [`report`] is what comes of it,
//! and [`summary`] what README and the page of performance show of that.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "what cannot be set up or read ends the benchmark where it happens, as in every proof"
)]

use std::path::PathBuf;

use clap::ValueEnum;
use leasehold_local::{PythonEnvironment, prepare_python};
use leasehold_proof::root;

mod chart;
pub mod clients;
pub mod fixture;
pub mod instructions;
pub mod python;
pub mod report;
pub mod sections;
pub mod summary;
pub mod waiting;
pub mod workflows;

use report::Found;

/// What keeps instructions from being counted on this machine. Whatever else fails ends the benchmark where it happens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// valgrind is not installed.
    #[error("valgrind is not installed: install the package valgrind")]
    NoValgrind,
    /// A program that is to be counted was not built.
    #[error("{} is not built: `make -C proof counted` builds it", .0.display())]
    NotBuilt(PathBuf),
    /// Under valgrind this machine does not answer within the library's limits of time, so that nothing can be counted here.
    #[error("the requests of {0} time out under valgrind on this machine")]
    TooSlow(String),
}

/// An error with its causes, in one line.
#[must_use]
pub fn message(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// What is measured by itself, in the order in which it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Part {
    /// What a section costs, undisturbed and after a fault.
    Sections,
    /// What a wait for a held key costs.
    Waiting,
    /// What a wait costs a workflow, all in: a crowd of executions for one key.
    Crowd,
    /// What a lease costs a workflow, in states and events.
    Workflows,
    /// What the library and the functions compute.
    Instructions,
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Less of everything, for a first look and for CI.
    pub quick: bool,
    /// How the binaries were built whose instructions are counted.
    pub build: instructions::Build,
}

impl Part {
    /// Its name on the command line and in the document.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Measures it.
    ///
    /// # Errors
    /// [`Error`] when instructions cannot be counted here.
    pub async fn measure(self, options: &Options) -> Result<Found, Error> {
        match self {
            Self::Sections => Ok(sections::measure().await),
            Self::Waiting => Ok(waiting::measure(options).await),
            Self::Crowd => Ok(Box::pin(workflows::crowd::measure(options)).await),
            Self::Workflows => Ok(Box::pin(workflows::measure()).await),
            Self::Instructions => Box::pin(instructions::measure(options)).await,
        }
    }
}

/// The Python that has the other locks; installed on first use.
pub async fn interpreter() -> PathBuf {
    let environment = PythonEnvironment {
        name: "bench-venv",
        requirements: &root().join("proof/comparison/python/requirements.txt"),
        purpose: "the locks written in Python",
        without: "install python3 and python3-venv",
    };
    let prepared = prepare_python(root(), &environment).await;
    prepared.unwrap_or_else(|error| panic!("{error}"))
}

/// How many times `part` goes into `whole`; zero if nothing can be said.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn ratio(whole: u64, part: u64) -> f64 {
    if part == 0 {
        return 0.0;
    }
    whole as f64 / part as f64
}
