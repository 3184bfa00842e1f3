//! Grants a free key to the first waiter, and notifies it.

use super::{
    Queue,
    begin::Begins,
    pool::{Entered, RowsInPools},
};
use crate::{
    clock::{Timestamp, millis},
    error::Error,
    leases::{
        CALLS_WITHIN, Candidate, Freed, Rows, TRIES, is_but_for_the_queue, log_freed, pool_of,
    },
    metrics::{self, Metric},
    outcomes::{Acquired, Ended, GrantKind, Granted},
    queue::engine::{Delivery, Question},
    request::Request,
    row::{Holding, Notification, Row, State, Stored},
    store::{Address, Applied, AppliedAll, Connection, Operations, Store},
    transition::{
        Change, EndIfUnchanged, Head, Leave, LeaveReason, ReplaceIfUnchanged, first_row, succeeded,
        transition,
    },
    values::{Counter, Key, LeaseId, RequestDigest, RequestId, TaskToken},
    waiter::{TokenItem, Waiter},
};

/// What a walk along the queue of a key knows from one waiter to the next.
struct Walk {
    began: Timestamp,
    /// How often it may still find that others were faster.
    tries: usize,
    /// One waiter could not be notified, because the role may not call its state machine.
    forbidden: bool,
    /// How many were notified.
    served: u64,
    /// One who waits, as its item was read after the row.
    head: Option<Waiter>,
}

impl Walk {
    const fn new(began: Timestamp) -> Self {
        Self {
            began,
            tries: TRIES,
            forbidden: false,
            served: 0,
            head: None,
        }
    }
}

/// What a grant from the queue came to; with the row, if it is free again.
pub(super) enum Effect {
    /// The waiter was notified, or has begun.
    Told,
    /// It waits in the queue of its pool.
    InPool,
    /// It does not wait any more.
    Gone(Freed),
    /// It may not be notified.
    Forbidden(Freed),
    /// The start has failed.
    Never(Freed),
    /// Sweep sees to it.
    Unknown,
}

impl Effect {
    pub(super) fn into_free(self) -> Option<Freed> {
        match self {
            Self::Gone(free) | Self::Forbidden(free) | Self::Never(free) => Some(free),
            Self::Told | Self::InPool | Self::Unknown => None,
        }
    }
}

/// The outcome of a call with a task token.
#[derive(Debug)]
pub(crate) enum Told {
    /// The holder has its lease.
    Accepted,
    /// Nobody was notified: it waits in the queue of its pool.
    InPool,
    /// The token is dead. If nobody notified the holder before, it never knew.
    Refused,
    /// It is certain that this call notified nobody: the role may not call this state machine.
    Denied(Error),
    /// It may have been notified.
    Unknown(Option<Error>),
}

impl Told {
    /// What the call was refused with, or what happened to it.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Denied(error) => Some(error),
            Self::Unknown(error) => error,
            Self::Accepted | Self::InPool | Self::Refused => None,
        }
    }
}

impl<S: Store> Queue<S> {
    /// Grants `key` to the first waiter and notifies it, if the key is free, or a permit of a semaphore. For keys that were
    /// freed by a program that cannot notify anybody. Returns whether a waiter was notified. It may be repeated for ever.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::write`].
    pub async fn hand_over(&self, key: &Key) -> Result<bool, Error> {
        self.follow_rules().await?;
        if key.pool_name().is_some() {
            return Ok(
                Box::pin(self.maintain_pool(key, Vec::new(), &RowsInPools::new())).await? > 0,
            );
        }
        let rows = self.read_rows(key).await?;
        Ok(self.grant_to_next(key, rows, None).await? > 0)
    }

    /// Serves the waiters for a row that is free, by a caller whose own work is done: what fails here is left to sweep. The queue is
    /// in the first row. Of another permit with a deadline that row is read first: few of those semaphores have a queue, and a query
    /// of all their rows would cost more than the release. Returns whether somebody was notified.
    pub(crate) async fn serve(&self, freed: Option<Freed>) -> bool {
        let Some(freed) = freed else {
            return false;
        };
        let (at, row, pool) = (freed.at.clone(), freed.row.clone(), freed.pool.clone());
        // The next of this key enters its pool after those who wait there, and the entry that has ended goes with the same write.
        let served = self.serve_freed_key(freed).await;
        let Some(pool) = pool else {
            return served;
        };
        Box::pin(self.serve_pool(&pool, vec![(at, row)])).await > 0 || served
    }

    async fn serve_freed_key(&self, freed: Freed) -> bool {
        let (at, row) = (freed.at, freed.row);
        if at.permit == 0 {
            return self.serve_rows(&at.key, Rows::only_first(row)).await;
        }
        if freed.had_deadline {
            match Box::pin(self.read_queue_row(&at.key)).await {
                Ok(Some(first)) if first.head().is_some() => {}
                Ok(_) => return false,
                Err(error) => return left_to_sweep(&at.key, &error),
            }
        }
        self.serve_key(&at.key).await
    }

    /// The same for all rows of a key.
    pub(crate) async fn serve_key(&self, key: &Key) -> bool {
        if key.pool_name().is_some() {
            return Box::pin(self.serve_pool(key, Vec::new())).await > 0;
        }
        // On the heap, because every caller's future contains it.
        let rows = Box::pin(self.read_rows(key)).await;
        match rows {
            Ok(rows) => self.serve_rows(key, rows).await,
            Err(error) => left_to_sweep(key, &error),
        }
    }

    /// The same for rows that were read, or written.
    pub(crate) async fn serve_rows(&self, key: &Key, rows: Rows) -> bool {
        match Box::pin(self.grant_to_next(key, rows, None)).await {
            Ok(served) => served > 0,
            Err(error) => left_to_sweep(key, &error),
        }
    }

    /// Grants the free key, or a free permit, to the first waiter, and notifies it; if that one is gone, the next. Returns
    /// how many were notified. Where the first waiter asks for a permit, it reads all rows of the key, unless they are
    /// given; and the first waiter's item, unless that is given, as it was read after the rows.
    pub(crate) async fn grant_to_next(
        &self,
        key: &Key,
        mut rows: Rows,
        head: Option<Waiter>,
    ) -> Result<u64, Error> {
        let mut walk = Walk {
            head,
            ..Walk::new(self.now())
        };
        while let Some(left) = self.grant_to_first(key, rows, &mut walk).await? {
            rows = left;
        }
        Ok(walk.served)
    }

    /// Ends the grant that `row` carries, if the row has not changed since it was read, and serves who waits. Whether somebody was
    /// notified; none if the row has changed.
    pub(crate) async fn pass_on(
        &self,
        at: &Address,
        row: &Row,
        ended: Ended,
    ) -> Result<Option<bool>, Error> {
        if let Some(served) = Box::pin(self.end_and_grant(at, row, ended)).await? {
            return Ok(Some(served));
        }
        let freed = self.end_as_read(at, row, ended).await?;
        Ok(match freed {
            Some(freed) => Some(self.serve(Some(freed)).await),
            None => None,
        })
    }

    /// The end and the grant to the first waiter in one write, if that one may have the key at once. None if not: then nothing
    /// was written, or it is not known to be ours.
    async fn end_and_grant(
        &self,
        at: &Address,
        row: &Row,
        ended: Ended,
    ) -> Result<Option<bool>, Error> {
        let end = Change::EndIfUnchanged(EndIfUnchanged {
            version: row.version,
            ended,
            purge_at: self.purge_at(row.fencing_token),
        });
        let ends = at.permit == 0 && row.head().is_some();
        let stored = Stored::Row(row.clone());
        let Some(free) = ends.then(|| transition(&stored, &end)).flatten() else {
            return Ok(None);
        };
        // As it would be, and as the condition of the write knows it.
        let mut rows = Rows::only_first(Row {
            version: row.version,
            ..free
        });
        let (key, mut walk) = (&at.key, Walk::new(self.now()));
        self.open_by_own_clock(key, &mut rows);
        let waits = Candidate::Waits(self.takeover_deadline());
        let Some(head) = self.head_to_serve(&rows, &walk) else {
            return Ok(None);
        };
        if rows.free(None, waits).is_none() {
            return Ok(None);
        }
        // Where it cannot be read, the key is freed for others.
        let Ok(Some(next)) = self.waiter(key, &head).await else {
            return Ok(None);
        };
        if next.request().permits.is_some() {
            return Ok(None);
        }
        let request = (next.request(), next.ticket());
        let Ok(granted) = self.grant_to(at, rows.first(), request).await? else {
            return Ok(None);
        };
        let granted_at = granted.holding().map(|held| held.acquired_at);
        log_freed(key, row, ended, granted_at.unwrap_or(walk.began));
        let (before, in_pool) = (pool_of(row), pool_of(&granted));
        let then = vec![(at.clone(), granted.clone())];
        let effect = Box::pin(self.put_into_effect(at, granted, next)).await;
        let walked = self.walk_on(at, rows, effect, &mut walk).await;
        if let Err(error) = &walked {
            left_to_sweep(key, error);
        }
        // In the same pool, the one that has entered has taken the entry that has ended away.
        let is_done = |pool: &Key| walked.is_ok() && in_pool.as_ref() == Some(pool);
        if let Some(pool) = before.filter(|pool| !is_done(pool)) {
            walk.served += Box::pin(self.serve_pool(&pool, then)).await;
        }
        Ok(Some(walk.served > 0))
    }

    /// Goes on along the queue after a grant.
    async fn walk_on(
        &self,
        at: &Address,
        rows: Rows,
        effect: Result<Effect, Error>,
        walk: &mut Walk,
    ) -> Result<(), Error> {
        let mut left = self.after_grant(at, rows, (effect?, false), walk).await?;
        while let Some(rows) = left {
            left = self.grant_to_first(&at.key, rows, walk).await?;
        }
        Ok(())
    }

    /// One step of it. The rows as they are afterwards, if the next one may be granted something too.
    async fn grant_to_first(
        &self,
        key: &Key,
        mut rows: Rows,
        walk: &mut Walk,
    ) -> Result<Option<Rows>, Error> {
        let Some(head) = self.head_to_serve(&rows, walk) else {
            return Ok(None);
        };
        let read = walk.head.take().filter(|one| one.request().digest == head);
        let next = match read {
            Some(next) => Some(next),
            None => self.waiter(key, &head).await?,
        };
        let Some(next) = next else {
            // Deleted by hand: nobody can tell this waiter. Or a start that another call has settled.
            return self.without_first(key, rows, &head, walk).await;
        };
        if next.is_start() && self.starts.is_empty() {
            return Ok(None);
        }
        let permits = next.request().permits;
        if permits.is_some() && !rows.are_all() {
            rows = self.read_rows(key).await?;
            if rows.waiting().first() != Some(&head) {
                return Ok(Some(rows));
            }
        }
        if permits.is_some() && rows.remember(&head) {
            // A late copy of a request that has its permit, or had it.
            return self.without_first(key, rows, &head, walk).await;
        }
        self.open_by_own_clock(key, &mut rows);
        let waits = Candidate::Waits(self.takeover_deadline());
        let Some(permit) = rows.free(permits, waits) else {
            return Ok(None);
        };
        let key = key.clone();
        let at = Address { key, permit };
        let request = (next.request(), next.ticket());
        let granted = match self.grant_to(&at, rows.of(permit), request).await? {
            Ok(granted) => granted,
            Err(found) => return self.after_another(&at, rows, found, walk).await,
        };
        if permit > 0 {
            let left = rows.waiting().len().saturating_sub(1);
            metrics::record(Metric::QueueDepth, left as u64);
        }
        let has_more = permits.is_some_and(|permits| rows.room(permits, waits) > 1);
        // On the heap, because the future of every call contains it.
        let effect = Box::pin(self.put_into_effect(&at, granted, next)).await?;
        self.after_grant(&at, rows, (effect, has_more), walk).await
    }

    /// The first waiter, if there is time and room for it.
    fn head_to_serve(&self, rows: &Rows, walk: &Walk) -> Option<RequestDigest> {
        if !rows.may_have_room() || self.settings().stopped {
            return None;
        }
        let first = rows.first().filter(|first| first.may_be_granted())?;
        let head = first.head().cloned()?;
        // A call that nobody limits does not walk through a queue of dead waiters: sweep does.
        let in_time = match self.deadline() {
            Some(_) => !self.is_nearly_over(),
            None => self.now().since(walk.began) < Connection::OPERATION,
        };
        // A team's function without starts leaves them to sweep.
        let may_serve = in_time && !(head.is_start() && self.starts.is_empty());
        may_serve.then_some(head)
    }

    /// Somebody was faster, or the first has left the queue meanwhile: look again.
    async fn after_another(
        &self,
        at: &Address,
        rows: Rows,
        found: Stored,
        walk: &mut Walk,
    ) -> Result<Option<Rows>, Error> {
        if walk.tries == 0 {
            return Ok(None);
        }
        walk.tries -= 1;
        Ok(match found {
            Stored::Row(row) if at.permit == 0 => Some(rows.with(0, row)),
            _ if at.permit == 0 => None,
            _ => Some(self.read_rows(&at.key).await?),
        })
    }

    async fn after_grant(
        &self,
        at: &Address,
        rows: Rows,
        (effect, has_more): (Effect, bool),
        walk: &mut Walk,
    ) -> Result<Option<Rows>, Error> {
        match &effect {
            Effect::Told => {
                walk.served += 1;
                if !has_more {
                    return Ok(None);
                }
            }
            Effect::InPool if !has_more => return Ok(None),
            // Skip one waiter, because its state machine may be at fault. If the next one is forbidden as well, our own
            // role is at fault, and no third one loses its place in this walk.
            Effect::Forbidden(_) if walk.forbidden => {
                self.leave_pool(effect.into_free()).await;
                return Ok(None);
            }
            Effect::Forbidden(_) => walk.forbidden = true,
            // A start that never begins leaves nobody waiting behind it, as far as there is time.
            Effect::Never(_) | Effect::Gone(_) | Effect::InPool => {}
            // Sweep notifies that one again; others may have room too.
            Effect::Unknown if has_more && walk.tries > 0 => walk.tries -= 1,
            Effect::Unknown => return Ok(None),
        }
        Ok(Some(match self.leave_pool(effect.into_free()).await {
            Some(free) if at.permit == 0 => rows.with(0, free),
            _ => self.read_rows(&at.key).await?,
        }))
    }

    /// Serves the pool that a grant was in that has ended, and not its key. The row of that.
    async fn leave_pool(&self, freed: Option<Freed>) -> Option<Row> {
        let freed = freed?;
        if let Some(pool) = &freed.pool {
            let ended = vec![(freed.at, freed.row.clone())];
            Box::pin(self.serve_pool(pool, ended)).await;
        }
        Some(freed.row)
    }

    /// The rows without the first in the queue, which does not wait any more; none if another write was faster.
    async fn without_first(
        &self,
        key: &Key,
        rows: Rows,
        head: &RequestDigest,
        walk: &mut Walk,
    ) -> Result<Option<Rows>, Error> {
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        if let Some(shorter) = self.pass_over(key, first, head).await? {
            return Ok(Some(rows.with(0, shorter)));
        }
        // Others write this row too, and serve nobody: one that supersedes this one because only the newest waits.
        if walk.tries == 0 {
            return Ok(None);
        }
        walk.tries -= 1;
        if !rows.are_all() {
            return Ok(self.read_queue_row(key).await?.map(Rows::only_first));
        }
        self.read_rows(key).await.map(Some)
    }

    /// Notifies a waiter of its grant, or begins a start.
    pub(super) async fn put_into_effect(
        &self,
        at: &Address,
        granted: Row,
        next: Waiter,
    ) -> Result<Effect, Error> {
        Ok(match next {
            Waiter::Start(item) => match self.begin(at, &granted, &item).await? {
                Begins::Begun => Effect::Told,
                Begins::InPool => Effect::InPool,
                Begins::Failed { free, .. } => free.map_or(Effect::Unknown, Effect::Never),
                Begins::Later => Effect::Unknown,
            },
            Waiter::Token(item) => match self.tell_first(at, granted, &item).await? {
                (Told::Accepted, _) => Effect::Told,
                (Told::InPool, _) => Effect::InPool,
                (Told::Refused, Some(free)) => Effect::Gone(free),
                (Told::Denied(_), Some(free)) => Effect::Forbidden(free),
                _ => Effect::Unknown,
            },
        })
    }

    /// The same again for one whose row says that it was granted, and whose item that it may not know: a process may have died before
    /// it notified it, or since. Returns how many know now; none if it has no such item.
    pub(crate) async fn notify_again(&self, at: &Address, row: &Row) -> Result<Option<u64>, Error> {
        let ticket = row.holding().and_then(|held| held.notification?.ticket);
        if ticket.is_none() && !row.request.is_start() {
            return Ok(None);
        }
        // Read after the row: its token is at least as new as that of the last notification.
        let waiter = self.waiter(&at.key, &row.request).await?;
        Ok(match waiter {
            Some(Waiter::Token(item)) if Some(item.ticket) == ticket => {
                let again = self.tell_again(at, row, &item).await?;
                Some(u64::from(matches!(again, Some(Told::Accepted))))
            }
            Some(Waiter::Start(item)) if row.is_unbegun_start() => {
                Some(match self.begin_again(at, row, &item).await? {
                    Begins::Begun => 1,
                    Begins::Failed { free, .. } => u64::from(self.serve(free).await),
                    Begins::InPool | Begins::Later => 0,
                })
            }
            Some(Waiter::Start(item)) => {
                // It has begun long ago: it has extended its lease, or was seen. Its name may be in use by that one.
                self.settle_seen(&item).await?;
                Some(0)
            }
            Some(Waiter::Token(_)) | None => None,
        })
    }

    /// One that has its key and waits in its pool: a walk of the pool sees to it, until its time has passed. Whether it was.
    pub(crate) async fn see_to_wait_in_pool(&self, at: &Address, row: &Row) -> Result<bool, Error> {
        let Some(waiter) = self.waiter(&at.key, &row.request).await? else {
            return Ok(false);
        };
        // One that does not wait may have been granted the key by now, by a call that is about to ask the pool.
        let asked_by = waiter.since().plus(CALLS_WITHIN);
        let is_over = waiter.deadline().max(asked_by) <= self.now();
        if is_over {
            Box::pin(self.end_wait_in_pool(at, row, &waiter)).await?;
        }
        Ok(is_over)
    }

    /// The write that grants a free row to its first waiter. If another write was faster: what it left. The row of a
    /// permit other than the first changes together with the queue, which is in the first.
    pub(crate) async fn grant_to(
        &self,
        at: &Address,
        row: Option<&Row>,
        (request, ticket): (&Request, Option<u64>),
    ) -> Result<Result<Row, Stored>, Error> {
        let now = self.now();
        let floor = self.settings().token_floor;
        let lease_id = LeaseId::random();
        let state = State::Held(Holding {
            lease_id: lease_id.clone(),
            term: request.term(now),
            acquired_at: now,
            extended_at: None,
            sweep_after: Some(now.plus(self.settings().look)),
            metadata: request.metadata.clone(),
            notification: Some(Notification::first(now, ticket)),
            pool: request.in_pool().map(Box::new),
        });
        let next = Row {
            purge_at: None,
            opens_at: request.opens_at(now),
            state,
            ..match row {
                Some(row) => {
                    let token = row.fencing_token.max(floor).plus(1);
                    succeeded(row, request, token)
                }
                None => first_row(now, floor, request),
            }
        };
        // If the response was lost, the row shows whether the write was ours, and that nobody was notified since.
        let ours = |row: &Row| {
            row.holding().is_some_and(|held| {
                held.lease_id == lease_id
                    && held
                        .notification
                        .is_none_or(|told| told.tries == Counter::MIN)
            })
        };
        let applied = if at.permit == 0
            && let Some(row) = row
        {
            self.replace(at, row, next, Head::Leaves(request.digest.clone()))
                .await?
        } else {
            self.grant_beside(at, row, next, &request.digest).await?
        };
        let row = match applied {
            Applied::Done { row, .. } => row,
            Applied::Refused(Stored::Row(row)) if ours(&row) => row,
            Applied::Refused(found) => return Ok(Err(found)),
        };
        let kind = GrantKind::after(row.previous.as_ref());
        metrics::record(Metric::of_grant(kind), 1);
        self.own_grants.note(at, &row);
        Ok(Ok(row))
    }

    /// Grants a permit other than the first: its row changes if it is as it was read, and the request that waits first leaves
    /// the queue, both or neither.
    async fn grant_beside(
        &self,
        at: &Address,
        seen: Option<&Row>,
        next: Row,
        head: &RequestDigest,
    ) -> Result<Applied, Error> {
        let leave = Change::Leave(Leave {
            request: head.clone(),
            place: 0,
            because: LeaveReason::Granted,
        });
        let grant = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: seen.map(|row| row.version),
            row: next.clone(),
            head: Head::Any,
        }));
        let changes = [(at.clone(), grant), (Address::first(&at.key), leave)];
        let mut backoff = self.conflict_backoff();
        loop {
            match self.store().apply_all(&changes, self.limit()).await? {
                AppliedAll::Done => {
                    return Ok(Applied::Done {
                        row: next,
                        deadline_before: None,
                    });
                }
                AppliedAll::Refused(found) => {
                    let found = found.into_iter().next().flatten();
                    return Ok(Applied::Refused(found.unwrap_or(Stored::Absent)));
                }
                AppliedAll::Conflict if backoff.wait().await => {}
                AppliedAll::Conflict => return Err(self.contention_error()),
            }
        }
    }

    /// Notifies the waiter that was just granted `row`; nobody was notified before. If it never knew, the grant ends: then the
    /// row comes back free.
    pub(crate) async fn tell_first(
        &self,
        at: &Address,
        row: Row,
        waiter: &TokenItem,
    ) -> Result<(Told, Option<Freed>), Error> {
        let request = Some(&waiter.request);
        let mut row = match Box::pin(self.enter(at, &row, request)).await? {
            Entered::Yes(row) => *row,
            Entered::Waits | Entered::Full(_) => return Ok((Told::InPool, None)),
        };
        let told_before = row.holding().and_then(|held| held.notification);
        if told_before.is_some_and(|told| told.tries != Counter::MIN) {
            return Ok((self.tell_marked(at, &row, waiter).await?, None));
        }
        let mut told = self.tell(at, &row, waiter).await?;
        let mut waiter = waiter.clone();
        if matches!(told, Told::Refused)
            && let Some(latest) = self.token_item(&at.key, &waiter.request.digest).await?
            && latest.task_token != waiter.task_token
        {
            // It asked again before it was granted the key. Now another call may tell it too.
            let Some(marked) = self.mark(at, &row, Some(latest.ticket)).await? else {
                return Ok((Told::Unknown(None), None));
            };
            (row, waiter) = (marked, latest);
            told = match self.tell(at, &row, &waiter).await? {
                Told::Refused => {
                    self.note_refusal(at, &row).await?;
                    Told::Unknown(None)
                }
                told => told,
            };
        }
        Ok(match told {
            Told::Accepted => {
                let joined = Timestamp::from_millis(waiter.ticket);
                metrics::record_duration(Metric::WaitTime, self.now().since(joined));
                if at.permit == 0 {
                    metrics::record(Metric::QueueDepth, row.waiting().len() as u64);
                }
                self.forget_waiter(&at.key, &waiter).await;
                (told, None)
            }
            Told::Unknown(_) | Told::InPool => (told, None),
            Told::Refused => {
                let free = self.take_back(at, &row).await?;
                if free.is_some() {
                    self.forget_waiter(&at.key, &waiter).await;
                }
                (told, free)
            }
            Told::Denied(_) => {
                let free = self.take_back(at, &row).await?;
                (told, free)
            }
        })
    }

    /// Notifies a holder again that it has the lease that `row` carries, with this token. Somebody may have notified it before,
    /// so this is counted first: from then on nobody who notified it earlier takes the grant back. None if the row has changed.
    pub(crate) async fn tell_again(
        &self,
        at: &Address,
        row: &Row,
        waiter: &TokenItem,
    ) -> Result<Option<Told>, Error> {
        if row.waits_in_pool() {
            let (told, freed) = Box::pin(self.tell_first(at, row.clone(), waiter)).await?;
            Box::pin(self.serve(freed)).await;
            return Ok(Some(told));
        }
        let Some(row) = self.mark(at, row, Some(waiter.ticket)).await? else {
            return Ok(None);
        };
        self.tell_marked(at, &row, waiter).await.map(Some)
    }

    /// The same, where this call has marked the row, and others may have notified it before.
    async fn tell_marked(
        &self,
        at: &Address,
        row: &Row,
        waiter: &TokenItem,
    ) -> Result<Told, Error> {
        let told = self.tell(at, row, waiter).await?;
        match told {
            Told::Accepted => self.forget_waiter(&at.key, waiter).await,
            Told::Refused if self.note_refusal(at, row).await?.is_some() => {
                self.forget_waiter(&at.key, waiter).await;
            }
            // As a start that may not be begun: a role gets its policy, or others have the key after a while.
            Told::Denied(_) if self.is_past_grace(row) => drop(self.note_refusal(at, row).await?),
            Told::Refused | Told::Denied(_) | Told::Unknown(_) | Told::InPool => {}
        }
        Ok(told)
    }

    /// Whether the process that wrote the grant may be about to make the first call.
    pub(crate) fn is_being_notified(&self, row: &Row) -> bool {
        let notification = row.holding().and_then(|held| held.notification);
        notification.is_some_and(|told| {
            let first = told.tries == Counter::MIN && told.refused_at.is_none();
            first && self.now() < told.at.plus(self.settings().first_call)
        })
    }

    /// Whether the grace has passed since the grant.
    pub(crate) fn is_past_grace(&self, row: &Row) -> bool {
        let grace = self.settings().reap_grace;
        let since = row.holding().map(|held| held.acquired_at);
        since.is_some_and(|at| at.plus(grace) <= self.now())
    }

    /// Ends a grant of which its holder never knew, as if it had not been: the row forgets the request, so that it may
    /// ask anew. Its token is used up. None if the row has changed since it was read.
    pub(crate) async fn take_back(&self, at: &Address, row: &Row) -> Result<Option<Freed>, Error> {
        let next = self.taken_back(row);
        Ok(
            match self.replace(at, row, next.clone(), Head::Any).await? {
                // If refused, by this very write, whose response was lost, or by another that did the same.
                Applied::Done { row: free, .. } | Applied::Refused(Stored::Row(free))
                    if is_but_for_the_queue(&free, &next) =>
                {
                    let (holder, token) = (row.granted_to.as_str(), row.fencing_token.get());
                    let key = &at.key;
                    tracing::info!(%key, holder, fencing_token = token, "taken back: it was never notified");
                    Some(Freed::of_execution(at, free, row))
                }
                Applied::Done { .. } | Applied::Refused(_) => None,
            },
        )
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
            permits: None,
            previous: None,
            purge_at: Some(row.purge_once_free(self.purge_at(row.fencing_token))),
            opens_at: None,
            granted_to,
            state,
            ..row.clone()
        }
    }

    async fn tell(&self, at: &Address, row: &Row, waiter: &TokenItem) -> Result<Told, Error> {
        let granted = self.granted(at.clone(), row.clone())?;
        let since = Some(Timestamp::from_millis(waiter.ticket));
        let token = &waiter.task_token;
        Ok(self.send_grant(token, (row, granted), since).await)
    }

    /// Sends a lease to a task token, as the response that acquire would have given. If there was no response, it tries
    /// once more; then a refusal may mean that the first call did arrive. `since` is when it joined the queue, if that is known.
    pub(crate) async fn send_grant(
        &self,
        token: &TaskToken,
        (row, granted): (&Row, Granted),
        since: Option<Timestamp>,
    ) -> Told {
        let (key, holder) = (granted.lease.key.clone(), granted.lease.holder.clone());
        let number = granted.lease.fencing_token.get();
        let acquired_at = granted.lease.acquired_at;
        let waited_ms = since.map(|since| millis(acquired_at.since(since)));
        let after = granted.previous.clone();
        let after = after.filter(|previous| previous.ended != Ended::Released);
        let output = serde_json::to_string(&Acquired::Granted(granted)).unwrap_or_default();
        let mut unknown = None;
        for first in [true, false] {
            if !self.is_in_time(row) {
                return Told::Unknown(unknown);
            }
            let (to, token) = (holder.clone(), token.clone());
            let call = self.engine(Question::Succeed(to, token, output.clone()));
            let error = match call.await {
                Ok(Delivery::Delivered) => {
                    let after = after.as_ref();
                    tracing::info!(
                        %key,
                        %holder,
                        fencing_token = number,
                        %acquired_at,
                        waited_ms,
                        previous_holder = after.map(|previous| previous.holder.as_str()),
                        previous_token = after.map(|previous| previous.fencing_token.get()),
                        previous_ended = after.map(|previous| previous.ended.as_str()),
                        "notified"
                    );
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
            tracing::error!(%key, problem, "a waiter could not be notified of its lease");
            match error {
                Error::Unavailable { .. } | Error::Throttled { .. } => unknown = Some(error),
                Error::Denied { .. } if first => return Told::Denied(error),
                _ => return Told::Unknown(Some(error)),
            }
        }
        Told::Unknown(unknown)
    }

    /// Deletes the item of a waiter that was notified, or whose token is dead. This never fails: sweep removes what is left.
    pub(crate) async fn forget_waiter(&self, key: &Key, waiter: &TokenItem) {
        let deleted = self.store().delete_waiter(key, waiter, self.limit());
        if let Err(error) = deleted.await {
            error.count();
            let problem = error.in_full();
            tracing::warn!(%key, problem, "the item of a waiter that was notified is left to sweep");
        }
    }
}

fn left_to_sweep(key: &Key, error: &Error) -> bool {
    error.count();
    let problem = error.in_full();
    tracing::error!(%key, problem, "the next waiter is left to sweep");
    false
}
