//! A caller that may wait asks for a key, or a permit.
//!
//! The rows are read, and say what becomes of it, by the function that the expressions of the store are held to. Then one write grants it
//! what is free, if that row is as it was read, or puts it at the end of the queue, if others still have the key. A start's item is stored in
//! that write, and a task token's with its place. Where another write was faster, what that has left says what becomes of it.
//!
//! A grant of the row that has the queue requires that nobody waits. A permit that has a row of its own is granted without a look at the
//! first row: a caller that asked before another began to wait, or before the key was frozen, may have it.

use super::Queue;
use crate::{
    error::Error,
    leases::{Rows, TRIES, changed, corrupt, frozen_error, stopped_error},
    metrics::{self, Metric},
    outcomes::GrantKind,
    queue::engine::Question,
    row::{Notification, Row, State, Stored},
    start::{ResultItem, StartItem},
    store::{Address, Applied, AwaitedResult, Joined, Operations, PutStart, Store, foreign_item},
    transition::{
        Change, Grant, Head, Join, JoinRefusal, JoinRule, ReplaceIfUnchanged, transition,
        why_not_joined,
    },
    values::{Holder, Key, RequestDigest, TaskToken},
    waiter::TokenItem,
};

/// One that asks.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) key: &'a Key,
    /// What it is to be granted.
    pub(super) grant: &'a Grant,
    /// What it waits with.
    pub(super) item: AskItem<'a>,
    pub(super) while_held: WhileHeld,
    /// How many may wait when it joins.
    pub(super) cap: u16,
    /// Whether the lease that its holder has already is an answer.
    pub(super) reentrant: bool,
    /// The execution that goes on only when this one has been granted its lease, or has ended.
    pub(super) waits: Option<&'a Holder>,
}

impl Ask<'_> {
    /// A token that waits for a permit of its pool has an item, and is found by it.
    fn ticketed(self, mut granted: Row) -> Row {
        if let (AskItem::Token(item), State::Held(held)) = (self.item, &mut granted.state)
            && held.pool.is_some()
        {
            held.notification = Some(Notification::first(self.grant.now, Some(item.ticket)));
        }
        granted
    }
}

/// What it does while somebody else has the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhileHeld {
    Waits,
    /// It waits if nobody has the key any more, or an execution that was started through it, which is stopped.
    Replaces,
    Leaves,
}

/// What it waits with.
#[derive(Clone, Copy)]
pub(super) enum AskItem<'a> {
    /// A task token.
    Token(&'a TokenItem),
    /// Nothing: an execution that runs, and is granted its key again or not.
    Nothing,
    /// A start.
    Start {
        /// As it is to be stored.
        item: &'a StartItem,
        /// As it was read: it has failed, or has no place. None for one that nobody has accepted yet.
        read: Option<&'a StartItem>,
        /// The task that waits for its result, if one does.
        result: Option<&'a AwaitedResult>,
    },
}

/// What became of it.
pub(super) enum Asked {
    /// It was granted this by this call, and nobody was notified.
    Granted(Address, Row),
    /// It was granted this before; or, if it is re-entrant, its holder was.
    Has(Address, Row),
    /// It waits in the queue already.
    InQueue,
    /// It had the key before.
    Had,
    /// This call has put it in the queue of this row, by this rule. Others may have written the row since it was read.
    Joined(Row, JoinRule),
    /// It is not to wait while somebody has the key: the first row, and all that were read.
    Taken(Row, Rows),
    /// Another call has stored this start.
    Found(StartItem),
    /// It is granted nothing, and gets no place.
    Refused(Error),
}

/// What became of a write.
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
enum Wrote {
    Done,
    /// The row is this by now.
    Faster(Stored),
    /// Another call has stored this start.
    Found(StartItem),
}

impl<S: Store> Queue<S> {
    /// Asks for the key or a permit. What has its place keeps it, whatever stops new grants.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Asked, Error> {
        let mut read = self.rows_for(ask).await?;
        if let Some(permits) = ask.grant.request.permits {
            read.note_other_numbers(ask.key, permits, ask.grant);
        }
        for _ in 0..TRIES {
            match self.ask_once(ask, read).await? {
                Ok(asked) => return Ok(asked),
                Err(left) => read = left,
            }
        }
        Err(Error::Unavailable {
            problem: format!("{} changed again and again during this request", ask.key),
            source: None,
        })
    }

    /// The rows as they are by now, if somebody else has written one of them meanwhile.
    async fn ask_once(&self, ask: Ask<'_>, rows: Rows) -> Result<Result<Asked, Rows>, Error> {
        let first = rows.first().cloned();
        if let Some(known) = self.known_or_stopped(ask, &rows, first.as_ref())? {
            return Ok(Ok(known));
        }
        if let Stored::Foreign(reason) = rows.stored(0) {
            return Err(corrupt(ask.key.clone(), reason));
        }
        if let Some((permit, granted)) = rows.grantable(ask.grant) {
            let key = ask.key.clone();
            let (at, granted) = (Address { key, permit }, ask.ticketed(granted));
            let wrote = self.write_grant(ask, &at, &rows, &granted).await?;
            return self
                .or_rows(ask, wrote, (rows, permit), || Asked::Granted(at, granted))
                .await;
        }
        let Some(first) = first else {
            // It was unused for so long that it was purged, and others are held, or it was deleted by hand: the queue is to have its place again.
            let put = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: None,
                row: self.untouched(),
                head: Head::Nobody,
            }));
            let _ = self.write_row(&Address::first(ask.key), &put).await?;
            return self.rows_for(ask).await.map(Err);
        };
        if !self.is_to_wait(ask, &first).await? {
            return Ok(Ok(Asked::Taken(first, rows)));
        }
        if let Some(waits) = ask.waits
            && let Some((permit, row)) = rows.leave_no_room_but_for(waits, ask.grant)
        {
            return self.waits_for_itself(ask, permit, row).map(Ok);
        }
        self.join(ask, rows, first).await
    }

    /// The one that waits for it has the key, and nobody else would end that wait.
    fn waits_for_itself(&self, ask: Ask<'_>, permit: u16, row: &Row) -> Result<Asked, Error> {
        if let AskItem::Start { .. } = ask.item {
            let problem = "its caller has this key itself, and would wait for its own end: start it under another key, or without one";
            return Ok(Asked::Refused(Error::invalid("key", problem)));
        }
        let key = ask.key.clone();
        let held = self.held(Address { key, permit }, row, &ask.grant.request.holder)?;
        Ok(Asked::Refused(Error::Held(Box::new(held))))
    }

    /// What has its place keeps it; else nothing may be granted at all.
    fn known_or_stopped(
        &self,
        ask: Ask<'_>,
        rows: &Rows,
        first: Option<&Row>,
    ) -> Result<Option<Asked>, Error> {
        let (key, grant) = (ask.key, ask.grant);
        match rows.already_granted(key, grant, ask.reentrant) {
            Err(Error::Consumed { .. }) => return Ok(Some(Asked::Had)),
            Err(error) => return Err(error),
            Ok(Some((at, row))) => return Ok(Some(Asked::Has(at, row))),
            Ok(None) => {}
        }
        let request = &grant.request.digest;
        if first.is_some_and(|first| first.waiting().contains(request)) {
            return Ok(Some(Asked::InQueue));
        }
        if self.settings().stopped {
            return Ok(Some(Asked::Refused(stopped_error(key.clone()))));
        }
        let frozen = first.filter(|first| first.frozen.is_some());
        Ok(frozen.map(|row| Asked::Refused(frozen_error(key.clone(), row.clone()))))
    }

    async fn join(
        &self,
        ask: Ask<'_>,
        rows: Rows,
        first: Row,
    ) -> Result<Result<Asked, Rows>, Error> {
        let join = Join {
            request: ask.grant.request.digest.clone(),
            rule: JoinRule::of(ask.grant, &first),
            cap: ask.cap,
        };
        let stood = Stored::Row(first);
        let Some(joined) = transition(&stood, &Change::Join(join.clone())) else {
            return match why_not_joined(&stood, &join) {
                JoinRefusal::Full => {
                    let (key, waiting) = (ask.key.clone(), usize::from(join.cap));
                    Ok(Ok(Asked::Refused(Error::QueueFull { key, waiting })))
                }
                JoinRefusal::Queued | JoinRefusal::Changed => self.rows_for(ask).await.map(Err),
            };
        };
        let wrote = self.write_place(ask, &join).await?;
        self.or_rows(ask, wrote, (rows, 0), || Asked::Joined(joined, join.rule))
            .await
    }

    /// What became of the request, if this was its write; else the rows as they are by now. What another write has left of a mutex says that;
    /// of a semaphore only one row, and the others may have changed before.
    async fn or_rows(
        &self,
        ask: Ask<'_>,
        wrote: Wrote,
        (rows, permit): (Rows, u16),
        done: impl FnOnce() -> Asked,
    ) -> Result<Result<Asked, Rows>, Error> {
        Ok(match wrote {
            Wrote::Done => Ok(done()),
            Wrote::Found(item) => Ok(Asked::Found(item)),
            Wrote::Faster(_) if ask.grant.request.permits.is_some() => {
                Err(self.rows_for(ask).await?)
            }
            Wrote::Faster(stored) => Err(rows.with_stored(permit, stored)),
        })
    }

    async fn rows_for(&self, ask: Ask<'_>) -> Result<Rows, Error> {
        self.read_rows_for(ask.key, ask.grant.request.permits).await
    }

    /// Whether it waits while the key is as this row says.
    async fn is_to_wait(&self, ask: Ask<'_>, row: &Row) -> Result<bool, Error> {
        Ok(match ask.while_held {
            WhileHeld::Waits => true,
            WhileHeld::Replaces => {
                row.holding().is_none() || self.started_holder(ask.key, row).await?.is_some()
            }
            WhileHeld::Leaves => false,
        })
    }

    /// Grants it what is free, as it was read.
    async fn write_grant(
        &self,
        ask: Ask<'_>,
        at: &Address,
        rows: &Rows,
        granted: &Row,
    ) -> Result<Wrote, Error> {
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: rows.of(at.permit).map(|row| row.version),
            row: granted.clone(),
            // The queue is in the first row.
            head: if at.permit == 0 {
                Head::Nobody
            } else {
                Head::Any
            },
        }));
        let wrote = match ask.item {
            AskItem::Start { item, read, result } => {
                self.put((item, read, result), Some((at, &change))).await?
            }
            AskItem::Token(item) if item.request.pool.is_some() => {
                self.store_token(at, &change, item).await?
            }
            AskItem::Nothing => self.write_row(at, &change).await?,
            AskItem::Token(item) => {
                // A join asks for the note itself. Where the row has the queue, nobody can be superseded between this read and the write.
                let request = &item.request.digest;
                if at.permit == 0 {
                    self.was_not_sent_away(ask.key, request).await?;
                }
                self.write_row(at, &change).await?
            }
        };
        if let Wrote::Done = wrote {
            let kind = GrantKind::after(granted.previous.as_ref());
            metrics::record(Metric::of_grant(kind), 1);
        }
        Ok(wrote)
    }

    /// Fails for a copy of a request that was superseded by a later one: the note says so.
    pub(super) async fn was_not_sent_away(
        &self,
        key: &Key,
        request: &RequestDigest,
    ) -> Result<(), Error> {
        match self
            .store()
            .superseded_by(key, request, self.limit())
            .await?
        {
            Some(by) => Err(Error::Superseded {
                key: key.clone(),
                by,
            }),
            None => Ok(()),
        }
    }

    async fn write_place(&self, ask: Ask<'_>, join: &Join) -> Result<Wrote, Error> {
        let (first, change) = (Address::first(ask.key), Change::Join(join.clone()));
        match ask.item {
            AskItem::Start { item, read, result } => {
                self.put((item, read, result), Some((&first, &change)))
                    .await
            }
            AskItem::Token(item) => self.store_token(&first, &change, item).await,
            AskItem::Nothing => self.write_row(&first, &change).await,
        }
    }

    async fn write_row(&self, at: &Address, change: &Change) -> Result<Wrote, Error> {
        Ok(match self.store().apply(at, change, self.limit()).await? {
            Applied::Done { .. } => Wrote::Done,
            Applied::Refused(stored) => Wrote::Faster(stored),
        })
    }

    /// Stores a task token together with its place, or with a grant of which it is not notified yet.
    async fn store_token(
        &self,
        at: &Address,
        change: &Change,
        item: &TokenItem,
    ) -> Result<Wrote, Error> {
        let (key, mut backoff) = (&at.key, self.conflict_backoff());
        let mut read = None;
        loop {
            let token = (item, read.as_ref());
            let put = self.store().put_token(at, change, token, self.limit());
            match put.await? {
                Joined::Done => return Ok(Wrote::Done),
                Joined::Refused(stored) => return Ok(Wrote::Faster(stored)),
                Joined::Superseded(by) => {
                    let key = key.clone();
                    return Err(Error::Superseded { key, by });
                }
                Joined::ForeignItem => return Err(foreign_item(key, &item.request.digest)),
                Joined::Found(found) => {
                    let whose = (&item.request.holder, &item.task_token);
                    let found = found.as_ref().map(|found| &found.task_token);
                    self.is_the_one_that_waits(whose, found).await?;
                    read = found.cloned();
                    if !backoff.wait().await {
                        return Err(self.contention_error());
                    }
                }
                Joined::Conflict if backoff.wait().await => {}
                Joined::Conflict => return Err(self.contention_error()),
            }
        }
    }

    /// Stores a start in the place of what was read, and changes a row.
    async fn put(
        &self,
        (item, read, result): (&StartItem, Option<&StartItem>, Option<&AwaitedResult>),
        with: Option<(&Address, &Change)>,
    ) -> Result<Wrote, Error> {
        let mut backoff = self.conflict_backoff();
        let mut result = result.cloned();
        loop {
            let put = self
                .store()
                .put_start(item, read, result.as_ref(), with, self.limit());
            match put.await? {
                PutStart::Done => return Ok(Wrote::Done),
                PutStart::Refused(stored) => return Ok(Wrote::Faster(stored)),
                PutStart::Found(found) => return Ok(Wrote::Found(found)),
                PutStart::Foreign => {
                    let reason = "another program's item is in the place of a start";
                    return Err(corrupt(item.key.clone(), reason));
                }
                PutStart::Gone => return Err(changed(&item.key)),
                PutStart::Awaited(found) => {
                    if let Some(result) = &mut result {
                        self.takes_its_place(result, found.as_ref()).await?;
                    }
                    if !backoff.wait().await {
                        return Err(self.contention_error());
                    }
                }
                PutStart::Conflict if backoff.wait().await => {}
                PutStart::Conflict => return Err(self.contention_error()),
            }
        }
    }

    /// Fails if another attempt's token is stored, and this one is not waited with: of two attempts of a task one waits, and the service
    /// says which. A call that was on its way for long, or a clock, does not.
    pub(super) async fn is_the_one_that_waits(
        &self,
        mine: (&Holder, &TaskToken),
        stored: Option<&TaskToken>,
    ) -> Result<(), Error> {
        let is_another = stored.is_some_and(|stored| stored != mine.1);
        let waits = Question::Waits(mine.0.clone(), mine.1.clone());
        if is_another && !self.engine::<bool>(waits).await? {
            return Err(has_newer_token());
        }
        Ok(())
    }

    /// Of a task that waits for the result of a start.
    pub(super) async fn takes_its_place(
        &self,
        result: &mut AwaitedResult,
        found: Option<&ResultItem>,
    ) -> Result<(), Error> {
        let mine = (&result.item.execution, &result.item.task_token);
        let found = found.map(|found| &found.task_token);
        self.is_the_one_that_waits(mine, found).await?;
        result.instead_of = found.cloned();
        Ok(())
    }

    /// Stores a start alone. What another call has stored, if one was faster.
    pub(super) async fn put_alone(
        &self,
        item: &StartItem,
        read: Option<&StartItem>,
    ) -> Result<Option<StartItem>, Error> {
        match self.put((item, read, None), None).await? {
            Wrote::Found(found) => Ok(Some(found)),
            Wrote::Done | Wrote::Faster(_) => Ok(None),
        }
    }
}

fn has_newer_token() -> Error {
    Error::Unavailable {
        problem: "nobody waits with this token, and the same request was repeated with another"
            .to_owned(),
        source: None,
    }
}
