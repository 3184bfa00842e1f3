//! A start gets its place: the key if it is free, else one in the queue.
//!
//! The rows are read, and say what becomes of it. Its item is written together with its grant or its place, under the condition
//! that there is none, or that it is still the one that was read. So only one of several calls for a start gives it a place, no item
//! waits without one, and what is refused leaves nothing.

use std::collections::BTreeMap;

use super::{IfHeld, Started, answer_of, changed};
use crate::{
    error::Error,
    leases::{TRIES, corrupt, free_permit, frozen_error, stopped_error},
    metrics::{self, Metric},
    outcomes::GrantKind,
    queue::Queue,
    row::{Row, Stored},
    start::{StartItem, StartStatus},
    store::{Address, Operations, PutStart, Store},
    transition::{
        Change, Grant, Head, Join, JoinRefusal, JoinRule, ReplaceIfUnchanged, TakeoverRule,
        TokenFloor, transition, why_not_joined,
    },
    values::{Key, LeaseId, Permits},
};

/// A start that is to get its place.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// As its item is to be.
    pub(super) item: &'a StartItem,
    /// As it was read: it has failed, or has no place. None for one that nobody has accepted yet.
    pub(super) read: Option<&'a StartItem>,
    pub(super) if_held: IfHeld,
}

/// The rows of a key by permit; of a mutex the first only.
type ByPermit = BTreeMap<u16, Stored>;

impl<S: Store> Queue<S> {
    pub(super) async fn accept(&self, asked: Asked<'_>) -> Result<Started, Error> {
        let grant = self.grant_of(asked.item);
        for _ in 0..TRIES {
            if let Some(answer) = self.try_to_accept(asked, &grant).await? {
                return Ok(answer);
            }
        }
        Err(Error::Unavailable {
            problem: format!(
                "{} changed again and again during this request",
                asked.item.key
            ),
            source: None,
        })
    }

    /// None if somebody else has written the row meanwhile.
    async fn try_to_accept(
        &self,
        asked: Asked<'_>,
        grant: &Grant,
    ) -> Result<Option<Started>, Error> {
        let (key, request) = (&asked.item.key, &grant.request.digest);
        let rows = self.by_permit(key, grant.request.permits).await?;
        let knows = |stored: &Stored| matches!(stored, Stored::Row(row) if row.remembers(request) || row.waiting().contains(request));
        if rows.values().any(knows) {
            return self.was_accepted(asked).await;
        }
        let first = match rows.get(&0) {
            Some(Stored::Foreign(reason)) => return Err(corrupt(key.clone(), reason)),
            Some(Stored::Row(row)) => Some(row),
            Some(Stored::Absent) | None => None,
        };
        if self.settings().stopped {
            return self.refuse(asked, stopped_error(key.clone())).await;
        }
        if let Some(frozen) = first.filter(|row| row.frozen.is_some()) {
            let error = frozen_error(key.clone(), frozen.clone());
            return self.refuse(asked, error).await;
        }
        if let Some((permit, granted)) = may_be_granted(&rows, grant) {
            return self.grant_and_begin(asked, &rows, permit, granted).await;
        }
        match first {
            Some(first) if self.is_to_wait(first, asked).await? => {
                self.join_queue(asked, first, grant).await
            }
            Some(first) => self.skip_or_refuse(asked, first, &rows, grant).await,
            // An earlier version granted other permits before the first, or it was deleted while fewer were granted.
            None => Ok(None),
        }
    }

    async fn by_permit(&self, key: &Key, permits: Option<Permits>) -> Result<ByPermit, Error> {
        if permits.is_some() {
            let rows = self.store().read_key(key, self.limit()).await?;
            return Ok(rows.into_iter().collect());
        }
        let first = self
            .store()
            .read_row(&Address::first(key), self.limit())
            .await?;
        Ok(BTreeMap::from([(0, first)]))
    }

    /// It is granted what is free, and begins.
    async fn grant_and_begin(
        &self,
        asked: Asked<'_>,
        rows: &ByPermit,
        permit: u16,
        granted: Row,
    ) -> Result<Option<Started>, Error> {
        let key = asked.item.key.clone();
        let at = Address { key, permit };
        let seen = match rows.get(&permit) {
            Some(Stored::Row(row)) => Some(row.version),
            _ => None,
        };
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen,
            row: granted.clone(),
            // The queue is in the first row.
            head: if permit == 0 { Head::Nobody } else { Head::Any },
        }));
        match self.put(asked, Some((&at, &change))).await? {
            PutStart::Done => {}
            other => return self.was_overtaken(asked, other).await,
        }
        let kind = GrantKind::after(granted.previous.as_ref());
        metrics::record(Metric::of_grant(kind), 1);
        let begins = self.begin(&at, &granted, asked.item).await?;
        self.answer_of_call(begins, asked.item).await.map(Some)
    }

    /// Whether it waits while the key is as this row says.
    async fn is_to_wait(&self, row: &Row, asked: Asked<'_>) -> Result<bool, Error> {
        Ok(match asked.if_held {
            IfHeld::Wait(_) | IfHeld::Latest(_) => true,
            IfHeld::Replace(_) => {
                row.holding().is_none()
                    || self.started_holder(&asked.item.key, row).await?.is_some()
            }
            IfHeld::Fail | IfHeld::Skip => false,
        })
    }

    async fn join_queue(
        &self,
        asked: Asked<'_>,
        first: &Row,
        grant: &Grant,
    ) -> Result<Option<Started>, Error> {
        let key = &asked.item.key;
        let join = Join {
            request: grant.request.digest.clone(),
            rule: match grant.request.permits {
                None => JoinRule::IfTaken(grant.over),
                Some(_) => JoinRule::Always,
            },
            cap: self.room(asked.item.instead_of.is_some()),
        };
        let (stood, change) = (Stored::Row(first.clone()), Change::Join(join.clone()));
        // As it is then, but for what others write meanwhile.
        let Some(joined) = transition(&stood, &change) else {
            return match why_not_joined(&stood, &join) {
                JoinRefusal::Full => {
                    let (key, waiting) = (key.clone(), usize::from(join.cap));
                    self.refuse(asked, Error::QueueFull { key, waiting }).await
                }
                JoinRefusal::Queued | JoinRefusal::Changed => Ok(None),
            };
        };
        let address = Address::first(key);
        match self.put(asked, Some((&address, &change))).await? {
            PutStart::Done => {}
            other => return self.was_overtaken(asked, other).await,
        }
        // Nobody is stopped for one that was sent away meanwhile, nor a permit left free that came back.
        let must_be_new = asked.item.instead_of.is_some() || grant.request.permits.is_some();
        if must_be_new {
            return Box::pin(self.answer_by_rows(asked.item)).await;
        }
        self.answer_waiting(joined, asked.item).await.map(Some)
    }

    /// Somebody else has the key, and nobody is to wait.
    async fn skip_or_refuse(
        &self,
        asked: Asked<'_>,
        first: &Row,
        rows: &ByPermit,
        grant: &Grant,
    ) -> Result<Option<Started>, Error> {
        let key = asked.item.key.clone();
        let in_the_way = if let Some(permits) = grant.request.permits {
            self.all_taken(key, permits, rows, grant).await
        } else {
            let (at, holder) = (Address::first(&key), &grant.request.holder);
            self.contention(at, first.clone(), holder).await
        };
        match in_the_way {
            Ok(_) if asked.if_held == IfHeld::Skip => {
                let skipped = StartItem {
                    status: StartStatus::Skipped,
                    ..asked.item.clone()
                };
                let item = &skipped;
                match self.put(Asked { item, ..asked }, None).await? {
                    PutStart::Done => Ok(Some(Started::Skipped {
                        execution_arn: item.execution(),
                        held: self.held_now(first, item),
                    })),
                    other => self.was_overtaken(asked, other).await,
                }
            }
            Ok(held) => self.refuse(asked, Error::Held(Box::new(held))).await,
            // Nobody has it, and its limit is 0.
            Err(error @ Error::Frozen { .. }) => self.refuse(asked, error).await,
            Err(error) => Err(error),
        }
    }

    /// It gets no place now. What was accepted before is answered nevertheless, and what was read stays as it is.
    async fn refuse(&self, asked: Asked<'_>, error: Error) -> Result<Option<Started>, Error> {
        if asked.read.is_some() {
            return Err(error);
        }
        match self.stored(asked.item).await? {
            Some(found) => Box::pin(self.answer_from_item(asked.item, found))
                .await
                .map(Some),
            None => Err(error),
        }
    }

    /// The rows know of it: it waits, or has its turn, or had it.
    async fn was_accepted(&self, asked: Asked<'_>) -> Result<Option<Started>, Error> {
        if let Some(read) = asked.read {
            return Box::pin(self.answer_by_rows(read)).await;
        }
        let found = match self.stored(asked.item).await? {
            Some(found) => found,
            // It was deleted by hand, or is purged.
            None => match self.put(asked, None).await? {
                PutStart::Done => asked.item.clone(),
                other => return self.was_overtaken(asked, other).await,
            },
        };
        Box::pin(self.answer_from_item(asked.item, found))
            .await
            .map(Some)
    }

    /// Another call was faster, or another write. None if it was that of a row.
    async fn was_overtaken(
        &self,
        asked: Asked<'_>,
        put: PutStart,
    ) -> Result<Option<Started>, Error> {
        match put {
            PutStart::Found(found) => Box::pin(self.answer_from_item(asked.item, found))
                .await
                .map(Some),
            PutStart::Foreign => Err(corrupt(
                asked.item.key.clone(),
                "another program's item is in the place of a start",
            )),
            PutStart::Gone => Err(changed(asked.item)),
            PutStart::Refused | PutStart::Done | PutStart::Conflict => Ok(None),
        }
    }

    /// As [`Operations::put_start`], again after a conflict.
    async fn put(
        &self,
        asked: Asked<'_>,
        with: Option<(&Address, &Change)>,
    ) -> Result<PutStart, Error> {
        let mut backoff = self.conflict_backoff();
        loop {
            let put = self
                .store()
                .put_start(asked.item, asked.read, with, self.limit());
            match put.await? {
                PutStart::Conflict if backoff.wait().await => {}
                PutStart::Conflict => return Err(self.contention_error()),
                put => return Ok(put),
            }
        }
    }

    /// The item by now.
    pub(super) async fn stored(&self, item: &StartItem) -> Result<Option<StartItem>, Error> {
        let request = item.digest();
        let found = self.store().start_item(&item.key, &request, self.limit());
        found.await
    }

    /// What was accepted before, by another call or an earlier one.
    async fn answer_from_item(&self, item: &StartItem, found: StartItem) -> Result<Started, Error> {
        if !found.is(item) {
            return Err(Error::invalid(
                "name",
                "is in use by another start through this key: with another input, machine or pass_lease",
            ));
        }
        match answer_of(&found) {
            Some(answer) => answer,
            None => self.asked_again(&found).await,
        }
    }

    fn grant_of(&self, item: &StartItem) -> Grant {
        let now = self.now();
        Grant {
            request: item.request.clone(),
            lease_id: LeaseId::random(),
            now,
            over: TakeoverRule::by_clock(self.takeover_deadline()),
            tokens: TokenFloor::Reached(self.settings().token_floor),
            sweep_after: now.plus(self.settings().look),
            by_token: true,
        }
    }
}

/// A permit that may be granted now, and its row once it is.
fn may_be_granted(rows: &ByPermit, grant: &Grant) -> Option<(u16, Row)> {
    let permit = match grant.request.permits {
        None => 0,
        Some(permits) => free_permit(rows, permits, grant)?,
    };
    let stored = rows.get(&permit).unwrap_or(&Stored::Absent);
    let tokens = match stored {
        Stored::Row(row) => grant.tokens.for_row(row.fencing_token),
        _ => grant.tokens,
    };
    let granted = transition(stored, &Change::Grant(grant.with_tokens(tokens)))?;
    Some((permit, granted))
}
