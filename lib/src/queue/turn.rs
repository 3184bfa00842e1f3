//! A start that has its turn: its execution begins, or the start fails and the turn passes on.

use std::time::Duration;

use super::place_in;
use crate::{
    clock::Timestamp,
    error::Error,
    leases::{LATEST_ANSWER, Leases, TRIES},
    metrics::{self, Metric},
    row::{Row, Stored},
    start::{StartItem, StartStatus},
    store::{Address, Applied, Settled, Settlement, Store},
    transition::{Change, Leave, LeaveReason, ReplaceIfUnchanged},
    values::{Counter, Key, RequestDigest},
    workflows::{Begun, Workflows},
};

/// What became of a start that has its turn.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub(crate) enum Begins {
    /// Its execution has begun.
    Begun,
    /// It never will. The row is free, if it could be read since.
    Failed {
        /// Why.
        reason: String,
        /// The row.
        free: Option<Row>,
    },
    /// It keeps its turn: it may have begun, or is to begin later, or somebody else sees to it.
    Later,
}

/// What the service says of the execution that a start names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It does not know it; the answer may be half a minute old.
    No,
    /// It has, or had, the start's input.
    Ours,
    /// It has another input.
    Another,
}

/// EventBridge and SQS deliver again for at most 14 days.
const ANSWERS_FOR: Duration = Duration::from_hours(15 * 24);

/// Whoever calls `StartExecution` does so within this time of its mark, and whoever stores an item gives it its place.
pub(crate) const CALLS_WITHIN: Duration = Duration::from_mins(1);

/// How long a signed request is good.
const SIGNATURE: Duration = Duration::from_mins(5);

/// From when on no call for this grant can begin the execution without the service showing it.
pub(crate) fn shows_all_calls(last_mark: Timestamp, margin: Duration) -> Timestamp {
    last_mark
        .plus(CALLS_WITHIN)
        .plus(SIGNATURE)
        .plus(margin)
        .plus(LATEST_ANSWER)
}

impl<S: Store> Leases<S> {
    /// Begins a start that has its turn and may have begun. Somebody may have called before, so that the row is marked
    /// first: from then on no earlier caller decides that it has failed.
    pub(crate) async fn begin_again(
        &self,
        workflows: &dyn Workflows,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begins, Error> {
        let Some(telling) = row.holding().and_then(|held| held.telling) else {
            return Ok(Begins::Later);
        };
        if self.starts().is_empty() {
            return Ok(Begins::Later);
        }
        if telling.refused_at.is_none() {
            return match self.mark(at, row, None).await? {
                Some(marked) => self.begin(workflows, at, &marked, item).await,
                None => Ok(Begins::Later),
            };
        }
        // Nobody calls any more, and a call that is under way has begun it by then, or never will.
        if self.now() < shows_all_calls(telling.at, self.settings().clock_margin) {
            return Ok(Begins::Later);
        }
        match self.known(workflows, item).await? {
            Known::Ours => self.has_begun(item).await,
            known => {
                let refused = "Step Functions refused it, or an operator ended it before it began";
                let reason = not_started_reason(known, refused.to_owned());
                self.fail(at, row, item, reason).await
            }
        }
    }

    /// Begins the start that `row` was just granted to, or marked for, by this process: one call of `StartExecution`.
    pub(crate) async fn begin(
        &self,
        workflows: &dyn Workflows,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begins, Error> {
        let Some(telling) = row.holding().and_then(|held| held.telling) else {
            return Ok(Begins::Later);
        };
        // A process that was suspended meanwhile calls no more.
        if self.now().since(telling.at) > CALLS_WITHIN {
            return Ok(Begins::Later);
        }
        let (key, execution) = (&item.key, item.execution());
        let began = match self.ask_to_start(workflows, at, row, item).await {
            Ok(began) => began,
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, %execution, problem, "a start keeps its turn, and is left to sweep");
                return Ok(Begins::Later);
            }
        };
        match began {
            Begun::Began => self.has_begun(item).await,
            Begun::NameInUse => match self.known(workflows, item).await? {
                Known::Ours => self.has_begun(item).await,
                Known::Another => {
                    let reason = not_started_reason(Known::Another, String::new());
                    self.fail(at, row, item, reason).await
                }
                // The service does not show it yet.
                Known::No => Ok(Begins::Later),
            },
            // The only call for this grant: unless the name is in use already, nothing has begun.
            Begun::Refused(reason) if telling.tries == Counter::MIN => {
                match self.known(workflows, item).await? {
                    Known::Ours => self.has_begun(item).await,
                    known => {
                        self.fail(at, row, item, not_started_reason(known, reason))
                            .await
                    }
                }
            }
            Begun::Refused(reason) => {
                tracing::error!(%key, %execution, reason, "refused, although an earlier call may have begun it");
                self.note_refusal(at, row).await?;
                Ok(Begins::Later)
            }
        }
    }

    async fn ask_to_start(
        &self,
        workflows: &dyn Workflows,
        at: &Address,
        row: &Row,
        item: &StartItem,
    ) -> Result<Begun, Error> {
        if let Err(problem) = self.starts().check(&item.key, &item.state_machine) {
            let reason = format!("{} {problem}", item.state_machine);
            return Ok(Begun::Refused(reason));
        }
        let lease = self.lease_of(at.clone(), row.clone())?;
        let input = item.input.with(item.pass_lease, item.permits, &lease);
        let what = (&item.state_machine, &item.name);
        workflows.start_execution(what, input, self.limit()).await
    }

    /// For an operator: nobody begins the start any more that `row` was granted to. A call may be under way, so that the key is
    /// free only when that shows: at the instant that is returned. None if no start is about to begin.
    pub(crate) async fn cancel_start(
        &self,
        at: &Address,
        row: &Row,
    ) -> Result<Option<Timestamp>, Error> {
        let telling = row.holding().and_then(|held| held.telling);
        let Some(telling) = telling.filter(|_| is_untold(row)) else {
            return Ok(None);
        };
        let (key, request, limit) = (&at.key, &row.request, self.limit());
        let item = self.store().start_item(key, request, limit).await?;
        let Some(item) = item.filter(|item| item.status == StartStatus::Waiting) else {
            return Ok(None);
        };
        if let Some(workflows) = self.workflows()
            && self.known(workflows, &item).await? == Known::Ours
        {
            self.has_begun(&item).await?;
            return Ok(None);
        }
        if telling.refused_at.is_none() && self.note_refusal(at, row).await?.is_none() {
            return Err(self.contention_error());
        }
        let margin = self.settings().clock_margin;
        Ok(Some(shows_all_calls(telling.at, margin)))
    }

    /// What the service says of the execution that a start names.
    pub(crate) async fn known(
        &self,
        workflows: &dyn Workflows,
        item: &StartItem,
    ) -> Result<Known, Error> {
        let execution = item.execution();
        let input = workflows.execution_input(&execution, self.limit()).await?;
        Ok(match input {
            None => Known::No,
            Some(input) if item.input.is(&input, item.pass_lease) => Known::Ours,
            Some(_) => Known::Another,
        })
    }

    /// How long the item of a start that is settled answers duplicates.
    pub(crate) fn purge_start_at(&self) -> u64 {
        let until = self.now().plus(ANSWERS_FOR);
        until.as_seconds_rounded_up().min(Row::NEVER)
    }

    /// Writes down that the execution has begun. If that fails, sweep does it.
    pub(crate) async fn has_begun(&self, item: &StartItem) -> Result<Begins, Error> {
        let (key, execution) = (&item.key, item.execution());
        let purge_at = self.purge_start_at();
        let begun = Settlement::Begun { purge_at };
        let settled = self.store().settle_start(item, &begun, None, self.limit());
        match settled.await {
            Ok(Settled::Done) => {
                metrics::record_duration(Metric::WaitTime, self.now().since(item.asked_at));
                tracing::info!(%key, %execution, "started");
            }
            Ok(_) => {}
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::warn!(%key, %execution, problem, "that it has begun is left to sweep to write down");
            }
        }
        Ok(Begins::Begun)
    }

    /// Takes the grant back and keeps the start as one that has failed, both or neither.
    async fn fail(
        &self,
        at: &Address,
        row: &Row,
        item: &StartItem,
        reason: String,
    ) -> Result<Begins, Error> {
        let back = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: Some(row.version),
            row: self.taken_back(row),
            head: None,
        }));
        let failed = Settlement::Failed(reason.clone());
        match self.settle(item, &failed, Some((at, &back))).await? {
            Settled::Done => {}
            _ => return Ok(Begins::Later),
        }
        has_failed(item, &reason);
        let free = self.read_row(at).await?;
        let free = free.filter(|row| row.holding().is_none());
        Ok(Begins::Failed { reason, free })
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

    /// Settles a start that leaves the queue, as long as the later one waits there, if one is given. False if not.
    pub(crate) async fn settle_in_queue(
        &self,
        mut row: Row,
        item: &StartItem,
        settlement: &Settlement,
        later: Option<&RequestDigest>,
    ) -> Result<bool, Error> {
        let (request, first) = (item.request(), Address::first(&item.key));
        for _ in 0..TRIES {
            let Some(place) = place_in(&row, &request) else {
                return Ok(false);
            };
            if later.is_some_and(|later| !row.waiting().contains(later)) {
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

    /// Removes the first in the queue, whose item does not wait any more. By the version, because it may have
    /// joined anew.
    pub(crate) async fn pass_over(
        &self,
        key: &Key,
        row: &Row,
        head: &RequestDigest,
    ) -> Result<Option<Row>, Error> {
        let next = Row {
            version: row.version.plus(1),
            ..row.clone()
        };
        let applied = self
            .replace(&Address::first(key), row, next, Some(head.clone()))
            .await?;
        Ok(match applied {
            Applied::Done { row: shorter, .. } => Some(shorter),
            Applied::Refused(_) => None,
        })
    }
}

pub(crate) fn has_failed(item: &StartItem, reason: &str) {
    metrics::record(Metric::FailedStarts, 1);
    let (key, execution) = (&item.key, item.execution());
    tracing::error!(%key, %execution, reason, "a start has failed; its item keeps the request");
}

/// Whether the row was granted to a start of which no look has shown yet that it began.
pub(crate) fn is_untold(row: &Row) -> bool {
    row.request.is_start() && row.holding().is_some_and(|held| held.telling.is_some())
}

/// Why a start has failed, unless its name is in use, which says more.
pub(crate) fn not_started_reason(known: Known, otherwise: String) -> String {
    if known == Known::Another {
        return "its name is in use by an execution with another input: dismiss it, and start anew under another name"
            .to_owned();
    }
    otherwise
}
