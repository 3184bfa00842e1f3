//! What went over the wire, per operation.

use std::collections::BTreeMap;

/// Requests and bytes of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that arrived, whatever became of them.
    pub requests: u64,
    /// Bytes of the request bodies.
    pub request_bytes: u64,
    /// Bytes of the answers DynamoDB gave, lost ones included.
    pub answer_bytes: u64,
}

/// A snapshot of everything counted so far. Two snapshots make a difference with [`since`](Self::since).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, Tally>);

impl Counts {
    /// Requests of one operation, as in `"UpdateItem"`.
    #[must_use]
    pub fn of(&self, operation: &str) -> u64 {
        self.tally(operation).requests
    }

    /// Requests and bytes of one operation.
    #[must_use]
    pub fn tally(&self, operation: &str) -> Tally {
        self.0.get(operation).copied().unwrap_or_default()
    }

    /// Requests of all operations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|tally| tally.requests).sum()
    }

    /// The operations that were seen, with their tallies, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Tally)> {
        self.0
            .iter()
            .map(|(operation, tally)| (operation.as_str(), *tally))
    }

    /// What was added after `earlier` was taken; operations without a new request are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = self.0.iter().filter_map(|(operation, now)| {
            let then = earlier.tally(operation);
            (now.requests > then.requests).then(|| {
                let tally = Tally {
                    requests: now.requests - then.requests,
                    request_bytes: now.request_bytes - then.request_bytes,
                    answer_bytes: now.answer_bytes - then.answer_bytes,
                };
                (operation.clone(), tally)
            })
        });
        Self(added.collect())
    }

    pub(super) fn request(&mut self, operation: &str, bytes: usize) {
        let tally = self.0.entry(operation.to_owned()).or_default();
        tally.requests += 1;
        tally.request_bytes += bytes as u64;
    }

    pub(super) fn answer(&mut self, operation: &str, bytes: usize) {
        self.0.entry(operation.to_owned()).or_default().answer_bytes += bytes as u64;
    }
}
