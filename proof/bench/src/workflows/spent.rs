//! What one scene spent, all its executions together.

use std::collections::BTreeMap;

use leasehold_local::Counts;
use serde::Serialize;

use super::history::History;
use crate::ratio;

/// What went through one door of the database.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Asked {
    /// Requests by operation.
    pub requests: BTreeMap<String, u64>,
    /// Write units, refused conditions included.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
}

impl Asked {
    pub(super) fn of(counts: &Counts) -> Self {
        let requests = counts.iter();
        let units = counts.units();
        Self {
            requests: requests
                .map(|(operation, tally)| (operation.to_owned(), tally.requests))
                .collect(),
            write_units: units.writing(),
            read_units: units.read,
        }
    }

    /// Requests of all operations.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// What was spent on leases in one scene. The work's own is left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spent {
    /// How many sections that was.
    pub sections: u64,
    /// States and events.
    pub history: History,
    /// What sections asked of the database.
    pub sections_asked: Asked,
    /// What reap and sweep asked of it: they look after all that has ended.
    pub tidying_asked: Asked,
    /// Invocations by function.
    pub invocations: BTreeMap<String, u64>,
    /// From the first start to the last end.
    pub seconds: f64,
}

impl Spent {
    /// Invocations of all functions.
    #[must_use]
    pub fn invocations(&self) -> u64 {
        self.invocations.values().sum()
    }

    /// `total` for each section.
    #[must_use]
    pub fn each(&self, total: u64) -> f64 {
        ratio(total, self.sections)
    }
}
