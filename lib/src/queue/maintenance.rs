//! Sweep's maintenance of the queues.

use std::collections::BTreeMap;

use crate::{
    clock::Timestamp,
    concurrency::some_at_a_time,
    error::Error,
    leases::{Leases, TRIES, corrupt},
    metrics::{self, Metric},
    row::{Row, Stored},
    store::{Address, Applied, Store},
    transition::{Change, Leave},
    values::{Key, RequestDigest},
    waiter::Waiter,
    workflows::Delivery,
};

/// The waiters of each key, according to the index, each with the time at which it gives up.
pub(crate) type Waiting = BTreeMap<Key, Vec<Waits>>;
/// One waiter.
pub(crate) type Waits = (RequestDigest, Option<Timestamp>);

/// How many items to remove before the row and the time are checked again.
const BETWEEN_LOOKS: usize = 100;

impl<S: Store> Leases<S> {
    /// Maintains the queue of `key`: notifies the next waiter, removes waiters whose waiting time has passed, and
    /// removes the items of waiters that were served, `at_once` at a time. Returns how many were notified.
    pub(crate) async fn maintain_queue(
        &self,
        key: &Key,
        waiting: &[Waits],
        at_once: usize,
    ) -> Result<u64, Error> {
        if self.workflows().is_none() {
            return Ok(0);
        }
        let Some(mut row) = self.read_queue_row(key).await? else {
            // The row was deleted by hand, and the queue with it; perhaps it exists again by now.
            let strays = waiting.iter().map(|(request, _)| request);
            self.clear(key, strays.collect(), at_once).await?;
            return Ok(0);
        };
        metrics::record(Metric::QueueDepth, row.waiting().len() as u64);
        let mut notified = 0;
        if self.notify_if_due(key, row.clone()).await? {
            notified = 1;
            row = self.read_queue_row(key).await?.unwrap_or(row);
        }
        let mut strays = Vec::new();
        for (request, gives_up) in waiting {
            if self.is_nearly_over() {
                return Ok(notified);
            }
            if row.waiting().contains(request) {
                if gives_up.is_none_or(|at| at <= self.now()) {
                    row = self.expire_waiter(key, request, row).await?;
                }
            } else if !is_next(&row, request) {
                strays.push(request);
            }
        }
        self.clear(key, strays, at_once).await?;
        Ok(notified)
    }

    /// Removes items whose requests were not in the queue when the row was read: they were served or passed over. The
    /// item of a request that has joined again since stays.
    async fn clear(
        &self,
        key: &Key,
        strays: Vec<&RequestDigest>,
        at_once: usize,
    ) -> Result<(), Error> {
        for some in strays.chunks(BETWEEN_LOOKS) {
            if self.is_nearly_over() {
                return Ok(());
            }
            let reads = some.iter().map(|request| self.waiting(key, request));
            let read = some_at_a_time(at_once, reads.collect()).await;
            let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
            let waiters: Vec<_> = read.into_iter().flatten().collect();
            if waiters.is_empty() {
                continue;
            }
            // Read after the items: a request that joined again has another token by now, or is in this row's queue.
            let row = self.read_queue_row(key).await?;
            let ends = waiters.iter();
            let ends = ends.map(|waiter| self.clear_one(key, row.as_ref(), waiter));
            for end in some_at_a_time(at_once, ends.collect()).await {
                end?;
            }
        }
        Ok(())
    }

    async fn clear_one(&self, key: &Key, row: Option<&Row>, waiter: &Waiter) -> Result<(), Error> {
        let request = &waiter.request;
        let back = |row: &Row| row.waiting().contains(request) || is_next(row, request);
        match row {
            Some(row) if back(row) => Ok(()),
            Some(row) if row.remembers(request) => {
                self.store().delete_waiter(key, waiter, self.limit()).await
            }
            _ => self.fail_waiter(key, waiter).await,
        }
    }

    pub(crate) async fn read_queue_row(&self, key: &Key) -> Result<Option<Row>, Error> {
        match self
            .store()
            .read(&Address::first(key), self.limit())
            .await?
        {
            Stored::Row(row) => Ok(Some(row)),
            Stored::Absent => Ok(None),
            Stored::Foreign(reason) => Err(corrupt(key.clone(), reason)),
        }
    }

    async fn waiting(&self, key: &Key, request: &RequestDigest) -> Result<Option<Waiter>, Error> {
        self.store().waiter(key, request, self.limit()).await
    }

    /// Removes a waiter if its waiting time has passed. `row` is the row as it was last read or written; the result
    /// is the row as it is now. Reading it again for each waiter of a long queue would cost more than removing them.
    async fn expire_waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        mut row: Row,
    ) -> Result<Row, Error> {
        for _ in 0..TRIES {
            let Some(place) = place_in(&row, request) else {
                return Ok(row);
            };
            // Read after its place, each time: a request that joined again has another deadline.
            let waiter = self.waiting(key, request).await?;
            if waiter.as_ref().is_some_and(|w| w.deadline > self.now()) {
                return Ok(row);
            }
            match self.leave_place(key, request, place).await? {
                Applied::Done { row, .. } => {
                    // Without its item nobody can notify the waiter.
                    if let Some(waiter) = waiter {
                        self.fail_waiter(key, &waiter).await?;
                    }
                    return Ok(row);
                }
                Applied::Refused(Stored::Row(newer)) => row = newer,
                // Deleted by hand.
                Applied::Refused(Stored::Absent) => return Ok(row),
                Applied::Refused(Stored::Foreign(reason)) => {
                    return Err(corrupt(key.clone(), reason));
                }
            }
        }
        Err(self.contention_error())
    }

    /// Removes a request from the queue, at whatever place it is by now. `row` is the latest known row. Returns
    /// whether it was in the queue.
    pub(crate) async fn leave_from(
        &self,
        key: &Key,
        request: &RequestDigest,
        row: &Row,
    ) -> Result<bool, Error> {
        let mut place = place_in(row, request);
        for _ in 0..TRIES {
            let Some(stood) = place else {
                return Ok(false);
            };
            match self.leave_place(key, request, stood).await? {
                Applied::Done { .. } => return Ok(true),
                Applied::Refused(Stored::Row(row)) => place = place_in(&row, request),
                Applied::Refused(Stored::Absent) => return Ok(false),
                Applied::Refused(Stored::Foreign(reason)) => {
                    return Err(corrupt(key.clone(), reason));
                }
            }
        }
        Err(self.contention_error())
    }

    /// Removes the request if it is still at this place.
    async fn leave_place(
        &self,
        key: &Key,
        request: &RequestDigest,
        place: usize,
    ) -> Result<Applied, Error> {
        let change = Change::Leave(Leave {
            request: request.clone(),
            place,
        });
        let address = Address::first(key);
        self.store().apply(&address, &change, self.limit()).await
    }

    /// Ends the task of a waiter that lost its place, unless it was notified of its turn, and deletes its item.
    async fn fail_waiter(&self, key: &Key, waiter: &Waiter) -> Result<(), Error> {
        if let Some(workflows) = self.workflows() {
            let error = if waiter.deadline <= self.now() {
                Error::QueueTimeout { key: key.clone() }
            } else {
                its_place_is_lost(key)
            };
            let (name, cause) = (error.name(), error.as_cause(key));
            let (token, limit) = (&waiter.task_token, self.limit());
            let holder = waiter.holder.as_str();
            match workflows.fail(token, name, cause, limit).await {
                Ok(Delivery::Delivered) => {
                    tracing::info!(%key, holder, outcome = name, "sent away");
                }
                // Served so long ago that the row does not remember it; or no longer running.
                Ok(Delivery::Refused) => {
                    tracing::info!(%key, holder, "nobody waits here any more");
                }
                // Its item stays, and every later sweep tries again. Nobody else has to wait for that: perhaps the
                // role does not allow the call for this one state machine.
                Err(error) => {
                    metrics::record_error(&error);
                    let problem = error.in_full();
                    tracing::error!(%key, holder, problem, "a waiter that lost its place could not be notified");
                    return Ok(());
                }
            }
        }
        self.store().delete_waiter(key, waiter, self.limit()).await
    }

    /// Retires the waiter's item of the request that `row` was granted to last, if that request came from the queue.
    /// The reservation is confirmed, so nobody reads the item again. This never fails: sweep removes what is left.
    pub(crate) async fn mark_served(&self, key: &Key, row: &Row) {
        let (now, limit) = (self.now(), self.limit());
        let retired = self
            .store()
            .mark_waiter_served(key, &row.request, now, limit);
        if let Err(error) = retired.await {
            metrics::record_error(&error);
            let problem = error.in_full();
            tracing::warn!(%key, problem, "the item of a served waiter is left to sweep");
        }
    }
}

pub(crate) fn its_place_is_lost(key: &Key) -> Error {
    Error::Unavailable {
        problem: format!("the place in the queue for {key} was lost"),
        source: None,
    }
}

/// The request's place in the queue.
fn place_in(row: &Row, request: &RequestDigest) -> Option<usize> {
    row.waiting().iter().position(|waits| waits == request)
}

pub(crate) fn is_next(row: &Row, request: &RequestDigest) -> bool {
    row.reserved()
        .is_some_and(|reserved| reserved.request == *request)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Acquire, Memory, Queue, Settings, SweepBounds, TaskToken, WaitTime,
        conformance::FakeStepFunctions,
        conformance::{grant, make},
        store::wire::{Before, Wire},
    };

    /// A request changes its place between two removals, so the row that sweep has read is out of date.
    #[tokio::test(start_paused = true)]
    async fn who_has_moved_in_line_meanwhile_is_sent_away_too() {
        let key = make::key("k");
        let first = Address::first(&key);
        let turned = move |table: &Memory| {
            let mut items = table.all().into_iter();
            let found = items.find(|(_, sk, _)| sk.starts_with("LEASE#"));
            let (.., item) = found.expect("a row");
            let row = Row::read(&item).expect("ours");
            let queue = row.waiting().iter().rev().cloned().collect();
            table.put(first, &Row { queue, ..row }.to_item());
        };
        // The grant, and the first removal; then the second of three.
        let store = Wire::meddled(Before::Apply, 3, turned);
        let clock = make::clock();
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_workflows(calls.clone());
        let ask = |who: &str| {
            let ttl = make::ttl(Duration::from_hours(1));
            Acquire::new(key.clone(), make::holder(who), ttl)
        };
        grant(&leases, ask("holder")).await;
        for who in ["a", "b", "c"] {
            let queue = Queue {
                task_token: TaskToken::new(who).expect("valid"),
                wait: WaitTime::new(Duration::from_secs(1)).expect("valid"),
            };
            let joined = leases.acquire_queued(ask(who), queue).await;
            joined.expect("in line");
        }
        clock.advance(Duration::from_secs(2));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        assert!(store.is_done(), "somebody did move");
        assert_eq!(calls.take_answers().len(), 3);
        assert_eq!(store.row().await.waiting(), []);
    }
}
