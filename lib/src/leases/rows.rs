//! The rows of a key: the first, which has the queue, and those of a semaphore's other permits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Leases, corrupt},
    row::{Row, Stored},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Head, ReplaceIfUnchanged},
    values::{Holder, Key, Permits, RequestDigest},
    waiter::Waiter,
};

/// The rows of a key, as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    by_permit: BTreeMap<u16, Row>,
    /// In the places of these permits are items of other programs.
    foreign: BTreeSet<u16>,
    /// Whether all rows were read, and not the first only.
    all: bool,
}

impl Rows {
    /// Only the first was read or written: that of a mutex.
    pub(crate) fn only_first(row: Row) -> Self {
        Self {
            by_permit: BTreeMap::from([(0, row)]),
            foreign: BTreeSet::new(),
            all: false,
        }
    }

    /// The row that has the queue.
    pub(crate) fn first(&self) -> Option<&Row> {
        self.by_permit.get(&0)
    }

    pub(crate) const fn are_all(&self) -> bool {
        self.all
    }

    pub(crate) fn waiting(&self) -> &[RequestDigest] {
        self.first().map(Row::waiting).unwrap_or_default()
    }

    /// The row that this request holds.
    pub(crate) fn held_for(&self, request: &RequestDigest) -> Option<(u16, &Row)> {
        let mut rows = self.by_permit.iter();
        let found = rows.find(|(_, row)| row.request == *request && row.holding().is_some());
        found.map(|(permit, row)| (*permit, row))
    }

    /// The row that this holder holds, the first of them.
    pub(crate) fn held_by(&self, holder: &Holder) -> Option<(u16, &Row)> {
        let mut rows = self.by_permit.iter();
        let found = rows.find(|(_, row)| row.granted_to == *holder && row.holding().is_some());
        found.map(|(permit, row)| (*permit, row))
    }

    /// Who holds them.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        let held = self.by_permit.values();
        held.filter(|row| row.holding().is_some())
            .map(|row| &row.granted_to)
    }

    /// A row that somebody holds, if so many hold the key that nobody else may.
    pub(crate) fn full_for(&self, asked: Option<Permits>) -> Option<&Row> {
        let held = || {
            self.by_permit
                .values()
                .filter(|row| row.holding().is_some())
        };
        let most = asked.map_or(1, |asked| number(self.first(), asked, held()).into());
        held().next().filter(|_| held().count() >= most)
    }

    /// Whether one of the rows was granted to this request.
    pub(crate) fn remember(&self, request: &RequestDigest) -> bool {
        self.by_permit.values().any(|row| row.remembers(request))
    }

    /// Until when at the latest this request had the key, whose rows remember it, as far as they say so: until the last of their
    /// grants that goes on, or until its end, by when the row is purged.
    pub(crate) fn remembered_until(&self, request: &RequestDigest, kept: Duration) -> Timestamp {
        let rows = self.by_permit.values();
        let until = rows.filter(|row| row.remembers(request)).map(|row| {
            let ended = || row.purge_at.filter(|at| *at < Row::NEVER);
            row.holding().map_or_else(
                || ended().map(|at| Timestamp::from_millis(at.saturating_mul(1000)).minus(kept)),
                |held| Some(held.acquired_at),
            )
        });
        until.flatten().max().unwrap_or(Timestamp::from_millis(0))
    }

    /// Whether whoever waits first may find a place here. Where only the first row is known and is held, it may not.
    pub(crate) fn may_have_room(&self) -> bool {
        self.all || self.first().is_some_and(|row| row.holding().is_none())
    }

    /// The permits that nobody else is granted now.
    fn taken(&self, passed: Timestamp) -> impl Iterator<Item = &Row> {
        let rows = self.by_permit.values();
        rows.filter(move |row| row.holding().is_some() || row.is_closed(passed))
    }

    /// How many may hold the key at once if whoever waits first asks for so many.
    fn number(&self, asked: Permits, passed: Timestamp) -> u16 {
        number(self.first(), asked, self.taken(passed))
    }

    /// How many of so many permits may be granted. Permits above the number count as well: a lowered number takes effect when
    /// enough of them have been returned.
    fn room(&self, permits: u16, passed: Timestamp) -> usize {
        usize::from(permits).saturating_sub(self.taken(passed).count())
    }

    /// Whether at least two permits may be granted.
    pub(crate) fn have_more_room(&self, asked: Option<Permits>, passed: Timestamp) -> bool {
        asked.is_some_and(|asked| self.room(self.number(asked, passed), passed) > 1)
    }

    /// The permit that whoever waits first may have, with its row, if there is one: of a mutex the first only.
    pub(crate) fn free(
        &self,
        asked: Option<Permits>,
        passed: Timestamp,
    ) -> Option<(u16, Option<&Row>)> {
        let is_free = |permit: &u16| match self.by_permit.get(permit) {
            Some(row) => row.holding().is_none() && row.frozen.is_none() && !row.is_closed(passed),
            None => *permit > 0 && !self.foreign.contains(permit),
        };
        let free = match asked.map(|asked| self.number(asked, passed)) {
            None => Some(0).filter(is_free),
            Some(permits) if self.room(permits, passed) > 0 => (0..permits).find(is_free),
            Some(_) => None,
        };
        free.map(|permit| (permit, self.by_permit.get(&permit)))
    }

    /// The same rows after a write of this one.
    pub(crate) fn with(mut self, permit: u16, row: Row) -> Self {
        self.by_permit.insert(permit, row);
        self
    }
}

/// How many may hold a key at once: what an operator has stored in its first row, or else the smallest number that whoever
/// asks and those who have these permits have asked for.
pub(crate) fn number<'a>(
    first: Option<&Row>,
    asked: Permits,
    taken: impl Iterator<Item = &'a Row>,
) -> u16 {
    if let Some(limit) = first.and_then(|row| row.limit.as_ref()) {
        return limit.permits;
    }
    numbers(taken).fold(asked, Permits::min).get()
}

/// The numbers that those asked for who have these permits. The first may be free, and taken because others wait for it.
pub(crate) fn numbers<'a>(taken: impl Iterator<Item = &'a Row>) -> impl Iterator<Item = Permits> {
    let had = taken.filter(|row| row.free_at().is_some());
    had.filter_map(|row| row.permits)
}

impl<S: Store> Leases<S> {
    /// The first row of `key`: that of a mutex, which has the queue of any key.
    pub(crate) async fn read_queue_row(&self, key: &Key) -> Result<Option<Row>, Error> {
        self.read_row(&Address::first(key)).await
    }

    pub(crate) async fn read_row(&self, at: &Address) -> Result<Option<Row>, Error> {
        match self.store().read_row(at, self.limit()).await? {
            Stored::Row(row) => Ok(Some(row)),
            Stored::Absent => Ok(None),
            Stored::Foreign(reason) => Err(corrupt(at.key.clone(), reason)),
        }
    }

    /// All rows of `key`.
    pub(crate) async fn read_rows(&self, key: &Key) -> Result<Rows, Error> {
        let mut read = Rows {
            by_permit: BTreeMap::new(),
            foreign: BTreeSet::new(),
            all: true,
        };
        for (permit, stored) in self.store().read_key(key, self.limit()).await? {
            match stored {
                Stored::Row(row) => drop(read.by_permit.insert(permit, row)),
                Stored::Foreign(reason) if permit == 0 => return Err(corrupt(key.clone(), reason)),
                Stored::Foreign(_) => drop(read.foreign.insert(permit)),
                Stored::Absent => {}
            }
        }
        Ok(read)
    }

    /// What whoever asked with so many permits may have been granted.
    pub(crate) async fn read_rows_for(
        &self,
        key: &Key,
        permits: Option<Permits>,
    ) -> Result<Rows, Error> {
        if permits.is_some() {
            return self.read_rows(key).await;
        }
        let first = self.read_queue_row(key).await?;
        Ok(Rows {
            by_permit: first.into_iter().map(|row| (0, row)).collect(),
            foreign: BTreeSet::new(),
            all: false,
        })
    }

    /// Replaces a row that was read, if nobody else has written it since.
    pub(crate) async fn replace(
        &self,
        at: &Address,
        seen: &Row,
        row: Row,
        head: Head,
    ) -> Result<Applied, Error> {
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: Some(seen.version),
            row,
            head,
        }));
        self.store().apply(at, &change, self.limit()).await
    }

    /// Removes the first in the queue, whose item does not wait any more. By the version: whoever passed it over before, after
    /// which it may have joined anew, has raised it.
    pub(crate) async fn pass_over(
        &self,
        key: &Key,
        row: &Row,
        head: &RequestDigest,
    ) -> Result<Option<Row>, Error> {
        let next = Row {
            version: row.version.plus(1),
            ..row.clone()
        };
        let applied = self
            .replace(&Address::first(key), row, next, Head::Leaves(head.clone()))
            .await?;
        Ok(match applied {
            Applied::Done { row: shorter, .. } => Some(shorter),
            Applied::Refused(_) => None,
        })
    }

    /// The item of a waiter with a task token.
    pub(crate) async fn waiter_item(
        &self,
        key: &Key,
        request: &RequestDigest,
    ) -> Result<Option<Waiter>, Error> {
        self.store().waiter(key, request, self.limit()).await
    }
}
