//! Sweep: frees what crashed. Hygiene; nobody's safety rests on it.

use std::time::Duration;

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Leases, corrupt},
    line::{Waiting, Waits},
    metrics::{self, Metric},
    outcomes::Ended,
    row::Stored,
    store::{Address, Store, What},
    values::Key,
    walk::Cursor,
};

/// How far one sweep goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepBounds {
    /// Through everything, or until the invocation's time is nearly up. It starts in a
    /// part that the clock's milliseconds pick, so that no part is always last.
    Schedule,
    /// Through at most so many held leases, from the cursor of an earlier answer.
    Call {
        /// How many to examine.
        limit: u32,
        /// Where to go on; from the start if not given.
        cursor: Option<Cursor>,
    },
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename = "swept")]
pub struct Swept {
    /// Held leases that were looked at, and those who wait.
    pub examined: u64,
    /// Those that had expired and are free now.
    pub freed: u64,
    /// Those who waited and were told that their turn has come.
    pub granted: u64,
    /// Items that this library did not write, and left alone.
    pub skipped_corrupt: u64,
    /// There is more, from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Sweep stops when less than this is left of its invocation.
const RESERVE: Duration = Duration::from_secs(1);

/// Keys on one page of the index.
const PAGE: u32 = 1000;

enum Look {
    Nothing,
    /// Whether somebody in line was told.
    Freed(bool),
    Corrupt,
}

impl<S: Store> Leases<S> {
    /// Frees the leases whose deadline passed more than the clock margin ago, and sees to those who
    /// wait in line: tells the next of what was freed, tells again who was told and did not come,
    /// passes over who still does not, sends away who has waited long enough, and clears up behind
    /// those who were served. Without [`Leases::with_workflows`] it leaves those who wait alone.
    ///
    /// It reads the index of held leases, so that its cost follows their number and not the
    /// table's size, and reads and frees one row at a time, each on the condition that the row is
    /// as it was read. It passes over frozen keys. Two sweeps at once, or one that is cut short,
    /// do no harm.
    ///
    /// # Errors
    /// Those of [`Store::apply`]; what was freed before stays free.
    pub async fn sweep(&self, bounds: SweepBounds) -> Result<Swept, Error> {
        let (mut left, mut cursor) = match bounds {
            SweepBounds::Schedule => (u32::MAX, Cursor::start(self.now().as_millis())),
            SweepBounds::Call { limit, cursor } => {
                (limit, cursor.unwrap_or_else(|| Cursor::start(0)))
            }
        };
        let mut swept = Swept::default();
        loop {
            let (entries, next) = self.step(cursor.clone(), left.min(PAGE)).await?;
            let mut waiting = Waiting::new();
            for entry in entries {
                if self.is_nearly_over() {
                    // From the start of this page: what was freed of it is not there any more.
                    swept.cursor = Some(cursor);
                    return Ok(swept);
                }
                left = left.saturating_sub(1);
                swept.examined += 1;
                let address = match entry.what {
                    What::Lease(address) => address,
                    What::Waiter(key, request) => {
                        let of_key = waiting.entry(key).or_default();
                        of_key.push((request, entry.sweep_after));
                        continue;
                    }
                    What::Foreign => {
                        swept.skipped_corrupt += 1;
                        continue;
                    }
                };
                match self.look(&address, entry.sweep_after).await? {
                    Look::Nothing => {}
                    Look::Freed(told) => {
                        swept.freed += 1;
                        swept.granted += u64::from(told);
                    }
                    Look::Corrupt => swept.skipped_corrupt += 1,
                }
            }
            // All who wait for one key at once: their line is one row.
            for (key, waiting) in waiting {
                swept.granted += self.look_after(&key, &waiting).await?;
                if self.is_nearly_over() {
                    // It may have stopped half way.
                    swept.cursor = Some(cursor);
                    return Ok(swept);
                }
            }
            match next {
                None => return Ok(swept),
                Some(next) if left == 0 => {
                    swept.cursor = Some(next);
                    return Ok(swept);
                }
                Some(next) => cursor = next,
            }
        }
    }

    pub(crate) fn is_nearly_over(&self) -> bool {
        self.deadline()
            .is_some_and(|at| at.since(self.now()) < RESERVE)
    }

    async fn look(&self, address: &Address, sweep_after: Option<Timestamp>) -> Result<Look, Error> {
        if sweep_after.is_some_and(|at| at > self.now()) {
            return Ok(Look::Nothing);
        }
        match self.free(address).await {
            Err(Error::Corrupt { key, reason }) => {
                tracing::warn!(%key, reason, "sweep left an item alone");
                Ok(Look::Corrupt)
            }
            answer => answer,
        }
    }

    async fn look_after(&self, key: &Key, waiting: &[Waits]) -> Result<u64, Error> {
        match self.tend(key, waiting).await {
            Err(Error::Corrupt { key, reason }) => {
                metrics::tell(Metric::Corrupt, 1);
                tracing::warn!(%key, reason, "sweep left those alone who wait");
                Ok(0)
            }
            answer => answer,
        }
    }

    async fn free(&self, address: &Address) -> Result<Look, Error> {
        let row = match self.store().read(address, self.limit()).await? {
            Stored::Absent => return Ok(Look::Nothing),
            Stored::Foreign(reason) => return Err(corrupt(address.key.clone(), reason)),
            Stored::Row(row) => row,
        };
        let takeable = self.takeable();
        let expired = row
            .holding()
            .is_some_and(|held| held.expires_at <= takeable);
        if !expired || row.frozen.is_some() {
            return Ok(Look::Nothing);
        }
        let told = self.end_as_read(address, &row, Ended::Expired).await?;
        Ok(told.map_or(Look::Nothing, Look::Freed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Acquire, Holder, Key, Memory, Queue, Settings, TaskToken, Ttl, WaitTime, clock::slow::Slow,
        conformance::Calls,
    };

    #[tokio::test]
    async fn a_sweep_that_stops_among_those_who_wait_says_so_too() {
        let calls = Arc::new(Calls::default());
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::new(Slow::default()))
            .with_workflows(calls.clone());
        let ttl = Ttl::new(Duration::from_hours(1)).expect("valid");
        let ask = |who: &str| {
            let key = Key::new("k").expect("valid");
            Acquire::new(key, Holder::new(who).expect("valid"), ttl)
        };
        let acquired = leases.acquire(ask("holder")).await;
        acquired.expect("an answer").granted().expect("a grant");
        for n in 0..30 {
            let queue = Queue {
                task_token: TaskToken::new(format!("t{n}")).expect("valid"),
                wait: WaitTime::new(Duration::from_secs(1)).expect("valid"),
            };
            let joined = leases.acquire_in_line(ask(&format!("w{n}")), queue).await;
            joined.expect("in line");
        }
        leases.sleep(Duration::from_secs(60)).await;
        let (mut cursor, mut rounds) = (None, 0);
        loop {
            let soon = leases.for_call(leases.now().plus(Duration::from_secs(10)));
            let limit = 1000;
            let swept = soon.sweep(SweepBounds::Call { limit, cursor }).await;
            (cursor, rounds) = (swept.expect("swept").cursor, rounds + 1);
            if cursor.is_none() {
                break;
            }
            assert!(rounds < 100, "it gets nowhere");
        }
        assert!(rounds > 1, "one call had not enough time");
        let told = calls.take();
        let away = told.iter().filter(|told| {
            let error = told.what.as_ref().err();
            error.is_some_and(|(name, _)| name == "Lease.QueueTimeout")
        });
        assert_eq!((told.len(), away.count()), (30, 30));
    }

    #[tokio::test]
    async fn a_sweep_whose_time_runs_out_says_where_to_go_on() {
        let clock = Arc::new(Slow::default());
        let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock);
        let ttl = Ttl::new(Duration::from_secs(2)).expect("valid");
        for n in 0..50 {
            let key = Key::new(format!("k{n}")).expect("valid");
            let holder = Holder::new("h").expect("valid");
            let acquired = leases.acquire(Acquire::new(key, holder, ttl)).await;
            acquired.expect("an answer").granted().expect("a grant");
        }
        leases.sleep(Duration::from_secs(60)).await;
        let (mut freed, mut cursor, mut calls) = (0, None, 0);
        loop {
            let deadline = leases.now().plus(Duration::from_secs(20));
            let limit = 1000;
            let swept = leases
                .for_call(deadline)
                .sweep(SweepBounds::Call { limit, cursor })
                .await
                .expect("time that runs out is no error");
            assert!(leases.now() < deadline);
            (freed, cursor, calls) = (freed + swept.freed, swept.cursor, calls + 1);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(freed, 50);
        assert!(calls > 1, "one call had not enough time");
    }
}
