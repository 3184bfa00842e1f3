//! The parts of the benchmark. A new one gets a module, a name here, and its line in each `match` below.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::Value;

use crate::measures::Measure;
use crate::picture::Picture;
use crate::{Error, counts, instructions, scale, waiting, workflows};

/// What can be measured by itself, in the order in which it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub enum Part {
    /// What it costs to wait for a key that others hold.
    Waiting,
    /// Requests, bytes and units of a critical section, scene by scene.
    Counts,
    /// What grows with the table, the line, the permits and the keys, and what does not.
    Scale,
    /// What a lease costs a workflow, in states, events and requests, and what all of it costs in money.
    Workflows,
    /// What the library and the functions compute.
    Instructions,
}

/// What every part gets.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The repository: Python packages, engines and built functions are found in its `target`.
    pub root: PathBuf,
    /// Less of everything, for a first look.
    pub quick: bool,
    /// The price list, if it is not the one in the repository.
    pub prices: Option<PathBuf>,
}

/// What a part answers.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is about, in a few words: a heading.
    pub title: &'static str,
    /// Its tables for the terminal.
    pub told: String,
    /// Its measures.
    pub measures: Vec<Measure>,
    /// Its pictures.
    pub pictures: Vec<Picture>,
    /// All its figures and settings, for `runs.json`.
    pub raw: Value,
}

impl Part {
    /// As it is written on the command line and in files.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Counts => "counts",
            Self::Scale => "scale",
            Self::Workflows => "workflows",
            Self::Instructions => "instructions",
        }
    }

    /// Measures it.
    ///
    /// # Errors
    /// [`Error`] when something cannot be set up. What fails later is counted.
    pub async fn measure(
        self,
        ground: &Ground,
        waiting: &waiting::Options,
    ) -> Result<Found, Error> {
        match self {
            Self::Waiting => waiting::measure(ground, waiting).await,
            Self::Counts => counts::measure(ground).await,
            Self::Scale => scale::measure(ground).await,
            Self::Workflows => Box::pin(workflows::measure(ground)).await,
            Self::Instructions => Box::pin(instructions::measure(ground)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_everywhere() {
        for part in Part::value_variants() {
            let argument = part.to_possible_value().unwrap();
            assert_eq!(argument.get_name(), part.told());
        }
    }
}
