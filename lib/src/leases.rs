//! The type [`Leases`], and extend. Acquire and release have files of their own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    clock::{Clock, SystemClock, Timestamp},
    error::{Cause, Error},
    metrics::{self, Metric},
    outcomes::GrantKind,
    outcomes::{Ended, Extended, Lease, LeaseStatus},
    pagination::Cursor,
    requests::ExtendOptions,
    row::{Frozen, Holding, Row, State},
    settings::Settings,
    store::{Address, Applied, Connection, Entry, Store},
    transition::{Change, Extend, ExtendRefusal, Take, TakeoverRule, why_not_extended},
    values::{Caller, Counter, Holder, Key, Ttl},
    workflows::Workflows,
};

/// How many writes one call attempts while others keep changing the row.
pub(crate) const TRIES: usize = 8;

/// Leases in one table.
///
/// It holds no lease and runs nothing in the background. Every method may be called again with the same arguments;
/// each says what a repeated call does. Dropping a future leaves the outcome unknown, as a lost response does; the
/// same call, repeated, resolves it.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    workflows: Option<Arc<dyn Workflows>>,
    settings: Settings,
    caller: Option<Caller>,
    deadline: Option<Timestamp>,
    /// Where a scheduled sweep stopped before it was done.
    swept_to: Arc<Mutex<Option<Cursor>>>,
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
            workflows: self.workflows.clone(),
            settings: self.settings,
            caller: self.caller.clone(),
            deadline: self.deadline,
            swept_to: Arc::clone(&self.swept_to),
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
            workflows: None,
            settings,
            caller: None,
            deadline: None,
            swept_to: Arc::default(),
        }
    }

    /// The same leases with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The same leases, with a way to notify waiters. Without one, the call that ends a grant leaves the notification
    /// of the next waiter to the table's stream and to sweep.
    #[must_use]
    pub fn with_workflows(self, workflows: Arc<dyn Workflows>) -> Self {
        Self {
            workflows: Some(workflows),
            ..self
        }
    }

    /// The same leases, with the name that STS gives for the credentials in use. The name is stored with every
    /// operator's act, next to the name that the operator gives. Lambda does not tell a function who invokes it.
    #[must_use]
    pub fn with_caller(self, caller: Option<Caller>) -> Self {
        Self { caller, ..self }
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

    pub(crate) fn workflows(&self) -> Option<&dyn Workflows> {
        self.workflows.as_deref()
    }

    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    pub(crate) const fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    pub(crate) fn swept_to(&self) -> MutexGuard<'_, Option<Cursor>> {
        self.swept_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time limit of a request that starts now.
    pub(crate) fn limit(&self) -> Duration {
        self.deadline.map_or(Connection::OPERATION, |at| {
            Connection::OPERATION.min(at.since(self.now()))
        })
    }

    /// One page of the held rows, with at most `most` entries, and where the next page starts.
    pub(crate) async fn page(
        &self,
        cursor: Cursor,
        most: u32,
    ) -> Result<(Vec<Entry>, Option<Cursor>), Error> {
        let page = self
            .store()
            .held(cursor.part(), cursor.after(), most, self.limit())
            .await?;
        Ok((page.entries, cursor.next(page.next)))
    }

    /// What the holder of `lease` should do now: continue, extend, or stop.
    #[must_use]
    pub fn status(&self, lease: &Lease) -> LeaseStatus {
        lease.status(self.now())
    }

    /// Moves the deadline to now plus the ttl, and proves that the lease is still the caller's.
    ///
    /// This takes one conditional write. Extend never shortens a lease. If the call is repeated or delayed, or asks
    /// for less than what is left, the deadline stays as it is; a second write then shows observers that the holder
    /// is alive. A lease whose deadline has passed is revived if nobody was granted the key since and nobody waits
    /// for it. If somebody waits, the lease is lost; extend also ends it if the clock margin has passed.
    ///
    /// For a waiter that was notified, the first extend is the grant.
    ///
    /// # Errors
    /// [`Error::Lost`] if the key was granted to somebody else, the lease was released, swept or deleted, or the
    /// reservation passed to another waiter; [`Error::Expired`] and [`Error::Frozen`] instead of a revival;
    /// [`Error::Invalid`] for a ttl that is no longer than the guard; [`Error::Corrupt`]; and those of
    /// [`Store::apply`]. After [`Error::Unavailable`] the deadline that the caller knows still holds.
    pub async fn extend(&self, lease: &Lease, options: ExtendOptions) -> Result<Extended, Error> {
        let ttl = options.ttl.unwrap_or(lease.ttl);
        self.check_ttl(ttl)?;
        let now = self.now();
        let mut extend = Extend {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            ttl,
            now,
            expires_at: now.plus(ttl.as_duration()),
            require_unexpired: options.require_unexpired,
        };
        let (key, address) = (lease.key.clone(), address_of(lease));
        let mut confirming = lease.looks_promised();
        let mut once_more = true;
        for _ in 0..TRIES {
            // A failed extend must return before the lease expires.
            let limit = match lease.remaining(self.now()) {
                Duration::ZERO => self.limit(),
                left => self.limit().min(left),
            };
            let change = if confirming {
                Change::Take(self.take(lease, &extend))
            } else {
                Change::Extend(extend.clone())
            };
            let refused = match self.store.apply(&address, &change, limit).await? {
                Applied::Done {
                    row,
                    deadline_before,
                } => {
                    if confirming {
                        let kind = GrantKind::after(row.previous.as_ref());
                        metrics::tell(Metric::of_grant(kind), 1);
                        self.retire(&key, &row).await;
                    }
                    let lease = self.handle(address, row)?;
                    return Ok(match deadline_before.filter(|deadline| *deadline <= now) {
                        None => Extended::Extended { lease },
                        Some(deadline) => Extended::Revived {
                            lease,
                            lapsed: now.since(deadline),
                        },
                    });
                }
                Applied::Refused(stored) => stored,
            };
            let floor = self.settings.token_floor;
            match why_not_extended(refused, &extend, confirming, floor) {
                ExtendRefusal::Unconfirmed => confirming = true,
                ExtendRefusal::Confirmed => confirming = false,
                ExtendRefusal::Taken(row) => {
                    let lease = self.handle(address, row)?;
                    return Ok(Extended::Extended { lease });
                }
                ExtendRefusal::Longer(row) => match row.holding() {
                    // The version has to change, because an observer takes over a lease whose version has not
                    // changed. The clocks of one holder's calls may differ as well.
                    Some(held) if once_more => {
                        (extend.expires_at, extend.ttl) = (held.expires_at, held.ttl);
                        once_more = false;
                    }
                    _ => {
                        let lease = self.handle(address, row)?;
                        return Ok(Extended::Extended { lease });
                    }
                },
                ExtendRefusal::Expired => return Err(Error::Expired { key }),
                ExtendRefusal::Frozen(row) => return Err(frozen(key, row)),
                ExtendRefusal::Awaited(row) => {
                    // A holder whose clock is behind ours may still trust its lease. So end only a lease that anybody
                    // may take over; then a waiter need not wait for sweep. If the row has changed since, another
                    // extend of this lease may have been in time.
                    let takeable = TakeoverRule::At(self.takeable()).holds(&row);
                    if !takeable
                        || self
                            .end_as_read(&address, &row, Ended::Expired)
                            .await?
                            .is_some()
                    {
                        return Err(Error::Lost { key });
                    }
                }
                ExtendRefusal::Lost => return Err(Error::Lost { key }),
                ExtendRefusal::Corrupt(reason) => return Err(corrupt(key, reason)),
            }
        }
        Err(self.never_still())
    }

    /// The first extend of a lease that was reserved for a waiter.
    fn take(&self, lease: &Lease, extend: &Extend) -> Take {
        Take {
            lease_id: extend.lease_id.clone(),
            fencing_token: extend.fencing_token,
            floor: self.settings.token_floor,
            holder: lease.holder.clone(),
            metadata: lease.metadata.clone(),
            ttl: extend.ttl,
            acquired_at: lease.acquired_at,
            now: extend.now,
            expires_at: extend.expires_at,
            sweep_after: extend.expires_at.plus(self.settings.clock_margin),
            require_unexpired: extend.require_unexpired,
        }
    }

    /// Others kept writing to the same rows. The writers conflict, not the holders.
    pub(crate) fn never_still(&self) -> Error {
        Error::Throttled {
            action: "dynamodb:UpdateItem",
            resource: format!("table {}", self.store.name()),
            source: Cause::said("others kept writing to the same rows"),
        }
    }

    /// A lease that expired at this instant or earlier may be taken over now, because the clock margin has passed
    /// too.
    pub(crate) fn takeable(&self) -> Timestamp {
        self.now().minus(self.settings.clock_margin)
    }

    pub(crate) fn purge_at(&self, now: Timestamp) -> u64 {
        now.plus(self.settings.retention).as_seconds_rounded_up()
    }

    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<(), Error> {
        let guard = self.settings.guard;
        if ttl.as_duration() > guard {
            return Ok(());
        }
        let millis = guard.as_millis();
        let problem = format!("must be longer than the guard of {millis} ms (LEASE_GUARD_MS)");
        Err(Error::invalid("ttl_seconds", problem))
    }

    /// The handle of the lease that `row` carries.
    pub(crate) fn handle(&self, address: Address, row: Row) -> Result<Lease, Error> {
        let (token, version) = (row.fencing_token, row.version);
        let holder = row.granted_to.clone();
        match row.state {
            State::Held(held) => Ok(self.handle_of(address, holder, token, version, held)),
            // Only a store that violates its contract gets here.
            State::Free { .. } => Err(corrupt(address.key, "it is not held")),
        }
    }

    fn handle_of(
        &self,
        address: Address,
        holder: Holder,
        fencing_token: Counter,
        version: Counter,
        held: Holding,
    ) -> Lease {
        Lease {
            key: address.key,
            holder,
            lease_id: held.lease_id,
            fencing_token,
            version,
            ttl: held.ttl,
            acquired_at: held.acquired_at,
            expires_at: held.expires_at,
            safe_until: held.expires_at.minus(self.settings.guard),
            permit: address.permit,
            metadata: held.metadata,
        }
    }
}

pub(crate) fn address_of(lease: &Lease) -> Address {
    Address {
        key: lease.key.clone(),
        permit: lease.permit,
    }
}

pub(crate) fn frozen(key: Key, row: Row) -> Error {
    Error::Frozen {
        key,
        record: match row.frozen {
            Some(Frozen::By(record)) => Some(Box::new(record)),
            _ => None,
        },
    }
}

pub(crate) fn corrupt(key: Key, reason: &str) -> Error {
    Error::Corrupt {
        key,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
