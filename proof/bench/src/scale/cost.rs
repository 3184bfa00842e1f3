//! What a step came to, at the socket.

use std::collections::BTreeMap;

use leasehold_local::{self as local, Counts};
use serde::Serialize;

/// Capacity units, of the table and of its index together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    /// To write, what was refused included.
    pub write: f64,
    /// To read.
    pub read: f64,
}

impl From<local::Units> for Units {
    fn from(units: local::Units) -> Self {
        Self {
            write: units.writing(),
            read: units.read,
        }
    }
}

/// Requests and bytes of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Requests of all operations.
    pub requests: u64,
    /// The same, apart.
    pub by_operation: BTreeMap<String, u64>,
    /// Bytes of the request bodies.
    pub sent: u64,
    /// Bytes of the answers.
    pub answered: u64,
    /// What DynamoDB would charge.
    pub units: Units,
}

impl Cost {
    /// Both ways.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.sent + self.answered
    }

    /// The operations in one line, as in `GetItem, 2 UpdateItem`.
    #[must_use]
    pub fn operations(&self) -> String {
        let each = self.by_operation.iter();
        let each: Vec<String> = each
            .map(|(name, times)| match times {
                1 => name.clone(),
                times => format!("{times} {name}"),
            })
            .collect();
        each.join(", ")
    }
}

impl From<&Counts> for Cost {
    fn from(counts: &Counts) -> Self {
        let mut cost = Self {
            units: counts.units().into(),
            ..Self::default()
        };
        for (operation, tally) in counts.iter() {
            cost.requests += tally.requests;
            cost.sent += tally.request_bytes;
            cost.answered += tally.answer_bytes;
            cost.by_operation
                .insert(operation.to_owned(), tally.requests);
        }
        cost
    }
}
