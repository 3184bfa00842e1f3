//! Acquire with a place in the queue.

use serde::Serialize;

use super::{
    Queue,
    ask::{Ask, AskItem, Asked, WhileHeld},
    maintenance::its_place_is_lost,
    pool::Entered,
    serve::Told,
};
use crate::{
    clock::Timestamp,
    error::{Error, TOKEN_USED},
    leases::{CALLS_WITHIN, Rows, Standing, TRIES, changed, check_keep, check_pool},
    metrics::{self, Metric},
    outcomes::Granted,
    request::{InsteadOf, Request},
    requests::{Acquire, Lifetime, Wait},
    row::Row,
    store::{Address, Operations, Renewed, Store},
    transition::{Grant, JoinRule},
    values::Key,
    waiter::TokenItem,
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
    /// It takes a read, and one write: a place in the queue, in one transaction; or a grant, and a read of its own item, and
    /// then a call to Step Functions.
    ///
    /// With [`Acquire::permits`] it waits for whichever permit becomes free, in the same queue. The read is a query then, and if
    /// the queue was empty, another query and a read follow.
    ///
    /// A repeated call with the same holder and request id keeps its place in the queue, and its token replaces the
    /// old one. The waiting time counts from the first call. If it was granted the key already, its token receives that grant. If
    /// the future is dropped, the request may or may not be in the queue: repeat it.
    ///
    /// A grant of which its holder was never notified, because its token is dead, is taken back, and the next waiter gets the
    /// key.
    ///
    /// # Errors
    /// [`Error::Invalid`] with a ttl or an observed version, or for a holder that is not an execution;
    /// [`Error::QueueFull`]; and those of [`Leases::acquire`](crate::Leases::acquire). None of them is sent to the token. If the call to the token failed
    /// ([`Error::Unavailable`]) the lease may have been granted: repeat the request.
    pub async fn acquire_queued(&self, request: Acquire, queue: Wait) -> Result<Queued, Error> {
        check(&request)?;
        self.follow_rules().await?;
        let grant = self.grant(&request, None, true)?;
        let key = request.key;
        let waiter = self.item_of_wait(&grant, queue);
        let ask = Ask {
            key: &key,
            grant: &grant,
            item: AskItem::Token(&waiter),
            while_held: WhileHeld::Waits,
            cap: self.room(waiter.request.instead_of.is_some()),
            reentrant: request.reentrant,
            waits: Some(&waiter.request.holder),
        };
        match Box::pin(self.ask(ask)).await? {
            Asked::Granted(at, row) if row.waits_in_pool() => {
                let (told, freed) = self.tell_first(&at, row, &waiter).await?;
                self.serve(freed).await;
                answer(told, &waiter)
            }
            Asked::Granted(at, row) => {
                self.gives_up_if_sent_away(&at, &row).await?;
                self.tell_at_once(&at, row, &waiter).await
            }
            Asked::Has(at, row) => {
                // The copy that it was granted to may have died before it read the note.
                if row.request == waiter.request.digest && is_untold_at_once(&row) {
                    self.gives_up_if_sent_away(&at, &row).await?;
                }
                Box::pin(self.tell_of_its_lease(&at, row, &waiter)).await
            }
            Asked::InQueue => Box::pin(self.still_queued(&key, &waiter)).await,
            Asked::Joined(row, rule) => self.has_joined(&key, (row, rule), &waiter).await,
            Asked::Had => Err(Error::Consumed { key }),
            Asked::Refused(error) => {
                self.was_not_sent_away(&key, &waiter.request.digest).await?;
                Err(error)
            }
            Asked::Taken(..) | Asked::Found(_) => Err(changed(&key)),
        }
    }

    /// A copy of a request that was superseded by a later one, while a permit that has a row of its own was granted to it, gives it up again:
    /// nobody was notified.
    async fn gives_up_if_sent_away(&self, at: &Address, row: &Row) -> Result<(), Error> {
        if at.permit == 0 {
            return Ok(());
        }
        let sent_away = self.was_not_sent_away(&at.key, &row.request).await;
        if let Err(Error::Superseded { .. }) = sent_away {
            let freed = self.take_back(at, row).await?;
            self.serve(freed).await;
        }
        sent_away
    }

    /// It has joined the queue just now.
    async fn has_joined(
        &self,
        key: &Key,
        (row, rule): (Row, JoinRule),
        waiter: &TokenItem,
    ) -> Result<Queued, Error> {
        if waiter.request.instead_of.is_some() {
            let rows = self.read_rows_for(key, waiter.request.permits).await?;
            self.has_its_place(key, rows, waiter).await?;
        } else if rule == JoinRule::Always {
            // A permit that came free before this one waited was offered to nobody.
            self.serve_key(key).await;
        } else if waiter.request.permits.is_none()
            && row.holding().is_none()
            && !row.is_closed(self.takeover_deadline())
        {
            // The one that freed it may have died before it came to the queue.
            self.serve_rows(key, Rows::only_first(row)).await;
        }
        Ok(queued(waiter))
    }

    /// It waits in the queue of these rows. Where the key is free, the one that freed it may have found somebody before it, or nobody.
    async fn has_its_place(&self, key: &Key, rows: Rows, waiter: &TokenItem) -> Result<(), Error> {
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let newest = (key, &waiter.request);
        let first = Box::pin(self.take_their_place(first.clone(), newest)).await?;
        if let Some(first) = first {
            self.serve_rows(key, rows.with(0, first)).await;
        }
        Ok(())
    }

    /// Notifies this call's token of a grant that was just made.
    async fn tell_at_once(
        &self,
        at: &Address,
        row: Row,
        waiter: &TokenItem,
    ) -> Result<Queued, Error> {
        let granted = self.granted(at.clone(), row.clone())?;
        let since = Some(Timestamp::from_millis(waiter.ticket));
        let told = self.send_grant(&waiter.task_token, (&row, granted), since);
        let told = told.await;
        if matches!(told, Told::Refused | Told::Denied(_)) {
            // Nobody was notified, and nobody else has tried: the grant is taken back, and somebody else may have it.
            let freed = self.take_back(at, &row).await?;
            self.serve(freed).await;
        }
        answer(told, waiter)
    }

    /// A repeated call of a request that waits: its token replaces the old one.
    async fn still_queued(&self, key: &Key, waiter: &TokenItem) -> Result<Queued, Error> {
        let latest = Box::pin(self.renew_token(key, waiter)).await?;
        // Read the row after the new token is stored. A call that ended this wait earlier has notified the old token, or
        // nobody.
        let rows = self.read_rows_for(key, waiter.request.permits).await?;
        match rows.standing(&waiter.request.digest) {
            Standing::InQueue(_) => {
                self.has_its_place(key, rows, waiter).await?;
                Ok(queued(&latest))
            }
            // It was granted the key in the meantime.
            Standing::Has(permit, row) => {
                let key = key.clone();
                let (at, row) = (Address { key, permit }, row.clone());
                self.tell_of_its_lease(&at, row, waiter).await
            }
            Standing::Had => Err(Error::Consumed { key: key.clone() }),
            // This token must not wait again, because another call may be about to end its wait.
            Standing::Unknown => Err(its_place_is_lost(key)),
        }
    }

    /// Stores this call's token in the item of its request, in the place of another attempt's, if its task waits. The item as it is then.
    async fn renew_token(&self, key: &Key, waiter: &TokenItem) -> Result<TokenItem, Error> {
        let mut found = self.token_item(key, &waiter.request.digest).await?;
        for _ in 0..TRIES {
            if let Some(item) = &found {
                if let Some(by) = item.superseded_by.clone() {
                    let key = key.clone();
                    return Err(Error::Superseded { key, by });
                }
                if item.task_token == waiter.task_token {
                    return Ok(item.clone());
                }
            }
            let read = found.as_ref().map(|item| &item.task_token);
            let whose = (&waiter.request.holder, &waiter.task_token);
            self.is_the_one_that_waits(whose, read).await?;
            let stored = self
                .store()
                .update_task_token(key, (waiter, read), self.limit());
            match stored.await? {
                Renewed::Done(item) => return Ok(item),
                Renewed::Found(latest) => found = latest,
            }
        }
        Err(self.contention_error())
    }

    /// Notifies this call's token of the lease that its holder has already.
    async fn tell_of_its_lease(
        &self,
        at: &Address,
        row: Row,
        waiter: &TokenItem,
    ) -> Result<Queued, Error> {
        let (mut told_by, key) = (None, &at.key);
        let row = if row.holding().is_none_or(|held| held.notification.is_none()) {
            row
        } else if row.request == waiter.request.digest && is_from_the_queue(&row) {
            // Its item first, then the row, then the token: so that a later notification uses this token.
            let latest = Box::pin(self.renew_token(key, waiter)).await?;
            let marked = if row.waits_in_pool() {
                match Box::pin(self.enter(at, &row, Some(&latest.request))).await? {
                    Entered::Yes(row) => Some(*row),
                    Entered::Waits | Entered::Full(_) => return Ok(queued(&latest)),
                }
            } else {
                self.mark(at, &row, Some(latest.ticket)).await?
            };
            told_by = Some(latest);
            marked.ok_or_else(|| changed(key))?
        } else {
            // No item shows whether a later call has another token. So a refusal says nothing, and is not noted: a look at
            // its history takes the lease back when no task waits any more, or those that do wait since a redrive.
            let marked = self.mark_for_another(at, &row).await?;
            marked.ok_or_else(|| changed(key))?
        };
        if row.waits_in_pool() {
            // By another request of its holder, which is in the queue of its pool.
            return Err(changed(key));
        }
        let granted: Granted = self.as_replay(at.clone(), row.clone(), &waiter.request.digest)?;
        metrics::record(Metric::of_grant(granted.grant), 1);
        let told = self.send_grant(&waiter.task_token, (&row, granted), None);
        let told = told.await;
        match (&told, told_by) {
            (Told::Accepted, Some(item)) => self.forget_waiter(key, &item).await,
            (Told::Refused, Some(item)) if self.note_refusal(at, &row).await?.is_some() => {
                self.forget_waiter(key, &item).await;
            }
            _ => {}
        }
        if waiter.request.holder.is_durable_execution() && matches!(told, Told::Refused) {
            // A callback belongs to one request, and this one has the lease: its callback was answered before, or nobody waits for it any
            // more, and then nobody hears this answer.
            return Ok(Queued::Acquired);
        }
        answer(told, waiter)
    }

    /// A process that was suspended since its grant or its mark notifies nobody any more: a look may have taken the lease back. None does so
    /// once it was shown that the holder knows.
    pub(super) fn is_in_time(&self, marked: &Row) -> bool {
        let notification = marked.holding().and_then(|held| held.notification);
        notification.is_none_or(|told| self.now().since(told.at) <= CALLS_WITHIN)
    }

    fn item_of_wait(&self, grant: &Grant, queue: Wait) -> TokenItem {
        let deadline = grant.now.plus(queue.wait.as_duration());
        TokenItem {
            request: Request {
                instead_of: queue.latest.then_some(InsteadOf::Waiters),
                ..grant.request.clone()
            },
            task_token: queue.task_token,
            ticket: grant.now.as_millis(),
            deadline,
            purge_at: self.purge_after(deadline),
            superseded_by: None,
        }
    }
}

fn check(request: &Acquire) -> Result<(), Error> {
    check_pool(request.pool.as_ref())?;
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

/// Whether the row was granted to its holder while it waited in the queue, so that an item has its task token.
fn is_from_the_queue(row: &Row) -> bool {
    let notification = row.holding().and_then(|held| held.notification);
    notification.is_some_and(|told| told.ticket.is_some())
}

/// Whether the row was granted to its holder at once, and may not have been notified.
fn is_untold_at_once(row: &Row) -> bool {
    let notification = row.holding().and_then(|held| held.notification);
    notification.is_some_and(|told| told.ticket.is_none())
}

/// The response of a call whose own token was notified of its lease.
fn answer(told: Told, waiter: &TokenItem) -> Result<Queued, Error> {
    match told {
        Told::Accepted => return Ok(Queued::Acquired),
        Told::InPool => return Ok(queued(waiter)),
        _ => {}
    }
    Err(told.into_error().unwrap_or_else(|| Error::Unavailable {
        problem: format!(
            "nobody waits with this token: its task or callback has ended, or timed out{TOKEN_USED}"
        ),
        source: None,
    }))
}

fn queued(waiter: &TokenItem) -> Queued {
    let ticket = waiter.ticket;
    Queued::Queued { ticket }
}

#[cfg(test)]
mod tests;
