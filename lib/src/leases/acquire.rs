//! Acquire: a key, or a permit of a semaphore; at once, or with a place in the queue (`queued`).

mod within;

use std::{borrow::Cow, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Candidate, Leases, Rows, changed, corrupt, frozen_error, stopped_error},
    outcomes::{Acquired, Contention, Granted, HeldLease, HeldUntil, Lease, Retry},
    request::Request,
    requests::{Acquire, Lifetime},
    row::{Row, Stored},
    store::{Address, Applied, Operations, Store},
    transition::{
        Change, Grant, GrantRefusal, Prove, TakeoverRule, TokenFloor, owned, why_not_granted,
    },
    values::{Holder, KeepTime, Key, KeysDigest, LeaseId, Metadata, Permits, RequestDigest, Ttl},
};

pub use within::{AcquireOutcome, RetryPolicy};

/// What became of the attempt to get a permit.
enum TriedPermit {
    /// This call was granted it.
    Granted(Address, Row),
    /// The request has it already, or, if it is re-entrant, its holder.
    Replayed(Address, Row),
    /// All are taken, somebody waits, or nobody is to be granted one. The rows as they were then.
    Taken(Rows),
}

/// How long an observer waits, in seconds: the holder's ttl, and a second more, or a thousandth. Operating systems
/// correct a clock by half a thousandth at most, so that two of them are apart by a thousandth.
const fn to_observe(ttl: Ttl) -> u64 {
    let ttl = ttl.as_millis().div_ceil(1000);
    ttl + ttl.div_ceil(1000)
}

impl<S: Store> Leases<S> {
    /// Grants the lease if nobody holds it, or if it may be taken over: it expired more than the clock margin ago or,
    /// with [`Acquire::observed_version`], its version is still the observed one.
    ///
    /// A mutex takes one conditional write and no read; one read before it, if the request is re-entrant. With [`Acquire::permits`] it takes one query and one write
    /// per permit tried. That is one write, unless other requests are faster. A full semaphore takes no write.
    ///
    /// Acquire is idempotent: a call with the same holder and request id returns the same lease, also past its
    /// deadline, as long as nobody ended it or took it over. After that it returns [`Error::Consumed`], never a
    /// second grant. One case can grant two permits: copies of a request for a semaphore overlap in time, and a
    /// permit becomes free in between. Nobody knows of one of the two; it ends with its ttl.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a ttl that is no longer than the guard, or for an observed version with permits;
    /// [`Error::Consumed`], [`Error::Frozen`], [`Error::Corrupt`]; and those of [`Store::write`]. Contention is
    /// [`Acquired::Held`].
    pub async fn acquire(&self, request: Acquire) -> Result<Acquired, Error> {
        self.follow_rules().await?;
        let of_execution = matches!(request.lifetime, Lifetime::Execution { .. });
        if request.observed_version.is_some() && of_execution {
            let problem = "does not go with lifetime \"execution\"";
            return Err(Error::invalid("observed_version", problem));
        }
        // Also with 1: a number that was lowered to 1 counts the other permits that are still held, and an
        // observation sees one row.
        if request.observed_version.is_some() && request.permits.is_some() {
            let problem = "goes with a mutex only, not with permits";
            return Err(Error::invalid("observed_version", problem));
        }
        if request.pool.is_some() {
            let problem = "goes with a wait in the queue only: with task_token or callback_id";
            return Err(Error::invalid("pool", problem));
        }
        let grant = self.grant(&request, None, false)?;
        if let Some(permits) = request.permits {
            let key = request.key;
            return self.permit(key, permits, grant, request.reentrant).await;
        }
        if request.reentrant {
            // Its holder may have any permit of the key.
            let rows = self.read_rows(&request.key).await?;
            if let Some((at, row)) = rows.already_granted(&request.key, &grant, true)? {
                let replayed = self.replayed(at, row, &grant).await;
                return replayed.map(Acquired::Granted);
            }
        }
        let address = Address::first(&request.key);
        match self.attempt(&address, &grant, request.reentrant).await? {
            Ok(granted) => Ok(Acquired::Granted(granted)),
            Err(refusal) => self.refused(address, refusal, &grant).await,
        }
    }

    /// One of a semaphore's permits: the one that the request already has, if any; otherwise a free one.
    async fn permit(
        &self,
        key: Key,
        permits: Permits,
        grant: Grant,
        reentrant: bool,
    ) -> Result<Acquired, Error> {
        match self.try_permit(&key, permits, &grant, reentrant).await? {
            TriedPermit::Granted(at, row) => self.granted(at, row).map(Acquired::Granted),
            TriedPermit::Replayed(at, row) => {
                let replayed = self.replayed(at, row, &grant).await;
                replayed.map(Acquired::Granted)
            }
            TriedPermit::Taken(rows) => {
                let taken = self.all_taken(key, permits, &rows, &grant);
                taken.await.map(Acquired::Held)
            }
        }
    }

    /// The same, as far as it concerns the rows: one read of all of them, and one write, unless other requests are faster.
    async fn try_permit(
        &self,
        key: &Key,
        permits: Permits,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<TriedPermit, Error> {
        let rows = Rows::all(self.store().read_key(key, self.limit()).await?);
        if let Some((at, row)) = rows.already_granted(key, grant, reentrant)? {
            return Ok(TriedPermit::Replayed(at, row));
        }
        let limit = rows.number(permits, Candidate::Asks(grant));
        rows.note_other_numbers(key, permits, grant);
        if let Some(first) = rows.first() {
            // It has its place, also while the key is frozen.
            let waits = first.waiting().contains(&grant.request.digest);
            if first.frozen.is_some() && !waits {
                return Err(frozen_error(key.clone(), first.clone()));
            }
            // Waiters come first, or nobody is to be granted one.
            if waits || first.head().is_some() || limit == 0 {
                return Ok(TriedPermit::Taken(rows));
            }
        }
        let permits = (permits, limit);
        self.try_each_permit(key, rows, permits, grant, reentrant)
            .await
    }

    /// A free permit, of which there were so many, if one is left.
    async fn try_each_permit(
        &self,
        key: &Key,
        mut rows: Rows,
        (permits, limit): (Permits, u16),
        grant: &Grant,
        reentrant: bool,
    ) -> Result<TriedPermit, Error> {
        let asks = Candidate::Asks(grant);
        for permit in rows.in_order(limit, asks) {
            // Count again in each round, because another request may have been faster, and have asked for fewer.
            if rows.room(permits, asks) == 0 {
                break;
            }
            let is_one = permit < rows.number(permits, asks);
            if !is_one || !asks.may_have(permit, rows.stored(permit)) {
                continue;
            }
            let key = key.clone();
            let at = Address { key, permit };
            match self.attempt_row(&at, grant, reentrant).await? {
                Ok(row) => return Ok(TriedPermit::Granted(at, row)),
                Err(GrantRefusal::Consumed) => return Err(Error::Consumed { key: at.key }),
                Err(GrantRefusal::Replayed(row) | GrantRefusal::Reentered(row)) => {
                    return Ok(TriedPermit::Replayed(at, row));
                }
                Err(GrantRefusal::Differs(field)) => return Err(differs(field)),
                // Another request was faster, or the condition found an item that is not ours.
                Err(GrantRefusal::Held(row) | GrantRefusal::Frozen(row)) => {
                    rows = rows.with(permit, row);
                }
                Err(_) => {}
            }
        }
        Ok(TriedPermit::Taken(rows))
    }

    /// The response if no permit could be had. It names the permit whose end makes room for this request, if the held
    /// permits end in the order of their deadlines.
    pub(crate) async fn all_taken(
        &self,
        key: Key,
        permits: Permits,
        rows: &Rows,
        grant: &Grant,
    ) -> Result<Contention, Error> {
        let foreign = rows.foreign().inspect(|(permit, reason)| {
            tracing::warn!(%key, permit, reason, "an item in the place of a permit is not leasehold's");
        });
        let foreign = foreign.last();
        if let Some((permit, row)) = rows.makes_room(permits, grant) {
            let (at, row) = (Address { key, permit }, row.clone());
            let contention = self.contention(at, row, &grant.request.holder).await;
            return contention.map(|mut contention| {
                contention.held.waiting = rows.waiting().len() as u64;
                contention
            });
        }
        Err(match (rows.frozen(), foreign) {
            (Some(row), _) => frozen_error(key, row.clone()),
            (None, Some((_, reason))) => corrupt(key, reason),
            // All permits that were tried were taken and returned in the meantime.
            (None, None) => Error::Unavailable {
                problem: format!("other requests took every free permit of {key} first"),
                source: None,
            },
        })
    }

    /// The grant for `asked`, starting now.
    pub(crate) fn grant<K>(
        &self,
        asked: &Acquire<K>,
        keys: Option<KeysDigest>,
        by_token: bool,
    ) -> Result<Grant, Error> {
        // The deadline counts from before the request is sent.
        let now = self.now();
        let margin = self.settings().clock_margin;
        let sweep_after = match asked.lifetime {
            Lifetime::Ttl(ttl) => {
                self.check_ttl(ttl)?;
                now.plus(ttl.as_duration()).plus(margin)
            }
            Lifetime::Execution { keep } => {
                let problem = |problem| Error::invalid("holder", problem);
                self.executions().check(&asked.holder).map_err(problem)?;
                check_keep(&asked.holder, keep)?;
                now.plus(self.settings().look)
            }
        };
        Ok(Grant {
            request: Request {
                digest: RequestDigest::of(&asked.holder, &asked.request_id),
                holder: asked.holder.clone(),
                keys,
                lifetime: asked.lifetime,
                permits: asked.permits,
                pool: asked.pool.clone(),
                at_least: asked.at_least,
                metadata: asked.metadata.clone(),
                instead_of: None,
            },
            lease_id: LeaseId::random(),
            now,
            over: TakeoverRule {
                passed: now.minus(margin),
                unchanged: asked.observed_version,
            },
            tokens: TokenFloor::Reached(self.settings().token_floor),
            sweep_after,
            by_token,
        })
    }

    /// As [`Leases::attempt_row`], for a caller that needs the lease only.
    pub(crate) async fn attempt(
        &self,
        address: &Address,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<Result<Granted, GrantRefusal>, Error> {
        match self.attempt_row(address, grant, reentrant).await? {
            Ok(row) => self.granted(address.clone(), row).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// One conditional write. The caller handles every refusal; a replay is one.
    pub(crate) async fn attempt_row(
        &self,
        address: &Address,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<Result<Row, GrantRefusal>, Error> {
        if self.settings().stopped {
            return self.already_granted(address, grant, reentrant).await;
        }
        let mut grant = Cow::Borrowed(grant);
        for _ in 0..FLOOR_TRIES {
            let change = Change::Grant(Grant::clone(&grant));
            let stored = match self.store().apply(address, &change, self.limit()).await? {
                Applied::Done { row, .. } => return Ok(Ok(row)),
                Applied::Refused(stored) => stored,
            };
            match why_not_granted(stored, &grant, reentrant) {
                GrantRefusal::Grantable(tokens) => {
                    grant = Cow::Owned(grant.with_tokens(tokens));
                }
                refusal => return Ok(Err(refusal)),
            }
        }
        Err(Error::Unavailable {
            problem: format!(
                "the token of {} crossed the floor again and again during this request",
                address.key
            ),
            source: None,
        })
    }

    /// What an attempt returns while the grants of the table are stopped: what the request has, or had, already. It
    /// writes nothing.
    async fn already_granted(
        &self,
        address: &Address,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<Result<Row, GrantRefusal>, Error> {
        let stored = self.store().read_row(address, self.limit()).await?;
        match why_not_granted(stored, grant, reentrant) {
            refusal @ (GrantRefusal::Replayed(_)
            | GrantRefusal::Reentered(_)
            | GrantRefusal::Differs(_)
            | GrantRefusal::Consumed
            | GrantRefusal::OtherKeys) => Ok(Err(refusal)),
            _ => Err(stopped_error(address.key.clone())),
        }
    }

    /// A lease that the holder has already. If it was to learn of it by a task token, it learns of it here: that is
    /// written first, because somebody may be about to take back what the holder was never notified of.
    async fn replayed(&self, address: Address, row: Row, asked: &Grant) -> Result<Granted, Error> {
        if row.waits_in_pool() {
            return Err(changed(&address.key));
        }
        let untold = row.holding().filter(|held| held.notification.is_some());
        let row = match untold {
            None => row,
            Some(held) => {
                let now = self.now();
                let change = Change::Prove(Prove {
                    lease_id: held.lease_id.clone(),
                    fencing_token: row.fencing_token,
                    now,
                    behind: held.is_written_after(now),
                });
                match self.store().apply(&address, &change, self.limit()).await? {
                    Applied::Done { row, .. } => row,
                    // A copy of this request has proven it.
                    Applied::Refused(Stored::Row(proven))
                        if owned(&proven, &held.lease_id, row.fencing_token)
                            .is_some_and(|held| held.notification.is_none()) =>
                    {
                        proven
                    }
                    Applied::Refused(_) => return Err(changed(&address.key)),
                }
            }
        };
        self.as_replay(address, row, &asked.request.digest)
    }

    /// A refusal as a response or an error.
    async fn refused(
        &self,
        address: Address,
        refusal: GrantRefusal,
        asked: &Grant,
    ) -> Result<Acquired, Error> {
        let key = address.key.clone();
        match refusal {
            GrantRefusal::Replayed(row) | GrantRefusal::Reentered(row) => {
                let replayed = self.replayed(address, row, asked).await;
                replayed.map(Acquired::Granted)
            }
            GrantRefusal::Differs(field) => Err(differs(field)),
            GrantRefusal::Held(row) => self
                .contention(address, row, &asked.request.holder)
                .await
                .map(Acquired::Held),
            GrantRefusal::OtherKeys => Err(other_keys()),
            GrantRefusal::Grantable(_) => {
                Err(corrupt(key, "it can be granted, but the table refused it"))
            }
            GrantRefusal::Consumed => Err(Error::Consumed { key }),
            GrantRefusal::Frozen(row) => Err(frozen_error(key, row)),
            GrantRefusal::Corrupt(reason) => Err(corrupt(key, reason)),
        }
    }

    /// Who holds the key. If nobody holds it, this is the first waiter; to read its item takes one more request.
    pub(crate) async fn contention(
        &self,
        address: Address,
        row: Row,
        asker: &Holder,
    ) -> Result<Contention, Error> {
        if row.holding().is_some() {
            return self.held(address, &row, asker);
        }
        let Some(head) = row.head() else {
            if row.is_limited_to_none() {
                return Err(frozen_error(address.key, row));
            }
            let Some(opens_at) = row.opens_at else {
                return Err(changed(&address.key));
            };
            return Ok(self.closed(address, &row, opens_at, asker));
        };
        let Some((holder, metadata)) = self.who_waits(&address.key, &row, head).await? else {
            return Err(changed(&address.key));
        };
        let lease = Lease {
            key: address.key,
            holder,
            lease_id: LeaseId::random(),
            fencing_token: row.fencing_token,
            version: row.version,
            deadline: None,
            acquired_at: self.now(),
            permit: address.permit,
            reentered: false,
            pool: None,
            metadata,
        };
        Ok(self.contention_for(lease, &row, asker))
    }

    /// Who waits first, by its item. A place whose item does not wait, or without one, is nobody's: a late copy of a call left it.
    /// It is taken out of the queue, and the caller asks again.
    async fn who_waits(
        &self,
        key: &Key,
        row: &Row,
        head: &RequestDigest,
    ) -> Result<Option<(Holder, Metadata)>, Error> {
        match self.waiter(key, head).await {
            Ok(Some(waiter)) => {
                let request = waiter.request();
                Ok(Some((request.holder.clone(), request.metadata.clone())))
            }
            Ok(None) => self.pass_over(key, row, head).await.map(|_| None),
            // Whose policy covers the rows of its keys may not read starts: it asks again, and meets the one that began.
            Err(Error::Denied { .. }) if head.is_start() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same for a row that somebody holds.
    pub(crate) fn held(
        &self,
        address: Address,
        row: &Row,
        asker: &Holder,
    ) -> Result<Contention, Error> {
        let lease = self.lease_of(address, row.clone())?;
        Ok(self.contention_for(lease, row, asker))
    }

    /// The same for a row that nobody holds, and that is in a cooldown.
    fn closed(
        &self,
        address: Address,
        row: &Row,
        opens_at: Timestamp,
        asker: &Holder,
    ) -> Contention {
        let retry_at = self.retry_at(opens_at);
        let wait = retry_at.since(self.now()).as_millis().div_ceil(1000);
        Contention {
            held: HeldLease {
                key: address.key,
                holder: row.granted_to.clone(),
                fencing_token: row.fencing_token,
                version: row.version,
                until: HeldUntil::Closed { opens_at },
                metadata: Metadata::default(),
                waiting: row.waiting().len() as u64,
                permit: address.permit,
                by_you: row.granted_to == *asker,
            },
            retry: Some(Retry {
                retry_at,
                wait_seconds: u64::try_from(wait).unwrap_or(u64::MAX).max(1),
            }),
        }
    }

    /// The first instant at which somebody else is granted what this instant ends.
    fn retry_at(&self, at: Timestamp) -> Timestamp {
        at.plus(self.settings().clock_margin)
            .plus(Duration::from_millis(1))
    }

    fn contention_for(&self, lease: Lease, row: &Row, asker: &Holder) -> Contention {
        let by_you = lease.holder == *asker;
        let retry = lease.deadline.map(|deadline| Retry {
            retry_at: self.retry_at(
                row.opens_at
                    .map_or(deadline.expires_at, |at| at.max(deadline.expires_at)),
            ),
            wait_seconds: to_observe(deadline.ttl),
        });
        Contention {
            held: HeldLease {
                key: lease.key,
                holder: lease.holder,
                fencing_token: lease.fencing_token,
                version: lease.version,
                until: HeldUntil::of(lease.deadline),
                metadata: lease.metadata,
                waiting: row.waiting().len() as u64,
                permit: lease.permit,
                by_you,
            },
            retry,
        }
    }
}

impl Acquired {
    /// The grant.
    ///
    /// # Errors
    /// [`Error::Held`] if somebody else holds it.
    pub fn granted(self) -> Result<Granted, Error> {
        match self {
            Self::Granted(granted) => Ok(granted),
            Self::Held(contention) => Err(Error::Held(Box::new(contention))),
        }
    }
}

/// How many attempts adapt a write to the row. One is enough, unless somebody changes the floor meanwhile.
const FLOOR_TRIES: usize = 4;

pub(crate) fn other_keys() -> Error {
    Error::invalid(
        "request_id",
        "this request was granted other keys: use another request_id for another set",
    )
}

/// Its holder has a lease of the key, and asks for more than that by this field.
pub(crate) fn differs(field: &str) -> Error {
    let problem = "is another than that of the lease that this holder has of the key already: use the same, or a key of its own";
    Error::invalid(field, problem)
}

/// Refuses a time for redrives where there are none.
pub(crate) fn check_keep(holder: &Holder, keep: KeepTime) -> Result<(), Error> {
    if holder.is_durable_execution() && keep != KeepTime::default() {
        let problem = "goes with Step Functions only: a durable execution is never redriven";
        return Err(Error::invalid("keep_seconds", problem));
    }
    Ok(())
}
