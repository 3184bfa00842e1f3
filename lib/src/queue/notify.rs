//! Notifies the next waiter.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    metrics::{self, Metric},
    outcomes::GrantKind,
    outcomes::{Acquired, Granted, Lease},
    row::{Reservation, Row, Stored, Term},
    store::{Address, Applied, Connection, Store},
    transition::{
        Change, HandOver, PassReservation, RenewReservation, Reserve, Successor, TokenFloor,
    },
    values::{Counter, Key, LeaseId, TaskToken},
    waiter::Waiter,
    workflows::{Delivery, Workflows},
};

/// Whether the waiter of this reservation may have been notified before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyAttempt {
    /// It has just made it. Nobody was notified before, so a refused token was no longer valid.
    First,
    /// Somebody may have been notified before, so a refused token may have been answered.
    Repeat,
}

/// The outcome of a notification.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notified {
    Delivered,
    /// It is certain that nobody will confirm with this token.
    TokenExpired,
    /// It is certain that nobody was notified: the role may not call this state machine.
    AccessDenied,
    Unknown,
}

impl<S: Store> Leases<S> {
    /// What happens to the queue when these leases end the grant of a row with this token. They make the reservation
    /// themselves if they can notify the waiter.
    pub(crate) fn hand_over_after(&self, token: Counter) -> HandOver {
        match self.workflows() {
            Some(_) if !self.settings().stopped => HandOver::Now(self.successor(token)),
            _ => HandOver::Later,
        }
    }

    /// The reservation for the first waiter of a row with this token.
    pub(crate) fn successor(&self, token: Counter) -> Successor {
        Successor {
            lease_id: LeaseId::random(),
            until: self.now().plus(self.settings().claim),
            tokens: self.tokens_for(token),
        }
    }

    /// The tokens for a row with this token, with the current floor.
    fn tokens_for(&self, token: Counter) -> TokenFloor {
        TokenFloor::Reached(self.settings().token_floor).for_row(token)
    }

    /// Notifies the waiter that `row` is reserved for, if it is reserved, and the next one if that waiter is gone. It
    /// never fails: a later sweep notifies waiters that this call could not. Returns whether a waiter was notified.
    pub(crate) async fn notify_next_waiter(
        &self,
        key: &Key,
        mut row: Row,
        attempt: NotifyAttempt,
    ) -> bool {
        let Some(workflows) = self.workflows() else {
            return false;
        };
        let mut forbidden = false;
        let began = self.now();
        while let Some(reserved) = row.reserved().cloned() {
            let notified = self.notify_waiter(workflows, key, &row, &reserved).await;
            // A call that nobody limits does not walk through a queue of dead waiters: sweep does.
            let in_time = match self.deadline() {
                Some(_) => !self.is_nearly_over(),
                None => self.now().since(began) < Connection::OPERATION,
            };
            let may_pass = attempt == NotifyAttempt::First && in_time;
            match notified {
                Ok(Notified::Delivered) => return true,
                Ok(Notified::TokenExpired) if may_pass => {}
                // Skip one waiter, because its state machine may be at fault. If the next one is forbidden as well,
                // our own role is at fault, and no further waiter loses its place.
                Ok(Notified::AccessDenied) if may_pass && !forbidden => forbidden = true,
                Ok(Notified::TokenExpired | Notified::AccessDenied | Notified::Unknown) => {
                    return false;
                }
                Err(error) => {
                    metrics::record_error(&error);
                    let problem = error.in_full();
                    tracing::error!(%key, problem, "the next waiter could not be notified");
                    return false;
                }
            }
            match self.pass_on(key, &row).await {
                Ok(Some(next)) => row = next,
                Ok(None) => return false,
                Err(error) => {
                    metrics::record_error(&error);
                    let problem = error.in_full();
                    tracing::error!(%key, problem, "the turn could not be passed on");
                    return false;
                }
            }
        }
        false
    }

    async fn notify_waiter(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        row: &Row,
        reserved: &Reservation,
    ) -> Result<Notified, Error> {
        let waiter = self.store().waiter(key, &reserved.request, self.limit());
        let Some(waiter) = waiter.await? else {
            // The item may exist and not be visible yet, so the waiter may still be there. Sweep looks again.
            tracing::warn!(%key, "the item of the next waiter is gone");
            return Ok(Notified::Unknown);
        };
        let granted = self.reserved_lease(key.clone(), row, reserved, &waiter);
        let (holder, token) = (waiter.holder.as_str(), granted.lease.fencing_token.get());
        let delivery = match self
            .send_task_success(workflows, &waiter.task_token, granted)
            .await
        {
            Err(denied @ Error::Denied { .. }) => {
                metrics::record_error(&denied);
                let problem = denied.in_full();
                tracing::error!(%key, holder, problem, "the role may not notify the next waiter");
                Notified::AccessDenied
            }
            result => result?,
        };
        match delivery {
            Notified::Delivered => {
                let joined = Timestamp::from_millis(waiter.ticket);
                metrics::record_duration(Metric::WaitTime, self.now().since(joined));
                metrics::record(Metric::QueueDepth, row.waiting().len() as u64);
                tracing::info!(%key, holder, fencing_token = token, "woken");
            }
            Notified::AccessDenied => {}
            Notified::TokenExpired | Notified::Unknown => {
                tracing::info!(%key, holder, fencing_token = token, "nobody waits with this token");
            }
        }
        Ok(delivery)
    }

    /// Ends a waiter's task with the response that acquire would have given. If there was no response, it tries once
    /// more; then a refusal may mean that the first call did arrive.
    async fn send_task_success(
        &self,
        workflows: &dyn Workflows,
        token: &TaskToken,
        granted: Granted,
    ) -> Result<Notified, Error> {
        let output = serde_json::to_string(&Acquired::Granted(granted));
        let output = output.map_err(|error| Error::Unavailable {
            problem: "the lease could not be written as JSON".to_owned(),
            source: Some(crate::Cause::of(&error)),
        })?;
        let first = workflows.succeed(token, output.clone(), self.limit()).await;
        Ok(match first {
            Ok(Delivery::Delivered) => Notified::Delivered,
            Ok(Delivery::Refused) => Notified::TokenExpired,
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) => {
                match workflows.succeed(token, output, self.limit()).await {
                    Ok(Delivery::Delivered) => Notified::Delivered,
                    // The first call may have arrived.
                    Ok(Delivery::Refused) | Err(Error::Denied { .. }) => Notified::Unknown,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        })
    }

    /// Sends the grant to a request that was granted at once.
    pub(crate) async fn send_grant(
        &self,
        workflows: &dyn Workflows,
        token: &TaskToken,
        granted: Granted,
    ) -> Result<(), Error> {
        let key = granted.lease.key.clone();
        metrics::record(Metric::of_grant(granted.grant), 1);
        if self.send_task_success(workflows, token, granted).await? == Notified::TokenExpired {
            tracing::warn!(%key, "granted, and nobody waits with the task token");
        }
        Ok(())
    }

    /// The lease in the notification of a waiter. Its deadline is that of the reservation, and always earlier than a
    /// whole ttl from now; by that, the holder's first extend is recognised.
    fn reserved_lease(&self, key: Key, row: &Row, reserved: &Reservation, to: &Waiter) -> Granted {
        let now = self.now();
        let in_full = now.plus(to.ttl.as_duration());
        let expires_at = reserved.until.min(in_full.minus(Duration::from_millis(1)));
        let previous = Some(row.last_grant());
        Granted {
            lease: Lease {
                key,
                holder: to.holder.clone(),
                lease_id: reserved.lease_id.clone(),
                fencing_token: row.fencing_token.max(self.settings().token_floor).plus(1),
                version: row.version,
                deadline: self.deadline_of(Term::Ttl {
                    ttl: to.ttl,
                    expires_at,
                }),
                acquired_at: now,
                permit: 0,
                metadata: to.metadata.clone(),
            },
            grant: GrantKind::after(previous.as_ref()),
            previous,
        }
    }

    /// For a row that nobody holds and that has a next waiter: the lease to come, from the waiter's item. None if
    /// there is no such item.
    pub(crate) async fn next_waiter_lease(
        &self,
        key: &Key,
        row: &Row,
    ) -> Result<Option<Lease>, Error> {
        let reserved = match (row.reserved(), row.head()) {
            (Some(reserved), _) => reserved.clone(),
            // Not reserved yet; the next sweep or `hand_over` reserves it.
            (None, Some(head)) => Reservation {
                request: head.clone(),
                lease_id: LeaseId::random(),
                until: self.now(),
                tries: Counter::MIN,
            },
            (None, None) => return Ok(None),
        };
        let waiter = self.store().waiter(key, &reserved.request, self.limit());
        let waiter = waiter.await?;
        Ok(waiter.map(|waiter| {
            let lease = self
                .reserved_lease(key.clone(), row, &reserved, &waiter)
                .lease;
            Lease {
                acquired_at: reserved.until.minus(self.settings().claim),
                deadline: self.deadline_of(Term::Ttl {
                    ttl: waiter.ttl,
                    expires_at: reserved.until,
                }),
                ..lease
            }
        }))
    }

    /// For a row that is reserved for a waiter whose item is gone. Nobody can notify that waiter, and if the queue is
    /// empty sweep does not see the key. So the next request for the key frees it.
    pub(crate) async fn skip_missing_waiter(&self, key: &Key, row: &Row) -> Result<(), Error> {
        let over = self.takeover_deadline();
        match (row.reserved(), row.head()) {
            (Some(reserved), _) if reserved.until <= over => self.pass_on(key, row).await.map(drop),
            // First in the queue, and its item is gone: reserve the key for it first, because only a reservation can
            // be passed on.
            (None, Some(_)) => self.reserve(key, row).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Reserves the key for its first waiter. Returns as [`Leases::pass_on`] does.
    async fn reserve(&self, key: &Key, row: &Row) -> Result<Option<Row>, Error> {
        let heir = self.successor(row.fencing_token);
        let change = Change::Reserve(Reserve { heir: heir.clone() });
        self.write_reservation(key, &change, &heir).await
    }

    /// Reserves the key for the next waiter instead, or for nobody if the queue is empty. Returns the stored row, or
    /// none if another write was faster.
    pub(crate) async fn pass_on(&self, key: &Key, row: &Row) -> Result<Option<Row>, Error> {
        let Some(reserved) = row.reserved() else {
            return Ok(None);
        };
        let successor = self.successor(row.fencing_token);
        let change = Change::PassReservation(PassReservation {
            lease_id: reserved.lease_id.clone(),
            tries: reserved.tries,
            heir: successor.clone(),
        });
        self.write_reservation(key, &change, &successor).await
    }

    /// Writes a change that reserves the row for the first waiter. If the response was lost, the row shows that the
    /// write was ours.
    async fn write_reservation(
        &self,
        key: &Key,
        change: &Change,
        successor: &Successor,
    ) -> Result<Option<Row>, Error> {
        Ok(
            match self
                .store()
                .apply(&Address::first(key), change, self.limit())
                .await?
            {
                Applied::Done { row, .. } => Some(row),
                Applied::Refused(Stored::Row(row)) if is_reserved_by(&row, &successor.lease_id) => {
                    Some(row)
                }
                Applied::Refused(_) => None,
            },
        )
    }

    /// Notifies the next waiter if it may not know of its turn: the first waiter of a free row, or a waiter that did
    /// not confirm in time. Such a waiter is notified once more, and then skipped. Returns whether a waiter was
    /// notified.
    ///
    /// # Errors
    /// Those of [`Store::apply`].
    pub(crate) async fn notify_if_due(&self, key: &Key, row: Row) -> Result<bool, Error> {
        let stopped = row.frozen.is_some() || self.settings().stopped;
        if row.holding().is_some() || stopped || self.workflows().is_none() {
            return Ok(false);
        }
        let Some(reserved) = row.reserved() else {
            if row.head().is_none() {
                return Ok(false);
            }
            let kept = self.reserve(key, &row).await?;
            return Ok(self
                .notify_next_waiter_if(key, kept, NotifyAttempt::First)
                .await);
        };
        let now = self.now();
        if reserved.tries == Counter::MIN && reserved.until <= now {
            let again = self.renew_reservation(key, &row).await?;
            return Ok(self
                .notify_next_waiter_if(key, again, NotifyAttempt::Repeat)
                .await);
        }
        // Until then the waiter may still confirm, because its clock may be behind.
        if reserved.until.plus(self.settings().clock_margin) <= now {
            let next = self.pass_on(key, &row).await?;
            return Ok(self
                .notify_next_waiter_if(key, next, NotifyAttempt::First)
                .await);
        }
        Ok(false)
    }

    async fn notify_next_waiter_if(
        &self,
        key: &Key,
        row: Option<Row>,
        attempt: NotifyAttempt,
    ) -> bool {
        match row {
            Some(row) => self.notify_next_waiter(key, row, attempt).await,
            None => false,
        }
    }

    /// Extends the reservation, and marks that the waiter is notified again.
    pub(crate) async fn renew_reservation(
        &self,
        key: &Key,
        row: &Row,
    ) -> Result<Option<Row>, Error> {
        let until = self.now().plus(self.settings().claim);
        self.record_attempt(key, row, until).await
    }

    pub(crate) async fn record_attempt(
        &self,
        key: &Key,
        row: &Row,
        until: Timestamp,
    ) -> Result<Option<Row>, Error> {
        let Some(reserved) = row.reserved() else {
            return Ok(None);
        };
        let change = Change::RenewReservation(RenewReservation {
            lease_id: reserved.lease_id.clone(),
            tries: reserved.tries,
            until,
            tokens: self.tokens_for(row.fencing_token),
        });
        let address = Address::first(key);
        let applied = self.store().apply(&address, &change, self.limit());
        Ok(match applied.await? {
            Applied::Done { row, .. } => Some(row),
            Applied::Refused(_) => None,
        })
    }

    /// Reserves `key` for the first waiter and notifies it, if the key is free and the waiter was not notified. This
    /// is for keys that an operator freed or unfroze, and for programs that cannot notify. Returns whether a waiter
    /// was notified. It may be repeated for ever.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::apply`].
    pub async fn hand_over(&self, key: &Key) -> Result<bool, Error> {
        self.follow_rules().await?;
        match self.read_queue_row(key).await? {
            Some(row) => self.notify_if_due(key, row).await,
            None => Ok(false),
        }
    }
}

/// Whether the row has this very reservation, and nobody has notified its waiter again since. Then the caller made
/// it, although the response was lost, and is the first to notify.
pub(crate) fn is_reserved_by(row: &Row, lease_id: &LeaseId) -> bool {
    row.reserved()
        .is_some_and(|reserved| reserved.lease_id == *lease_id && reserved.tries == Counter::MIN)
}
