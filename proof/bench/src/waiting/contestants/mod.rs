//! The ways to wait for a key. Each has a file of its own, and its defaults; what was set besides is told.

mod dynamodb_lease;
mod polling;
mod python_lock;
mod queue;

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use dynamodb_lease::table as lease_table;

use crate::Error;
use crate::site::Site;
use crate::waiting::course::Course;
use crate::waiting::crew::Crew;

use crate::waiting::diary::Diary;
pub(crate) use dynamodb_lease::create_table as create_lease_table;

/// The one key that everybody wants.
const KEY: &str = "orders/42";

/// Who takes part, ours first. A new one gets a file, a name here, and its line in each `match` below.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Ours, in line: told when its turn has come.
    Queue,
    /// Ours, without a line: asks again after random pauses.
    Polling,
    /// The Rust crate of that name: asks again every second.
    DynamodbLease,
    /// The Python package of that name: asks again every five seconds.
    PythonDynamodbLock,
}

impl Name {
    /// As it is written on the command line and in the report.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Polling => "polling",
            Self::DynamodbLease => "dynamodb-lease",
            Self::PythonDynamodbLock => "python-dynamodb-lock",
        }
    }

    /// As a column beside the queue, which is ours.
    #[must_use]
    pub const fn as_peer(self) -> &'static str {
        match self {
            Self::Polling => "leasehold, polling",
            other => other.told(),
        }
    }

    /// Which version, with which settings.
    #[must_use]
    pub const fn settings(self) -> &'static str {
        match self {
            Self::Queue => queue::SETTINGS,
            Self::Polling => polling::SETTINGS,
            Self::DynamodbLease => dynamodb_lease::SETTINGS,
            Self::PythonDynamodbLock => python_lock::SETTINGS,
        }
    }

    /// Creates its table, sets up its clients, and lets them begin.
    pub(crate) async fn enter(
        self,
        root: &Path,
        site: &Site,
        course: &Course,
        diary: &Arc<Diary>,
    ) -> Result<Crew, Error> {
        let entered = match self {
            Self::Queue => queue::enter(site, course, diary).await,
            Self::Polling => polling::enter(site, course, diary).await,
            Self::DynamodbLease => dynamodb_lease::enter(site, course, diary).await,
            Self::PythonDynamodbLock => {
                // What Python lacks is told by itself.
                let python = crate::python::prepare(root).await?;
                python_lock::enter(&python, root, site, course, diary).await
            }
        };
        entered.map_err(|message| Error::Contestant {
            contestant: self.told(),
            message,
        })
    }
}

/// An error with its causes, once each.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_everywhere() {
        for name in Name::value_variants() {
            let argument = name.to_possible_value().unwrap();
            assert_eq!(argument.get_name(), name.told());
            assert_eq!(serde_json::to_value(name).unwrap(), name.told());
        }
    }
}
