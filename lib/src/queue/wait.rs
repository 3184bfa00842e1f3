//! Acquire with a place in the queue.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Queue, maintenance::its_place_is_lost, serve::Told};
use crate::{
    error::{Error, TOKEN_USED},
    leases::{
        Rows, TRIES, TriedPermit, address_of, changed, check_keep, corrupt, frozen_error,
        other_keys, stopped_error,
    },
    metrics::{self, Metric},
    outcomes::Granted,
    requests::{Acquire, Lifetime, Wait},
    row::{Row, Stored},
    store::{Address, Joined, Operations, Store, foreign_item},
    transition::{Grant, GrantRefusal, Join, JoinRefusal, JoinRule, why_not_joined},
    values::{Counter, Key, LeaseId, RequestDigest},
    waiter::Waiter,
};

/// The result of an acquire that may wait in the queue. The lease itself is sent to the task token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("not" = {"anyOf": [{"required": ["lease"]}, {"required": ["leases"]}]})))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Queued {
    /// It was granted, and the lease was sent to the task token.
    Acquired,
    /// It waits in the queue; the lease will be sent to the task token.
    Queued {
        /// When it came, in milliseconds since the epoch. A label: the queue has an order of its own.
        ticket: u64,
    },
}

impl<S: Store> Queue<S> {
    /// Grants an execution lease, or puts the request in the queue. Either way the response goes to
    /// [`Wait::task_token`], in the form in which [`Leases::acquire`](crate::Leases::acquire) returns it, and nothing has to confirm it. While
    /// anybody waits, nobody else is granted the key.
    ///
    /// Joining the queue is one transaction, and is tried first. A free key takes one more request and a call to Step
    /// Functions.
    ///
    /// With [`Acquire::permits`] it waits for whichever permit comes free, in the same queue. That takes one query more, before
    /// the queue is joined, and another query and a read if the queue was empty.
    ///
    /// A repeated call with the same holder and request id keeps its place in the queue, and its token replaces the
    /// old one. The waiting time counts from the first call. If it was granted the key already, its token is told so. If
    /// the future is dropped, the request may or may not be in the queue: repeat it.
    ///
    /// A grant of which its holder was never told, because its token is dead, is taken back, and the next waiter gets the
    /// key.
    ///
    /// # Errors
    /// [`Error::Invalid`] with a ttl or an observed version, or for a holder that is not an execution;
    /// [`Error::QueueFull`]; and those of
    /// [`Leases::acquire`](crate::Leases::acquire). None of them is sent to the token. If the call to the token failed
    /// ([`Error::Unavailable`]) the lease may have been granted: repeat the request.
    pub async fn acquire_queued(&self, request: Acquire, queue: Wait) -> Result<Queued, Error> {
        check(&request)?;
        self.follow_rules().await?;
        let grant = self.grant(&request, None, true)?;
        let (key, reentrant) = (request.key, request.reentrant);
        let permits = request.permits;
        let latest = queue.latest;
        let waiter = self.waiter(&grant, queue);
        let stopped = self.settings().stopped;
        if stopped && permits.is_none() && self.has_place(&key, &waiter).await? {
            // It stays, whatever stops new grants.
            return self.still_queued(&key, &waiter, latest).await;
        }
        // A holder does not wait for its own lease. Any other refusal is handled below, after a check of the queue.
        if permits.is_none() && (reentrant || stopped) {
            let first = Address::first(&key);
            match self.attempt(&first, &grant, reentrant).await? {
                Ok(granted) => return self.tell_at_once(granted, &waiter).await,
                Err(GrantRefusal::Replayed(row)) => {
                    return self.tell_of_its_lease(&first, row, &waiter).await;
                }
                Err(_) => {}
            }
        }
        if permits.is_none() && stopped {
            // A spent request; nobody may join either.
            return Err(Error::Consumed { key });
        }
        let mut join = Join {
            request: grant.request.digest.clone(),
            rule: JoinRule::IfTaken(grant.over),
            cap: self.room(latest),
        };
        let mut backoff = self.conflict_backoff();
        for _ in 0..TRIES {
            join.rule = match self
                .permit_or_queue((&key, &grant), &waiter, reentrant, latest)
                .await?
            {
                Permitted::Done(done) => return Ok(done),
                Permitted::Waits { rule } => rule,
            };
            let (cap, limit) = (join.cap, self.limit());
            let stood = match self.store().join(&key, &join, &waiter, limit).await? {
                Joined::Done => {
                    if latest {
                        Box::pin(self.only_newest(&key, None, &waiter)).await?;
                    } else if join.rule == JoinRule::Always {
                        // A permit that came free before this one waited was offered to nobody.
                        self.serve_key(&key).await;
                    }
                    return Ok(queued(&waiter));
                }
                Joined::Superseded(by) => return Err(Error::Superseded { key, by }),
                Joined::ForeignItem => return Err(foreign_item(&key, &waiter.request.digest)),
                Joined::SupersededByLaterCall => return Err(asked_again()),
                Joined::Conflict => {
                    if backoff.wait().await {
                        continue;
                    }
                    return Err(self.contention_error());
                }
                Joined::Refused(stood) => stood,
            };
            let done = match why_not_joined(stood, &join, &grant) {
                JoinRefusal::Queued => Some(self.still_queued(&key, &waiter, latest).await?),
                JoinRefusal::Full(_) => {
                    let waiting = usize::from(cap);
                    return Err(Error::QueueFull { key, waiting });
                }
                JoinRefusal::Grantable if permits.is_some() => None,
                JoinRefusal::Grantable => {
                    match self.attempt(&Address::first(&key), &grant, false).await? {
                        Ok(granted) => Some(self.tell_at_once(granted, &waiter).await?),
                        Err(refusal) => self.judge(&key, refusal, &waiter).await?,
                    }
                }
                JoinRefusal::Other(refusal) => self.judge(&key, refusal, &waiter).await?,
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(Error::Unavailable {
            problem: format!("{key} changed again and again during this request"),
            source: None,
        })
    }

    /// Whether a waiter for the mutex is in the queue.
    async fn has_place(&self, key: &Key, waiter: &Waiter) -> Result<bool, Error> {
        let rows = self.read_rows_for(key, None).await?;
        Ok(rows.waiting().contains(&waiter.request.digest))
    }

    /// A permit, if one may be had and the request asks for one. A permit has a row of its own: whoever may have one need not
    /// wait, and a copy of a request that has one, or had, may not. Of the mutex its only row says so.
    async fn permit_or_queue(
        &self,
        (key, grant): (&Key, &Grant),
        waiter: &Waiter,
        reentrant: bool,
        latest: bool,
    ) -> Result<Permitted, Error> {
        let Some(permits) = waiter.request.permits else {
            let rule = JoinRule::IfTaken(grant.over);
            return Ok(Permitted::Waits { rule });
        };
        let done = match self.try_permit(key, permits, grant, reentrant).await? {
            TriedPermit::Granted(at, row) => {
                let granted = self.granted(at, row)?;
                self.tell_at_once(granted, waiter).await
            }
            TriedPermit::Replayed(at, row) => self.tell_of_its_lease(&at, row, waiter).await,
            TriedPermit::Taken(rows) => {
                let queue = queue_in(key, &rows)?;
                let waits = queue.contains(&waiter.request.digest);
                if !waits && self.settings().stopped {
                    return Err(stopped_error(key.clone()));
                }
                if !waits {
                    let rule = if queue.is_empty() {
                        JoinRule::Always
                    } else {
                        JoinRule::BehindOthers
                    };
                    return Ok(Permitted::Waits { rule });
                }
                // Whoever grants it a permit just now takes it out of the queue, where it must not come back.
                self.still_queued(key, waiter, latest).await
            }
        };
        done.map(Permitted::Done)
    }

    /// Tells this call's token of a grant that was just made.
    async fn tell_at_once(&self, granted: Granted, waiter: &Waiter) -> Result<Queued, Error> {
        metrics::record(Metric::of_grant(granted.grant), 1);
        let at = &address_of(&granted.lease);
        let lease_id = granted.lease.lease_id.clone();
        let told = self.send_grant(&waiter.task_token, granted).await;
        if matches!(told, Told::Refused | Told::Denied(_)) {
            // Nobody was told, and nobody else has tried: the grant is taken back, and somebody else may have it.
            let row = self.read_row(at).await?;
            if let Some(row) = row.filter(|row| is_untold(row, &lease_id)) {
                let freed = self.take_back(at, &row).await?;
                self.serve(freed).await;
            }
        }
        answer(told)
    }

    /// A repeated call of a request that waits: its token replaces the old one.
    async fn still_queued(
        &self,
        key: &Key,
        waiter: &Waiter,
        only_newest: bool,
    ) -> Result<Queued, Error> {
        let latest = self.store().update_task_token(key, waiter, self.limit());
        let latest = latest.await?;
        check_latest(&latest, waiter)?;
        // Read the row after the new token is stored. A call that ended this wait earlier has told the old token, or
        // nobody.
        let rows = self.read_rows_for(key, waiter.request.permits).await?;
        if rows.waiting().contains(&waiter.request.digest) {
            if only_newest {
                Box::pin(self.only_newest(key, Some(rows), waiter)).await?;
            } else {
                self.serve_rows(key, rows).await;
            }
            return Ok(queued(&latest));
        }
        if let Some((permit, row)) = rows.held_for(&waiter.request.digest) {
            // It was granted the key in the meantime.
            let key = key.clone();
            let (at, row) = (Address { key, permit }, row.clone());
            return self.tell_of_its_lease(&at, row, waiter).await;
        }
        if rows.remember(&waiter.request.digest) {
            return Err(Error::Consumed { key: key.clone() });
        }
        // This token must not wait again, because another call may be about to end its wait.
        Err(its_place_is_lost(key))
    }

    /// Sends away who waits before this waiter, which has its place. Where the key is free, whoever freed it may have found
    /// one of those first.
    async fn only_newest(
        &self,
        key: &Key,
        rows: Option<Rows>,
        waiter: &Waiter,
    ) -> Result<(), Error> {
        let rows = match rows {
            Some(rows) => rows,
            None => self.read_rows_for(key, waiter.request.permits).await?,
        };
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let newest = (key, &waiter.request.digest, &waiter.request.holder);
        let first = self.supersede(first.clone(), newest).await?;
        self.serve_rows(key, rows.with(0, first)).await;
        Ok(())
    }

    /// Handles a refused grant of a request that would wait.
    async fn judge(
        &self,
        key: &Key,
        refusal: GrantRefusal,
        waiter: &Waiter,
    ) -> Result<Option<Queued>, Error> {
        let key = key.clone();
        match refusal {
            GrantRefusal::Replayed(row) => {
                let at = Address::first(&key);
                let told = self.tell_of_its_lease(&at, row, waiter).await;
                told.map(Some)
            }
            GrantRefusal::OtherKeys => Err(other_keys()),
            GrantRefusal::Consumed => Err(Error::Consumed { key }),
            GrantRefusal::Frozen(row) => Err(frozen_error(key, row)),
            GrantRefusal::Corrupt(reason) => Err(corrupt(key, reason)),
            GrantRefusal::Held(_) | GrantRefusal::Grantable(_) => Ok(None),
        }
    }

    /// Tells this call's token of the lease that its holder has already.
    async fn tell_of_its_lease(
        &self,
        at: &Address,
        row: Row,
        waiter: &Waiter,
    ) -> Result<Queued, Error> {
        let (mut told_by, key) = (None, &at.key);
        let row = if row.holding().is_none_or(|held| held.telling.is_none()) {
            row
        } else if row.request == waiter.request.digest && is_from_the_queue(&row) {
            // Its item first, then the row, then the token: so that whoever tells it later uses this token.
            let latest = self.store().update_task_token(key, waiter, self.limit());
            let latest = latest.await?;
            check_latest(&latest, waiter)?;
            let marked = self.mark(at, &row, Some(latest.ticket)).await?;
            told_by = Some(latest);
            marked.ok_or_else(|| changed(key))?
        } else {
            // No item shows whether a later call has another token. So a refusal says nothing, and is not noted: a look at
            // its history takes the lease back when no task waits any more.
            let ticket = row.holding().and_then(|held| held.telling?.ticket);
            let marked = self.mark(at, &row, ticket).await?;
            marked.ok_or_else(|| changed(key))?
        };
        let granted: Granted = self.as_replay(at.clone(), row.clone())?;
        metrics::record(Metric::of_grant(granted.grant), 1);
        let told = self.send_grant(&waiter.task_token, granted).await;
        match (&told, told_by) {
            (Told::Accepted, Some(item)) => self.forget_waiter(key, &item).await,
            (Told::Refused, Some(item)) if self.note_refusal(at, &row).await?.is_some() => {
                self.forget_waiter(key, &item).await;
            }
            _ => {}
        }
        if waiter.request.holder.is_durable_execution() && matches!(told, Told::Refused) {
            // A callback belongs to one request, and this one has the lease: its callback was told before, or nobody waits for it any
            // more, and then nobody hears this answer.
            return Ok(Queued::Acquired);
        }
        answer(told)
    }

    fn waiter(&self, grant: &Grant, queue: Wait) -> Waiter {
        let deadline = grant.now.plus(queue.wait.as_duration());
        Waiter {
            request: grant.request.clone(),
            task_token: queue.task_token,
            ticket: grant.now.as_millis(),
            asked_at: grant.now,
            deadline,
            purge_at: self.purge_after(deadline),
            superseded_by: None,
        }
    }
}

fn check(request: &Acquire) -> Result<(), Error> {
    let not_queued = |field| {
        Err(Error::invalid(
            field,
            "does not go with a wait in the queue",
        ))
    };
    if request.observed_version.is_some() {
        return not_queued("observed_version");
    }
    match request.lifetime {
        Lifetime::Execution { keep } => check_keep(&request.holder, keep),
        Lifetime::Ttl(_) => Err(Error::invalid(
            "ttl_seconds",
            "does not go with a wait in the queue: that lease lasts as long as the execution",
        )),
    }
}

/// What came of the attempt to get a permit.
enum Permitted {
    Done(Queued),
    /// It has to wait.
    Waits {
        rule: JoinRule,
    },
}

/// The queue, in the rows of a semaphore of which every permit is taken.
fn queue_in<'a>(key: &Key, rows: &'a BTreeMap<u16, Stored>) -> Result<&'a [RequestDigest], Error> {
    match rows.get(&0) {
        Some(Stored::Row(first)) => Ok(first.waiting()),
        Some(Stored::Foreign(reason)) => Err(corrupt(key.clone(), reason)),
        // An earlier version granted other permits before the first, or it was deleted while fewer were granted.
        Some(Stored::Absent) | None => Err(changed(key)),
    }
}

/// Whether the row was granted to its holder while it waited in the queue, so that an item has its task token.
fn is_from_the_queue(row: &Row) -> bool {
    let telling = row.holding().and_then(|held| held.telling);
    telling.is_some_and(|told| told.ticket.is_some())
}

/// Whether the row has this very grant, and nobody but its writer has told its holder.
fn is_untold(row: &Row, lease_id: &LeaseId) -> bool {
    row.holding().is_some_and(|held| {
        held.lease_id == *lease_id && held.telling.is_some_and(|told| told.tries == Counter::MIN)
    })
}

/// The response of a call whose own token was told of its lease.
fn answer(told: Told) -> Result<Queued, Error> {
    if let Told::Accepted = told {
        return Ok(Queued::Acquired);
    }
    Err(told.into_error().unwrap_or_else(|| Error::Unavailable {
        problem: format!(
            "nobody waits with this token: its task or callback has ended, or timed out{TOKEN_USED}"
        ),
        source: None,
    }))
}

/// Fails if a later call with another token has replaced this one: then nobody expects an answer to this token. If
/// only its clock makes that call the later one, repeating this call makes this one the latest.
fn check_latest(latest: &Waiter, waiter: &Waiter) -> Result<(), Error> {
    if latest.task_token == waiter.task_token {
        return Ok(());
    }
    Err(asked_again())
}

fn asked_again() -> Error {
    Error::Unavailable {
        problem: "the same request was repeated with another token".to_owned(),
        source: None,
    }
}

fn queued(waiter: &Waiter) -> Queued {
    let ticket = waiter.ticket;
    Queued::Queued { ticket }
}

#[cfg(test)]
mod tests;
