//! What the run was like in numbers: waits, and what was asked of DynamoDB.

use std::collections::BTreeMap;

use leasehold_local::Counts;
use serde::Serialize;

use super::record::{Execution, Record};
use super::resource::Audit;
use super::verdict;

/// The figures of a run, as they stand in the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// Executions by the status they ended with.
    pub(super) executions_by_status: BTreeMap<String, usize>,
    /// Leases that were granted and released by their holder.
    pub(super) sections_done: usize,
    /// Distinct leases.
    pub(super) grants: usize,
    /// Acquires that were told `Lease.Held`.
    pub(super) refusals: usize,
    pub(super) takeovers: usize,
    pub(super) replays: usize,
    pub(super) extends: usize,
    /// Leases that sweep freed.
    pub(super) swept: u64,
    pub(super) stale_writes_refused: usize,
    pub(super) writes_accepted: usize,
    pub(super) longest_wait_seconds: f64,
    pub(super) mean_wait_seconds: f64,
    pub(super) requests: Requests,
}

/// Requests that DynamoDB was sent, counted at the socket.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Requests {
    /// One critical section with nobody in its way: the writes that its functions asked of the lease table.
    pub(super) lease_table_uncontended: u64,
    /// The same section: what its work asked of the resource's table.
    pub(super) resource_table_uncontended: u64,
    /// All writes of the lease table, refused ones and those of sweep included.
    pub(super) lease_table_writes: u64,
    /// All reads of the lease table: sweep's.
    pub(super) lease_table_reads: u64,
    pub(super) resource_table: u64,
    /// `lease_table_writes` by `grants`.
    pub(super) lease_table_per_grant: f64,
}

/// The proxy's counts around the uncontended execution, and at the end.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) uncontended: Counts,
    pub(super) overall: Counts,
    pub(super) lease_table: String,
    pub(super) resource_table: String,
}

const READS: [&str; 3] = ["GetItem", "Query", "Scan"];
const WRITES: [&str; 3] = ["UpdateItem", "PutItem", "DeleteItem"];

impl Counted {
    fn requests(&self, grants: usize) -> Requests {
        let sum = |counts: &Counts, table: &str, operations: &[&str]| -> u64 {
            let each = operations.iter();
            each.map(|operation| counts.on_table(table, operation))
                .sum()
        };
        let (alone, all) = (&self.uncontended, &self.overall);
        let writes = sum(all, &self.lease_table, &WRITES);
        Requests {
            lease_table_uncontended: sum(alone, &self.lease_table, &WRITES),
            resource_table_uncontended: sum(alone, &self.resource_table, &WRITES),
            lease_table_writes: writes,
            lease_table_reads: sum(all, &self.lease_table, &READS),
            resource_table: sum(all, &self.resource_table, &WRITES),
            lease_table_per_grant: ratio(writes, grants),
        }
    }
}

impl Execution {
    /// How long it waited between its first question and the answer that granted, in seconds.
    pub(super) fn waited(&self, record: &Record) -> Option<f64> {
        let granted = record.holds_of(&self.arn).next()?.from;
        Some(record.seconds(granted) - record.seconds(self.asked?))
    }
}

impl Figures {
    pub(super) fn of(record: &Record, audit: &Audit, counted: &Counted) -> Self {
        let mut executions_by_status = BTreeMap::new();
        for execution in &record.executions {
            *executions_by_status
                .entry(execution.status.clone())
                .or_default() += 1;
        }
        let executions = &record.executions;
        let waits: Vec<f64> = executions
            .iter()
            .filter_map(|execution| execution.waited(record))
            .collect();
        let released = |hold: &&super::record::Hold| {
            let released = hold.released.as_ref();
            released.is_some_and(|(_, outcome)| outcome == "released")
        };
        let grants = record.holds.len();
        Self {
            executions_by_status,
            sections_done: record.holds.iter().filter(released).count(),
            grants,
            refusals: executions.iter().map(|one| one.refusals.len()).sum(),
            takeovers: verdict::takeovers(&record.holds).count(),
            replays: verdict::replays(&record.holds).count(),
            extends: record.holds.iter().map(|hold| hold.extends.len()).sum(),
            swept: record.swept,
            stale_writes_refused: executions
                .iter()
                .flat_map(|one| &one.refused_writes)
                .filter(|(_, name)| name == "Step.StaleToken")
                .count(),
            writes_accepted: audit.writes.len(),
            longest_wait_seconds: rounded(waits.iter().copied().fold(0.0, f64::max)),
            mean_wait_seconds: rounded(mean(&waits)),
            requests: counted.requests(grants),
        }
    }
}

fn ratio(of: u64, by: usize) -> f64 {
    let of = f64::from(u32::try_from(of).unwrap_or(u32::MAX));
    (of / count(by.max(1)) * 10.0).round() / 10.0
}

/// Zero if there is nothing.
pub(super) fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / count(all.len().max(1))
}

pub(super) fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// To milliseconds.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
