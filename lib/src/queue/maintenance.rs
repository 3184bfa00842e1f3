//! Sweep's maintenance of the queues.

use std::collections::BTreeMap;

use super::Queue;
use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Rows, Standing, TRIES, corrupt},
    metrics::{self, Metric},
    queue::{
        engine::{Delivery, Failure, Question},
        stay::Later,
    },
    retry::some_at_a_time,
    row::{Row, Stored},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Head, Leave, LeaveReason},
    values::{Key, RequestDigest},
    waiter::{TokenItem, Waiter},
};

/// The waiters of each key, according to the index.
pub(crate) type Waiting = BTreeMap<Key, Vec<DueWaiter>>;
/// One waiter, and when sweep is to see to it: at the end of its wait, or at once, if it is to take the place of others.
pub(crate) type DueWaiter = (RequestDigest, Option<Timestamp>);

/// How many items to remove before the row and the time are checked again.
const BETWEEN_LOOKS: usize = 100;

/// What became of the queue of a key.
#[derive(Debug)]
pub(crate) struct Maintained {
    /// How many were notified of their grant.
    pub(crate) notified: u64,
    /// What there is to be done later.
    pub(crate) later: Option<Later>,
}

impl<S: Store> Queue<S> {
    /// Maintains the queue of `key`: grants the free key to the first waiter, notifies one again that may not know of its grant, removes
    /// those whose waiting time has passed, and sees to the items of those who are neither in the queue nor granted the
    /// key. `read` are its rows, if they are as they were read since the index. The row stays for as long as anybody waits, which is
    /// `until` this instant. What becomes due after `since` is to be done later.
    pub(crate) async fn maintain_queue(
        &self,
        key: &Key,
        (waiting, since): (&[DueWaiter], Timestamp),
        read: Option<Rows>,
        (until, at_once): (Option<Timestamp>, usize),
    ) -> Result<Maintained, Error> {
        let mut rows = match read {
            Some(rows) => rows,
            None => self.read_rows(key).await?,
        };
        let mut notified = 0;
        if let Some(first) = rows.first() {
            metrics::record(Metric::QueueDepth, first.waiting().len() as u64);
            let was_free = first.holding().is_none();
            if let Some(head) = first.waiting().first() {
                let head = self.waiter(key, head).await?;
                let since = head.as_ref().map(Waiter::since);
                notified += Box::pin(self.grant_to_next(key, rows.clone(), head)).await?;
                if notified == 0 {
                    self.report_wait_since(since);
                }
                if notified > 0 || was_free {
                    rows = self.read_rows(key).await?;
                }
            }
        }
        if let (Some(first), Some(until)) = (rows.first(), until) {
            rows = self.keep_row(key, first.clone(), rows, until).await?;
        }
        // What goes wrong with a start concerns no token.
        let (starts, tokens): (Vec<_>, Vec<_>) =
            waiting.iter().partition(|(one, _)| one.is_start());
        for some in [tokens, starts] {
            let (more, strays) = self.see_to_each(key, &some, &mut rows).await?;
            notified += more + self.see_to_strays(key, &strays, at_once).await?;
        }
        Ok(Maintained {
            notified,
            later: self.later(key, &rows, (waiting, since)),
        })
    }

    /// Sees to waiters that are due, or were granted the key and may not know; as far as there is time. Returns how many were notified,
    /// and who is neither in the queue nor notified.
    async fn see_to_each<'a>(
        &self,
        key: &Key,
        waiting: &[&'a DueWaiter],
        rows: &mut Rows,
    ) -> Result<(u64, Vec<&'a RequestDigest>), Error> {
        let (mut notified, mut strays) = (0, Vec::new());
        for (request, due) in waiting {
            if self.is_nearly_over() {
                break;
            }
            match rows.standing(request) {
                Standing::InQueue(first) => {
                    if due.is_none_or(|at| at <= self.now()) {
                        let row = self.see_to_waiter(key, request, first.clone()).await?;
                        rows.write(0, row);
                    }
                }
                Standing::Has(permit, row) => {
                    let key = key.clone();
                    let at = Address { key, permit };
                    if row.waits_in_pool() && !row.is_refused() {
                        let may_be_over = due.is_none_or(|at| at <= self.now());
                        if may_be_over && self.see_to_wait_in_pool(&at, row).await? {
                            *rows = self.read_rows(&at.key).await?;
                        }
                        continue;
                    }
                    if self.is_being_notified(row) {
                        continue;
                    }
                    match Box::pin(self.notify_again(&at, row)).await? {
                        Some(more) => {
                            notified += more;
                            *rows = self.read_rows(&at.key).await?;
                        }
                        None => strays.push(request),
                    }
                }
                Standing::Had | Standing::Unknown => strays.push(request),
            }
        }
        Ok((notified, strays))
    }

    /// A free row that has a queue, because nothing is granted now, is not purged before the last of its waiters gives up.
    async fn keep_row(
        &self,
        key: &Key,
        first: Row,
        rows: Rows,
        until: Timestamp,
    ) -> Result<Rows, Error> {
        let purge_at = self.purge_after(until);
        let stays = first.holding().is_some() || first.head().is_none();
        if stays || first.purge_at.is_none_or(|at| at >= purge_at) {
            return Ok(rows);
        }
        let kept = Row {
            version: first.version.plus(1),
            purge_at: Some(purge_at),
            ..first.clone()
        };
        match self
            .replace(&Address::first(key), &first, kept, Head::Any)
            .await?
        {
            Applied::Done { row, .. } => Ok(rows.with(0, row)),
            Applied::Refused(_) => self.read_rows(key).await,
        }
    }

    /// Sees to the items of requests that were neither in the queue nor granted the key when the row was read: the lease of a task
    /// token has ended, or it was passed over, and its item goes; a start gets its place again. The item of a request that has
    /// joined again since stays. All are of one kind. Returns how many have begun.
    async fn see_to_strays(
        &self,
        key: &Key,
        strays: &[&RequestDigest],
        at_once: usize,
    ) -> Result<u64, Error> {
        let mut begun = 0;
        let are_starts = strays.first().is_some_and(|one| one.is_start());
        // Starts get their places again in the order in which they were asked for.
        let some = if are_starts {
            strays.len()
        } else {
            BETWEEN_LOOKS
        };
        for some in strays.chunks(some.max(1)) {
            if self.is_nearly_over() {
                return Ok(begun);
            }
            let reads = some.iter().map(|request| self.waiter(key, request));
            let read = some_at_a_time(at_once, reads.collect()).await;
            let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
            let mut waiters: Vec<_> = read.into_iter().flatten().collect();
            if waiters.is_empty() {
                continue;
            }
            waiters.sort_by_key(Waiter::since);
            // Read after the items: a request that joined again has another token by now, or is in this row's queue.
            let rows = self.read_rows(key).await?;
            let mut tokens = Vec::new();
            for waiter in &waiters {
                match waiter {
                    Waiter::Token(item) => tokens.push(self.clear_one(key, &rows, item)),
                    Waiter::Start(_) if self.is_nearly_over() => return Ok(begun),
                    Waiter::Start(item) => {
                        begun += u64::from(self.see_to_stray(&rows, item).await?);
                    }
                }
            }
            for end in some_at_a_time(at_once, tokens).await {
                end?;
            }
        }
        Ok(begun)
    }

    async fn clear_one(&self, key: &Key, rows: &Rows, waiter: &TokenItem) -> Result<(), Error> {
        let request = &waiter.request.digest;
        let is_back = rows.waiting().contains(request)
            || untold(rows, request).is_some_and(|(_, _, ticket)| ticket == waiter.ticket);
        if let Some(by) = &waiter.superseded_by {
            let (key, by) = (key.clone(), by.clone());
            let later = Error::Superseded {
                key: key.clone(),
                by,
            };
            return self.fail_waiter(&key, waiter, later).await;
        }
        if is_back {
            return Ok(());
        }
        let why = if rows.remember(request) {
            let (key, how) = (key.clone(), rows.how_ended(request));
            Error::Lost { key, how }
        } else if waiter.deadline <= self.now() {
            Error::QueueTimeout {
                key: key.clone(),
                held_by: rows.holders().next().cloned(),
            }
        } else {
            its_place_is_lost(key)
        };
        self.fail_waiter(key, waiter, why).await
    }

    /// Reports how long the first in a queue has waited. The row has only the names of those who wait.
    pub(super) fn report_wait_since(&self, since: Option<Timestamp>) {
        if let Some(since) = since {
            metrics::record_duration(Metric::OldestWait, self.now().since(since));
        }
    }

    /// Removes one from the queue if its waiting time has passed; else it takes the place of others, if it is to: the caller that asked for that
    /// may have died before. `row` is the row as it was last read or written; the result is the row as it is now. Reading it
    /// again for each token of a long queue would cost more than removing them.
    async fn see_to_waiter(
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
            let waiter = self.waiter(key, request).await?;
            if let Some(waiter) = &waiter
                && waiter.deadline() > self.now()
            {
                return self.go_on_waiting(key, waiter, row).await;
            }
            let token = match waiter {
                Some(Waiter::Start(item)) => {
                    self.end_wait(row.clone(), &item).await?;
                    return Ok(self.read_queue_row(key).await?.unwrap_or(row));
                }
                Some(Waiter::Token(item)) => Some(item),
                // Settled since, and perhaps placed anew: one that comes to the head and does not wait is passed over there, by the version.
                None if request.is_start() => return Ok(row),
                None => None,
            };
            match self.leave_place(key, request, place).await? {
                Applied::Done { row, .. } => {
                    // Without its item nobody can notify the waiter.
                    if let Some(waiter) = token {
                        let late = Error::QueueTimeout {
                            key: key.clone(),
                            held_by: row.holder().cloned(),
                        };
                        self.fail_waiter(key, &waiter, late).await?;
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

    /// One that is not over yet, and that may be the newest.
    async fn go_on_waiting(&self, key: &Key, waiter: &Waiter, row: Row) -> Result<Row, Error> {
        let newest = (key, waiter.request());
        match Box::pin(self.take_their_place(row.clone(), newest)).await {
            Ok(Some(row)) => return Ok(row),
            Ok(None) => {}
            Err(error) => {
                error.count();
                let (holder, problem) = (&waiter.request().holder, error.in_full());
                tracing::warn!(%key, %holder, problem, "others wait or run that it is to take the place of");
            }
        }
        Ok(self.read_queue_row(key).await?.unwrap_or(row))
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
            because: LeaveReason::GaveUp,
        });
        let address = Address::first(key);
        self.store().apply(&address, &change, self.limit()).await
    }

    /// Ends the task of a waiter with this error, unless it was answered before, and deletes its item.
    pub(super) async fn fail_waiter(
        &self,
        key: &Key,
        waiter: &TokenItem,
        error: Error,
    ) -> Result<(), Error> {
        let (name, cause) = (error.name(), error.as_cause(key));
        let holder = waiter.request.holder.as_str();
        let failed = Failure {
            error: name.to_owned(),
            cause,
        };
        let (to, token) = (waiter.request.holder.clone(), waiter.task_token.clone());
        match self.engine(Question::Fail(to, token, failed)).await {
            Ok(Delivery::Delivered) => {
                tracing::info!(%key, holder, outcome = name, "stopped waiting");
            }
            Ok(Delivery::Refused) => {
                tracing::info!(%key, holder, "nobody waits here any more");
            }
            // Its item stays, and every later sweep tries again. Nobody else has to wait for that: perhaps the
            // role does not allow the call for this one state machine.
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, holder, problem, "a waiter that lost its place could not be notified");
                return Ok(());
            }
        }
        self.store().delete_waiter(key, waiter, self.limit()).await
    }
}

pub(crate) fn its_place_is_lost(key: &Key) -> Error {
    Error::Unavailable {
        problem: format!("the place in the queue for {key} was lost"),
        source: None,
    }
}

/// The request's place in the queue.
pub(crate) fn place_in(row: &Row, request: &RequestDigest) -> Option<usize> {
    row.waiting().iter().position(|waits| waits == request)
}

/// The row that this request was granted and may not know of yet, and the ticket of its waiter's item.
fn untold<'a>(rows: &'a Rows, request: &RequestDigest) -> Option<(u16, &'a Row, u64)> {
    let (permit, row) = rows.held_for(request)?;
    let ticket = row.holding()?.notification?.ticket?;
    Some((permit, row, ticket))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        Ended, Lease, Leases, Memory, Queue, Settings, SweepBounds, TaskToken, Wait, WaitTime,
        row::Item,
        store::wire::{Before, Wire, end},
        test_support::FakeStepFunctions,
        test_support::{grant, make},
    };

    async fn join<S: Store>(leases: &Queue<S>, who: &str) {
        let queue = Wait {
            task_token: TaskToken::new(who).expect("valid"),
            wait: WaitTime::new(Duration::from_secs(1)).expect("valid"),
            latest: false,
        };
        let waits = make::of_execution(make::key("k"), who).request_id(make::request_id(who));
        let joined = leases.acquire_queued(waits, queue).await;
        joined.expect("queued");
    }

    fn row_in(table: &Memory) -> Row {
        let mut items = table.all().into_iter();
        let found = items.find(|(_, sk, _)| sk.starts_with("LEASE#"));
        Row::read(&found.expect("a row").2).expect("ours")
    }

    /// A held key for which these wait.
    async fn held<S: Store + Clone>(
        store: &S,
        waiting: &[&str],
    ) -> (Queue<S>, Arc<FakeStepFunctions>, Lease) {
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(make::clock())
            .with_engine(calls.clone());
        let request = make::request(make::key("k"), "holder", Duration::from_hours(1));
        let lease = grant(&leases, request).await.lease;
        for who in waiting {
            join(&leases, who).await;
        }
        (leases, calls, lease)
    }

    #[tokio::test(start_paused = true)]
    async fn departed_waiter_yields_to_next() {
        let first = Address::first(&make::key("k"));
        // The grant, the release, and the grant to the first.
        let store = Wire::meddled(Before::Apply, 3, move |table| {
            let row = row_in(table);
            let queue = row.waiting()[1..].to_vec();
            table.put(first, &Row { queue, ..row }.to_item());
        });
        let (leases, calls, lease) = held(&store, &["a", "b"]).await;
        let _ = leases.release(&lease).await.expect("released");
        assert!(store.is_done(), "somebody did leave");
        let told: Vec<_> = calls
            .take_answers()
            .into_iter()
            .map(|it| it.token)
            .collect();
        assert_eq!(told, ["b"]);
    }

    /// The first of these waiters has no item when its turn comes; before it is passed over, another writer does something to
    /// the row, and to the table with that item. Who was told?
    async fn told_without_an_item(
        waiting: &[&str],
        meddling: impl FnOnce(&Memory, Row, (String, String, Item)) + Send + 'static,
    ) -> Vec<String> {
        let lost = Arc::new(Mutex::new(None));
        let found = Arc::clone(&lost);
        // The grant, the release, and the passing over.
        let store = Wire::meddled(Before::Apply, 3, move |table| {
            let item = found.lock().expect("no panic").take();
            meddling(table, row_in(table), item.expect("an item"));
        });
        let (leases, calls, lease) = held(&store, waiting).await;
        let key = make::key("k");
        let first = store.row().await.waiting()[0].clone();
        let waiter = leases.token_item(&key, &first).await.expect("an answer");
        let waiter = waiter.expect("an item");
        let before = store.table.all();
        let deleted = store.delete_waiter(&key, &waiter, leases.limit());
        deleted.await.expect("deleted");
        let after = store.table.all();
        *lost.lock().expect("no panic") = before.into_iter().find(|one| !after.contains(one));
        let _ = leases.release(&lease).await.expect("released");
        assert!(store.is_done(), "somebody did meddle");
        let told = calls.take_answers().into_iter();
        told.map(|it| it.token).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn rejoined_waiter_keeps_its_turn() {
        // Passed over and joined again by other calls, which is two versions later.
        let told = told_without_an_item(&["a"], |table, row, (pk, sk, item)| {
            table.put_at(&pk, &sk, &item);
            let version = row.version.plus(2);
            table.put(
                Address::first(&make::key("k")),
                &Row { version, ..row }.to_item(),
            );
        });
        assert_eq!(told.await, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_sent_away_yields_to_newest() {
        let told = told_without_an_item(&["a", "b"], |table, row, _| {
            let (version, queue) = (row.version.plus(1), row.waiting()[1..].to_vec());
            let row = Row {
                version,
                queue,
                ..row
            };
            table.put(Address::first(&make::key("k")), &row.to_item());
        });
        assert_eq!(told.await, ["b"]);
    }

    /// Another sweep removes it first, and it joins again, behind another.
    #[tokio::test(start_paused = true)]
    async fn rejoined_waiter_has_its_whole_time() {
        let (clock, calls) = (make::clock(), Arc::new(FakeStepFunctions::default()));
        let (theirs, told) = (clock.clone(), calls.clone());
        // The grant, and the removal.
        let store = Wire::meddled(Before::Apply, 2, move |table| {
            let others = Leases::new(table.clone(), Settings::default())
                .with_clock(theirs)
                .with_engine(told);
            let swept = others.sweep(SweepBounds::Schedule).now_or_never();
            swept.expect("at once").expect("swept");
            join(&others, "a").now_or_never().expect("at once");
        });
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        let hour = Duration::from_hours(1);
        grant(&leases, make::request(make::key("k"), "holder", hour)).await;
        join(&leases, "a").await;
        clock.advance(Duration::from_secs(1));
        join(&leases, "b").await;
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        assert!(store.is_done(), "somebody was faster");
        assert_eq!(store.row().await.waiting().len(), 2, "it waits anew");
        assert_eq!(calls.take_answers().len(), 1, "of its first wait");
    }

    /// The row was deleted by hand, and one that waited asks again before sweep has read its item.
    #[tokio::test(start_paused = true)]
    async fn rejoined_waiter_keeps_its_place() {
        let store = Wire::meddled(Before::ReadToken, 1, |table| {
            let again = held(table, &["a"]).now_or_never();
            drop(again.expect("at once"));
        });
        let (leases, calls, _) = held(&store, &["a"]).await;
        store.table.delete(&Address::first(&make::key("k")));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        assert!(store.is_done(), "it did ask again");
        assert_eq!(store.row().await.waiting().len(), 1);
        assert_eq!(calls.take_answers(), [], "it waits");
    }

    /// A request changes its place between two removals, so the row that sweep has read is out of date.
    #[tokio::test(start_paused = true)]
    async fn moved_up_waiter_is_sent_away() {
        let key = make::key("k");
        let first = Address::first(&key);
        let turned = move |table: &Memory| {
            let row = row_in(table);
            let queue = row.waiting().iter().rev().cloned().collect();
            table.put(first, &Row { queue, ..row }.to_item());
        };
        // The grant, and the first removal; then the second of three.
        let store = Wire::meddled(Before::Apply, 3, turned);
        let clock = make::clock();
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        let hour = Duration::from_hours(1);
        grant(&leases, make::request(key.clone(), "holder", hour)).await;
        for who in ["a", "b", "c"] {
            join(&leases, who).await;
        }
        clock.advance(Duration::from_secs(2));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        assert!(store.is_done(), "somebody did move");
        assert_eq!(calls.take_answers().len(), 3);
        assert_eq!(store.row().await.waiting(), []);
    }

    /// Others free the key after its rows were read, and serve nobody.
    #[tokio::test(start_paused = true)]
    async fn key_freed_under_sweep_is_served_by_it() {
        let (key, hour) = (make::key("k"), Duration::from_hours(1));
        let first = Address::first(&key);
        // The grant, and its end by sweep.
        let store = Wire::meddled(Before::Apply, 2, move |table| {
            end(table, &first, Ended::Released);
        });
        let (clock, calls) = (make::clock(), Arc::new(FakeStepFunctions::default()));
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        grant(&leases, make::request(key.clone(), "holder", hour)).await;
        let wait = Wait {
            task_token: TaskToken::new("a").expect("valid"),
            wait: WaitTime::DAY,
            latest: false,
        };
        let joined = leases.acquire_queued(make::of_execution(key, "a"), wait);
        joined.await.expect("queued");
        clock.advance(hour + Duration::from_mins(1));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        assert!(store.is_done(), "somebody was faster");
        assert_eq!(swept.expect("swept").granted, 1);
    }
}
