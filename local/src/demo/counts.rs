//! Counts of requests to DynamoDB, taken at the socket.

use std::collections::BTreeMap;

use leasehold_local::{Counts, Error, Proxy, Stack};
use serde::Serialize;

use super::record::Record;

/// The first act's requests.
#[derive(Debug, Serialize)]
pub(super) struct Contention {
    /// One critical section without contention: the writes of its functions to the lease table.
    pub(super) lease_table_uncontended: u64,
    /// The same section: the requests of its work to the resource's table.
    pub(super) resource_table_uncontended: u64,
    /// All writes to the lease table, including refused ones and those of sweep.
    pub(super) lease_table_writes: u64,
    /// All reads of the lease table. Only sweep reads it.
    pub(super) lease_table_reads: u64,
    pub(super) resource_table_writes: u64,
}

impl Contention {
    pub(super) fn of(alone: &Counts, all: &Counts, leases: &str, resource: &str) -> Self {
        let sum = |counts: &Counts, table: &str, operations: &[&str]| -> u64 {
            operations
                .iter()
                .map(|one| counts.on_table(table, one))
                .sum()
        };
        let writes = ["UpdateItem", "PutItem", "DeleteItem"];
        Self {
            lease_table_uncontended: sum(alone, leases, &writes),
            resource_table_uncontended: sum(alone, resource, &writes),
            lease_table_writes: sum(all, leases, &writes),
            lease_table_reads: sum(all, leases, &["GetItem", "Query", "Scan"]),
            resource_table_writes: sum(all, resource, &writes),
        }
    }
}

/// The second act's requests by function.
#[derive(Debug, Default)]
pub(super) struct Queue(BTreeMap<&'static str, Counts>);

/// The second act's requests, as in the report.
#[derive(Debug, Serialize)]
pub(super) struct QueueRequests {
    /// Joining the queue, per waiter.
    pub(super) join: f64,
    /// Freeing the key for the next, per release.
    pub(super) free: f64,
    /// Reading the next waiter's token, per release with a waiter behind it.
    pub(super) read: f64,
    /// The sum of the three.
    pub(super) per_hand_over: f64,
    /// Separate: all extends. Each holder's first one is the confirmation.
    pub(super) extends: u64,
    /// Separate: sweep's requests, for the clean-up and for the stopped holder.
    pub(super) sweep: u64,
    /// Separate: reap's requests, for the two stopped executions, and one look for each of the others.
    pub(super) reap: u64,
    /// Separate: grant's requests. The stream has work only if a release could not notify the next waiter.
    pub(super) grant: u64,
}

impl Queue {
    pub(super) fn of(
        before: &BTreeMap<&'static str, Counts>,
        after: &BTreeMap<&'static str, Counts>,
    ) -> Self {
        let since = |(verb, counts): (&&'static str, &Counts)| {
            let before = before.get(verb).cloned().unwrap_or_default();
            (*verb, counts.since(&before))
        };
        Self(after.iter().map(since).collect())
    }

    pub(super) fn per_hand_over(&self, record: &Record) -> QueueRequests {
        let queue = || {
            record
                .executions
                .iter()
                .filter(|one| !one.queued.is_empty())
        };
        let released = |one: &&super::record::Execution| {
            one.lease
                .as_ref()
                .is_some_and(|hold| hold.released.is_some())
        };
        // The demo's own release is one more. Behind the last holder nobody waits.
        let woken = queue().filter(released).count();
        let total = |verb| self.0.get(verb).map_or(0, Counts::total);
        let gets = self
            .0
            .get("release")
            .map_or(0, |counts| counts.of("GetItem"));
        let join = per(total("acquire"), queue().count());
        let free = per(total("release") - gets, woken + 1);
        let read = per(gets, woken);
        QueueRequests {
            join,
            free,
            read,
            per_hand_over: ((join + free + read) * 100.0).round() / 100.0,
            extends: total("extend"),
            sweep: total("sweep"),
            reap: total("reap"),
            grant: total("grant"),
        }
    }
}

/// The count per unit, to hundredths.
#[allow(clippy::cast_precision_loss)] // Hundreds.
pub(super) fn per(all: u64, each: usize) -> f64 {
    (all as f64 / each.max(1) as f64 * 100.0).round() / 100.0
}

/// A proxy between each function and the database.
pub(super) struct Meters(BTreeMap<&'static str, Proxy>);

impl Meters {
    /// Gives each function its proxy, and the variables that the act changes.
    pub(super) async fn install(stack: &Stack, changes: &[(&str, String)]) -> Result<Self, Error> {
        let mut proxies = BTreeMap::new();
        for verb in ["acquire", "extend", "release", "sweep", "reap", "grant"] {
            let proxy = Proxy::start(stack.database().address(), 0).await?;
            proxy.hold_to(stack.roles());
            let mut function = stack.functions().function(verb)?;
            let endpoint = ("AWS_ENDPOINT_URL_DYNAMODB", proxy.url());
            for (name, value) in changes.iter().chain([&endpoint]) {
                let environment = &mut function.environment;
                environment.insert((*name).to_owned(), value.clone());
            }
            stack.functions().register(function);
            proxies.insert(verb, proxy);
        }
        Ok(Self(proxies))
    }

    /// The counts so far, by verb.
    pub(super) fn read(&self) -> BTreeMap<&'static str, Counts> {
        let each = self.0.iter();
        each.map(|(verb, proxy)| (*verb, proxy.counts())).collect()
    }
}
