//! What one scene spent, all its executions together.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use leasehold_local::Counts;
use serde::Serialize;

use super::history::History;
use crate::ratio;

/// What was spent on leases in one scene.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spent {
    /// How many sections that was.
    pub sections: u64,
    /// States and events.
    pub history: History,
    /// Requests to the database by operation, the work's own left out.
    pub requests: BTreeMap<String, u64>,
    /// Write units, refused conditions included.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
    /// Invocations by function, the work's own left out.
    pub invocations: BTreeMap<String, u64>,
    /// From the first start to the last end.
    pub seconds: f64,
}

impl Spent {
    pub(super) fn of(counts: &Counts) -> Self {
        let requests = counts.iter();
        let units = counts.units();
        Self {
            requests: requests
                .map(|(operation, tally)| (operation.to_owned(), tally.requests))
                .collect(),
            write_units: units.writing(),
            read_units: units.read,
            ..Self::default()
        }
    }

    /// Requests of all operations.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.values().sum()
    }

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

impl AddAssign<&Self> for Spent {
    /// What comes on top, for the same sections.
    fn add_assign(&mut self, more: &Self) {
        self.history.add(&more.history);
        for (operation, requests) in &more.requests {
            *self.requests.entry(operation.clone()).or_default() += requests;
        }
        for (function, invocations) in &more.invocations {
            *self.invocations.entry(function.clone()).or_default() += invocations;
        }
        self.write_units += more.write_units;
        self.read_units += more.read_units;
    }
}
