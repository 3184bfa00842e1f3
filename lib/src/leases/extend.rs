//! Extend: moves the deadline of a lease, or verifies an execution lease.

use std::time::Duration;

use crate::{
    error::Error,
    leases::{Freed, Leases, TRIES, address_of, corrupt, frozen_error, stopped_error},
    outcomes::{Ended, Extended, Lease},
    requests::ExtendOptions,
    row::{Row, Stored, Term, how_ended},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Extend, ExtendRefusal, Prove, TakeoverRule, owned, why_not_extended},
    values::Ttl,
};

impl<S: Store> Leases<S> {
    /// Moves the deadline to now plus the ttl, and verifies that the lease is still the caller's.
    ///
    /// This takes one conditional write. Extend never shortens a lease. If the call is repeated or delayed, or asks
    /// for less than what is left, the deadline stays as it is; a second write then shows observers that the holder
    /// is alive. A lease whose deadline has passed is revived if nobody was granted the key since and nobody waits
    /// for it. If somebody waits, the lease is lost; extend also ends it if the clock margin has passed.
    ///
    /// An execution lease has no deadline to move: the call only verifies that it is still held, by a write that raises the
    /// version, so that a look at the execution that is under way does not end what was just verified.
    ///
    /// # Errors
    /// [`Error::Lost`] if the key was granted to somebody else, or the lease was released, swept or deleted; [`Error::Expired`] and [`Error::Frozen`] instead of a revival;
    /// [`Error::Invalid`] for a ttl that is no longer than the guard; [`Error::Corrupt`]; and those of
    /// [`Store::write`]. After [`Error::Unavailable`] the deadline that the caller knows still holds.
    pub async fn extend(&self, lease: &Lease, options: ExtendOptions) -> Result<Extended, Error> {
        self.extend_or_end(lease, options, &mut None).await
    }

    /// The same; with the row, if this call ended the lease.
    pub(crate) async fn extend_or_end(
        &self,
        lease: &Lease,
        options: ExtendOptions,
        freed: &mut Option<Freed>,
    ) -> Result<Extended, Error> {
        self.follow_rules_if_possible().await?;
        let Some(ttl) = self.check_extend(lease, options)? else {
            return self.prove(lease).await;
        };
        let mut extend = self.extend_by(lease, ttl, options);
        let (key, address) = (lease.key.clone(), address_of(lease));
        let mut once_more = true;
        for _ in 0..TRIES {
            let refused = match self.write_extend(lease, &address, &extend).await? {
                Ok(extended) => return Ok(extended),
                Err(refused) => refused,
            };
            match why_not_extended(refused, &extend) {
                ExtendRefusal::Behind => extend.behind = true,
                ExtendRefusal::Longer(row) => match row.holding() {
                    // The version has to change, because an observer takes over a lease whose version has not
                    // changed. The clocks of one holder's calls may differ as well.
                    Some(held) if once_more => {
                        if let Term::Ttl { ttl, expires_at } = held.term {
                            (extend.expires_at, extend.ttl) = (expires_at, ttl);
                        }
                        once_more = false;
                    }
                    _ => {
                        let lease = self.moved(lease, row)?;
                        return Ok(Extended::Extended { lease });
                    }
                },
                ExtendRefusal::Expired if !options.require_unexpired => {
                    return Err(stopped_error(key));
                }
                ExtendRefusal::Expired => return Err(Error::Expired { key }),
                ExtendRefusal::Frozen(row) => return Err(frozen_error(key, row)),
                ExtendRefusal::Awaited(row) => self.lose_to_waiters(&address, &row, freed).await?,
                ExtendRefusal::Lost(row) => {
                    let how = how_ended(row.as_ref(), lease.fencing_token);
                    return Err(Error::Lost { key, how });
                }
                ExtendRefusal::Corrupt(reason) => return Err(corrupt(key, reason)),
            }
        }
        Err(self.contention_error())
    }

    fn extend_by(&self, lease: &Lease, ttl: Ttl, options: ExtendOptions) -> Extend {
        let now = self.now();
        Extend {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            ttl,
            now,
            expires_at: now.plus(ttl.as_duration()),
            // A revival is as good as a grant.
            require_unexpired: options.require_unexpired || self.settings().stopped,
            behind: false,
        }
    }

    /// Of a lease that has expired while others wait: the error that says so, unless the row has changed since it was read.
    async fn lose_to_waiters(
        &self,
        address: &Address,
        row: &Row,
        freed: &mut Option<Freed>,
    ) -> Result<(), Error> {
        // A holder whose clock is behind ours may still trust its lease. So end only a lease that anybody may take
        // over; then a waiter need not wait for sweep.
        if TakeoverRule::by_clock(self.takeover_deadline()).allows(row) {
            *freed = self.end_as_read(address, row, Ended::Expired).await?;
            if freed.is_none() {
                // Another extend of this lease may have been in time.
                return Ok(());
            }
        }
        let how = format!("it expired, and {} wait for it", row.waiting().len());
        let key = address.key.clone();
        Err(Error::Lost { key, how })
    }

    /// One write; what is stored, if it was refused.
    async fn write_extend(
        &self,
        lease: &Lease,
        address: &Address,
        extend: &Extend,
    ) -> Result<Result<Extended, Stored>, Error> {
        // A failed extend must return before the lease expires.
        let limit = match lease.remaining(self.now()) {
            Duration::ZERO => self.limit(),
            left => self.limit().min(left),
        };
        let change = Change::Extend(extend.clone());
        match self.store().apply(address, &change, limit).await? {
            Applied::Done {
                row,
                deadline_before,
            } => {
                let lease = self.moved(lease, row)?;
                let lapsed = deadline_before.filter(|deadline| *deadline <= extend.now);
                Ok(Ok(match lapsed {
                    None => Extended::Extended { lease },
                    Some(deadline) => Extended::Revived {
                        lease,
                        lapsed: extend.now.since(deadline),
                    },
                }))
            }
            Applied::Refused(stored) => Ok(Err(stored)),
        }
    }

    /// The handle after an extend of `lease`.
    fn moved(&self, lease: &Lease, row: Row) -> Result<Lease, Error> {
        Ok(Lease {
            reentered: lease.reentered,
            ..self.lease_of(address_of(lease), row)?
        })
    }

    /// The length that an extend asks for; none for an execution lease, which has no length.
    pub(crate) fn check_extend(
        &self,
        lease: &Lease,
        options: ExtendOptions,
    ) -> Result<Option<Ttl>, Error> {
        let Some(own) = lease.ttl() else {
            return match options.ttl {
                None => Ok(None),
                Some(_) => Err(Error::invalid(
                    "ttl_seconds",
                    "does not go with a lease with lifetime \"execution\", which has no deadline",
                )),
            };
        };
        let ttl = options.ttl.unwrap_or(own);
        self.check_ttl(ttl).map(|()| Some(ttl))
    }

    /// Verifies that an execution lease is still the caller's.
    async fn prove(&self, lease: &Lease) -> Result<Extended, Error> {
        let (key, address) = (lease.key.clone(), address_of(lease));
        let mut behind = false;
        loop {
            let change = Change::Prove(Prove {
                lease_id: lease.lease_id.clone(),
                fencing_token: lease.fencing_token,
                now: self.now(),
                behind,
            });
            let stored = match self.store().apply(&address, &change, self.limit()).await? {
                Applied::Done { row, .. } => {
                    let lease = self.moved(lease, row)?;
                    return Ok(Extended::Extended { lease });
                }
                Applied::Refused(Stored::Foreign(reason)) => return Err(corrupt(key, reason)),
                Applied::Refused(stored) => stored,
            };
            let row = stored.row();
            let held = row.and_then(|row| owned(row, &lease.lease_id, lease.fencing_token));
            if behind || held.is_none() {
                let how = how_ended(row, lease.fencing_token);
                return Err(Error::Lost { key, how });
            }
            // Another of its functions has proven it, by a clock that is ahead of this one.
            behind = true;
        }
    }
}

#[cfg(test)]
mod tests;
