//! A grant of a key that needs a permit of a pool before anybody is notified of it.
//!
//! The row says so from the grant on (`InPool`, without a permit): whoever finds it so asks for the permit, under the grant's own name in
//! the pool (`Entry`), and is answered by the pool's rows. With the permit, one write notes it in the key's row (`note_entered`), on
//! the condition of its version: whoever wrote that notifies first, as if the key had been granted at that moment. So every process may
//! do every step again, and two that do it at once are told apart by the row.
//!
//! # If a process dies between two writes
//!
//! | after | and before | what is left | who does the rest |
//! |---|---|---|---|
//! | the grant of the key | a place or a permit of the pool | a row that waits, unknown to the pool | sweep asks again |
//! | a permit of the pool | the note of it | the same, and the pool has granted it | sweep, or a repeated request, notes it |
//! | the note | the notification | as after any grant from the queue | sweep notifies again |
//! | the end of the key's grant | the end in the pool | a permit or place of a grant that has ended | a place is passed over when it comes to the head; a permit ends by a check of its row |
//! | the end of a permit by its handle | the end of the key's grant | a key without its permit | the same release, or the end of the execution |

use super::{
    Queue,
    ask::{Ask, AskItem, Asked, WhileHeld},
    begin::{Begins, not_started_reason},
    execution_check::Looked,
    serve::{Effect, Told},
};
use crate::{
    error::Error,
    leases::{AuditReason, Evictable, ForceReleaseOutcome, Freed, TRIES},
    outcomes::Ended,
    pool::{Entry, Pool},
    request::Request,
    row::{Holding, InPool, Notification, PoolPermit, Row, State},
    start::{Known, StartItem},
    store::{Address, Applied, Store},
    transition::{Grant, Head, TakeoverRule, TokenFloor},
    values::LeaseId,
    waiter::{TokenItem, Waiter, WaitsInPool},
};

/// How the grant of a key stands to its pool.
pub(crate) enum Entered {
    /// It needs no permit, or has one now: the row as it is.
    Yes(Box<Row>),
    /// It waits in the pool, or another process sees to it.
    Waits,
    /// Its permit was taken from it before anybody was notified, by an operator.
    Lost,
}

/// How many may wait in a pool. A name is longer than that of a request, and whoever finds no place asks again only by a sweep.
fn most_waiting(entry: &Entry) -> u16 {
    let fit = 300_000 / entry.digest().as_bytes().len();
    u16::try_from(fit.min(1000)).unwrap_or(1000)
}

impl<S: Store> Queue<S> {
    /// Asks for the permit of the pool that the grant in this row needs before its holder is notified.
    pub(crate) async fn enter(
        &self,
        at: &Address,
        row: &Row,
        request: &Request,
    ) -> Result<Entered, Error> {
        if !row.waits_in_pool() {
            return Ok(Entered::Yes(Box::new(row.clone())));
        }
        let Some(pool) = request.pool.as_ref().filter(|_| !row.is_refused()) else {
            return Ok(Entered::Waits);
        };
        let entry = Entry::in_row(at, row);
        let grant = self.grant_in_pool(&entry, pool, request);
        let ask = Ask {
            key: &pool.key,
            grant: &grant,
            item: AskItem::Entry,
            while_held: WhileHeld::Waits,
            cap: most_waiting(&entry),
            reentrant: false,
            waits: None,
        };
        match Box::pin(self.ask(ask)).await? {
            Asked::Granted(permit, granted) | Asked::Has(permit, granted) => {
                let noted = self.note_entered(at, row, request, (&permit, &granted));
                Ok(match noted.await? {
                    Some(row) => Entered::Yes(Box::new(row)),
                    None => Entered::Waits,
                })
            }
            Asked::InQueue | Asked::Joined(..) => {
                // What came free before it waited was offered to nobody.
                Box::pin(self.serve_key(&pool.key)).await;
                Ok(Entered::Waits)
            }
            Asked::Had => Ok(Entered::Lost),
            // The pool is full of those who wait, or frozen by hand: sweep asks again. Of those who wait some may have ended since, whom
            // nobody else passes over.
            Asked::Refused(error) => {
                self.serve_key(&pool.key).await;
                error.count();
                let (key, problem) = (&at.key, error.in_full());
                tracing::error!(%key, pool = %pool.key, problem, "has its key, and no place in the queue of its pool");
                Ok(Entered::Waits)
            }
            Asked::Taken(..) | Asked::Found(_) => Ok(Entered::Waits),
        }
    }

    fn grant_in_pool(&self, entry: &Entry, pool: &Pool, request: &Request) -> Grant {
        let now = self.now();
        Grant {
            request: entry.request_in(pool, request),
            lease_id: LeaseId::random(),
            now,
            over: TakeoverRule::by_clock(self.takeover_deadline()),
            tokens: TokenFloor::Reached(self.settings().token_floor),
            sweep_after: now.plus(self.settings().look),
            by_token: false,
        }
    }

    /// Notes the permit in the row of the key, whose grant begins with it. None if the row has changed: then the permit goes back,
    /// unless the row still has the grant.
    pub(crate) async fn note_entered(
        &self,
        at: &Address,
        row: &Row,
        request: &Request,
        (permit, granted): (&Address, &Row),
    ) -> Result<Option<Row>, Error> {
        let Some(in_pool) = granted.holding() else {
            return Ok(None);
        };
        let pool = InPool {
            key: permit.key.clone(),
            permit: Some(PoolPermit {
                permit: permit.permit,
                lease_id: in_pool.lease_id.clone(),
                fencing_token: granted.fencing_token,
            }),
        };
        let mut row = row.clone();
        for _ in 0..TRIES {
            let Some(next) = self.entered(&row, request, &pool) else {
                return Ok(None);
            };
            if let Applied::Done { row, .. } = self.replace(at, &row, next, Head::Any).await? {
                self.own_grants.note(at, &row);
                return Ok(Some(row));
            }
            let found = self.read_row(at).await?;
            let is_same = |now: &Row| {
                now.holding().is_some()
                    && now.request == row.request
                    && now.fencing_token == row.fencing_token
            };
            let Some(found) = found.filter(is_same) else {
                let freed = self.end_as_read(permit, granted, Ended::Released).await?;
                Box::pin(self.serve(freed)).await;
                return Ok(None);
            };
            // Somebody has left the queue, say.
            row = found;
        }
        Ok(None)
    }

    /// The row of the key once its grant has this permit; none if it has one.
    fn entered(&self, row: &Row, request: &Request, pool: &InPool) -> Option<Row> {
        let held = row.holding().filter(|_| row.waits_in_pool())?;
        let now = self.now();
        Some(Row {
            version: row.version.plus(1),
            opens_at: request.opens_at(now),
            state: State::Held(Holding {
                acquired_at: now,
                sweep_after: Some(now.plus(self.settings().look)),
                notification: held
                    .notification
                    .map(|told| Notification::first(now, told.ticket)),
                pool: Some(Box::new(pool.clone())),
                ..held.clone()
            }),
            ..row.clone()
        })
    }

    /// Notifies one that was granted its permit from the queue of its pool. The pool's row, if the permit is free again.
    pub(super) async fn put_entry_into_effect(
        &self,
        permit: &Address,
        granted: Row,
        entered: WaitsInPool,
    ) -> Result<Effect, Error> {
        let WaitsInPool {
            entry, row, waiter, ..
        } = entered;
        let at = entry.at();
        let noted = self.note_entered(&at, &row, waiter.request(), (permit, &granted));
        let Some(row) = noted.await? else {
            return Ok(Effect::Unknown);
        };
        let inside = Self {
            serving: Some(permit.key.clone()),
            ..self.clone()
        };
        let effect = Box::pin(inside.put_into_effect(&at, row, waiter)).await?;
        // The permit went back with the grant. The next of the key enters after those who wait in the pool.
        let back = |mut free: Freed| async {
            let permit = free.pool.take();
            Box::pin(inside.serve(Some(free))).await;
            permit
        };
        Ok(match effect {
            Effect::Gone(free) | Effect::Never(free) => back(free)
                .await
                .map_or(Effect::Unknown, |permit| Effect::Gone(*permit)),
            Effect::Forbidden(free) => back(free)
                .await
                .map_or(Effect::Unknown, |permit| Effect::Forbidden(*permit)),
            effect => effect,
        })
    }

    /// One that has its key and waits in its pool has waited too long: it runs nothing yet, so that both are free again.
    pub(crate) async fn end_wait_in_pool(
        &self,
        at: &Address,
        row: &Row,
        waiter: &Waiter,
    ) -> Result<(), Error> {
        let freed = match waiter {
            Waiter::Start(item) => {
                let known = self.known(item).await?;
                if known == Known::Ours {
                    return self.note_begun(item, Some(row)).await.map(drop);
                }
                let reason = not_started_reason(known, item.waited_too_long(None));
                match self.fail(at, row, item, reason).await? {
                    Begins::Failed { free, .. } => free,
                    _ => None,
                }
            }
            Waiter::Token(item) => {
                let late = Error::QueueTimeout {
                    key: at.key.clone(),
                    held_by: None,
                };
                let freed = self.take_back(at, row).await?;
                if freed.is_some() {
                    self.fail_waiter(&at.key, item, late).await?;
                }
                freed
            }
            Waiter::InPool(_) => None,
        };
        Box::pin(self.serve(freed)).await;
        Ok(())
    }

    /// A task token whose permit was taken from it before it was notified.
    pub(crate) async fn lose_in_pool(
        &self,
        at: &Address,
        row: &Row,
        waiter: &TokenItem,
    ) -> Result<(Told, Option<Freed>), Error> {
        let freed = self.take_back(at, row).await?;
        if freed.is_some() {
            let key = at.key.clone();
            let how = "an operator took its permit of the pool from it".to_owned();
            self.fail_waiter(&at.key, waiter, Error::Lost { key, how })
                .await?;
        }
        Ok((Told::Refused, freed))
    }

    /// An operator ends the grant of a start that waits in its pool: nobody has called for it, so that it fails at once.
    pub(super) async fn cancel_in_pool(
        &self,
        cancelled: &Evictable,
        item: &StartItem,
        because: &AuditReason,
    ) -> Result<ForceReleaseOutcome, Error> {
        let (at, row) = (&cancelled.address, &cancelled.row);
        let reason = format!("an operator ended it before it began: {}", because.why);
        let Begins::Failed { free, .. } = self.fail(at, row, item, reason).await? else {
            return Err(self.contention_error());
        };
        Box::pin(self.serve(free)).await;
        Ok(self.forced(at.clone(), row))
    }

    /// What becomes of a permit of a pool: it is that of a grant of a key, and ends when the key's row does not have it any more, or has another
    /// permit. None if the service decides: while both last, as for any lease.
    pub(crate) async fn follow_key(
        &self,
        permit: &Address,
        row: &Row,
    ) -> Result<Option<Looked>, Error> {
        let (Some(entry), Some(held)) = (Entry::of(&row.request), row.holding()) else {
            return Ok(None);
        };
        let Some(of_key) = self.read_row(&entry.at()).await? else {
            return Ok(None);
        };
        let pool = of_key.holding().and_then(|held| held.pool.as_ref());
        let noted = pool.and_then(|pool| pool.permit.as_ref());
        let has_another = noted.is_some_and(|noted| noted.lease_id != held.lease_id);
        if entry.has_ended_in(&of_key) || has_another {
            let ends = self.end_and_serve(permit, row, Ended::Released);
            return ends.await.map(Some);
        }
        // The service may not know an execution that is to begin.
        Ok(of_key.is_unbegun_start().then_some(Looked::Kept))
    }
}
