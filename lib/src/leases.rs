//! The type [`Leases`], and what its calls share. Acquire, extend, release and the other calls have files of their own. They know
//! rows only: who waits is notified by a [`Queue`](crate::Queue).

mod acquire;
mod extend;
mod follow;
mod hold;
mod inspect;
mod noted;
mod notification;
mod operate;
mod pool_view;
mod release;
mod rows;
mod sets;
mod view;
mod waiters;

pub use acquire::{AcquireOutcome, RetryPolicy};
pub use inspect::{HeldView, Inspected, Inspection, LeasePage, LeaseState, LeaseView, ViewUntil};
pub use operate::{
    AuditReason, ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, LimitOutcome,
    RaiseFloorOutcome, UnfreezeOutcome,
};
pub use sets::{AcquiredAll, ExtendOutcome, ExtendedAll, GrantedAll, LeaseSet, ReleasedAll};
pub use view::{FailedStart, KeyDetails, KeyView};
pub use waiters::WaiterView;

pub(crate) use acquire::check_keep;
pub(crate) use hold::Keeper;
pub use noted::LeaseTerms;
pub(crate) use notification::CALLS_WITHIN;
pub(crate) use operate::{Evictable, NotBegun, is_but_for_the_queue};
pub(crate) use pool_view::{check_pool, check_size_of_pool};
pub(crate) use release::{Freed, log_freed, pool_of};
pub(crate) use rows::{Candidate, Rows, Standing};

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock, Timestamp},
    error::{Cause, Error},
    executions::Executions,
    outcomes::{Deadline, GrantKind, Granted, Lease, LeaseStatus},
    pagination::Cursor,
    retry::ConflictBackoff,
    row::{Frozen, InPool, Row, State, Stored, Term},
    rules::RulesSource,
    settings::Settings,
    store::{Address, Connection, Entry, Store},
    values::{Caller, Counter, Key, RequestDigest, Ttl},
};

/// How many writes one call attempts while others keep changing the row.
pub(crate) const TRIES: usize = 8;

/// Step Functions shows what has happened within this time, even in a late response.
pub(crate) const LATEST_ANSWER: Duration = Duration::from_secs(30);

/// Sweep and the lists stop when less than this is left of their invocation.
const RESERVE: Duration = Duration::from_secs(1);

/// Leases in one table.
///
/// It holds no lease and runs nothing in the background. Every method may be called again with the same arguments;
/// each says what a repeated call does. Dropping a future leaves the outcome unknown, as a lost response does; the
/// same call, repeated, resolves it.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    pub(crate) rules: RulesSource,
    caller: Option<Caller>,
    executions: Executions,
    deadline: Option<Timestamp>,
}

impl std::fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

// Not derived: a derived impl would require `S: Clone`.
impl<S> Clone for Leases<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            settings: self.settings,
            rules: self.rules.clone(),
            caller: self.caller.clone(),
            executions: self.executions.clone(),
            deadline: self.deadline,
        }
    }
}

impl<S: Store> Leases<S> {
    /// The leases in `store`, with the machine's clock.
    #[must_use]
    pub fn new(store: S, settings: Settings) -> Self {
        Self {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            settings,
            rules: RulesSource::default(),
            caller: None,
            executions: Executions::default(),
            deadline: None,
        }
    }

    /// The same leases with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The same leases, with the name that STS gives for the credentials in use. The name is stored with every
    /// operator's act, next to the name that the operator gives. Lambda does not tell a function who invokes it.
    #[must_use]
    pub fn with_caller(self, caller: Option<Caller>) -> Self {
        Self { caller, ..self }
    }

    /// The same leases, of which only these executions may have one that lasts as long as they run.
    #[must_use]
    pub fn with_executions(self, executions: Executions) -> Self {
        Self { executions, ..self }
    }

    /// The same leases for one invocation: no request waits past `deadline`. A deadline that has already passed is
    /// ignored.
    #[must_use]
    pub fn for_call(&self, deadline: Timestamp) -> Self {
        Self {
            deadline: Some(deadline).filter(|at| *at > self.now()),
            ..self.clone()
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The time of these leases' clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns when `length` has passed on these leases' clock.
    pub async fn sleep(&self, length: Duration) {
        self.clock.sleep(length).await;
    }

    /// The settings, with the table's rules if these leases read them.
    pub(crate) fn settings(&self) -> Settings {
        self.rules.applied_to(self.settings)
    }

    pub(crate) const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    pub(crate) const fn executions(&self) -> &Executions {
        &self.executions
    }

    pub(crate) const fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// The timeout of a request that starts now.
    pub(crate) fn limit(&self) -> Duration {
        self.deadline.map_or(Connection::OPERATION, |at| {
            Connection::OPERATION.min(at.since(self.now()))
        })
    }

    /// Attempts at a write that conflicts with other writers, within the time of one request.
    pub(crate) fn conflict_backoff(&self) -> ConflictBackoff {
        ConflictBackoff::within(self.limit(), Arc::clone(&self.clock))
    }

    /// Whether the invocation's time is nearly over: what is not begun is left to a later call.
    pub(crate) fn is_nearly_over(&self) -> bool {
        self.deadline
            .is_some_and(|at| at.since(self.now()) < RESERVE)
    }

    /// One page of the held rows, with at most `most` entries, and where the next page starts.
    pub(crate) async fn page(
        &self,
        cursor: Cursor,
        most: u32,
    ) -> Result<(Vec<Entry>, Option<Cursor>), Error> {
        let page = self
            .store()
            .scan(cursor.segment(), cursor.after(), most, self.limit())
            .await?;
        Ok((page.entries, cursor.next(page.next)))
    }

    /// What the holder of `lease` should do now: continue, extend, or stop.
    #[must_use]
    pub fn status(&self, lease: &Lease) -> LeaseStatus {
        lease.status(self.now())
    }

    /// Others kept writing to the same rows. The writers conflict, not the holders.
    pub(crate) fn contention_error(&self) -> Error {
        Error::Throttled {
            action: "dynamodb:UpdateItem",
            resource: format!("table {}", self.store.name()),
            source: Cause::said("others kept writing to the same rows"),
        }
    }

    /// A lease that expired at this instant or earlier may be taken over now, because the clock margin has passed
    /// too.
    pub(crate) fn takeover_deadline(&self) -> Timestamp {
        self.now().minus(self.settings().clock_margin)
    }

    /// When DynamoDB may delete a row that is free from now on and has this token, or a floor to which the write lifts
    /// it. A row that is deleted starts again from the clock, so the row stays until the clock has passed its token.
    pub(crate) fn purge_at(&self, token: Counter) -> u64 {
        let token = token.max(self.settings().token_floor);
        let passed = Timestamp::from_millis(token.get());
        self.purge_after(passed.max(self.now()))
    }

    pub(crate) fn purge_after(&self, instant: Timestamp) -> u64 {
        let until = instant.plus(self.settings().retention);
        until.as_seconds_rounded_up().min(Row::NEVER)
    }

    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<(), Error> {
        let guard = self.settings().guard;
        if ttl.as_duration() > guard {
            return Ok(());
        }
        let millis = guard.as_millis();
        let problem = format!("must be longer than the guard of {millis} ms (LEASE_GUARD_MS)");
        Err(Error::invalid("ttl_seconds", problem))
    }

    /// The deadline in a handle; none for an execution lease.
    pub(crate) fn deadline_of(&self, term: Term) -> Option<Deadline> {
        match term {
            Term::Ttl { ttl, expires_at } => Some(Deadline {
                ttl,
                expires_at,
                safe_until: expires_at.minus(self.settings().guard),
            }),
            Term::Execution { .. } => None,
        }
    }

    /// From when on a response of Step Functions shows what had happened by this instant, as our clock has it.
    pub(crate) fn shows_after(&self, instant: Timestamp) -> Timestamp {
        let margin = self.settings().clock_margin;
        instant.plus(margin).plus(LATEST_ANSWER)
    }

    /// The grant that `row` carries, as acquire returns it.
    pub(crate) fn granted(&self, address: Address, row: Row) -> Result<Granted, Error> {
        let previous = row.grant_before();
        Ok(Granted {
            lease: self.lease_of(address, row)?,
            grant: GrantKind::after(previous.as_ref()),
            previous,
        })
    }

    /// The same for a request that has it already, or whose holder has it by another request.
    pub(crate) fn as_replay(
        &self,
        address: Address,
        row: Row,
        request: &RequestDigest,
    ) -> Result<Granted, Error> {
        let reentered = row.request != *request;
        let mut granted = self.granted(address, row)?;
        granted.lease.reentered = reentered;
        granted.grant = if reentered {
            GrantKind::Reentered
        } else {
            GrantKind::Replayed
        };
        Ok(granted)
    }

    /// The handle of the lease that `row` carries.
    pub(crate) fn lease_of(&self, address: Address, row: Row) -> Result<Lease, Error> {
        // Only a store that violates its contract has none.
        let State::Held(held) = row.state else {
            return Err(corrupt(address.key, "it is not held"));
        };
        Ok(Lease {
            key: address.key,
            holder: row.granted_to,
            lease_id: held.lease_id,
            fencing_token: row.fencing_token,
            version: row.version,
            deadline: self.deadline_of(held.term),
            acquired_at: held.acquired_at,
            permit: address.permit,
            reentered: false,
            pool: held.pool.as_deref().and_then(InPool::lease),
            metadata: held.metadata,
        })
    }
}

pub(crate) fn address_of(lease: &Lease) -> Address {
    Address {
        key: lease.key.clone(),
        permit: lease.permit,
    }
}

pub(crate) fn frozen_error(key: Key, row: Row) -> Error {
    Error::Frozen {
        key,
        record: match row.frozen {
            Some(Frozen::By(record)) => Some(Box::new(record)),
            Some(Frozen::ByHand) => None,
            None => row.limit.and_then(|limit| limit.by).map(Box::new),
        },
        whole_table: false,
    }
}

/// Nothing is granted in this table now.
pub(crate) fn stopped_error(key: Key) -> Error {
    Error::Frozen {
        key,
        record: None,
        whole_table: true,
    }
}

/// Somebody else wrote the row meanwhile: ask again.
pub(crate) fn changed(key: &Key) -> Error {
    Error::Unavailable {
        problem: format!("{key} changed during this request"),
        source: None,
    }
}

pub(crate) fn corrupt(key: Key, reason: &str) -> Error {
    Error::Corrupt {
        key,
        reason: reason.to_owned(),
    }
}

/// The row that is stored for `key`, if there is one; an error if the item is not ours.
pub(crate) fn own_row(key: &Key, stored: Stored) -> Result<Option<Row>, Error> {
    match stored {
        Stored::Row(row) => Ok(Some(row)),
        Stored::Absent => Ok(None),
        Stored::Foreign(reason) => Err(corrupt(key.clone(), reason)),
    }
}

#[cfg(test)]
mod tests;
