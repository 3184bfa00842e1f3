//! Grants a free key to whoever waits first, and tells it.

use super::turn::Next;
use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Leases, TRIES},
    metrics::{self, Metric},
    outcomes::{Acquired, Ended, GrantKind, Granted},
    row::{Holding, Row, State, Stored, Telling, Term},
    store::{Address, Applied, Connection, Store},
    transition::{Change, ReplaceIfUnchanged, succeeded},
    values::{
        Counter, Holder, KeepTime, Key, LeaseId, Metadata, RequestDigest, RequestId, TaskToken,
    },
    waiter::Waiter,
    workflows::{Delivery, Workflows},
};

/// Whoever waits first, for a grant of the free key.
#[derive(Clone, Copy)]
pub(crate) struct Heir<'a> {
    pub(crate) request: &'a RequestDigest,
    pub(crate) holder: &'a Holder,
    pub(crate) keep: KeepTime,
    pub(crate) metadata: &'a Metadata,
    /// Of a waiter with a task token: which wait it is.
    pub(crate) ticket: Option<u64>,
}

impl<'a> From<&'a Waiter> for Heir<'a> {
    fn from(waiter: &'a Waiter) -> Self {
        Self {
            request: &waiter.request,
            holder: &waiter.holder,
            keep: waiter.keep,
            metadata: &waiter.metadata,
            ticket: Some(waiter.ticket),
        }
    }
}

/// The outcome of a call with a task token.
#[derive(Debug)]
pub(crate) enum Told {
    /// The holder has its lease.
    Accepted,
    /// The token is dead. If nobody told the holder before, it never knew.
    Refused,
    /// It is certain that this call told nobody: the role may not call this state machine.
    Denied(Error),
    /// It may have been told.
    Unknown(Option<Error>),
}

impl Told {
    /// What the call was refused with, or what happened to it.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Denied(error) => Some(error),
            Self::Unknown(error) => error,
            Self::Accepted | Self::Refused => None,
        }
    }
}

impl<S: Store> Leases<S> {
    /// Grants `key` to the first waiter and tells it, if the key is free. For keys that were freed by a program that
    /// cannot tell anybody. Returns whether a waiter was told. It may be repeated for ever.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::apply`].
    pub async fn hand_over(&self, key: &Key) -> Result<bool, Error> {
        self.follow_rules().await?;
        match self.read_queue_row(key).await? {
            Some(row) => self.grant_to_next(key, row).await,
            None => Ok(false),
        }
    }

    /// As [`Leases::grant_to_next`], for a caller whose own work is done: what fails here is left to sweep.
    pub(crate) async fn try_to_grant_to_next(&self, key: &Key, row: Row) -> bool {
        // On the heap, because every caller's future contains it.
        let granted = Box::pin(self.grant_to_next(key, row)).await;
        granted.unwrap_or_else(|error| {
            error.count();
            let problem = error.in_full();
            tracing::error!(%key, problem, "the next waiter is left to sweep");
            false
        })
    }

    /// Grants `row`, if it is free, to whoever waits first, and tells it; if that one is gone, the next. Returns whether
    /// a waiter was told.
    pub(crate) async fn grant_to_next(&self, key: &Key, mut row: Row) -> Result<bool, Error> {
        let Some(workflows) = self.workflows() else {
            return Ok(false);
        };
        let (mut forbidden, mut tries, began) = (false, TRIES, self.now());
        while row.holding().is_none() && row.frozen.is_none() && !self.settings().stopped {
            let Some(head) = row.head().cloned() else {
                break;
            };
            // A call that nobody limits does not walk through a queue of dead waiters: sweep does.
            let in_time = match self.deadline() {
                Some(_) => !self.is_nearly_over(),
                None => self.now().since(began) < Connection::OPERATION,
            };
            if !in_time {
                break;
            }
            if head.is_start() {
                let next = Box::pin(self.start_next(workflows, key, &row, &head)).await?;
                row = match next {
                    Next::Begun => return Ok(true),
                    Next::Row(row) if tries > 0 => *row,
                    Next::Row(_) | Next::Stop => break,
                };
                tries -= 1;
                continue;
            }
            let Some(waiter) = self.waiting(key, &head).await? else {
                // Deleted by hand: nobody can tell this waiter.
                match self.pass_over(key, &row, &head).await? {
                    Some(shorter) => row = shorter,
                    None => break,
                }
                continue;
            };
            let granted = match self.grant_to(key, &row, Heir::from(&waiter)).await? {
                Ok(granted) => granted,
                // The first has left the queue meanwhile: look again.
                Err(Stored::Row(found)) if tries > 0 => {
                    (row, tries) = (found, tries - 1);
                    continue;
                }
                Err(_) => break,
            };
            row = match self.tell_first(workflows, key, granted, &waiter).await? {
                (Told::Accepted, _) => return Ok(true),
                (Told::Refused, Some(free)) => free,
                // Skip one waiter, because its state machine may be at fault. If the next one is forbidden as well, our
                // own role is at fault, and no further waiter loses its place.
                (Told::Denied(_), Some(free)) if !forbidden => {
                    forbidden = true;
                    free
                }
                _ => break,
            };
        }
        Ok(false)
    }

    /// The write that grants a free row to its first waiter. If another write was faster: what it left.
    pub(crate) async fn grant_to(
        &self,
        key: &Key,
        row: &Row,
        heir: Heir<'_>,
    ) -> Result<Result<Row, Stored>, Error> {
        let now = self.now();
        let token = row.fencing_token.max(self.settings().token_floor).plus(1);
        let lease_id = LeaseId::random();
        let next = Row {
            purge_at: None,
            state: State::Held(Holding {
                lease_id: lease_id.clone(),
                term: Term::Execution {
                    keep: heir.keep,
                    looked_at: None,
                    look_again_at: None,
                },
                acquired_at: now,
                extended_at: None,
                sweep_after: Some(now.plus(self.settings().look)),
                metadata: heir.metadata.clone(),
                telling: Some(Telling::first(now, heir.ticket)),
            }),
            ..succeeded(row, heir.holder, heir.request, token)
        };
        let head = Some(heir.request.clone());
        // If the response was lost, the row shows whether the write was ours, and that nobody was told since.
        let ours = |row: &Row| {
            row.holding().is_some_and(|held| {
                held.lease_id == lease_id
                    && held.telling.is_some_and(|told| told.tries == Counter::MIN)
            })
        };
        let row = match self.replace(key, row, next, head).await? {
            Applied::Done { row, .. } => row,
            Applied::Refused(Stored::Row(row)) if ours(&row) => row,
            Applied::Refused(found) => return Ok(Err(found)),
        };
        let kind = GrantKind::after(row.previous.as_ref());
        metrics::record(Metric::of_grant(kind), 1);
        Ok(Ok(row))
    }

    /// Tells the waiter that was just granted `row`; nobody was told before. If it never knew, the grant ends: then the
    /// row comes back free.
    pub(crate) async fn tell_first(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        mut row: Row,
        waiter: &Waiter,
    ) -> Result<(Told, Option<Row>), Error> {
        let mut told = self.tell(workflows, key, &row, &waiter.task_token).await?;
        let mut waiter = waiter.clone();
        if matches!(told, Told::Refused)
            && let Some(latest) = self.waiting(key, &waiter.request).await?
            && latest.task_token != waiter.task_token
        {
            // It asked again before it was granted the key. Now another call may tell it too.
            let Some(marked) = self.mark(key, &row, Some(latest.ticket)).await? else {
                return Ok((Told::Unknown(None), None));
            };
            (row, waiter) = (marked, latest);
            told = match self.tell(workflows, key, &row, &waiter.task_token).await? {
                Told::Refused => {
                    self.note_refusal(key, &row).await?;
                    Told::Unknown(None)
                }
                told => told,
            };
        }
        Ok(match told {
            Told::Accepted => {
                let joined = Timestamp::from_millis(waiter.ticket);
                metrics::record_duration(Metric::WaitTime, self.now().since(joined));
                metrics::record(Metric::QueueDepth, row.waiting().len() as u64);
                self.forget_waiter(key, &waiter).await;
                (told, None)
            }
            Told::Unknown(_) => (told, None),
            Told::Refused => {
                let free = self.take_back(key, &row).await?;
                if free.is_some() {
                    self.forget_waiter(key, &waiter).await;
                }
                (told, free)
            }
            Told::Denied(_) => (told, self.take_back(key, &row).await?),
        })
    }

    /// Tells a holder again that it has the lease that `row` carries, with this token. Somebody may have told it before,
    /// so this is counted first: from then on nobody who told it earlier passes the lease on. None if the row has changed.
    pub(crate) async fn tell_again(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        row: &Row,
        waiter: &Waiter,
    ) -> Result<Option<Told>, Error> {
        let Some(row) = self.mark(key, row, Some(waiter.ticket)).await? else {
            return Ok(None);
        };
        let told = self.tell(workflows, key, &row, &waiter.task_token).await?;
        match told {
            Told::Accepted => self.forget_waiter(key, waiter).await,
            Told::Refused if self.note_refusal(key, &row).await?.is_some() => {
                self.forget_waiter(key, waiter).await;
            }
            Told::Refused | Told::Denied(_) | Told::Unknown(_) => {}
        }
        Ok(Some(told))
    }

    /// Counts another telling. None if the row has changed.
    pub(crate) async fn mark(
        &self,
        key: &Key,
        row: &Row,
        ticket: Option<u64>,
    ) -> Result<Option<Row>, Error> {
        let now = self.now();
        let telling = |told: Telling| Telling {
            tries: told.tries.plus(1),
            at: now,
            ticket,
            refused_at: None,
        };
        self.change_telling(key, row, telling, None).await
    }

    /// Notes that the token with which `row`'s holder was told last is dead, although somebody may have told it before.
    /// A look at its history, half a minute later, shows whether it knows.
    pub(crate) async fn note_refusal(&self, key: &Key, row: &Row) -> Result<Option<Row>, Error> {
        let now = self.now();
        let telling = |told: Telling| Telling {
            refused_at: Some(now),
            ..told
        };
        let look = self.shows_after(now);
        self.change_telling(key, row, telling, Some(look)).await
    }

    async fn change_telling(
        &self,
        key: &Key,
        row: &Row,
        change: impl FnOnce(Telling) -> Telling,
        sweep_after: Option<Timestamp>,
    ) -> Result<Option<Row>, Error> {
        let State::Held(held) = &row.state else {
            return Ok(None);
        };
        let Some(telling) = held.telling else {
            return Ok(None);
        };
        let next = Row {
            version: row.version.plus(1),
            state: State::Held(Holding {
                telling: Some(change(telling)),
                sweep_after: sweep_after.or(held.sweep_after),
                ..held.clone()
            }),
            ..row.clone()
        };
        Ok(match self.replace(key, row, next, None).await? {
            Applied::Done { row, .. } => Some(row),
            Applied::Refused(_) => None,
        })
    }

    /// Ends a grant of which its holder never knew, as if it had not been: the row forgets the request, so that it may
    /// ask anew. Its token is used up. None if the row has changed since it was read.
    pub(crate) async fn take_back(&self, key: &Key, row: &Row) -> Result<Option<Row>, Error> {
        let next = self.taken_back(row);
        Ok(match self.replace(key, row, next, None).await? {
            Applied::Done { row: free, .. } => {
                let (holder, token) = (row.granted_to.as_str(), row.fencing_token.get());
                tracing::info!(%key, holder, fencing_token = token, "taken back: it was never told");
                Some(free)
            }
            Applied::Refused(_) => None,
        })
    }

    /// The row without its grant, as if that had not been.
    pub(crate) fn taken_back(&self, row: &Row) -> Row {
        let (granted_to, state) = match &row.previous {
            Some(previous) => (
                previous.holder.clone(),
                State::Free {
                    ended: previous.ended,
                    last_token: previous.fencing_token,
                },
            ),
            None => (
                row.granted_to.clone(),
                State::Free {
                    ended: Ended::Released,
                    last_token: row.fencing_token,
                },
            ),
        };
        let [first, second, third] = row.past_requests.clone();
        Row {
            version: row.version.plus(1),
            // The row has to have one: a random one is nobody's.
            request: first
                .unwrap_or_else(|| RequestDigest::of(&row.granted_to, &RequestId::random())),
            past_requests: [second, third, None],
            request_keys: None,
            previous: None,
            purge_at: Some(self.purge_at(row.fencing_token)),
            granted_to,
            state,
            ..row.clone()
        }
    }

    pub(crate) async fn replace(
        &self,
        key: &Key,
        seen: &Row,
        row: Row,
        head: Option<RequestDigest>,
    ) -> Result<Applied, Error> {
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: Some(seen.version),
            row,
            head,
        }));
        let address = Address::first(key);
        self.store().apply(&address, &change, self.limit()).await
    }

    async fn tell(
        &self,
        workflows: &dyn Workflows,
        key: &Key,
        row: &Row,
        token: &TaskToken,
    ) -> Result<Told, Error> {
        let granted = self.granted(Address::first(key), row.clone())?;
        Ok(self.send_grant(workflows, token, granted).await)
    }

    /// Sends a lease to a task token, as the response that acquire would have given. If there was no response, it tries
    /// once more; then a refusal may mean that the first call did arrive.
    pub(crate) async fn send_grant(
        &self,
        workflows: &dyn Workflows,
        token: &TaskToken,
        granted: Granted,
    ) -> Told {
        let (key, holder) = (granted.lease.key.clone(), granted.lease.holder.clone());
        let number = granted.lease.fencing_token.get();
        let output = serde_json::to_string(&Acquired::Granted(granted)).unwrap_or_default();
        let mut unknown = None;
        for first in [true, false] {
            let call = workflows.succeed(token, output.clone(), self.limit());
            let error = match call.await {
                Ok(Delivery::Delivered) => {
                    tracing::info!(%key, %holder, fencing_token = number, "told");
                    return Told::Accepted;
                }
                Ok(Delivery::Refused) if first => {
                    tracing::info!(%key, %holder, fencing_token = number, "nobody waits with this token");
                    return Told::Refused;
                }
                Ok(Delivery::Refused) => return Told::Unknown(unknown),
                Err(error) => error,
            };
            error.count();
            let problem = error.in_full();
            tracing::error!(%key, problem, "a waiter could not be told of its lease");
            match error {
                Error::Unavailable { .. } | Error::Throttled { .. } => unknown = Some(error),
                Error::Denied { .. } if first => return Told::Denied(error),
                _ => return Told::Unknown(Some(error)),
            }
        }
        Told::Unknown(unknown)
    }

    /// Deletes the item of a waiter that was told. This never fails: sweep removes what is left.
    pub(crate) async fn forget_waiter(&self, key: &Key, waiter: &Waiter) {
        let deleted = self.store().delete_waiter(key, waiter, self.limit());
        if let Err(error) = deleted.await {
            error.count();
            let problem = error.in_full();
            tracing::warn!(%key, problem, "the item of a waiter that was told is left to sweep");
        }
    }
}
