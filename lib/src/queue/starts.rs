//! Starts that wait for a key: what waits in the queue is the call of `StartExecution`.
//!
//! A start has an item of its own, which is stored together with its place, and stays after it. When the key is free,
//! the one that frees it grants it to the execution that is to be, and starts it under the name that was fixed at the beginning.
//! Step Functions starts one execution for each name, so that everybody may call again.
//!
//! 1. [`Queue::start`] takes the key, or a place in the queue, and stores the item in the same write (`accept`).
//! 2. The one that writes the grant calls first. One that calls later marks the row before.
//! 3. As soon as the execution is known to have begun, the item says so. From then on the lease is that of any execution.
//! 4. A start that will not begin fails: row and item change in one transaction, and the item keeps the request.

use std::time::Duration;

use serde::Serialize;

use crate::{
    error::Error,
    leases::{CALLS_WITHIN, Rows, Standing, check_pool},
    outcomes::HeldLease,
    pool::Pool,
    queue::{
        Queue,
        begin::{Begins, not_started_reason},
        maintenance::place_in,
    },
    request::{InsteadOf, Request},
    requests::Lifetime,
    row::Row,
    start::{
        ExecutionInput, ExecutionName, Known, PassLease, ResultTo, StartItem, StartStatus,
        StateMachineArn,
    },
    store::{Address, Operations, Settled, Settlement, Store},
    values::{AtLeast, Holder, KeepTime, Key, Metadata, Permits, RequestDigest, WaitTime},
};
use accept::Offer;

mod accept;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod races;
mod upkeep;

/// What to start, and through which key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Start {
    /// The key that the execution has while it runs.
    pub key: Key,
    /// What to start.
    pub state_machine: StateMachineArn,
    /// The execution's name, and the idempotency key: a start is repeated under the same name.
    pub name: ExecutionName,
    /// The execution's input.
    pub input: ExecutionInput,
    /// What to do while somebody else has the key.
    pub if_held: IfHeld,
    /// Of how many permits the execution gets one. None for the mutex, as in [`Acquire::permits`](crate::Acquire::permits).
    pub permits: Option<Permits>,
    /// Of which pool it gets a permit besides, before it begins.
    pub pool: Option<Pool>,
    /// Cooldown: for how long after its grant the key is not granted again, even if the execution ends before: the next start begins no earlier.
    pub at_least: AtLeast,
    /// How long the lease stays after the execution failed, was stopped or timed out, so that a redrive finds it.
    pub keep: KeepTime,
    /// What of the lease to add to the input, as `leasehold`.
    pub pass_lease: PassLease,
    /// What others may see of the lease.
    pub metadata: Metadata,
    /// Which task is answered with the result of the execution, if one is to be.
    pub result_to: Option<ResultTo>,
}

/// What a start does while somebody else has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfHeld {
    /// It waits in the queue, so long.
    Wait(WaitTime),
    /// As [`IfHeld::Latest`], and the execution that has the key is stopped, if it was started under the key. If somebody
    /// else has the key, it fails with [`Error::Held`].
    Replace(WaitTime),
    /// Only the newest waits, so long: everybody who waits already is superseded, with [`Error::Superseded`], and the holder of the key
    /// keeps it.
    Latest(WaitTime),
    /// It fails with [`Error::Held`].
    Fail,
    /// It is skipped.
    Skip,
}

impl IfHeld {
    const fn instead_of(self) -> Option<InsteadOf> {
        match self {
            Self::Latest(_) => Some(InsteadOf::Waiters),
            Self::Replace(_) => Some(InsteadOf::Holder),
            Self::Wait(_) | Self::Fail | Self::Skip => None,
        }
    }
}

impl Start {
    /// A start that waits for its key for a day.
    #[must_use]
    pub fn new(key: Key, state_machine: StateMachineArn, name: ExecutionName) -> Self {
        Self {
            key,
            state_machine,
            name,
            input: ExecutionInput::default(),
            if_held: IfHeld::Wait(WaitTime::DAY),
            permits: None,
            pool: None,
            at_least: AtLeast::default(),
            keep: KeepTime::default(),
            pass_lease: PassLease::Nothing,
            metadata: Metadata::default(),
            result_to: None,
        }
    }

    /// The execution that it is to become.
    #[must_use]
    pub fn execution(&self) -> Holder {
        self.state_machine.execution(&self.name)
    }
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Started {
    /// The execution has begun: by this call or by an earlier one of the same name.
    Started {
        /// The execution.
        execution_arn: Holder,
    },
    /// It begins when it is granted the key.
    Queued {
        /// The execution that is to be.
        execution_arn: Holder,
        /// Who has the key.
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<Box<HeldLease>>,
    },
    /// Somebody else has the key, and nobody was to wait.
    Skipped {
        /// The execution that is not to be.
        execution_arn: Holder,
        /// Who has the key.
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<Box<HeldLease>>,
    },
    /// It waited, and a later one waits instead.
    Superseded {
        /// The execution that is not to be.
        execution_arn: Holder,
        /// The later one.
        by: Holder,
    },
}

impl<S: Store> Queue<S> {
    /// Starts an execution as soon as it can have the key. Either it begins now, or it waits in the queue and begins when
    /// those before it have ended. Its lease is an [execution lease](crate::Lifetime::Execution): nothing in the workflow has
    /// to ask for it, or to give it back.
    ///
    /// The same name again answers the same, also after the execution has ended, and starts nothing twice. If the future is
    /// dropped, the start may or may not have been accepted: repeat the call.
    ///
    /// With [`Start::result_to`] the task is answered once, when the execution has ended or never begins, and by this call if it
    /// skips, or finds that it has failed. Any other error of this call is not sent.
    ///
    /// With [`IfHeld::Replace`] the start has its place before the other execution is stopped. A repeated call stops again, also
    /// one that has begun since.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a machine that may not be started under the key, for a name that is in use by another start, for an
    /// input that takes no lease, and where the task's own execution has the key; [`Error::NotStarted`] if Step Functions refuses the start for good;
    /// [`Error::Held`] with [`IfHeld::Fail`] and [`IfHeld::Replace`]; [`Error::QueueFull`]; and those of [`Leases::acquire`](crate::Leases::acquire). After [`Error::Unavailable`] the start may have been
    /// accepted.
    pub async fn start(&self, start: Start) -> Result<Started, Error> {
        self.follow_rules().await?;
        let result_to = start.result_to.clone();
        let (item, if_held) = self.item_of(start)?;
        let caller = result_to.as_ref().map(|to| to.caller.clone());
        let result = result_to.map(|to| self.awaited(&item, to));
        let started = Box::pin(self.accept(Offer {
            item: &item,
            read: None,
            result: result.as_ref(),
            if_held,
            caller: caller.as_ref(),
        }));
        let started = started.await;
        if let (Some(result), Ok(Started::Skipped { held, .. })) = (&result, &started)
            && if_held == IfHeld::Skip
        {
            self.tell_skipped(&result.item, held.as_deref()).await?;
        }
        started
    }

    /// A start whose item waits is asked for again: what has a place is answered before anything that refuses a new one.
    async fn asked_again(&self, item: &StartItem) -> Result<Started, Error> {
        if let Some(answer) = self.answer_by_rows(item).await? {
            return Ok(answer);
        }
        match self.known(item).await? {
            Known::Unasked => Err(not_known(item)),
            known => self.accept_again(item, known).await,
        }
    }

    /// The response of one that waits in the queue, has the key, or had it.
    async fn answer_by_rows(&self, item: &StartItem) -> Result<Option<Started>, Error> {
        let request = item.digest();
        let permits = item.request.permits;
        let rows = self.read_rows_of(&item.key, permits, &request).await?;
        match rows.standing(&request) {
            Standing::InQueue(first) => self.answer_waiting(first.clone(), item).await.map(Some),
            Standing::Has(permit, row) => {
                let key = item.key.clone();
                let at = Address { key, permit };
                self.answer_with_turn(&at, row, item).await.map(Some)
            }
            Standing::Had => {
                // The one that began it died before the item said so.
                self.settle_remembered(item).await?;
                self.as_settled(item).await.map(Some)
            }
            Standing::Unknown => Ok(None),
        }
    }

    /// A start that waits without a place, because its row was deleted by hand: it has begun, as far as is `known`, or gets
    /// another place, or its time has passed.
    async fn accept_again(&self, item: &StartItem, known: Known) -> Result<Started, Error> {
        match known {
            Known::Ours => drop(self.note_begun(item, None).await?),
            Known::No if item.deadline > self.now() => {
                let again = item.placed_at(self.now());
                let if_held = IfHeld::Wait(WaitTime::DAY);
                let (item, read) = (&again, Some(item));
                return Box::pin(self.accept(Offer {
                    item,
                    read,
                    result: None,
                    if_held,
                    caller: None,
                }))
                .await;
            }
            known => {
                // It may have had the key until then, and its row have forgotten it.
                let over_at = self.shows_all_calls(item.deadline.plus(CALLS_WITHIN));
                if known != Known::Another && self.now() < over_at {
                    return Err(not_known(item));
                }
                let reason = not_started_reason(known, item.waited_too_long(None));
                self.fail_alone(item, reason).await?;
            }
        }
        self.as_settled(item).await
    }

    /// Repeats a start that has failed, with the request that its item has kept. It takes its place anew, and waits for as
    /// long as it would have at first, and for a minute at least. If it is refused, it stays as it is: failed, with its request. One
    /// that has not failed is answered as [`Queue::start`] answers.
    ///
    /// # Errors
    /// As [`Queue::start`], and [`Error::Invalid`] if there is no such start.
    pub async fn repeat_start(&self, key: &Key, execution: &Holder) -> Result<Started, Error> {
        self.follow_rules().await?;
        let request = RequestDigest::of_start(execution);
        let Some(failed) = self.store().start_item(key, &request, self.limit()).await? else {
            return Err(Error::invalid(
                "execution_arn",
                format!("is no start through {key}"),
            ));
        };
        self.check_start(&failed.key, &failed.state_machine)?;
        match &failed.status {
            StartStatus::Failed(_) => {}
            StartStatus::Waiting => return self.asked_again(&failed).await,
            _ => return self.as_settled(&failed).await,
        }
        let waits = failed.deadline.since(failed.asked_at);
        let item = failed.placed_at(self.now());
        let item = StartItem {
            deadline: item.asked_at.plus(waits.max(CALLS_WITHIN)),
            ..item
        };
        let (item, read) = (&item, Some(&failed));
        let if_held = IfHeld::Wait(WaitTime::DAY);
        self.accept(Offer {
            item,
            read,
            result: None,
            if_held,
            caller: None,
        })
        .await
    }

    /// Takes a start that has failed off the list of those that somebody has to see to, or one that waits out of the queue, which counts
    /// as skipped from then on. Returns whether there was one; one that was granted the key is none. Its item stays for 15 days, so that a call
    /// of it that comes late starts nothing.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn dismiss_start(&self, key: &Key, execution: &Holder) -> Result<bool, Error> {
        let request = RequestDigest::of_start(execution);
        let item = self.store().start_item(key, &request, self.limit());
        let Some(item) = item.await? else {
            return Ok(false);
        };
        let dismissed = if item.status == StartStatus::Waiting {
            self.dismiss_waiting(&item).await?
        } else {
            let purge_at = self.purge_start_at();
            let dismissal = Settlement::Dismissed { purge_at };
            self.settle(&item, &dismissal, None).await? == Settled::Done
        };
        if dismissed {
            self.answer_if_over(key, &request).await;
        }
        Ok(dismissed)
    }

    /// Takes one out of the queue that waits, or that has its key and waits in its pool.
    async fn dismiss_waiting(&self, item: &StartItem) -> Result<bool, Error> {
        let (key, request) = (&item.key, item.digest());
        let purge_at = self.purge_start_at();
        let skipped = Settlement::Skipped { purge_at };
        let rows = self.read_rows_of(key, item.request.permits, &request);
        let rows = rows.await?;
        Ok(match rows.standing(&request) {
            Standing::Has(permit, row) if row.waits_in_pool() => {
                let (key, row) = (key.clone(), row.clone());
                let at = Address { key, permit };
                let freed = Box::pin(self.settle_with_grant(&at, &row, item, &skipped)).await?;
                let was_settled = freed.is_some();
                self.serve(freed.flatten()).await;
                was_settled
            }
            // What became of it is written down by the one that began it, or by sweep.
            Standing::Has(..) | Standing::Had => false,
            Standing::InQueue(first) => {
                let first = first.clone();
                self.settle_in_queue(first, item, &skipped, None).await?
            }
            // It has no place, until sweep gives it one.
            Standing::Unknown => self.settle(item, &skipped, None).await? == Settled::Done,
        })
    }

    /// For an operator: begins a start that was granted the key and may not have begun. Returns whether it has begun.
    ///
    /// # Errors
    /// As [`Queue::start`].
    pub async fn begin_start(&self, key: &Key, execution: &Holder) -> Result<bool, Error> {
        let request = RequestDigest::of_start(execution);
        let item = self.store().start_item(key, &request, self.limit()).await?;
        let item = item.filter(|item| item.status == StartStatus::Waiting);
        let Some(item) = item else {
            return Ok(false);
        };
        let rows = self.read_rows_for(key, item.request.permits).await?;
        let Some((permit, row)) = rows
            .held_for(&request)
            .filter(|(_, row)| row.is_unbegun_start())
        else {
            return Ok(false);
        };
        let key = key.clone();
        let at = Address { key, permit };
        match self.begin_again(&at, row, &item).await? {
            Begins::Begun => Ok(true),
            Begins::Failed { free, .. } => {
                self.serve(free).await;
                Ok(false)
            }
            Begins::InPool | Begins::Later => Ok(false),
        }
    }

    /// What may be started may be looked up.
    fn check_start(&self, key: &Key, machine: &StateMachineArn) -> Result<(), Error> {
        let checked = self.starts.check(key, machine);
        checked.map_err(|problem| Error::invalid("state_machine_arn", problem))
    }

    fn item_of(&self, start: Start) -> Result<(StartItem, IfHeld), Error> {
        let now = self.now();
        let wait = match start.if_held {
            IfHeld::Wait(wait) | IfHeld::Latest(wait) | IfHeld::Replace(wait) => wait.as_duration(),
            IfHeld::Fail | IfHeld::Skip => Duration::ZERO,
        };
        if start.permits.is_some() && matches!(start.if_held, IfHeld::Replace(_)) {
            return Err(Error::invalid(
                "permits",
                "does not go with if_held \"replace\": of several executions it does not say which to stop",
            ));
        }
        check_pool(start.pool.as_ref())?;
        if start.pool.is_some() && matches!(start.if_held, IfHeld::Fail | IfHeld::Skip) {
            let problem = "goes with if_held \"wait\", \"latest\" or \"replace\": a start may have its key and wait in its pool";
            return Err(Error::invalid("pool", problem));
        }
        if let Some(to) = &start.result_to {
            let checked = self.executions().check_caller(&to.caller);
            checked.map_err(|problem| Error::invalid("caller", problem))?;
        }
        let takes = start.input.takes(start.pass_lease);
        takes.map_err(|problem| Error::invalid("input", problem))?;
        let holder = start.state_machine.execution(&start.name);
        let item = StartItem {
            key: start.key,
            request: Request {
                digest: RequestDigest::of_start(&holder),
                holder,
                keys: None,
                lifetime: Lifetime::Execution { keep: start.keep },
                permits: start.permits,
                pool: start.pool,
                at_least: start.at_least,
                metadata: start.metadata,
                instead_of: start.if_held.instead_of(),
            },
            state_machine: start.state_machine,
            name: start.name,
            input: start.input,
            pass_lease: start.pass_lease,
            asked_at: now,
            deadline: now.plus(wait),
            stop_with: start
                .result_to
                .filter(|to| to.stop_with_caller)
                .map(|to| to.caller),
            status: StartStatus::Waiting,
        };
        self.check_start(&item.key, &item.state_machine)?;
        Ok((item, start.if_held))
    }

    /// A start has its place, by this call or an earlier one. Where the key is free, the one that freed it did not come to its queue.
    async fn answer_waiting(&self, row: Row, item: &StartItem) -> Result<Started, Error> {
        let newest = (&item.key, &item.request);
        let Some(row) = Box::pin(self.take_their_place(row, newest)).await? else {
            return self.as_it_is(item).await;
        };
        let held = self.held_now(&row, item);
        if item.request.permits.is_some() {
            // What became free before it waited was offered to the waiters of then.
            if place_in(&row, &item.digest()) == Some(0) {
                self.serve_key(&item.key).await;
                return match self.as_it_is(item).await? {
                    Started::Queued { execution_arn, .. } => Ok(Started::Queued {
                        execution_arn,
                        held,
                    }),
                    settled => Ok(settled),
                };
            }
            return Ok(queued(item, held));
        }
        if row.holding().is_some() {
            return Ok(queued(item, held));
        }
        self.serve_rows(&item.key, Rows::only_first(row)).await;
        self.as_it_is(item).await
    }

    /// What the item says by now; until it says something, the start waits or has the key.
    pub(super) async fn as_it_is(&self, item: &StartItem) -> Result<Started, Error> {
        match self.stored(item).await? {
            Some(latest) => answer_of(&latest).unwrap_or_else(|| Ok(queued(item, None))),
            None => Err(start_changed(item)),
        }
    }

    /// A start that has the key already is repeated.
    async fn answer_with_turn(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Started, Error> {
        if !row.is_unbegun_start() {
            self.settle_seen(item).await?;
            return self.as_settled(item).await;
        }
        let begins = self.begin_again(at, row, item).await?;
        self.answer_of_call(begins, item).await
    }

    async fn answer_of_call(&self, begins: Begins, item: &StartItem) -> Result<Started, Error> {
        match begins {
            Begins::Begun => Ok(started(item)),
            Begins::InPool => Ok(queued(item, None)),
            Begins::Failed { reason, free } => {
                self.serve(free).await;
                Err(not_started(item, reason))
            }
            // It has the key, and keeps it: sweep calls again. Unless it was settled before it had it.
            Begins::Later => self.as_it_is(item).await,
        }
    }

    /// What the item says by now.
    async fn as_settled(&self, item: &StartItem) -> Result<Started, Error> {
        let latest = self.stored(item).await?;
        latest
            .as_ref()
            .and_then(answer_of)
            .unwrap_or_else(|| Err(start_changed(item)))
    }

    /// Who has the key, if somebody has.
    fn held_now(&self, row: &Row, item: &StartItem) -> Option<Box<HeldLease>> {
        row.holding().filter(|_| row.request != item.digest())?;
        let contention = self.held(Address::first(&item.key), row, &item.execution());
        contention.ok().map(|contention| Box::new(contention.held))
    }
}

/// What a start is answered whose item is settled.
fn answer_of(item: &StartItem) -> Option<Result<Started, Error>> {
    match &item.status {
        StartStatus::Waiting => None,
        StartStatus::Begun => Some(Ok(started(item))),
        StartStatus::Skipped => Some(Ok(Started::Skipped {
            execution_arn: item.execution(),
            held: None,
        })),
        StartStatus::Superseded(by) => Some(Ok(Started::Superseded {
            execution_arn: item.execution(),
            by: by.clone(),
        })),
        StartStatus::Failed(reason) => Some(Err(not_started(item, reason.clone()))),
    }
}

fn started(item: &StartItem) -> Started {
    Started::Started {
        execution_arn: item.execution(),
    }
}

fn queued(item: &StartItem, held: Option<Box<HeldLease>>) -> Started {
    Started::Queued {
        execution_arn: item.execution(),
        held,
    }
}

fn not_started(item: &StartItem, reason: String) -> Error {
    Error::NotStarted {
        key: item.key.clone(),
        reason,
    }
}

fn not_known(item: &StartItem) -> Error {
    Error::Unavailable {
        problem: format!("whether {} has begun is not known yet", item.execution()),
        source: None,
    }
}

fn start_changed(item: &StartItem) -> Error {
    Error::Unavailable {
        problem: format!(
            "the start {} through {} changed during this request",
            item.name, item.key
        ),
        source: None,
    }
}
