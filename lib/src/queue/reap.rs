//! Reap: frees what an ended execution held. Like sweep it provides liveness, not safety, and it is sooner.

use std::time::Duration;

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Rows, TRIES},
    metrics::{self, Metric},
    outcomes::{Ended, is_zero},
    queue::engine::{Execution, Question},
    queue::{
        Queue,
        execution_check::Looked,
        results::{Answered, Caller},
    },
    retry::{AT_ONCE, some_at_a_time},
    row::{Holding, Row, Stored, Term},
    store::{Address, Applied, Entry, ItemAddress, Operations, Store},
    transition::{Change, ShortenDeadline},
    values::{Holder, Key, RequestDigest},
};

/// What a call of reap did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reaped {
    /// The execution runs: there is nothing to reap.
    #[default]
    Running,
    /// It was said to run again. Of its leases that had ended:
    Redriven {
        /// Keys that were free, and are its own again.
        taken: u64,
        /// Keys that others have, so that it was stopped.
        stopped: u64,
        /// Keys beside whose holders it runs, because it acquires for itself or the stack only counts.
        alone: u64,
        /// Keys of which nothing could be said yet.
        #[serde(skip_serializing_if = "is_zero")]
        undecided: u64,
    },
    /// It does not run, or it holds nothing, or it is unknown.
    Reaped {
        /// Leases that were released.
        released: u64,
        /// Leases whose deadline was shortened to the grace period.
        cut: u64,
        /// Execution leases that stay for now: for a redrive, or because something may still be at work.
        #[serde(skip_serializing_if = "is_zero")]
        kept: u64,
        /// Waiters that were removed from queues.
        left: u64,
        /// Tasks that waited for its result, and were answered.
        #[serde(skip_serializing_if = "is_zero")]
        answered: u64,
        /// Executions that it had started and waited for, and that were stopped or dismissed with it.
        #[serde(skip_serializing_if = "is_zero")]
        stopped: u64,
        /// Leases and waiters of which a later call may say more: the execution may have been redriven, or is unknown, or its
        /// history may not show its last answers yet.
        #[serde(skip_serializing_if = "is_zero")]
        undecided: u64,
    },
}

impl Reaped {
    /// Whether an execution that is said to have ended may have left something of which a later call decides: because the
    /// service did not show the end yet, or because a redrive may not show yet.
    #[must_use]
    pub const fn is_undecided(&self) -> bool {
        match self {
            Self::Running => true,
            Self::Reaped { undecided, .. } | Self::Redriven { undecided, .. } => *undecided > 0,
        }
    }
}

/// Entries of the index that are read at a time.
const PAGE: u32 = 100;

/// Between the looks at an execution of which an event says that it has ended.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// What an execution left behind, as it was before the execution was looked up.
enum Left {
    Lease(Address, Box<Row>),
    /// With the row that has the queue.
    Waiter(Key, RequestDigest, Box<Row>),
    /// A task that waits for its result.
    Task(Key, RequestDigest),
    /// A task of its own that waits for the result of a start, which is to stop with it.
    Called(Key, RequestDigest, Holder),
}

impl<S: Store> Queue<S> {
    /// Ends or shortens the leases of the execution `holder`, and removes its waiters from the queues, if the
    /// execution has ended. Reap does not trust its caller for that: it asks [`crate::Question::Describe`],
    /// once for each hundred of them, and only if the execution left anything. It does nothing for holders that are not executions. Of
    /// an execution that is unknown it decides only about [execution leases](crate::Lifetime), as sweep does.
    ///
    /// A Lambda function of an execution may outlive it, if its branch was aborted because another one failed, or if
    /// its task timed out. So a lease is released only if the execution's history shows that every task it started
    /// has answered. Otherwise its deadline is shortened to [`crate::Settings::reap_grace`] from now, which no other
    /// write may do. Waiters are removed from the queues.
    ///
    /// A success ends [execution leases](crate::Lifetime) only: one with a ttl may have been passed on, to a workflow that
    /// still verifies it, and keeps its deadline.
    ///
    /// Each write requires the version that was read before the execution was looked up. So an execution that is
    /// redriven, and extends its lease in between, keeps it. After any other change the lease is read, and the execution
    /// looked up, again, a few times. A redrive may not show in the look-up yet. So if the execution did not succeed, a
    /// lease that was written after its end and less than half a minute ago is left to a later call.
    ///
    /// The index lags a little behind the rows, and an acquire that was in progress may be written after the end: of such a
    /// lease sweep decides. A call that [could not decide](Reaped::is_undecided) is repeated some minutes later. It may be
    /// repeated for ever.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the time of the invocation has passed before everything was reaped: repeat the call.
    /// Those of [`crate::Question::Describe`] and of [`Store::write`]. What was done before stays done.
    pub async fn reap(&self, holder: &Holder) -> Result<Reaped, Error> {
        self.reap_and_wait(holder, &[]).await
    }

    /// As [`Queue::reap`], of an execution of which an event says that it has ended: the event may come before the service shows the end,
    /// or what the execution came to. Then it looks again, three times within two seconds.
    ///
    /// # Errors
    /// As [`Queue::reap`].
    pub async fn reap_ended(&self, holder: &Holder) -> Result<Reaped, Error> {
        self.reap_and_wait(holder, &PAUSES).await
    }

    async fn reap_and_wait(&self, holder: &Holder, pauses: &[Duration]) -> Result<Reaped, Error> {
        self.follow_rules().await?;
        let mut pauses = pauses.iter();
        let (mut released, mut cut, mut kept, mut left) = (0, 0, 0, 0);
        let (mut answered, mut stopped, mut undecided) = (0, 0, 0);
        let (mut from, mut tries) = (None, TRIES);
        loop {
            let (mut changed, mut unshown) = (0, 0);
            let (mut kept_here, mut undecided_here) = (0, 0);
            let page = self
                .store()
                .held_by(holder, from.as_ref(), PAGE, self.limit())
                .await?;
            let Some(reaped) = self.reap_page(holder, page.entries).await? else {
                if self.waits(&mut pauses).await {
                    continue;
                }
                return Ok(Reaped::Running);
            };
            for done in reaped {
                match done {
                    Done::Released => released += 1,
                    Done::Cut { for_now } => {
                        cut += 1;
                        undecided_here += u64::from(for_now);
                    }
                    Done::Kept { for_now } => {
                        kept_here += 1;
                        undecided_here += u64::from(for_now);
                    }
                    Done::Left => left += 1,
                    Done::Answered => answered += 1,
                    Done::Stopped => stopped += 1,
                    Done::Changed => changed += 1,
                    Done::NotShown => unshown += 1,
                    Done::Undecided => undecided_here += 1,
                    Done::Nothing => {}
                }
            }
            // Perhaps only somebody has left the queue. What is decided anew goes by a new look-up.
            if changed > 0 && tries > 0 {
                tries -= 1;
                continue;
            }
            // The leases do not wait for it: what they came to is done.
            if unshown > 0 && self.waits(&mut pauses).await {
                continue;
            }
            kept += kept_here;
            undecided += undecided_here + changed + unshown;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        Ok(Reaped::Reaped {
            released,
            cut,
            kept,
            left,
            answered,
            stopped,
            undecided,
        })
    }

    /// Pauses before another look, if there is to be one.
    async fn waits(&self, pauses: &mut std::slice::Iter<'_, Duration>) -> bool {
        match pauses.next() {
            Some(pause) if !self.is_nearly_over() => {
                self.sleep(*pause).await;
                true
            }
            _ => false,
        }
    }

    /// What became of each of these entries; none if the execution runs. Each page asks about it anew, because its rows have to be
    /// read before the look-up.
    async fn reap_page(
        &self,
        holder: &Holder,
        entries: Vec<Entry>,
    ) -> Result<Option<Vec<Done>>, Error> {
        let all = self.left_by(holder, entries).await?;
        if all.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let asked_at = self.now();
        let said = self.engine(Question::Describe(holder.clone())).await?;
        if said == Execution::Running {
            return Ok(None);
        }
        let reaps = all.iter().map(|one| self.reap_one(one, (said, asked_at)));
        let reaped = some_at_a_time(AT_ONCE, reaps.collect()).await;
        reaped.into_iter().collect::<Result<_, _>>().map(Some)
    }

    /// Whether the service may show more of an execution that has ended: the end and the last write are so young that a redrive, or
    /// the last answers in its history, may not show yet.
    fn may_show_more(&self, held: &Holding, said: Execution) -> bool {
        let Execution::Ended { stopped_at, .. } = said else {
            return false;
        };
        self.now() < self.shows_after(stopped_at.max(held.written_at()))
    }

    /// What of these entries of the index belongs to this holder, with the current rows: its leases, and the queues
    /// that it is in.
    async fn left_by(&self, holder: &Holder, entries: Vec<Entry>) -> Result<Vec<Left>, Error> {
        let reads = entries.into_iter();
        let reads = reads.map(|entry| self.read_left(holder, entry.address));
        let read = some_at_a_time(AT_ONCE, reads.collect()).await;
        read.into_iter().filter_map(Result::transpose).collect()
    }

    async fn read_left(
        &self,
        holder: &Holder,
        address: Option<ItemAddress>,
    ) -> Result<Option<Left>, Error> {
        self.check_time()?;
        Ok(match address {
            Some(ItemAddress::Row(address)) => {
                match self.store().read_row(&address, self.limit()).await? {
                    Stored::Row(row) if row.granted_to == *holder && row.holding().is_some() => {
                        Some(Left::Lease(address, Box::new(row)))
                    }
                    Stored::Foreign(reason) => {
                        left_alone(&address.key, reason);
                        None
                    }
                    Stored::Row(_) | Stored::Absent => None,
                }
            }
            Some(ItemAddress::Waiter(key, request) | ItemAddress::Start(key, request)) => {
                match self.read_rows(&key).await {
                    Ok(rows) => left_of(&rows, (key, request), holder),
                    Err(Error::Corrupt { key, reason }) => {
                        left_alone(&key, &reason);
                        None
                    }
                    Err(error) => return Err(error),
                }
            }
            Some(ItemAddress::Result(key, request)) => Some(Left::Task(key, request)),
            Some(ItemAddress::Called(key, request)) => {
                Some(Left::Called(key, request, holder.clone()))
            }
            Some(ItemAddress::Redrivable(..) | ItemAddress::Rules) | None => None,
        })
    }

    async fn reap_one(
        &self,
        one: &Left,
        (said, asked_at): (Execution, Timestamp),
    ) -> Result<Done, Error> {
        self.check_time()?;
        let done = match one {
            Left::Lease(address, row) => self.reap_lease(address, row, (said, asked_at)).await,
            Left::Task(key, request) => {
                let caller = Caller::LeftToSweep;
                Ok(self.reap_task(key, request, caller).await)
            }
            Left::Waiter(..) | Left::Called(..) if said == Execution::Unknown => {
                return Ok(Done::Undecided);
            }
            Left::Called(key, request, holder) => {
                let caller = Caller::Is(holder, said);
                Ok(self.reap_task(key, request, caller).await)
            }
            Left::Waiter(key, request, row) => {
                let left = self.leave_from(key, request, row).await;
                left.map(|left| if left { Done::Left } else { Done::Nothing })
            }
        };
        match done {
            Err(Error::Corrupt { key, reason }) => {
                left_alone(&key, &reason);
                Ok(Done::Nothing)
            }
            done => done,
        }
    }

    /// What cannot be answered holds up no lease, and is answered by a later call, or by sweep.
    async fn reap_task(&self, key: &Key, request: &RequestDigest, caller: Caller<'_>) -> Done {
        match Box::pin(self.check_result(key, request, caller)).await {
            Ok(Answered::NoTask) => Done::Nothing,
            Ok(Answered::Yes) => Done::Answered,
            Ok(Answered::Stopped) => Done::Stopped,
            // Or a start of this name only waits.
            Ok(Answered::NotYet) => Done::NotShown,
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, problem, "a task that waits for a result could not be answered");
                Done::Undecided
            }
        }
    }

    /// An error, so that the event is delivered again.
    fn check_time(&self) -> Result<(), Error> {
        if !self.is_nearly_over() {
            return Ok(());
        }
        Err(Error::Unavailable {
            problem: "there was no time to reap everything that the execution left".to_owned(),
            source: None,
        })
    }

    async fn reap_lease(
        &self,
        address: &Address,
        row: &Row,
        (said, asked_at): (Execution, Timestamp),
    ) -> Result<Done, Error> {
        let Some(held) = row.holding() else {
            return Ok(Done::Nothing);
        };
        let looked = if let Term::Ttl { .. } = held.term {
            let (stopped_at, all_answered) = match said {
                Execution::Ended {
                    stopped_at,
                    redrivable: true,
                    all_answered,
                } => (stopped_at, all_answered),
                // What succeeded has released its lease, or passed it on to somebody else: another workflow may verify it now.
                Execution::Ended { .. } => return Ok(Done::Nothing),
                Execution::Running | Execution::Unknown => return Ok(Done::Undecided),
            };
            if self.may_be_redriven(row, held, (stopped_at, asked_at)) {
                return Ok(Done::Undecided);
            }
            if !all_answered {
                return self.cut(address, row, (held, said)).await;
            }
            let ends = self.end_and_serve(address, row, Ended::Released);
            ends.await?
        } else {
            self.decide(address, row, (Some(said), asked_at)).await?
        };
        Ok(match looked {
            Looked::Ended { .. } => Done::Released,
            Looked::Kept => Done::Kept {
                for_now: self.may_show_more(held, said),
            },
            Looked::Changed => Done::Changed,
        })
    }

    /// Shortens a lease to the grace period: something of its execution may be at work.
    async fn cut(
        &self,
        address: &Address,
        row: &Row,
        (held, said): (&Holding, Execution),
    ) -> Result<Done, Error> {
        let expires_at = self.now().plus(self.settings().reap_grace);
        if held.expires_at() <= expires_at {
            return Ok(Done::Nothing);
        }
        let change = Change::ShortenDeadline(ShortenDeadline {
            version: row.version,
            expires_at,
            sweep_after: expires_at.plus(self.settings().clock_margin),
        });
        let applied = self.store().apply(address, &change, self.limit()).await?;
        Ok(match applied {
            Applied::Done { row, .. } => {
                let (key, holder, token) = (&address.key, &row.granted_to, row.fencing_token);
                tracing::info!(%key, %holder, fencing_token = token.get(), %expires_at, "cut");
                let for_now = self.may_show_more(held, said);
                Done::Cut { for_now }
            }
            // Extended, released or taken over since it was read, or somebody has left its queue.
            Applied::Refused(_) => Done::Changed,
        })
    }
}

/// What a waiter in the index has by now: its place, or the key that it was just granted, which the index may not show yet.
fn left_of(rows: &Rows, (key, request): (Key, RequestDigest), holder: &Holder) -> Option<Left> {
    if rows.waiting().contains(&request) {
        // A start that waits has not begun, even if somebody else used its name.
        let first = rows.first().filter(|_| !request.is_start())?;
        return Some(Left::Waiter(key, request, Box::new(first.clone())));
    }
    let (permit, row) = rows.held_for(&request).or_else(|| rows.held_by(holder))?;
    Some(Left::Lease(Address { key, permit }, Box::new(row.clone())))
}

fn left_alone(key: &Key, reason: &str) {
    metrics::record(Metric::Corrupt, 1);
    tracing::warn!(%key, reason, "reap left an item alone");
}

enum Done {
    Released,
    /// For now, if the service may show more later.
    Cut {
        for_now: bool,
    },
    Kept {
        for_now: bool,
    },
    Left,
    Answered,
    Stopped,
    /// The row has changed since it was read.
    Changed,
    /// The service does not say enough yet.
    Undecided,
    /// It does not show yet what the execution came to.
    NotShown,
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use super::*;
    use crate::{
        Acquire, Answer, Call, Engine, ExtendOptions, Lease, Leases, Memory, Settings,
        clock::{Clock as _, slow::Slow},
        test_support::{FakeStepFunctions, grant, make},
    };

    /// An execution that has ended. While it is looked up, something happens to its lease.
    struct LookedUp {
        leases: Leases<Memory>,
        meanwhile: Meanwhile,
        all_answered: bool,
    }

    enum Meanwhile {
        /// It is redriven, and extends the lease.
        Extends(Lease),
        /// A start leaves the queue, which changes the row; only at the first look.
        StartLeaves(AtomicBool),
    }

    impl Engine for LookedUp {
        fn ask(&self, question: Question, _: Duration) -> Call<'_, Answer> {
            assert!(matches!(question, Question::Describe(_)), "nobody waits");
            Box::pin(async {
                let stopped_at = self.leases.now();
                match &self.meanwhile {
                    Meanwhile::Extends(lease) => {
                        let proven = self.leases.extend(lease, ExtendOptions::default());
                        proven.await.map(drop)?;
                    }
                    Meanwhile::StartLeaves(is_first) => {
                        if is_first.swap(false, Ordering::Relaxed) {
                            let key = make::key("k");
                            let row = self.leases.read_queue_row(&key).await?.expect("a row");
                            let version = row.version.plus(1);
                            let changed = Row { version, ..row }.to_item();
                            self.leases.store().put(Address::first(&key), &changed);
                        }
                    }
                }
                Ok(Execution::Ended {
                    stopped_at,
                    redrivable: matches!(self.meanwhile, Meanwhile::Extends(_)),
                    all_answered: self.all_answered,
                }
                .into())
            })
        }
    }

    #[tokio::test]
    async fn timed_out_reap_keeps_progress() {
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::new(Slow::by(10)))
            .with_engine(calls.clone());
        let holder = make::holder("execution");
        let ttl = make::ttl(Duration::from_hours(2));
        for n in 0..300 {
            let key = make::key(format!("k{n}"));
            grant(&leases, Acquire::new(key, holder.clone(), ttl)).await;
        }
        let ended = Execution::Ended {
            stopped_at: leases.now(),
            redrivable: true,
            all_answered: true,
        };
        calls.set_execution("execution", ended);
        let mut calls = 0;
        loop {
            calls += 1;
            assert!(calls < 100, "it gets nowhere");
            let deadline = leases.now().plus(Duration::from_secs(5));
            let reaped = leases.for_call(deadline).reap(&holder).await;
            assert!(leases.now() < deadline);
            match reaped {
                Err(Error::Unavailable { .. }) => {}
                Ok(_) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(calls > 1, "one call had not enough time");
        let left = leases.held_by(&holder, 1, None).await;
        assert_eq!(left.expect("an answer").leases, []);
    }

    /// The index shows what a row was before.
    #[tokio::test]
    async fn late_index_hides_no_holder() {
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(make::clock())
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let key = make::key("k");
        let request = make::of_execution(key.clone(), "a");
        let holder = request.holder.clone();
        grant(&leases, request).await;
        let row = leases.read_queue_row(&key).await.expect("an answer");
        let waits = ItemAddress::Waiter(key, row.expect("a row").request);
        let left = leases.read_left(&holder, Some(waits)).await;
        let left = left.expect("an answer");
        assert!(matches!(left, Some(Left::Lease(..))), "nothing is left");
    }

    #[tokio::test]
    async fn changing_queue_keeps_no_lease() {
        let leases = Leases::new(Memory::new(), Settings::default()).with_clock(make::clock());
        let request = make::of_execution(make::key("k"), "a");
        let holder = request.holder.clone();
        grant(&leases, request).await;
        let looked = LookedUp {
            leases: leases.clone(),
            meanwhile: Meanwhile::StartLeaves(AtomicBool::new(true)),
            all_answered: true,
        };
        let reaper = leases.with_engine(Arc::new(looked));
        let done = reaper.reap(&holder).await.expect("an answer");
        assert!(
            matches!(done, Reaped::Reaped { released: 1, .. }),
            "{done:?}"
        );
    }

    #[tokio::test]
    async fn proven_redrive_keeps_its_lease() {
        for all_answered in [true, false] {
            let clock = make::clock();
            let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock.clone());
            let holder = make::holder("execution");
            let ttl = make::ttl(Duration::from_hours(2));
            let request = Acquire::new(make::key("k"), holder.clone(), ttl);
            let lease = grant(&leases, request).await.lease;
            clock.advance(Duration::from_mins(1));
            let redriven = LookedUp {
                leases: leases.clone(),
                meanwhile: Meanwhile::Extends(lease.clone()),
                all_answered,
            };
            let reaper = leases.clone().with_engine(Arc::new(redriven));
            let done = reaper.reap(&holder).await.expect("an answer");
            assert_eq!(
                done,
                Reaped::Reaped {
                    released: 0,
                    cut: 0,
                    kept: 0,
                    answered: 0,
                    stopped: 0,
                    left: 0,
                    undecided: 1
                }
            );
            let still = leases.extend(&lease, ExtendOptions::default()).await;
            let until = still.expect("still the holder's").into_lease().expires_at();
            assert_eq!(until, clock.now().plus(ttl.as_duration()));
        }
    }
}
