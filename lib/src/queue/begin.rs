//! A start that was granted the key: its execution begins, or the start fails and the key passes on.
//!
//! The row counts the calls of `StartExecution` as it counts those of a task token, in `notification`: `tries` is how often somebody was
//! about to call, `at` when that was last, and from `refused_at` on nobody calls any more.
//!
//! | the service | if this was the only call | if somebody may have called before |
//! |---|---|---|
//! | began it | it has begun | it has begun |
//! | the name is in use by our input | it has begun | it has begun |
//! | the name is in use by another input | it fails | it fails |
//! | refuses | it fails | `refused_at`; it fails when no call can be under way any more, and the service does not know it |
//! | does not answer, or throttles | it keeps the key, and is called again | the same |
//! | denies it | the same, for the grace; then as one that is refused | the same |
//!
//! "It has begun" is written whatever the item said before. Everything else is written only together with the row as it was read, so
//! that the one that marks the row later decides.

use std::time::Duration;

use super::{
    Queue,
    engine::{Begun, Question},
    maintenance::place_in,
    pool::Entered,
    results::{Answered, Caller, left_to_sweep},
};
use crate::{
    clock::millis,
    error::Error,
    leases::{CALLS_WITHIN, Freed, TRIES, pool_of},
    metrics::{self, Metric},
    outcomes::Ended,
    row::{Holding, Row, Stored},
    start::{ANSWERS_FOR, Known, StartItem, StartStatus},
    store::{Address, Operations, Settled, Settlement, Store},
    transition::{Change, Head, Leave, LeaveReason, Look, ReplaceIfUnchanged},
    values::{Counter, Key, RequestDigest},
};

/// What became of a start that was granted the key.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub(crate) enum Begins {
    /// Its execution has begun.
    Begun,
    /// It waits in the queue of its pool.
    InPool,
    /// It never will. The row is free, if it could be read since.
    Failed {
        /// Why.
        reason: String,
        /// The row.
        free: Option<Freed>,
    },
    /// It keeps the key: it may have begun, or is to begin later, or somebody else sees to it.
    Later,
}

/// So long after it has asked, a caller counts as running.
const JUST_ASKED: Duration = Duration::from_secs(1);

impl<S: Store> Queue<S> {
    /// How long the item of a start that is settled answers duplicates.
    pub(crate) fn purge_start_at(&self) -> u64 {
        let until = self.now().plus(ANSWERS_FOR);
        until.as_seconds_rounded_up().min(Row::NEVER)
    }

    /// Begins a start that was granted the key and may have begun. Somebody may have called before, so that the row is marked
    /// first: from then on no earlier caller decides that it has failed. What was read of its item holds: it fails only together with its
    /// row, and one that has begun is found so.
    pub(crate) async fn begin_again(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begins, Error> {
        let Some(notification) = row.holding().and_then(|held| held.notification) else {
            return Ok(Begins::Later);
        };
        if self.starts.is_empty() {
            return Ok(Begins::Later);
        }
        if notification.refused_at.is_none() {
            if row.waits_in_pool() {
                return self.begin(at, row, item).await;
            }
            let Some(marked) = self.mark(at, row, None).await? else {
                return Ok(Begins::Later);
            };
            return self.begin(at, &marked, item).await;
        }
        // Nobody calls any more, and a call that is under way has begun it by then, or never will.
        let known = self.known(item).await?;
        if known == Known::Ours {
            return self.note_begun(item, Some(row)).await;
        }
        if !self.never_begins(known, at, row).await? {
            return Ok(Begins::Later);
        }
        let refused = "Step Functions refused it, or an operator ended it before it began";
        let reason = not_started_reason(known, refused.to_owned());
        self.fail(at, row, item, reason).await
    }

    /// Whether a start that was granted the key will never begin, which is `known`: no call is under way any more. If the service may
    /// not be asked, one answer ends nothing: the first is noted in the row, and one after the grace ends it.
    pub(crate) async fn never_begins(
        &self,
        known: Known,
        at: &Address,
        row: &Row,
    ) -> Result<bool, Error> {
        let Some(held) = row.holding() else {
            return Ok(false);
        };
        let called_at = held
            .notification
            .map_or(held.acquired_at, |notification| notification.at);
        let over_at = self.shows_all_calls(called_at);
        let now = self.now();
        let noted_at = held.term.look_again_at();
        let is_noted = known != Known::Unasked || noted_at.is_some_and(|at| at <= now);
        if now >= over_at && is_noted {
            return Ok(true);
        }
        let look_again_at = if known == Known::Unasked {
            noted_at.or(Some(self.ends_unasked(over_at)))
        } else {
            noted_at
        };
        if look_again_at != noted_at || held.sweep_after.is_none_or(|at| at > over_at) {
            let look = Change::Look(Look {
                version: row.version,
                now,
                look_again_at,
                sweep_after: look_again_at.unwrap_or(over_at).max(now),
                known: false,
            });
            let _ = self.store().apply(at, &look, self.limit()).await?;
        }
        Ok(false)
    }

    /// Begins the start that `row` was just granted to, or marked for, by this process: one call of `StartExecution`.
    pub(crate) async fn begin(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begins, Error> {
        if row.waits_in_pool() && self.starts.is_empty() {
            return Ok(Begins::Later);
        }
        let row = &match Box::pin(self.enter(at, row, Some(&item.request))).await? {
            Entered::Yes(row) => row,
            Entered::Waits | Entered::Full(_) => return Ok(Begins::InPool),
        };
        let Some(notification) = row.holding().and_then(|held| held.notification) else {
            return Ok(Begins::Later);
        };
        let is_only_call = notification.tries == Counter::MIN;
        if is_only_call
            && self.now().since(item.asked_at) > JUST_ASKED
            && Box::pin(self.is_without_caller(item)).await
        {
            return Box::pin(self.dismiss_with_caller(at, row, item)).await;
        }
        // A process that was suspended meanwhile calls no more. Nothing is asked between this and the call.
        if self.now().since(notification.at) > CALLS_WITHIN {
            return Ok(Begins::Later);
        }
        if let Err(problem) = self.starts.check(&item.key, &item.state_machine) {
            let reason = format!("{} {problem}", item.state_machine);
            if is_only_call {
                // Nobody has called, so that nobody has to be asked.
                return self.fail(at, row, item, reason).await;
            }
            return self.refused_later(at, row, item, reason).await;
        }
        let (key, execution) = (&item.key, item.execution());
        let began = match self.ask_to_start(at, row, item).await {
            Ok(began) => began,
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, %execution, problem, "a start keeps the key, and is left to sweep");
                // A role that may not call gets its policy, or others have the key after a while.
                if matches!(error, Error::Denied { .. }) && self.is_past_grace(row) {
                    return self.refused_later(at, row, item, problem).await;
                }
                return Ok(Begins::Later);
            }
        };
        self.after_call(at, row, item, (began, is_only_call)).await
    }

    /// Nobody has called, and nobody is to: its caller has ended.
    async fn dismiss_with_caller(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begins, Error> {
        let purge_at = self.purge_start_at();
        let skipped = Settlement::Skipped { purge_at };
        let Some(free) = self.settle_with_grant(at, row, item, &skipped).await? else {
            return Ok(Begins::Later);
        };
        let (key, execution) = (&item.key, item.execution());
        tracing::info!(%key, %execution, "dismissed: its caller has ended");
        self.answer_if_over(key, &item.digest()).await;
        let reason = "its caller has ended".to_owned();
        Ok(Begins::Failed { reason, free })
    }

    /// What becomes of the start by the response to a call, which may be the only one for this grant.
    async fn after_call(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
        (began, is_only_call): (Begun, bool),
    ) -> Result<Begins, Error> {
        match began {
            Begun::Began => self.note_begun(item, Some(row)).await,
            Begun::NameInUse => match self.known(item).await? {
                Known::Ours => self.note_begun(item, Some(row)).await,
                Known::Another => {
                    let reason = not_started_reason(Known::Another, String::new());
                    self.fail(at, row, item, reason).await
                }
                // The service does not show it yet.
                Known::No => Ok(Begins::Later),
                Known::Unasked => {
                    let reason = "its name is in use".to_owned();
                    self.refused_later(at, row, item, reason).await
                }
            },
            // The only call for this grant: unless the name is in use already, nothing has begun.
            Begun::Refused(reason) if is_only_call => match self.known(item).await? {
                Known::Ours => self.note_begun(item, Some(row)).await,
                known => {
                    self.fail(at, row, item, not_started_reason(known, reason))
                        .await
                }
            },
            Begun::Refused(reason) => self.refused_later(at, row, item, reason).await,
        }
    }

    /// This call began nothing, and nobody calls again; whether an earlier one did shows later.
    async fn refused_later(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
        reason: String,
    ) -> Result<Begins, Error> {
        let (key, execution) = (&item.key, item.execution());
        tracing::error!(%key, %execution, reason, "refused, although an earlier call may have begun it");
        self.note_refusal(at, row).await?;
        Ok(Begins::Later)
    }

    async fn ask_to_start(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begun, Error> {
        let lease = self.lease_of(at.clone(), row.clone())?;
        let input = item
            .input
            .with(item.pass_lease, item.request.permits, &lease);
        let (machine, name) = (item.state_machine.clone(), item.name.clone());
        self.engine(Question::Start(machine, name, input)).await
    }

    /// What the service says of the execution that a start names.
    pub(crate) async fn known(&self, item: &StartItem) -> Result<Known, Error> {
        let execution = item.execution();
        let input = self.engine(Question::Input(execution.clone())).await;
        let input: Option<String> = match input {
            // It concerns this machine, and nobody else.
            Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%execution, problem, "whether it has begun could not be asked");
                return Ok(Known::Unasked);
            }
            input => input?,
        };
        Ok(match input {
            None => Known::No,
            Some(input) if item.input.is(&input, item.pass_lease) => Known::Ours,
            Some(_) => Known::Another,
        })
    }

    /// Writes down that the execution has begun, whatever became of the start meanwhile. If that fails, sweep does it. `row` has its
    /// grant, if that was read.
    pub(crate) async fn note_begun(
        &self,
        item: &StartItem,
        row: Option<&Row>,
    ) -> Result<Begins, Error> {
        let (key, execution) = (&item.key, item.execution());
        match self.write_begun(item).await {
            Ok(()) => {
                metrics::record_duration(Metric::WaitTime, self.now().since(item.asked_at));
                let granted_at = row.and_then(|row| Some(row.holding()?.acquired_at));
                let after = row.and_then(|row| row.previous.as_ref());
                let after = after.filter(|previous| previous.ended != Ended::Released);
                tracing::info!(
                    %key,
                    %execution,
                    fencing_token = row.map(|row| row.fencing_token.get()),
                    acquired_at = granted_at.map(|at| at.to_string()),
                    waited_ms = granted_at.map(|at| millis(at.since(item.asked_at))),
                    previous_holder = after.map(|previous| previous.holder.as_str()),
                    previous_token = after.map(|previous| previous.fencing_token.get()),
                    previous_ended = after.map(|previous| previous.ended.as_str()),
                    "started"
                );
            }
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::warn!(%key, %execution, problem, "that it has begun is left to sweep to write down");
            }
        }
        Ok(Begins::Begun)
    }

    /// Writes down that the execution has begun; an item that was deleted meanwhile is stored again.
    async fn write_begun(&self, item: &StartItem) -> Result<(), Error> {
        let begun = Settlement::Begun {
            purge_at: self.purge_start_at(),
        };
        if self.settle(item, &begun, None).await? == Settled::NotWaiting {
            let waits = StartItem {
                status: StartStatus::Waiting,
                ..item.clone()
            };
            let put = self
                .store()
                .put_start(&waits, None, None, None, self.limit());
            let _ = put.await?;
            let _ = self.settle(item, &begun, None).await?;
        }
        Ok(())
    }

    /// The item of a start answers those who ask again, and replaces need it, as long as its execution has the key: of one that
    /// has run for more than half as long as the item stays, it stays longer.
    pub(crate) async fn keep_item_of(&self, key: &Key, row: &Row) -> Result<(), Error> {
        let is_old = |held: &Holding| self.now().since(held.acquired_at) > ANSWERS_FOR / 2;
        if !row.request.is_start() || !row.holding().is_some_and(is_old) {
            return Ok(());
        }
        let item = self.store().start_item(key, &row.request, self.limit());
        match item.await? {
            Some(item) if item.status == StartStatus::Begun => self.write_begun(&item).await,
            _ => Ok(()),
        }
    }

    /// Takes the grant back and keeps the start as one that has failed, both or neither.
    pub(super) async fn fail(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
        reason: String,
    ) -> Result<Begins, Error> {
        let failed = Settlement::Failed(reason.clone());
        let Some(free) = self.settle_with_grant(at, row, item, &failed).await? else {
            return Ok(Begins::Later);
        };
        Box::pin(self.has_failed(item, &reason, Some(row))).await;
        Ok(Begins::Failed { reason, free })
    }

    /// Takes the grant of a start back and settles it, both or neither. None if one of the two has changed; the row, if it is free still.
    pub(crate) async fn settle_with_grant(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
        settlement: &Settlement,
    ) -> Result<Option<Option<Freed>>, Error> {
        let back = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: Some(row.version),
            row: self.taken_back(row),
            head: Head::Any,
        }));
        if self.settle(item, settlement, Some((at, &back))).await? != Settled::Done {
            return Ok(None);
        }
        let found = self.read_row(at).await?;
        if let Some(free) = found.as_ref().filter(|row| row.holding().is_none()) {
            return Ok(Some(Some(Freed::of_execution(at, free.clone(), row))));
        }
        if let Some(pool) = pool_of(row) {
            let rows = found.map(|found| (at.clone(), found));
            let rows = rows.into_iter().collect();
            Box::pin(self.serve_pool(&pool, rows)).await;
        }
        Ok(Some(None))
    }

    /// A start has failed: the task that waits for its result is notified. Where none does, it is counted, for an operator. If the task
    /// cannot be notified now, sweep does either.
    pub(crate) async fn has_failed(&self, item: &StartItem, reason: &str, row: Option<&Row>) {
        let (key, request) = (&item.key, item.digest());
        match Box::pin(self.check_result(key, &request, Caller::LeftToSweep)).await {
            Ok(Answered::NoTask) => log_failed(item, reason, row),
            Ok(Answered::Yes | Answered::Stopped | Answered::NotYet) => {}
            Err(error) => left_to_sweep(key, &error),
        }
    }

    /// As [`Store::settle_start`], again after a conflict.
    pub(crate) async fn settle(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
    ) -> Result<Settled, Error> {
        let mut backoff = self.conflict_backoff();
        loop {
            let settled = self
                .store()
                .settle_start(item, settlement, with, self.limit());
            match settled.await? {
                Settled::Conflict if backoff.wait().await => {}
                Settled::Conflict => return Err(self.contention_error()),
                settled => return Ok(settled),
            }
        }
    }

    /// Settles a start that leaves the queue, as long as the later one waits behind it, if one is given. False if not.
    pub(crate) async fn settle_in_queue(
        &self,
        mut row: Row,
        item: &StartItem,
        settlement: &Settlement,
        later: Option<&RequestDigest>,
    ) -> Result<bool, Error> {
        let (request, first) = (item.digest(), Address::first(&item.key));
        for _ in 0..TRIES {
            let Some(place) = place_in(&row, &request) else {
                return Ok(false);
            };
            let stays = |later| place_in(&row, later).is_none_or(|behind| behind < place);
            if later.is_some_and(stays) {
                return Ok(false);
            }
            let leave = Change::Leave(Leave {
                request: request.clone(),
                place,
                because: later
                    .cloned()
                    .map_or(LeaveReason::GaveUp, LeaveReason::Superseded),
            });
            match self
                .settle(item, settlement, Some((&first, &leave)))
                .await?
            {
                Settled::Done => return Ok(true),
                Settled::Refused(Stored::Row(newer)) => row = newer,
                _ => return Ok(false),
            }
        }
        Err(self.contention_error())
    }
}

/// Nobody was notified. `row` has the grant that was taken back, if there was one.
pub(crate) fn log_failed(item: &StartItem, reason: &str, row: Option<&Row>) {
    metrics::record(Metric::FailedStarts, 1);
    let (key, execution) = (&item.key, item.execution());
    let fencing_token = row.map(|row| row.fencing_token.get());
    tracing::error!(%key, %execution, fencing_token, reason, "a start has failed; its item keeps the request");
}

/// Why a start has failed, unless its name is in use, which says more.
pub(crate) fn not_started_reason(known: Known, otherwise: String) -> String {
    if known == Known::Another {
        return "its name is in use by an execution with another input: dismiss it, and start anew under another name"
            .to_owned();
    }
    otherwise
}
