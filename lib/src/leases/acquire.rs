//! Acquire: a key, or a permit of a semaphore; at once, or with a place in the queue (`queued`).

mod within;

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Leases, changed, corrupt, frozen_error, number, numbers, stopped_error},
    metrics::{self, Metric},
    outcomes::{Acquired, Contention, Granted, HeldLease, HeldUntil, Lease, Retry},
    request::Request,
    requests::{Acquire, Lifetime},
    row::{Row, Stored},
    store::{Address, Applied, Operations, Store},
    transition::{
        Change, Grant, GrantRefusal, Prove, TakeoverRule, TokenFloor, transition, why_not_granted,
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
    Taken(BTreeMap<u16, Stored>),
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
    /// A mutex takes one conditional write and no read. With [`Acquire::permits`] it takes one query and one write
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
        let grant = self.grant(&request, None, false)?;
        if let Some(permits) = request.permits {
            let key = request.key;
            return self.permit(key, permits, grant, request.reentrant).await;
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
            TriedPermit::Replayed(at, row) => self.replayed(at, row).await.map(Acquired::Granted),
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
        let rows = self.store().read_key(key, self.limit()).await?;
        let rows: BTreeMap<u16, Stored> = rows.into_iter().collect();
        if let Some((permit, row)) = already_granted(key, &rows, grant, reentrant)? {
            let key = key.clone();
            return Ok(TriedPermit::Replayed(Address { key, permit }, row));
        }
        let first = row_of(&rows, 0);
        let limit = number(first, permits, taken(&rows, grant));
        note_other_numbers(key, permits, &rows, grant);
        if let Some(first) = first {
            // It has its place, also while the key is frozen.
            let waits = first.waiting().contains(&grant.request.digest);
            if first.frozen.is_some() && !waits {
                return Err(frozen_error(key.clone(), first.clone()));
            }
            // Whoever waits comes first, or nobody is to be granted one.
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
        mut rows: BTreeMap<u16, Stored>,
        (permits, limit): (Permits, u16),
        grant: &Grant,
        reentrant: bool,
    ) -> Result<TriedPermit, Error> {
        for permit in permits_starting_at(start_of(&rows, grant), limit) {
            // Permits above the number count as well: a lowered number takes effect when enough of them have been
            // returned. Count again in each round, because another request may have been faster, and have asked for fewer.
            let limit = number(row_of(&rows, 0), permits, taken(&rows, grant));
            if taken(&rows, grant).count() >= usize::from(limit) {
                break;
            }
            let stored = rows.get(&permit).unwrap_or(&Stored::Absent);
            if permit >= limit || !is_takeable(stored, grant) {
                continue;
            }
            let key = key.clone();
            let at = Address { key, permit };
            match self.attempt_row(&at, grant, reentrant).await? {
                Ok(row) => return Ok(TriedPermit::Granted(at, row)),
                Err(GrantRefusal::Consumed) => return Err(Error::Consumed { key: at.key }),
                Err(GrantRefusal::Replayed(row)) => return Ok(TriedPermit::Replayed(at, row)),
                // Another request was faster, or the condition found an item that is not ours.
                Err(GrantRefusal::Held(row) | GrantRefusal::Frozen(row)) => {
                    rows.insert(permit, Stored::Row(row));
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
        rows: &BTreeMap<u16, Stored>,
        grant: &Grant,
    ) -> Result<Contention, Error> {
        let first = row_of(rows, 0);
        let mut out = Vec::new();
        let (mut frozen, mut foreign) = (None, None);
        for (permit, stored) in rows {
            match stored {
                Stored::Row(row) if row.frozen.is_some() => frozen = Some(row.clone()),
                Stored::Foreign(reason) => {
                    tracing::warn!(%key, permit, reason, "an item in the place of a permit is not leasehold's");
                    foreign = Some(*reason);
                }
                _ => {}
            }
            if let Stored::Row(row) = stored
                && is_taken(stored, grant)
            {
                out.push((row.free_at().unwrap_or(grant.now), *permit, row));
            }
        }
        out.sort_by_key(|(at, permit, _)| (*at, *permit));
        // So many have to end before one may be granted; with a limit of 0, all.
        let mut ends = 1..out.len();
        let ends = ends.find(|ends| {
            let left = out.iter().skip(*ends).map(|(_, _, row)| *row);
            left.clone().count() < usize::from(number(first, permits, left))
        });
        let makes_room = ends.unwrap_or(out.len()).saturating_sub(1);
        let limited = first.filter(|first| first.is_limited_to_none()).cloned();
        let frozen = frozen.or(limited);
        if out.is_empty()
            && frozen.is_none()
            && let Some(first) = first
            && let Some(head) = first.head()
        {
            // A place that nobody has is taken out of the queue; the caller asks again.
            self.who_waits(&key, first, head).await?;
        }
        match (out.into_iter().nth(makes_room), frozen, foreign) {
            (Some((_, permit, row)), ..) => {
                let mut contention = self
                    .contention(Address { key, permit }, row.clone(), &grant.request.holder)
                    .await?;
                if let Some(first) = first {
                    contention.held.waiting = first.waiting().len() as u64;
                }
                Ok(contention)
            }
            (None, Some(row), _) => Err(frozen_error(key, row)),
            (None, None, Some(reason)) => Err(corrupt(key, reason)),
            // All permits that were tried were taken and returned in the meantime.
            (None, None, None) => Err(Error::Unavailable {
                problem: format!("other requests took every free permit of {key} first"),
                source: None,
            }),
        }
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
            | GrantRefusal::Consumed
            | GrantRefusal::OtherKeys) => Ok(Err(refusal)),
            _ => Err(stopped_error(address.key.clone())),
        }
    }

    /// A lease that the holder has already. If it was to learn of it by a task token, it learns of it here: that is
    /// written first, because somebody may be about to take back what the holder was never told.
    async fn replayed(&self, address: Address, row: Row) -> Result<Granted, Error> {
        let untold = row.holding().filter(|held| held.notification.is_some());
        let row = match untold {
            None => row,
            Some(held) => {
                let change = Change::Prove(Prove {
                    lease_id: held.lease_id.clone(),
                    fencing_token: row.fencing_token,
                    now: self.now(),
                });
                match self.store().apply(&address, &change, self.limit()).await? {
                    Applied::Done { row, .. } => row,
                    Applied::Refused(_) => return Err(changed(&address.key)),
                }
            }
        };
        self.as_replay(address, row)
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
            GrantRefusal::Replayed(row) => {
                let replayed = self.replayed(address, row).await;
                replayed.map(Acquired::Granted)
            }
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

    /// Who holds the key. If nobody holds it, this is whoever waits first; to read its item takes one more request.
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
            // Whose policy covers the rows of its keys may not read starts: it asks again, and meets whoever began.
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

    /// The same for a row that nobody holds, and that stays closed.
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

/// A permit that may be granted now, if nobody waits.
pub(crate) fn free_permit(
    rows: &BTreeMap<u16, Stored>,
    permits: Permits,
    grant: &Grant,
) -> Option<u16> {
    let first = row_of(rows, 0);
    let limit = number(first, permits, taken(rows, grant));
    let is_free = |permit: &u16| is_takeable(rows.get(permit).unwrap_or(&Stored::Absent), grant);
    let is_full = taken(rows, grant).count() >= usize::from(limit);
    if is_full || first.is_some_and(|first| first.head().is_some()) {
        return None;
    }
    let mut all = permits_starting_at(start_of(rows, grant), limit);
    all.find(is_free)
}

/// Where to begin, so that several requests do not try the same. The first row is there before any other, because it has the queue.
fn start_of(rows: &BTreeMap<u16, Stored>, grant: &Grant) -> u64 {
    if rows.contains_key(&0) {
        grant.request.digest.number()
    } else {
        0
    }
}

/// The permit that the request has already, or its holder; an error if it had one.
pub(crate) fn already_granted(
    key: &Key,
    rows: &BTreeMap<u16, Stored>,
    grant: &Grant,
    reentrant: bool,
) -> Result<Option<(u16, Row)>, Error> {
    let request = &grant.request.digest;
    let mut already = Vec::new();
    for (permit, stored) in rows {
        match why_not_granted(stored.clone(), grant, reentrant) {
            GrantRefusal::Replayed(row) => already.push((*permit, row)),
            GrantRefusal::OtherKeys => return Err(other_keys()),
            _ => {}
        }
    }
    // The request's own permit before any other of its holder.
    already.sort_by_key(|(_, row)| row.request != *request);
    let remembers = |stored: &Stored| matches!(stored, Stored::Row(row) if row.remembers(request));
    match already.into_iter().next() {
        None if rows.values().any(remembers) => Err(Error::Consumed { key: key.clone() }),
        first => Ok(first),
    }
}

/// Whether this grant may be written over what is stored, with the tokens that it has.
fn is_takeable(stored: &Stored, grant: &Grant) -> bool {
    let floor = grant.tokens.floor();
    let mut all = [TokenFloor::Reached(floor), TokenFloor::Below(floor)].into_iter();
    all.any(|tokens| {
        let change = Change::Grant(grant.with_tokens(tokens));
        transition(stored, &change).is_some()
    })
}

/// The row of this permit, if it is ours.
fn row_of(rows: &BTreeMap<u16, Stored>, permit: u16) -> Option<&Row> {
    match rows.get(&permit) {
        Some(Stored::Row(row)) => Some(row),
        _ => None,
    }
}

/// The permits that this grant may not take over.
fn taken<'a>(rows: &'a BTreeMap<u16, Stored>, grant: &'a Grant) -> impl Iterator<Item = &'a Row> {
    let taken = rows.values().filter(|stored| is_taken(stored, grant));
    taken.filter_map(|stored| match stored {
        Stored::Row(row) => Some(row),
        _ => None,
    })
}

/// Counts a request for another number of permits than that of somebody who has one: one of the two is set up wrongly, or a new
/// number has just been deployed. An operator's limit stands in place of all of them.
pub(crate) fn note_other_numbers(
    key: &Key,
    asked: Permits,
    rows: &BTreeMap<u16, Stored>,
    grant: &Grant,
) {
    let is_limited = row_of(rows, 0).is_some_and(|row| row.limit.is_some());
    if let Some(other) = numbers(taken(rows, grant)).find(|other| *other != asked)
        && !is_limited
    {
        metrics::record(Metric::PermitsDiffer, 1);
        let (asked, other) = (asked.get(), other.get());
        tracing::warn!(%key, asked, other, "callers ask for different numbers of permits: the smallest counts");
    }
}

/// Whether a permit is held by somebody; false if this grant may take it over.
fn is_taken(stored: &Stored, grant: &Grant) -> bool {
    matches!(stored, Stored::Row(row) if !grant.over.allows(row) || row.head().is_some())
}

pub(crate) fn other_keys() -> Error {
    Error::invalid(
        "request_id",
        "this request was granted other keys: use another request_id for another set",
    )
}

/// The permits, starting with one that the request's number selects. Copies of a request try the same permit first;
/// different requests try different ones.
fn permits_starting_at(number: u64, permits: u16) -> impl Iterator<Item = u16> {
    let start = number % u64::from(permits);
    let start = u16::try_from(start).unwrap_or(0);
    (start..permits).chain(0..start)
}

/// Refuses a time for redrives where there are none.
pub(crate) fn check_keep(holder: &Holder, keep: KeepTime) -> Result<(), Error> {
    if holder.is_durable_execution() && keep != KeepTime::default() {
        let problem = "goes with Step Functions only: a durable execution is never redriven";
        return Err(Error::invalid("keep_seconds", problem));
    }
    Ok(())
}
