//! Starts that wait for a key: what waits in the queue is the call of `StartExecution`.
//!
//! A start has an item of its own, which is stored before the start has its place, and stays after it. When the key is free,
//! whoever frees it grants it to the execution that is to be, and starts it under the name that was fixed at the beginning.
//! Step Functions starts one execution for each name, so that everybody may call again.
//!
//! 1. [`Queue::start`] stores the item and takes the key, or a place in the queue.
//! 2. Whoever writes the grant calls first. Whoever calls later marks the row before.
//! 3. As soon as the execution is known to have begun, the item says so. From then on the lease is that of any execution.
//! 4. A start that will not begin fails: row and item change in one transaction, and the item keeps the request.

use std::time::Duration;

use serde::Serialize;

use crate::{
    error::Error,
    leases::{CALLS_WITHIN, Rows, TRIES, corrupt},
    metrics::{self, Metric},
    outcomes::{GrantKind, HeldLease},
    queue::{
        Queue,
        ask::Tried,
        begin::{Begins, log_failed},
        maintenance::place_in,
    },
    request::Request,
    requests::Lifetime,
    row::Row,
    start::{
        ExecutionInput, ExecutionName, Known, PassLease, StartItem, StartStatus, StateMachineArn,
    },
    store::{Address, Applied, Operations, PutStart, Settled, Settlement, Store},
    transition::{
        Change, Grant, Join, JoinRefusal, JoinRule, TakeoverRule, TokenFloor, why_not_joined,
    },
    values::{AtLeast, Holder, KeepTime, Key, LeaseId, Metadata, Permits, RequestDigest, WaitTime},
};

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
    /// Of how many permits the execution gets one. None for the mutex: the execution is alone with the key.
    pub permits: Option<Permits>,
    /// The key stays closed so long after its grant, also if the execution ends before: the next start begins no earlier.
    pub at_least: AtLeast,
    /// How long the lease stays after the execution failed, was stopped or timed out, so that a redrive finds it.
    pub keep: KeepTime,
    /// What of the lease to add to the input, as `leasehold`.
    pub pass_lease: PassLease,
    /// What others may see of the lease.
    pub metadata: Metadata,
}

/// What a start does while somebody else has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfHeld {
    /// It waits in the queue, so long.
    Wait(WaitTime),
    /// As [`IfHeld::Latest`], and the execution that has the key is stopped, if it was started through the key. If somebody
    /// else has the key, it fails with [`Error::Held`].
    Replace(WaitTime),
    /// Only the newest waits, so long: whoever waits already is sent away with [`Error::Superseded`], and whoever has the key
    /// keeps it.
    Latest(WaitTime),
    /// It fails with [`Error::Held`].
    Fail,
    /// It is skipped.
    Skip,
}

/// What the item of a start was before this call.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Asked {
    /// There was none: nobody has accepted it yet.
    First,
    /// It waited: another call may have given it its place, and settled it.
    Again,
    /// It had failed, and an operator repeats it.
    Repeated,
    /// It waited, without a place, until its time was over.
    Overdue,
}

impl IfHeld {
    const fn sends_others_away(self) -> bool {
        matches!(self, Self::Latest(_) | Self::Replace(_))
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
            at_least: AtLeast::default(),
            keep: KeepTime::default(),
            pass_lease: PassLease::Nothing,
            metadata: Metadata::default(),
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
    /// It begins when it is its turn.
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
    /// With [`IfHeld::Replace`] the start has its place before the other execution is stopped. A repeated call stops again, also
    /// one that has begun since.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a machine that may not be started through the key, for a name that is in use by another start, and
    /// for an input that takes no lease; [`Error::NotStarted`] if Step Functions refuses the start for good;
    /// [`Error::Held`] with [`IfHeld::Fail`] and [`IfHeld::Replace`]; [`Error::QueueFull`]; and those of [`Leases::acquire`](crate::Leases::acquire). After [`Error::Unavailable`] the start may have been
    /// accepted.
    pub async fn start(&self, start: Start) -> Result<Started, Error> {
        self.follow_rules().await?;
        let (item, if_held) = self.item_of(start)?;
        let item = match self.store().put_start(&item, false, self.limit()).await? {
            PutStart::Done => return self.place(&item, if_held, Asked::First).await,
            PutStart::Found(found) if !found.is(&item) => {
                return Err(Error::invalid(
                    "name",
                    "is in use by another start through this key: with another input, machine or pass_lease",
                ));
            }
            PutStart::Found(found) => found,
            PutStart::Foreign => return Err(foreign(&item)),
        };
        match answer_of(&item) {
            Some(answer) => answer,
            None => self.asked_again(&item, if_held).await,
        }
    }

    /// A start whose item waits is asked for again. What has a place is answered before anything that refuses a new one. One
    /// that neither waits in the queue nor has the key may have had it: the service is asked first.
    async fn asked_again(&self, item: &StartItem, if_held: IfHeld) -> Result<Started, Error> {
        // It waits or not as it was asked for at first.
        let if_held = match (item.waits(), if_held) {
            (true, IfHeld::Fail | IfHeld::Skip) => as_plain_wait(item),
            (false, IfHeld::Wait(_) | IfHeld::Latest(_) | IfHeld::Replace(_)) => IfHeld::Fail,
            (_, as_asked) => as_asked,
        };
        if let Some(answer) = self.placed(item, if_held).await? {
            return Ok(answer);
        }
        match self.known(item).await? {
            Known::No => self.place(item, if_held, Asked::Again).await,
            Known::Ours => {
                self.note_begun(item).await?;
                self.as_settled(item).await
            }
            Known::Another => {
                self.name_is_used(item).await?;
                self.as_settled(item).await
            }
            Known::Unasked => Err(Error::Unavailable {
                problem: format!(
                    "whether {} has begun could not be asked: it waits",
                    item.execution()
                ),
                source: None,
            }),
        }
    }

    /// The answer of one that waits in the queue, or has the key.
    async fn placed(&self, item: &StartItem, if_held: IfHeld) -> Result<Option<Started>, Error> {
        let request = item.digest();
        let rows = self.read_rows_for(&item.key, item.request.permits).await?;
        if let Some(first) = rows.first().filter(|row| row.waiting().contains(&request)) {
            let first = first.clone();
            return self.waits(first, item, if_held).await.map(Some);
        }
        let Some((permit, row)) = rows.held_for(&request) else {
            return Ok(None);
        };
        let key = item.key.clone();
        let at = Address { key, permit };
        self.its_turn(&at, row, item).await.map(Some)
    }

    /// Repeats a start that has failed, with the request that its item has kept. It takes its place anew, and waits for as
    /// long as it would have at first, and for a minute at least. If it is refused, it has failed again, for that reason. One
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
        self.check_start(&failed.key, &failed.state_machine, execution)?;
        let now = self.now();
        let waits = failed.deadline.since(failed.asked_at);
        let item = StartItem {
            asked_at: now,
            deadline: now.plus(waits.max(CALLS_WITHIN)),
            status: StartStatus::Waiting,
            ..failed
        };
        let if_held = as_plain_wait(&item);
        let found = match self.store().put_start(&item, true, self.limit()).await? {
            PutStart::Done => {
                return self.place(&item, if_held, Asked::Repeated).await;
            }
            PutStart::Found(found) => found,
            PutStart::Foreign => return Err(foreign(&item)),
        };
        match answer_of(&found) {
            Some(answer) => answer,
            None => self.asked_again(&found, if_held).await,
        }
    }

    /// Deletes a start that has failed and that nobody will repeat, or takes one out of the queue, which counts as skipped from
    /// then on. Returns whether there was one; one that has its turn is none.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn dismiss_start(&self, key: &Key, execution: &Holder) -> Result<bool, Error> {
        let request = RequestDigest::of_start(execution);
        let item = self.store().start_item(key, &request, self.limit());
        let Some(item) = item.await? else {
            return Ok(false);
        };
        if item.status != StartStatus::Waiting {
            let dismissed = self.settle(&item, &Settlement::Dismissed, None).await?;
            return Ok(dismissed == Settled::Done);
        }
        let purge_at = self.purge_start_at();
        let skipped = Settlement::Skipped { purge_at };
        let rows = self.read_rows_for(key, item.request.permits).await?;
        if rows.remember(&request) {
            // It has its turn, or had it: what became of it is written down by whoever began it, or by sweep.
            return Ok(false);
        }
        if let Some(first) = rows.first()
            && self
                .settle_in_queue(first.clone(), &item, &skipped, None)
                .await?
        {
            return Ok(true);
        }
        // It has no place, until sweep gives it one. If it has just been granted the key, it has its turn.
        let settled = self.settle_unplaced(&item, &skipped).await?;
        Ok(settled == Settled::Done)
    }

    /// For an operator: begins a start that has its turn and may not have begun. Returns whether it has begun.
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
            Begins::Later => Ok(false),
        }
    }

    fn check_start(
        &self,
        key: &Key,
        machine: &StateMachineArn,
        execution: &Holder,
    ) -> Result<(), Error> {
        let problem = |problem| Error::invalid("state_machine_arn", problem);
        self.starts.check(key, machine).map_err(problem)?;
        self.executions().check(execution).map_err(problem)
    }

    fn item_of(&self, start: Start) -> Result<(StartItem, IfHeld), Error> {
        let now = self.now();
        let wait = match start.if_held {
            // What waits has a deadline after its beginning, however short: see `StartItem::waits`.
            IfHeld::Wait(wait) | IfHeld::Latest(wait) | IfHeld::Replace(wait) => {
                wait.as_duration().max(Duration::from_millis(1))
            }
            IfHeld::Fail | IfHeld::Skip => Duration::ZERO,
        };
        if start.permits.is_some() && matches!(start.if_held, IfHeld::Replace(_)) {
            return Err(Error::invalid(
                "permits",
                "does not go with if_held \"replace\": of several executions it does not say which to stop",
            ));
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
                at_least: start.at_least,
                metadata: start.metadata,
            },
            state_machine: start.state_machine,
            name: start.name,
            input: start.input,
            pass_lease: start.pass_lease,
            asked_at: now,
            deadline: now.plus(wait),
            status: StartStatus::Waiting,
        };
        self.check_start(&item.key, &item.state_machine, &item.execution())?;
        Ok((item, start.if_held))
    }

    /// Gives a start that waits its place: the key if it is free, else one in the queue.
    async fn place(
        &self,
        item: &StartItem,
        if_held: IfHeld,
        asked: Asked,
    ) -> Result<Started, Error> {
        let grant = self.grant_of(item);
        for _ in 0..TRIES {
            if let Some(answer) = self.place_once(item, if_held, asked, &grant).await? {
                return Ok(answer);
            }
        }
        Err(Error::Unavailable {
            problem: format!("{} changed again and again during this request", item.key),
            source: None,
        })
    }

    /// None if somebody else has written the row meanwhile.
    async fn place_once(
        &self,
        item: &StartItem,
        if_held: IfHeld,
        asked: Asked,
        grant: &Grant,
    ) -> Result<Option<Started>, Error> {
        let key = &item.key;
        let (row, rows) = match self.try_key(key, grant, false).await {
            Ok(Tried::Granted(at, row)) => return self.first_turn(&at, row, item).await.map(Some),
            // Another call for the same start was faster.
            Ok(Tried::Replayed(at, row)) => return self.its_turn(&at, &row, item).await.map(Some),
            Ok(Tried::Held(row, rows)) => (row, rows),
            Ok(Tried::Changed) => return Ok(None),
            Err(Error::Consumed { .. }) => return self.had_its_turn(item).await.map(Some),
            // An operator froze the key, or stopped the grants of the table.
            Err(error @ Error::Frozen { .. }) => {
                return match self.refuse(item, error, asked).await? {
                    None => self.placed(item, if_held).await,
                    answer => Ok(answer),
                };
            }
            Err(error) => return Err(error),
        };
        if row.waiting().contains(&grant.request.digest) {
            return self.waits(row, item, if_held).await.map(Some);
        }
        let waits = match if_held {
            IfHeld::Wait(_) | IfHeld::Latest(_) => true,
            IfHeld::Replace(_) => {
                row.holding().is_none() || self.started_holder(&row, item).await?.is_some()
            }
            IfHeld::Fail | IfHeld::Skip => false,
        };
        if waits {
            return self.join_queue(item, if_held, asked, grant).await;
        }
        let in_the_way = if let Some(permits) = item.request.permits {
            self.all_taken(key.clone(), permits, &rows, grant).await
        } else {
            let (first, holder) = (Address::first(key), &grant.request.holder);
            self.contention(first, row.clone(), holder).await
        };
        match in_the_way {
            Ok(_) if if_held == IfHeld::Skip => self.skip(&row, item).await,
            Ok(held) => self.refuse(item, Error::Held(Box::new(held)), asked).await,
            // Nobody has it, and its limit is 0.
            Err(error @ Error::Frozen { .. }) => self.refuse(item, error, asked).await,
            Err(error) => Err(error),
        }
    }

    /// None if somebody else has written the row meanwhile.
    async fn join_queue(
        &self,
        item: &StartItem,
        if_held: IfHeld,
        asked: Asked,
        grant: &Grant,
    ) -> Result<Option<Started>, Error> {
        let (key, first) = (&item.key, Address::first(&item.key));
        let join = Join {
            request: grant.request.digest.clone(),
            rule: match item.request.permits {
                None => JoinRule::IfTaken(grant.over),
                Some(_) => JoinRule::Always,
            },
            cap: self.room(if_held.sends_others_away()),
        };
        let change = Change::Join(join.clone());
        match self.store().apply(&first, &change, self.limit()).await? {
            Applied::Done { row, .. } => self.waits(row, item, if_held).await.map(Some),
            Applied::Refused(stood) => match why_not_joined(&stood, &join) {
                JoinRefusal::Full => {
                    let (key, waiting) = (key.clone(), usize::from(join.cap));
                    let full = Error::QueueFull { key, waiting };
                    self.refuse(item, full, asked).await
                }
                JoinRefusal::Queued | JoinRefusal::Changed => Ok(None),
            },
        }
    }

    fn grant_of(&self, item: &StartItem) -> Grant {
        let now = self.now();
        Grant {
            request: item.request.clone(),
            lease_id: LeaseId::random(),
            now,
            over: TakeoverRule::by_clock(self.takeover_deadline()),
            tokens: TokenFloor::Reached(self.settings().token_floor),
            sweep_after: now.plus(self.settings().look),
            by_token: true,
        }
    }

    /// The row was granted to a start by this call. Its item is read again: it may have failed since it was read before.
    async fn first_turn(&self, at: &Address, row: Row, item: &StartItem) -> Result<Started, Error> {
        let kind = GrantKind::after(row.previous.as_ref());
        metrics::record(Metric::of_grant(kind), 1);
        let request = item.digest();
        let latest = self
            .store()
            .start_item(&item.key, &request, self.limit())
            .await?;
        let settled = match &latest {
            Some(latest) => match answer_of(latest) {
                None => {
                    let begins = self.begin(at, &row, latest).await?;
                    return self.answer_of_call(begins, item).await;
                }
                Some(settled) => settled,
            },
            // Withdrawn meanwhile.
            None => Err(changed(item)),
        };
        let freed = self.take_back(at, &row).await?;
        self.serve(freed).await;
        settled
    }

    /// A start has its place, by this call or an earlier one. Where the key is free, whoever freed it did not come to its queue.
    async fn waits(
        &self,
        mut row: Row,
        item: &StartItem,
        if_held: IfHeld,
    ) -> Result<Started, Error> {
        // Another call may have settled it before this one joined, and from now on none does without its place.
        let request = item.digest();
        let latest = self.store().start_item(&item.key, &request, self.limit());
        let latest = latest.await?;
        let settled = match &latest {
            Some(latest) => answer_of(latest),
            None => Some(Err(changed(item))),
        };
        if let Some(settled) = settled {
            self.leave_from(&item.key, &request, &row).await?;
            return settled;
        }
        if if_held.sends_others_away() {
            let execution = item.execution();
            let newest = (&item.key, &request, &execution);
            row = Box::pin(self.supersede(row, newest)).await?;
            if !row.waiting().contains(&request) {
                // It has its turn, or a later one has sent it away: nobody is to be stopped for it.
                return self.as_it_is(item).await;
            }
        }
        self.stop_replaced(&row, item, if_held).await?;
        let held = self.held_now(&row, item);
        if item.request.permits.is_some() {
            // What came free before it waited was offered to whoever waited then.
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

    /// What the item says by now; until it says something, the start waits or has its turn.
    async fn as_it_is(&self, item: &StartItem) -> Result<Started, Error> {
        let request = item.digest();
        let latest = self.store().start_item(&item.key, &request, self.limit());
        match latest.await? {
            Some(latest) => answer_of(&latest).unwrap_or_else(|| Ok(queued(item, None))),
            None => Err(changed(item)),
        }
    }

    /// A start that has the key already is repeated.
    async fn its_turn(&self, at: &Address, row: &Row, item: &StartItem) -> Result<Started, Error> {
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
            Begins::Failed { reason, free } => {
                self.serve(free).await;
                Err(not_started(item, reason))
            }
            // It has its turn, and keeps it: sweep calls again. Unless it was settled before it had it.
            Begins::Later => self.as_it_is(item).await,
        }
    }

    /// The row remembers the start, and its item waits: whoever began it died before the item said so.
    async fn had_its_turn(&self, item: &StartItem) -> Result<Started, Error> {
        self.settle_remembered(item).await?;
        self.as_settled(item).await
    }

    /// What the item says by now.
    async fn as_settled(&self, item: &StartItem) -> Result<Started, Error> {
        let request = item.digest();
        let latest = self.store().start_item(&item.key, &request, self.limit());
        let latest = latest.await?;
        latest
            .as_ref()
            .and_then(answer_of)
            .unwrap_or_else(|| Err(changed(item)))
    }

    /// The start that has the key, if it is one. By its item, which no caller of acquire and no team can write: they may name
    /// any execution as the holder.
    async fn started_holder(
        &self,
        row: &Row,
        item: &StartItem,
    ) -> Result<Option<StartItem>, Error> {
        if !row.request.is_start() || row.holding().is_none() {
            return Ok(None);
        }
        let holds = self
            .store()
            .start_item(&item.key, &row.request, self.limit());
        let holds = holds.await?;
        Ok(holds.filter(|holds| holds.execution() == row.granted_to))
    }

    /// Stops the execution that has the key, if `item`, which has its place, is to replace it and it was started through the key.
    async fn stop_replaced(
        &self,
        row: &Row,
        item: &StartItem,
        if_held: IfHeld,
    ) -> Result<(), Error> {
        if !matches!(if_held, IfHeld::Replace(_)) {
            return Ok(());
        }
        let Some(holds) = self.started_holder(row, item).await? else {
            return Ok(());
        };
        let (key, execution) = (&item.key, holds.execution());
        let cause = format!("replaced by {}", item.execution());
        let stopped = self
            .workflows()
            .stop_execution(&execution, cause, self.limit());
        match stopped.await {
            Ok(true) => {
                tracing::info!(%key, %execution, by = %item.execution(), "replaced");
                Ok(())
            }
            Ok(false) => Err(Error::Unavailable {
                problem: format!(
                    "{execution} has the key and has not begun, so that it was not stopped; {} waits",
                    item.name
                ),
                source: None,
            }),
            // It has its place, and nobody can stop what it waits for by asking again.
            Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, %execution, problem, "was not stopped");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// None if another call has given it a place meanwhile: look again.
    async fn skip(&self, row: &Row, item: &StartItem) -> Result<Option<Started>, Error> {
        let purge_at = self.purge_start_at();
        let skipped = Settlement::Skipped { purge_at };
        match self.settle_unplaced(item, &skipped).await? {
            Settled::Done => Ok(Some(Started::Skipped {
                execution_arn: item.execution(),
                held: self.held_now(row, item),
            })),
            Settled::Refused(_) => Ok(None),
            Settled::NotWaiting | Settled::Conflict => self.as_settled(item).await.map(Some),
        }
    }

    /// The start gets no place now, for `error`. What this call stored is withdrawn, and so is one that was not to wait: nobody
    /// has accepted it. One that an operator repeats has failed again. One that was accepted before, and has lost its place,
    /// stays: sweep gives it another. None if another call has given it a place meanwhile: look again.
    async fn refuse(
        &self,
        item: &StartItem,
        error: Error,
        asked: Asked,
    ) -> Result<Option<Started>, Error> {
        let settlement = match asked {
            Asked::Again if item.waits() => return Err(error),
            Asked::First | Asked::Again => Settlement::Withdrawn,
            Asked::Repeated => Settlement::Failed(error.to_string()),
            Asked::Overdue => Settlement::Failed(waited_too_long(item)),
        };
        match self.settle_unplaced(item, &settlement).await? {
            Settled::Done => {
                if let Settlement::Failed(reason) = &settlement {
                    log_failed(item, reason);
                }
                Err(error)
            }
            Settled::Refused(_) => Ok(None),
            Settled::NotWaiting | Settled::Conflict => self.as_settled(item).await.map(Some),
        }
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

/// How an item says what to do while somebody has the key: to wait, or not. That it sends others away, or stops them, is not stored, so
/// that only a repeated call does so. One that does not wait is given up by sweep.
fn as_plain_wait(item: &StartItem) -> IfHeld {
    let wait = WaitTime::new(item.deadline.since(item.asked_at));
    IfHeld::Wait(wait.unwrap_or(WaitTime::DAY))
}

fn waited_too_long(item: &StartItem) -> String {
    let waited = item.deadline.since(item.asked_at).as_secs();
    format!("the key was not free within its waiting time of {waited} seconds")
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

fn changed(item: &StartItem) -> Error {
    Error::Unavailable {
        problem: format!(
            "the start {} through {} changed during this request",
            item.name, item.key
        ),
        source: None,
    }
}

fn foreign(item: &StartItem) -> Error {
    corrupt(
        item.key.clone(),
        "another program's item is in the place of a start",
    )
}
