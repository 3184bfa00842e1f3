//! Counts of requests and bytes, per operation.

use std::collections::BTreeMap;

use super::units::Units;

/// Requests, bytes and units of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Received requests, whatever their outcome.
    pub requests: u64,
    /// Bytes of the request bodies.
    pub request_bytes: u64,
    /// Bytes of DynamoDB's responses, including lost ones.
    pub answer_bytes: u64,
    /// Capacity units, if the proxy [counts](super::Proxy::count_units) them.
    pub units: Units,
}

/// A snapshot of all counts. [`since`](Self::since) gives the difference of two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    by_operation: BTreeMap<String, Tally>,
}

impl Counts {
    /// Requests of one operation, as in `"UpdateItem"`.
    #[must_use]
    pub fn of(&self, operation: &str) -> u64 {
        self.tally(operation).requests
    }

    /// Requests and bytes of one operation.
    #[must_use]
    pub fn tally(&self, operation: &str) -> Tally {
        self.by_operation
            .get(operation)
            .copied()
            .unwrap_or_default()
    }

    /// Requests of all operations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_operation.values().map(|tally| tally.requests).sum()
    }

    /// Capacity units of all operations, if the proxy [counts](super::Proxy::count_units) them.
    #[must_use]
    pub fn units(&self) -> Units {
        let tallies = self.by_operation.values();
        tallies.fold(Units::default(), |sum, tally| sum + tally.units)
    }

    /// The operations with requests, with their tallies, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Tally)> {
        self.by_operation
            .iter()
            .map(|(operation, tally)| (operation.as_str(), *tally))
    }

    /// The counts since `earlier`. Operations without a new request are omitted.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = self.by_operation.iter().filter_map(|(operation, now)| {
            let then = earlier.tally(operation);
            (now.requests > then.requests).then(|| {
                let tally = Tally {
                    requests: now.requests - then.requests,
                    request_bytes: now.request_bytes - then.request_bytes,
                    answer_bytes: now.answer_bytes - then.answer_bytes,
                    units: now.units - then.units,
                };
                (operation.clone(), tally)
            })
        });
        Self {
            by_operation: added.collect(),
        }
    }

    pub(super) fn request(&mut self, operation: &str, body: &[u8]) {
        let tally = self.by_operation.entry(operation.to_owned()).or_default();
        tally.requests += 1;
        tally.request_bytes += body.len() as u64;
    }

    pub(super) fn answer(&mut self, operation: &str, bytes: usize, units: Units) {
        let tally = self.by_operation.entry(operation.to_owned()).or_default();
        tally.answer_bytes += bytes as u64;
        tally.units += units;
    }
}
