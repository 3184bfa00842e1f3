//! Acquire with a place in the queue.

use serde::Serialize;

use super::{GrantRequest, other_keys};
use crate::{
    conflicts::ConflictBackoff,
    error::Error,
    leases::{Leases, TRIES, corrupt, frozen_error},
    queue::{NotifyAttempt, is_next, its_place_is_lost},
    requests::{Acquire, Lifetime, Queue},
    row::Row,
    store::{Address, Joined, Store, foreign_item},
    transition::{Grant, GrantRefusal, Join, JoinRefusal, why_not_joined},
    values::{Key, Ttl},
    waiter::Waiter,
    workflows::Workflows,
};

/// The result of an acquire that may wait in the queue. The lease itself is sent to the task token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("not" = {"anyOf": [{"required": ["lease"]}, {"required": ["leases"]}]})))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Queued {
    /// It was granted, or its turn had come; the lease was sent to the task token.
    Acquired,
    /// It waits in the queue; the lease will be sent to the task token.
    Queued {
        /// When it came, in milliseconds since the epoch. A label: the queue has an order of its own.
        ticket: u64,
    },
}

impl<S: Store> Leases<S> {
    /// Grants the lease, or puts the request in the queue. Either way the response goes to [`Queue::task_token`], in
    /// the form in which [`Leases::acquire`] returns it. While anybody waits, nobody else is granted the key.
    ///
    /// A waiter that is notified confirms by [`Leases::extend`] within [`crate::Settings::claim`]; that extend is the
    /// grant. Joining the queue is one transaction, and is tried first. A free key takes one more request and a call
    /// to Step Functions.
    ///
    /// A repeated call with the same holder and request id keeps its place in the queue, and its token replaces the
    /// old one. The waiting time counts from the first call. If the future is dropped, the request may or may not be
    /// in the queue: repeat it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with permits or an observed version; [`Error::QueueFull`]; [`Error::Misconfigured`]
    /// without [`Leases::with_workflows`]; and those of [`Leases::acquire`]. None of them is sent to the token. If
    /// the call to the token failed ([`Error::Unavailable`], [`Error::Denied`] …) the lease may have been granted:
    /// repeat the request.
    pub async fn acquire_queued(&self, request: Acquire, queue: Queue) -> Result<Queued, Error> {
        let ttl = check(&request)?;
        self.follow_rules().await?;
        let Some(workflows) = self.workflows() else {
            return Err(Error::Misconfigured {
                problem: "these leases cannot notify waiters: they were made without workflows"
                    .to_owned(),
                source: None,
            });
        };
        let (key, reentrant) = (request.key, request.reentrant);
        let grant = self.grant(GrantRequest {
            holder: &request.holder,
            request_id: request.request_id,
            keys: None,
            lifetime: request.lifetime,
            metadata: request.metadata,
            over: None,
        })?;
        let waiter = self.waiter(&grant, ttl, queue);
        // A holder does not wait for its own lease. Ignore any refusal here: it is handled below, after a check of
        // the queue.
        let stopped = self.settings().stopped;
        if (reentrant || stopped)
            && let Ok(granted) = self
                .attempt(&Address::first(&key), &grant, reentrant)
                .await?
        {
            self.send_grant(workflows, &waiter.task_token, granted)
                .await?;
            return Ok(Queued::Acquired);
        }
        if stopped {
            // A spent request; nobody may join either.
            return Err(Error::Consumed { key });
        }
        let join = Join {
            request: grant.request.clone(),
            over: grant.over,
            cap: self.settings().queue_cap,
        };
        let mut backoff = ConflictBackoff::from(self);
        for _ in 0..TRIES {
            let (cap, limit) = (join.cap, self.limit());
            let stood = match self.store().join(&key, &join, &waiter, limit).await? {
                Joined::Done => return Ok(queued(&waiter)),
                Joined::ForeignItem => return Err(foreign_item(&key, &waiter.request)),
                Joined::SupersededByLaterCall => return Err(asked_again()),
                Joined::Conflict => {
                    backoff.wait(self).await?;
                    continue;
                }
                Joined::Refused(stood) => stood,
            };
            match why_not_joined(stood, &join, &grant) {
                JoinRefusal::InLine => {
                    let latest = self.store().update_task_token(&key, &waiter, self.limit());
                    let latest = latest.await?;
                    check_latest(&latest, &waiter)?;
                    // Read the row after the new token is stored. A call that ended this wait earlier has notified
                    // the old token, or nobody.
                    match self.read_queue_row(&key).await? {
                        Some(row) if row.waiting().contains(&waiter.request) => {
                            return Ok(queued(&latest));
                        }
                        // Its turn has come in the meantime.
                        Some(row) if is_next(&row, &waiter.request) => {}
                        Some(row) if row.remembers(&waiter.request) => {}
                        // This token must not wait again, because another call may be about to end its wait.
                        _ => return Err(its_place_is_lost(&key)),
                    }
                }
                JoinRefusal::Full(_) => {
                    let waiting = usize::from(cap);
                    return Err(Error::QueueFull { key, waiting });
                }
                JoinRefusal::Grantable => {
                    if let Some(done) = self.ask(workflows, &key, &grant, &waiter).await? {
                        return Ok(done);
                    }
                }
                JoinRefusal::Other(refusal) => {
                    let refusal = self.judge(workflows, &key, refusal, &waiter).await?;
                    if let Some(done) = refusal {
                        return Ok(done);
                    }
                }
            }
        }
        Err(Error::Unavailable {
            problem: format!("{key} changed again and again during this request"),
            source: None,
        })
    }

    /// An ordinary grant, or none if the key was just taken.
    async fn ask(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        grant: &Grant,
        waiter: &Waiter,
    ) -> Result<Option<Queued>, Error> {
        match self.attempt(&Address::first(key), grant, false).await? {
            Ok(granted) => {
                self.send_grant(workflows, &waiter.task_token, granted)
                    .await?;
                Ok(Some(Queued::Acquired))
            }
            Err(refusal) => self.judge(workflows, key, refusal, waiter).await,
        }
    }

    /// Handles a refused grant of a request that would wait.
    async fn judge(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        refusal: GrantRefusal,
        waiter: &Waiter,
    ) -> Result<Option<Queued>, Error> {
        let key = key.clone();
        match refusal {
            GrantRefusal::Replayed(row) => {
                let granted = self.replayed(Address::first(&key), row)?;
                self.send_grant(workflows, &waiter.task_token, granted)
                    .await?;
                Ok(Some(Queued::Acquired))
            }
            GrantRefusal::Reserved(row) => self.its_turn(&key, &row, waiter).await,
            GrantRefusal::OtherKeys => Err(other_keys()),
            GrantRefusal::Consumed => Err(Error::Consumed { key }),
            GrantRefusal::Frozen(row) => Err(frozen_error(key, row)),
            GrantRefusal::Corrupt(reason) => Err(corrupt(key, reason)),
            GrantRefusal::Held(_) | GrantRefusal::Grantable(_) => Ok(None),
        }
    }

    /// The key is reserved for this very request. Its workflow asks again, because the first notification failed or
    /// has not arrived yet.
    async fn its_turn(
        &self,
        key: &Key,
        row: &Row,
        waiter: &Waiter,
    ) -> Result<Option<Queued>, Error> {
        // Count the attempt before notifying, so that the call that notified the old token does not pass the turn on.
        let Some(row) = self.renew_reservation(key, row).await? else {
            return Ok(None);
        };
        let latest = self
            .store()
            .update_task_token(key, waiter, self.limit())
            .await?;
        let notified = self
            .notify_next_waiter(key, row, NotifyAttempt::Repeat)
            .await;
        check_latest(&latest, waiter)?;
        Ok(Some(if notified {
            Queued::Acquired
        } else {
            queued(&latest)
        }))
    }

    fn waiter(&self, grant: &Grant, ttl: Ttl, queue: Queue) -> Waiter {
        let deadline = grant.now.plus(queue.wait.as_duration());
        Waiter {
            request: grant.request.clone(),
            task_token: queue.task_token,
            holder: grant.holder.clone(),
            ttl,
            metadata: grant.metadata.clone(),
            ticket: grant.now.as_millis(),
            asked_at: grant.now,
            deadline,
            purge_at: self.purge_after(deadline),
        }
    }
}

fn check(request: &Acquire) -> Result<Ttl, Error> {
    let not_in_line = |field| Err(Error::invalid(field, "does not go with task_token"));
    // Also with 1: the queue is that of the first permit, and does not count the others that are still held.
    if request.permits.is_some() {
        return not_in_line("permits");
    }
    if request.observed_version.is_some() {
        return not_in_line("observed_version");
    }
    match request.lifetime {
        Lifetime::Ttl(ttl) => Ok(ttl),
        Lifetime::Execution { .. } => not_in_line("lifetime"),
    }
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
        problem: "the same request was repeated with another task_token".to_owned(),
        source: None,
    }
}

fn queued(waiter: &Waiter) -> Queued {
    let ticket = waiter.ticket;
    Queued::Queued { ticket }
}
