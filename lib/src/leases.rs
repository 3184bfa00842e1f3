//! The rules: extend and release; acquire is next door.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{Clock, SystemClock, Timestamp},
    error::{Cause, Error},
    outcomes::{Extended, Lease, ReleaseOutcome, Released, Standing},
    requests::ExtendOptions,
    row::{Frozen, Holding, Row, State},
    settings::Settings,
    store::{Address, Applied, Connection, Store},
    transition::{
        Change, Extend, ExtendRefusal, Release, ReleaseRefusal, why_not_extended, why_not_released,
    },
    values::{Counter, Holder, Key, Ttl},
};

/// Leases in one table.
///
/// It holds no lease and runs nothing in the background: what a call returns is all there is. Every
/// method may be called again with the same arguments; what that does is said with each. Dropping
/// a future leaves the outcome open, as a lost answer does, and is resolved the same way.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    deadline: Option<Timestamp>,
}

impl std::fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

// Not derived: that would ask `S` to be `Clone`.
impl<S> Clone for Leases<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            settings: self.settings,
            deadline: self.deadline,
        }
    }
}

impl<S: Store> Leases<S> {
    /// The leases in `store`, by the machine's clock.
    #[must_use]
    pub fn new(store: S, settings: Settings) -> Self {
        Self {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            settings,
            deadline: None,
        }
    }

    /// The same leases by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The same leases for one invocation: no request waits past `deadline`; one that has passed
    /// already is not believed.
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

    /// The time by these leases' clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Comes back when `length` has passed by these leases' clock.
    pub async fn sleep(&self, length: Duration) {
        self.clock.sleep(length).await;
    }

    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) const fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// How long a request may take that starts now.
    pub(crate) fn limit(&self) -> Duration {
        self.deadline.map_or(Connection::OPERATION, |at| {
            Connection::OPERATION.min(at.since(self.now()))
        })
    }

    /// What the holder of `lease` should do now: carry on, extend, or stop.
    #[must_use]
    pub fn standing(&self, lease: &Lease) -> Standing {
        lease.standing(self.now())
    }

    /// Moves the deadline to now and the ttl, and proves that the lease is still the caller's.
    ///
    /// One conditional write. It never shortens: repeated, delayed, or asked for less than is
    /// left, it answers with the deadline that stands, and takes a second write to show observers
    /// that the holder lives. A lease whose deadline has passed is revived if nobody was granted
    /// it since.
    ///
    /// # Errors
    /// [`Error::Lost`] once anybody else was granted it, or it was released, swept or deleted;
    /// [`Error::Expired`] and [`Error::Frozen`] instead of a revival; [`Error::Invalid`] for a ttl
    /// that the guard uses up; [`Error::Corrupt`]; and those of [`Store::apply`]. After
    /// [`Error::Unavailable`] the deadline that the caller knows still holds.
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
        let address = address_of(lease);
        let mut once_more = true;
        loop {
            // A holder must learn in time that it could not extend.
            let limit = match lease.remaining(self.now()) {
                Duration::ZERO => self.limit(),
                left => self.limit().min(left),
            };
            let change = Change::Extend(extend.clone());
            let refused = match self.store.apply(&address, &change, limit).await? {
                Applied::Done {
                    row,
                    deadline_before,
                } => {
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
            let key = address.key.clone();
            return match why_not_extended(refused, &extend) {
                ExtendRefusal::Longer(row) => match row.holding() {
                    // The version has to move: an observer takes a lease that stands still, and
                    // the clocks of one holder's calls may be apart as well.
                    Some(held) if once_more => {
                        (extend.expires_at, extend.ttl) = (held.expires_at, held.ttl);
                        once_more = false;
                        continue;
                    }
                    _ => Ok(Extended::Extended {
                        lease: self.handle(address, row)?,
                    }),
                },
                ExtendRefusal::Expired => Err(Error::Expired { key }),
                ExtendRefusal::Frozen(row) => Err(frozen(key, row)),
                ExtendRefusal::Lost => Err(Error::Lost { key }),
                ExtendRefusal::Corrupt(reason) => Err(corrupt(key, reason)),
            };
        }
    }

    /// Ends the lease, if it is still the caller's; an expired one too, for a clean hand-over.
    ///
    /// One conditional write. It never frees anybody else's lease, and may be repeated for ever.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::apply`]. A lease that somebody else was granted
    /// in the meantime is [`ReleaseOutcome::Lost`], not an error.
    pub async fn release(&self, lease: &Lease) -> Result<Released, Error> {
        let now = self.now();
        let change = Change::Release(Release {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            purge_at: self.purge_at(now),
        });
        let address = address_of(lease);
        let outcome = match self.store.apply(&address, &change, self.limit()).await? {
            Applied::Done { .. } => ReleaseOutcome::Released,
            Applied::Refused(stored) => match why_not_released(&stored, lease.fencing_token) {
                ReleaseRefusal::Already => ReleaseOutcome::AlreadyReleased,
                ReleaseRefusal::Lost => ReleaseOutcome::Lost,
                ReleaseRefusal::Corrupt(reason) => return Err(corrupt(address.key, reason)),
            },
        };
        Ok(Released {
            outcome,
            expired: lease.expires_at <= now,
        })
    }

    /// As [`Leases::release`], for a caller whose work must not end under somebody else's lease.
    ///
    /// # Errors
    /// As [`Leases::release`], and [`Error::Lost`] if somebody else was granted the key in the
    /// meantime.
    pub async fn release_strictly(&self, lease: &Lease) -> Result<Released, Error> {
        let released = self.release(lease).await?;
        match released.outcome {
            ReleaseOutcome::Lost => Err(Error::Lost {
                key: lease.key.clone(),
            }),
            _ => Ok(released),
        }
    }

    /// Others kept writing to the same rows: contention of writers, not of holders.
    pub(crate) fn never_still(&self) -> Error {
        Error::Throttled {
            action: "dynamodb:UpdateItem",
            table: self.store.name().to_owned(),
            source: Cause::said("others kept writing to the same rows"),
        }
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
            // Only a store that breaks its promises brings this about.
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

fn address_of(lease: &Lease) -> Address {
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
