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
//! | the end of the key's grant | the end in the pool | a permit or place of a grant that has ended | a place is passed over when it comes to the head; a permit ends by a check |
//! | the end of a permit by its handle | the end of the key's grant | a key without its permit | the same release, or the end of the execution |

use super::{
    Queue,
    ask::{Ask, AskItem, Asked, WhileHeld},
    begin::Begins,
    execution_check::Looked,
    serve::{Effect, Told},
    starts::waited_too_long,
};
use crate::{
    error::Error,
    leases::Freed,
    outcomes::Ended,
    pool::{Entry, InPool, Pool, PoolPermit},
    request::Request,
    row::{Holding, Notification, Row, State},
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

impl<S: Store> Queue<S> {
    /// Asks for the permit of the pool that the grant in this row needs before its holder is notified.
    pub(crate) async fn enter(
        &self,
        at: &Address,
        row: &Row,
        request: &Request,
    ) -> Result<Entered, Error> {
        let (true, Some(pool)) = (row.waits_in_pool(), &request.pool) else {
            return Ok(Entered::Yes(Box::new(row.clone())));
        };
        let entry = Entry {
            request: row.request.clone(),
            at: at.clone(),
            fencing_token: row.fencing_token,
        };
        let grant = self.grant_in_pool(&entry, pool, request);
        let ask = Ask {
            key: &pool.key,
            grant: &grant,
            item: AskItem::Entry,
            while_held: WhileHeld::Waits,
            cap: self.settings().queue_cap,
            reentrant: false,
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
                self.serve_key(&pool.key).await;
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
        let (Some(held), Some(in_pool)) = (row.holding(), granted.holding()) else {
            return Ok(None);
        };
        let now = self.now();
        let next = Row {
            version: row.version.plus(1),
            opens_at: request.opens_at(now),
            state: State::Held(Holding {
                acquired_at: now,
                sweep_after: Some(now.plus(self.settings().look)),
                notification: held
                    .notification
                    .map(|told| Notification::first(now, told.ticket)),
                pool: Some(Box::new(InPool {
                    key: permit.key.clone(),
                    permit: Some(PoolPermit {
                        permit: permit.permit,
                        lease_id: in_pool.lease_id.clone(),
                        fencing_token: granted.fencing_token,
                    }),
                })),
                ..held.clone()
            }),
            ..row.clone()
        };
        if row.waits_in_pool()
            && let Applied::Done { row, .. } = self.replace(at, row, next, Head::Any).await?
        {
            return Ok(Some(row));
        }
        let is_held = |now: &Row| {
            now.holding().is_some()
                && now.request == row.request
                && now.fencing_token == row.fencing_token
        };
        if !self.read_row(at).await?.as_ref().is_some_and(is_held) {
            let freed = self.end_as_read(permit, granted, Ended::Released).await?;
            Box::pin(self.serve(freed)).await;
        }
        Ok(None)
    }

    /// Notifies one that was granted its permit from the queue of its pool. The pool's row, if the permit is free again.
    pub(super) async fn put_entry_into_effect(
        &self,
        permit: &Address,
        granted: Row,
        entered: WaitsInPool,
    ) -> Result<Effect, Error> {
        let WaitsInPool {
            at, row, waiter, ..
        } = entered;
        let noted = self.note_entered(&at, &row, waiter.request(), (permit, &granted));
        let Some(row) = noted.await? else {
            return Ok(Effect::Unknown);
        };
        let effect = Box::pin(self.put_into_effect(&at, row, waiter)).await?;
        // The permit went back with the grant. The next of the key enters after those who wait in the pool.
        let back = |mut free: Freed| async {
            let permit = free.pool.take();
            Box::pin(self.serve(Some(free))).await;
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
            Waiter::Start(item) => match self.fail(at, row, item, waited_too_long(item)).await? {
                Begins::Failed { free, .. } => free,
                _ => None,
            },
            Waiter::Token(item) => {
                let late = Error::QueueTimeout {
                    key: at.key.clone(),
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

    /// What becomes of a permit of a pool, whose execution may have ended: it is that of a grant of a key, and ends with it. As long as its
    /// holder may not have been notified, it stays. None if the service decides.
    pub(crate) async fn follow_key(
        &self,
        permit: &Address,
        row: &Row,
    ) -> Result<Option<Looked>, Error> {
        let Some(entry) = Entry::of(&row.request) else {
            return Ok(None);
        };
        let Some(of_key) = self.row_of_entry(&entry).await? else {
            return Ok(None);
        };
        if entry.is_held_in(&of_key) {
            let held = of_key.holding();
            let pool = held.and_then(|held| held.pool.as_ref());
            let noted = pool.and_then(|pool| pool.permit.as_ref());
            let is_noted = noted.is_some_and(|noted| {
                row.holding()
                    .is_some_and(|held| held.lease_id == noted.lease_id)
            });
            if noted.is_some() && !is_noted {
                // Two calls asked at once, and each was granted one.
                return self
                    .end_and_serve(permit, row, Ended::Released)
                    .await
                    .map(Some);
            }
            let may_not_know = held.is_some_and(|held| held.notification.is_some());
            return Ok(may_not_know.then_some(Looked::Kept));
        }
        if entry.has_ended_in(&of_key) {
            return self
                .end_and_serve(permit, row, Ended::Released)
                .await
                .map(Some);
        }
        Ok(None)
    }
}
