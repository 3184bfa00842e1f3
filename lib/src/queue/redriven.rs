//! Executions that are redriven after their lease has ended: a caller that started one under a lease cannot expect it to ask for the key
//! again.
//!
//! Before an execution lease ends whose execution may be redriven, that is [noted](crate::noted). Reap looks at it when an event
//! says that the execution runs again, and sweep from time to time, because no event need come. An execution that runs again gets its
//! key again if it is free; otherwise it is stopped, if it was started under the key. One that acquires for itself is only
//! counted, because it may be about to acquire.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{LeaseTerms, Rows, changed},
    metrics::{self, Metric},
    outcomes::Granted,
    queue::Queue,
    queue::ask::{Ask, AskItem, Asked, WhileHeld},
    queue::engine::{Question, Redrives, Stands, StopFor},
    queue::pool::Entered,
    queue::reap::Reaped,
    redrivable::Redrivable,
    requests::{Acquire, Lifetime},
    retry::{AT_ONCE, some_at_a_time},
    row::Row,
    store::{Address, ItemAddress, Operations, Store},
    values::{Holder, Key, RequestDigest, RequestId},
};

/// The longest time between two looks at an execution that may be redriven. An event says so too, and most failures are never
/// redriven: each look costs a question of which Step Functions allows few, and a write.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// How long one that acquires for itself has to do so.
const TO_ACQUIRE: Duration = Duration::from_mins(2);

/// Entries of the index that are read at a time.
const PAGE: u32 = 100;

/// What a look at an execution that may be redriven came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// There is nothing to do.
    Nothing,
    /// It runs again, and has its key again.
    Taken,
    /// It ran again beside others, and was stopped.
    Stopped,
    /// It runs again without its key, and nobody stops it.
    Alone,
    /// The service does not say enough yet, or the key is frozen.
    Undecided,
}

/// What became of an attempt to take back for it what it needs.
enum Again {
    /// It has that.
    Taken(Box<Granted>),
    /// It had it for this redrive.
    Had,
    /// Nobody is granted it now.
    Frozen,
    /// These others have it.
    InTheWay(String),
    /// These others are in its pool. It has its key, in this row, to no purpose.
    Full(String, Address, Box<Row>),
}

impl<S: Store> Queue<S> {
    /// What becomes of an execution that is said to run again: if its lease has ended, it gets its key again, or is stopped. Like
    /// reap it asks the service, and only if the execution lost a lease by its end. It may be repeated for ever.
    ///
    /// # Errors
    /// As [`Queue::reap`].
    pub async fn redriven(&self, execution: &Holder) -> Result<Reaped, Error> {
        self.follow_rules().await?;
        let (mut taken, mut stopped, mut alone, mut undecided) = (0, 0, 0, 0);
        let mut from = None;
        loop {
            let page = self
                .store()
                .held_by(execution, from.as_ref(), PAGE, self.limit())
                .await?;
            for entry in page.entries {
                let Some(ItemAddress::Redrivable(key, request)) = entry.address else {
                    continue;
                };
                match self.check_redrivable(&key, &request).await? {
                    Checked::Nothing => {}
                    Checked::Taken => taken += 1,
                    Checked::Stopped => stopped += 1,
                    Checked::Alone => alone += 1,
                    Checked::Undecided => undecided += 1,
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(Reaped::Redriven {
                    taken,
                    stopped,
                    alone,
                    undecided,
                });
            }
        }
    }

    /// Looks at those that are due. One that fails is counted and logged, and does not stop the others.
    pub(crate) async fn check_all_redrivable(&self, due: &[(Key, RequestDigest)]) -> (u64, u64) {
        let checks = due.iter().map(|(key, request)| async move {
            if self.is_nearly_over() {
                return true;
            }
            if self.looks.are_over() {
                return false;
            }
            match self.check_redrivable(key, request).await {
                Ok(_) => true,
                Err(error) => {
                    self.looks.note_failure(&error);
                    error.count();
                    let problem = error.in_full();
                    tracing::error!(%key, problem, "an execution that may be redriven could not be looked up");
                    false
                }
            }
        });
        let done = some_at_a_time(AT_ONCE, checks.collect()).await;
        let failed = done.iter().filter(|done| !**done).count();
        ((done.len() - failed) as u64, failed as u64)
    }

    /// Looks at an execution whose lease has ended.
    async fn check_redrivable(&self, key: &Key, request: &RequestDigest) -> Result<Checked, Error> {
        let noted = self.store().redrivable(key, request, self.limit()).await?;
        let Some(noted) = noted else {
            // The index is late.
            return Ok(Checked::Nothing);
        };
        let redrives: Option<Redrives> = self
            .engine(Question::Redrives(noted.execution.clone()))
            .await?;
        let shows_at = self.shows_after(noted.ended_at);
        let is_early = self.now() < shows_at;
        if redrives.is_none() && is_early {
            return self.look_at(&noted, shows_at).await;
        }
        let Some(redrives) = redrives.filter(|redrives| redrives.stands != Stands::Final) else {
            self.store().forget_redrivable(&noted, self.limit()).await?;
            return Ok(Checked::Nothing);
        };
        let pause = self.now().since(noted.ended_at);
        let next = self
            .now()
            .plus(pause.clamp(self.settings().look, LONGEST_PAUSE));
        if redrives.stands == Stands::Redrivable || !self.is_redriven(&noted, redrives) {
            // It has not been redriven, or has ended again, or the response is old, and may count too few.
            if noted.redrives.is_none() && is_early {
                return self.look_at(&noted, shows_at).await;
            }
            self.watch_on(&noted, redrives.count, next).await?;
            return Ok(Checked::Undecided);
        }
        let rows = self.read_rows_for(key, noted.permits).await?;
        let its = rows.held_by(&noted.execution);
        if its.is_some_and(|(_, row)| !row.waits_in_pool()) {
            // A look that has not seen it run may still end its lease: then this redrive is to be seen to.
            self.look_at(&noted, next).await?;
            return Ok(Checked::Nothing);
        }
        if !noted.started {
            return self.check_own(&noted, &rows, redrives, next).await;
        }
        if self.settings().redrives_are_counted_only {
            return self.alone(&noted, &holders(&rows), redrives, next).await;
        }
        self.take_again_or_stop(&noted, redrives, next).await
    }

    /// Whether it runs by a redrive that came after the end of its lease.
    fn is_redriven(&self, noted: &Redrivable, redrives: Redrives) -> bool {
        if let Some(count) = noted.redrives {
            return redrives.count > count;
        }
        let margin = self.settings().clock_margin;
        redrives
            .at
            .is_some_and(|at| at.plus(margin) >= noted.ended_at)
    }

    /// One that acquires for itself: by now it should have the key, or wait for it.
    async fn check_own(
        &self,
        noted: &Redrivable,
        rows: &Rows,
        redrives: Redrives,
        next: Timestamp,
    ) -> Result<Checked, Error> {
        let settled = redrives.at.map_or(noted.ended_at, |at| at.plus(TO_ACQUIRE));
        if settled > self.now() {
            return self.look_at(noted, settled).await;
        }
        if self.waits_for(noted).await? {
            self.watch_on(noted, redrives.count, next).await?;
            return Ok(Checked::Nothing);
        }
        self.alone(noted, &holders(rows), redrives, next).await
    }

    /// Whether the execution waits for the key with a task token.
    async fn waits_for(&self, noted: &Redrivable) -> Result<bool, Error> {
        let page = self
            .store()
            .held_by(&noted.execution, None, PAGE, self.limit())
            .await?;
        let mut entries = page.entries.into_iter();
        Ok(entries.any(
            |entry| matches!(entry.address, Some(ItemAddress::Waiter(key, _) | ItemAddress::Start(key, _)) if key == noted.key),
        ))
    }

    /// Acquires a lease again for an execution that is to be redriven, which has ended: its key, and with it a place in its pool, before
    /// everybody who waits there. Or says who is in the way of that; then it has neither.
    ///
    /// # Errors
    /// Those of [`Leases::acquire`](crate::Leases::acquire).
    pub async fn acquire_again(
        &self,
        execution: &Holder,
        terms: &LeaseTerms,
        request: RequestId,
    ) -> Result<Result<Granted, String>, Error> {
        let key = &terms.key;
        Ok(match self.take_again(execution, terms, request).await? {
            Again::Taken(granted) => Ok(*granted),
            Again::Had => return Err(Error::Consumed { key: key.clone() }),
            Again::Frozen => Err(format!("{} is frozen", key.label())),
            Again::InTheWay(who) => Err(who),
            Again::Full(who, at, row) => {
                let freed = self.take_back(&at, &row).await?;
                self.serve(freed).await;
                Err(who)
            }
        })
    }

    /// What it needs is granted to it: the key, and with it a place in its pool; or who is in the way of that.
    async fn take_again(
        &self,
        execution: &Holder,
        terms: &LeaseTerms,
        request: RequestId,
    ) -> Result<Again, Error> {
        let (key, lifetime) = (&terms.key, Lifetime::Execution { keep: terms.keep });
        let mut asks = Acquire::new(key.clone(), execution.clone(), lifetime).request_id(request);
        asks.permits = terms.permits;
        asks.pool.clone_from(&terms.pool);
        let grant = self.grant(&asks, None, false)?;
        let ask = Ask {
            key,
            grant: &grant,
            item: AskItem::Nothing,
            while_held: WhileHeld::Leaves,
            cap: 0,
            reentrant: true,
            waits: None,
        };
        let (at, row) = match self.ask(ask).await? {
            Asked::Granted(at, row) | Asked::Has(at, row) => (at, row),
            Asked::Taken(_, rows) => {
                let rows = if rows.are_all() {
                    rows
                } else {
                    self.read_rows(key).await?
                };
                return Ok(Again::InTheWay(in_the_way(key, &rows)));
            }
            Asked::Refused(Error::Frozen { .. }) => {
                let rows = self.read_rows_for(key, terms.permits).await?;
                // Else nobody is granted it meanwhile.
                return Ok(rows.full_for(terms.permits).map_or(Again::Frozen, |row| {
                    Again::InTheWay(format!("{key} is held by {}", row.granted_to))
                }));
            }
            Asked::Refused(error) => return Err(error),
            // It had the lease for this redrive, and an operator has ended it since.
            Asked::Had => return Ok(Again::Had),
            Asked::InQueue | Asked::Joined(..) | Asked::Found(_) => return Err(changed(key)),
        };
        match Box::pin(self.enter(&at, &row, None)).await? {
            Entered::Yes(row) => {
                let granted = if row.request == grant.request.digest {
                    self.granted(at, *row)
                } else {
                    self.as_replay(at, *row, &grant.request.digest)
                };
                Ok(Again::Taken(Box::new(granted?)))
            }
            Entered::Waits => Ok(Again::Frozen),
            Entered::Full(who) => Ok(Again::Full(who, at, Box::new(row))),
        }
    }

    async fn take_again_or_stop(
        &self,
        noted: &Redrivable,
        redrives: Redrives,
        next: Timestamp,
    ) -> Result<Checked, Error> {
        let request = RequestId::new(format!("redrive/{}", redrives.count));
        let request = request.map_err(|problem| Error::invalid("request_id", problem))?;
        let terms = LeaseTerms {
            permits: noted.permits,
            pool: noted.pool.clone(),
            keep: noted.keep,
            ..LeaseTerms::new(noted.key.clone())
        };
        // The same request for the same redrive: a caller that checks again gets the same lease.
        let again = self.take_again(&noted.execution, &terms, request);
        let checked = match again.await? {
            Again::Taken(granted) => {
                let (key, execution) = (&noted.key, &noted.execution);
                let token = granted.lease.fencing_token.get();
                tracing::warn!(%key, %execution, fencing_token = token, "it was redriven, and has its key again");
                Checked::Taken
            }
            Again::Had => Checked::Nothing,
            Again::Frozen => {
                let soon = self.now().plus(self.settings().look);
                return self.look_at(noted, soon).await;
            }
            Again::InTheWay(who) => return self.stop_beside(noted, &who, redrives, next).await,
            Again::Full(who, at, row) => {
                let checked = self.stop_beside(noted, &who, redrives, next).await?;
                if checked != Checked::Undecided {
                    let freed = self.take_back(&at, &row).await?;
                    self.serve(freed).await;
                }
                return Ok(checked);
            }
        };
        self.watch_on(noted, redrives.count, next).await?;
        Ok(checked)
    }

    async fn stop_beside(
        &self,
        noted: &Redrivable,
        in_the_way: &str,
        redrives: Redrives,
        next: Timestamp,
    ) -> Result<Checked, Error> {
        let (key, execution) = (&noted.key, &noted.execution);
        let cause = format!(
            "it was redriven without its key: {in_the_way}. When the key is free: leasehold redrive {execution}"
        );
        let stop = Question::Stop(execution.clone(), cause, StopFor::Redrive);
        match self.engine(stop).await {
            Ok(true) => {
                metrics::record(Metric::UnguardedRedrives, 1);
                tracing::error!(%key, %execution, in_the_way, "it was redriven without its key, and was stopped");
                self.watch_on(noted, redrives.count, next).await?;
                Ok(Checked::Stopped)
            }
            // The response is old.
            Ok(false) => Ok(Checked::Undecided),
            Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, %execution, problem, "it was redriven without its key, and may not be stopped");
                metrics::record(Metric::UnguardedRedrives, 1);
                self.look_at(noted, next).await?;
                Ok(Checked::Alone)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts a redrive beside others once.
    async fn alone(
        &self,
        noted: &Redrivable,
        in_the_way: &str,
        redrives: Redrives,
        next: Timestamp,
    ) -> Result<Checked, Error> {
        if self.watch_on(noted, redrives.count, next).await? {
            let (key, execution) = (&noted.key, &noted.execution);
            metrics::record(Metric::UnguardedRedrives, 1);
            tracing::error!(%key, %execution, in_the_way, "it was redriven, and runs without its key");
        }
        Ok(Checked::Alone)
    }

    /// Looks again at `next`, as if nobody had looked.
    async fn look_at(&self, noted: &Redrivable, next: Timestamp) -> Result<Checked, Error> {
        self.watch(&noted.next(noted.redrives), Some(noted.version), next)
            .await?;
        Ok(Checked::Undecided)
    }

    /// Looks again at `next`, and counts only redrives after this one. False if somebody else has looked meanwhile.
    async fn watch_on(
        &self,
        noted: &Redrivable,
        redrives: u32,
        next: Timestamp,
    ) -> Result<bool, Error> {
        let redrives = noted.redrives.map_or(redrives, |known| known.max(redrives));
        self.watch(&noted.next(Some(redrives)), Some(noted.version), next)
            .await
    }
}

/// Who has the key, or comes first, for people.
fn in_the_way(key: &Key, rows: &Rows) -> String {
    let held: Vec<_> = rows.holders().map(Holder::as_str).collect();
    let key = key.label();
    if held.is_empty() {
        return format!("others wait for {key}");
    }
    format!("{key} is held by {}", held.join(" and "))
}

/// Who has the key, for people.
fn holders(rows: &Rows) -> String {
    let held: Vec<_> = rows.holders().map(Holder::as_str).collect();
    if held.is_empty() {
        return "nobody has it".to_owned();
    }
    format!("it is held by {}", held.join(" and "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Execution, Leases, Memory, Settings, SweepBounds,
        test_support::{FakeStepFunctions, grant, make},
    };

    /// For two weeks it may be redriven.
    #[tokio::test]
    async fn failure_that_nobody_redrives_takes_few_looks() {
        let (calls, clock) = (Arc::new(FakeStepFunctions::default()), make::clock());
        let queue = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        grant(&queue, make::of_execution(make::key("k"), "failed")).await;
        let ended = Execution::Ended {
            stopped_at: queue.now(),
            redrivable: true,
            all_answered: true,
        };
        let execution = make::execution("failed");
        calls.set_execution(execution.as_str(), ended);
        let stands = |stands| Redrives {
            stands,
            count: 0,
            at: None,
        };
        calls.set_redrives(execution.as_str(), stands(Stands::Redrivable));
        clock.advance(Duration::from_mins(1));
        queue.reap(&execution).await.expect("reaped");
        let _ = calls.take_looked();
        let sweep_for = async |time: Duration| {
            let end = queue.now().plus(time);
            while queue.now() < end {
                clock.advance(Duration::from_mins(5));
                queue.sweep(SweepBounds::Schedule).await.expect("swept");
            }
            calls.take_looked().0.len()
        };
        // Each writes once: the item and the index, two units.
        assert_eq!(sweep_for(Duration::from_hours(14 * 24)).await, 22);
        calls.set_redrives(execution.as_str(), stands(Stands::Final));
        assert_eq!(sweep_for(Duration::from_hours(48)).await, 1, "the last");
    }
}
