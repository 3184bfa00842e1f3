//! The rows of a key: the first, which has the queue, and those of a semaphore's other permits.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{
        Leases,
        acquire::{differs, other_keys},
        corrupt, own_row,
    },
    metrics::{self, Metric},
    row::{Holding, Row, Stored, how_ended},
    start::StartStatus,
    store::{Address, Applied, Operations, Store},
    transition::{
        Change, Grant, GrantRefusal, Head, ReplaceIfUnchanged, transition, why_not_granted,
    },
    values::{Holder, Key, Permits, RequestDigest},
    waiter::{TokenItem, Waiter},
};

/// How a request stands to the rows of its key.
pub(crate) enum Standing<'a> {
    /// It waits in the queue of this row.
    InQueue(&'a Row),
    /// It was granted this permit, and has it.
    Has(u16, &'a Row),
    /// It had one, as a row remembers.
    Had,
    /// No row knows of it.
    Unknown,
}

/// Who is to be granted a permit. It decides which ones count as taken.
#[derive(Clone, Copy)]
pub(crate) enum Candidate<'a> {
    /// One that asks. It may take over a lease that has ended, by the clock or by its observation, but nothing that others wait for.
    Asks(&'a Grant),
    /// The first waiter, by the clock: now minus the margin. It takes nothing over: sweep ends a lease that has expired before.
    Waits(Timestamp),
}

impl Candidate<'_> {
    fn finds_taken(self, row: &Row) -> bool {
        match self {
            Self::Asks(grant) => !grant.over.allows(row) || row.head().is_some(),
            Self::Waits(passed) => row.holding().is_some() || row.is_closed(passed),
        }
    }

    /// Whether it may be granted this permit, of which this is stored, if there is room.
    pub(crate) fn may_have(self, permit: u16, stored: &Stored) -> bool {
        match (self, stored) {
            (Self::Asks(grant), _) => granted_over(stored, grant).is_some(),
            (_, Stored::Row(row)) => !self.finds_taken(row) && row.frozen.is_none(),
            // It waits in the first row.
            (_, Stored::Absent) => permit > 0,
            (_, Stored::Foreign(_)) => false,
        }
    }
}

/// The row once this grant is written over what is stored, if it may be.
fn granted_over(stored: &Stored, grant: &Grant) -> Option<Row> {
    let tokens = match stored {
        Stored::Row(row) => grant.tokens.for_row(row.fencing_token),
        _ => grant.tokens,
    };
    transition(stored, &Change::Grant(grant.with_tokens(tokens)))
}

/// The rows of a key, as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    by_permit: BTreeMap<u16, Stored>,
    /// Whether all rows were read, and not the first only.
    all: bool,
}

impl Rows {
    /// All rows.
    pub(crate) fn all(read: Vec<(u16, Stored)>) -> Self {
        Self {
            by_permit: read.into_iter().collect(),
            all: true,
        }
    }

    /// Only the first was read or written: that of a mutex.
    pub(crate) fn only_first(row: Row) -> Self {
        Self {
            by_permit: BTreeMap::from([(0, Stored::Row(row))]),
            all: false,
        }
    }

    /// What is stored in the place of this permit.
    pub(crate) fn stored(&self, permit: u16) -> &Stored {
        self.by_permit.get(&permit).unwrap_or(&Stored::Absent)
    }

    /// The row of this permit.
    pub(crate) fn of(&self, permit: u16) -> Option<&Row> {
        self.stored(permit).row()
    }

    /// Each row with its permit.
    pub(crate) fn each(&self) -> impl DoubleEndedIterator<Item = (u16, &Row)> {
        let rows = self.by_permit.iter();
        rows.filter_map(|(permit, stored)| Some((*permit, stored.row()?)))
    }

    /// The permits that somebody holds.
    fn held(&self) -> impl Iterator<Item = (u16, &Row)> {
        self.each().filter(|(_, row)| row.holding().is_some())
    }

    /// The permits in whose places are items of other programs, and what shows that.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = (u16, &'static str)> {
        let all = self.by_permit.iter();
        all.filter_map(|(permit, stored)| match stored {
            Stored::Foreign(reason) => Some((*permit, *reason)),
            Stored::Row(_) | Stored::Absent => None,
        })
    }

    /// The row that has the queue.
    pub(crate) fn first(&self) -> Option<&Row> {
        self.of(0)
    }

    pub(crate) const fn are_all(&self) -> bool {
        self.all
    }

    pub(crate) fn waiting(&self) -> &[RequestDigest] {
        self.first().map(Row::waiting).unwrap_or_default()
    }

    /// How this request stands. A late copy of one that has a permit may wait as well.
    pub(crate) fn standing(&self, request: &RequestDigest) -> Standing<'_> {
        if let Some(first) = self.first().filter(|row| row.waiting().contains(request)) {
            return Standing::InQueue(first);
        }
        match self.held_for(request) {
            Some((permit, row)) => Standing::Has(permit, row),
            None if self.remember(request) => Standing::Had,
            None => Standing::Unknown,
        }
    }

    /// The row that this request holds.
    pub(crate) fn held_for(&self, request: &RequestDigest) -> Option<(u16, &Row)> {
        self.held().find(|(_, row)| row.request == *request)
    }

    /// The row that this holder holds, the first of them.
    pub(crate) fn held_by(&self, holder: &Holder) -> Option<(u16, &Row)> {
        self.held().find(|(_, row)| row.granted_to == *holder)
    }

    /// Who holds them.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.held().map(|(_, row)| &row.granted_to)
    }

    /// A row that somebody holds, if so many hold the key that nobody else may.
    pub(crate) fn full_for(&self, asked: Option<Permits>) -> Option<&Row> {
        let held = || self.held().map(|(_, row)| row);
        let most = asked.map_or(1, |asked| number(self.first(), asked, held()).into());
        held().next().filter(|_| held().count() >= most)
    }

    /// One of the permits that this holder has, if these alone leave a request no room: a holder that waits for both waits for itself. One that
    /// the holder is not to learn of yet, or cannot learn of any more, does not count.
    pub(crate) fn leave_no_room_but_for(
        &self,
        holder: &Holder,
        grant: &Grant,
    ) -> Option<(u16, &Row)> {
        let lasts = |held: &Holding| held.expires_at() > grant.now;
        let is_its = |row: &Row| row.granted_to == *holder && row.holding().is_some_and(lasts);
        let knows = |row: &Row| !row.waits_in_pool() && !row.is_refused();
        let number = |asked| self.number(asked, Candidate::Asks(grant)).into();
        let most = grant.request.permits.map_or(1, number);
        let its = || self.held().filter(|(_, row)| is_its(row) && knows(row));
        its().next().filter(|_| its().count() >= most)
    }

    /// Whether one of the rows was granted to this request.
    pub(crate) fn remember(&self, request: &RequestDigest) -> bool {
        self.each().any(|(_, row)| row.remembers(request))
    }

    /// The permit that this request has already, or its holder; an error if it had one, or if its holder's is another than it asks for.
    pub(crate) fn already_granted(
        &self,
        key: &Key,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<Option<(Address, Row)>, Error> {
        let request = &grant.request.digest;
        let (mut reentered, mut differing) = (None, None);
        let at = |permit: &u16| Address {
            key: key.clone(),
            permit: *permit,
        };
        for (permit, stored) in &self.by_permit {
            match why_not_granted(stored.clone(), grant, reentrant) {
                // The request's own permit before any other of its holder.
                GrantRefusal::Replayed(row) => return Ok(Some((at(permit), row))),
                GrantRefusal::OtherKeys => return Err(other_keys()),
                GrantRefusal::Reentered(row) if reentered.is_none() => {
                    reentered = Some((at(permit), row));
                }
                GrantRefusal::Differs(field) => differing = Some(field),
                _ => {}
            }
        }
        match differing {
            _ if self.remember(request) => Err(Error::Consumed { key: key.clone() }),
            _ if reentered.is_some() => Ok(reentered),
            Some(field) => Err(differs(field)),
            None => Ok(None),
        }
    }

    /// How the lease of this request ended, which had one.
    pub(crate) fn how_ended(&self, request: &RequestDigest) -> String {
        let mut rows = self.each().map(|(_, row)| row);
        rows.find(|row| row.request == *request).map_or_else(
            || "it ended, and others were granted the key since".to_owned(),
            |row| how_ended(Some(row), row.last_grant().fencing_token),
        )
    }

    /// Until when at the latest this request had the key, whose rows remember it, as far as they say so: until the last of their
    /// grants that goes on, or until its end, by when the row is purged.
    pub(crate) fn remembered_until(&self, request: &RequestDigest, kept: Duration) -> Timestamp {
        let rows = self.each().map(|(_, row)| row);
        let until = rows.filter(|row| row.remembers(request)).map(|row| {
            let ended = || row.purge_at.filter(|at| *at < Row::NEVER);
            row.holding().map_or_else(
                || ended().map(|at| Timestamp::from_millis(at.saturating_mul(1000)).minus(kept)),
                |held| Some(held.acquired_at),
            )
        });
        until.flatten().max().unwrap_or(Timestamp::from_millis(0))
    }

    /// Whether the first waiter may find a place here. Where only the first row is known and is held, it may not.
    pub(crate) fn may_have_room(&self) -> bool {
        self.all || self.first().is_some_and(|row| row.holding().is_none())
    }

    /// The permits that this candidate may not have.
    fn taken(&self, by: Candidate<'_>) -> impl Iterator<Item = (u16, &Row)> {
        self.each().filter(move |(_, row)| by.finds_taken(row))
    }

    /// How many may hold the key at once if the candidate asks for so many.
    pub(crate) fn number(&self, asked: Permits, candidate: Candidate<'_>) -> u16 {
        let taken = self.taken(candidate).map(|(_, row)| row);
        number(self.first(), asked, taken)
    }

    /// How many of them may be granted. Permits above the number count as well: a lowered number takes effect when enough of
    /// them have been returned.
    pub(crate) fn room(&self, asked: Permits, candidate: Candidate<'_>) -> usize {
        let number = usize::from(self.number(asked, candidate));
        number.saturating_sub(self.taken(candidate).count())
    }

    /// The permits, in the order in which they are tried. Those who ask start with one that the request's number selects: copies
    /// of a request try the same permit first; different requests try different ones. The first row comes before any other,
    /// because it has the queue.
    pub(crate) fn in_order(
        &self,
        permits: u16,
        candidate: Candidate<'_>,
    ) -> impl Iterator<Item = u16> + use<> {
        let start = match candidate {
            Candidate::Asks(grant) if self.by_permit.contains_key(&0) => {
                grant.request.digest.number() % u64::from(permits)
            }
            Candidate::Asks(_) | Candidate::Waits(_) => 0,
        };
        let start = u16::try_from(start).unwrap_or(0);
        (start..permits).chain(0..start)
    }

    /// The permit that the candidate may have, if there is one: of a mutex the first only.
    pub(crate) fn free(&self, asked: Option<Permits>, candidate: Candidate<'_>) -> Option<u16> {
        let is_free = |permit: &u16| candidate.may_have(*permit, self.stored(*permit));
        let Some(asked) = asked else {
            return Some(0).filter(is_free);
        };
        if self.room(asked, candidate) == 0 {
            return None;
        }
        let permits = self.number(asked, candidate);
        self.in_order(permits, candidate).find(is_free)
    }

    /// What one that asks is granted now, if anything, and its row then. Waiters come first.
    pub(crate) fn grantable(&self, grant: &Grant) -> Option<(u16, Row)> {
        if !self.waiting().is_empty() {
            return None;
        }
        let permit = self.free(grant.request.permits, Candidate::Asks(grant))?;
        Some((permit, granted_over(self.stored(permit), grant)?))
    }

    /// The permit whose end makes room for one that asks, if the permits end in the order of their deadlines.
    pub(crate) fn makes_room(&self, asked: Permits, grant: &Grant) -> Option<(u16, &Row)> {
        let mut taken: Vec<_> = self.taken(Candidate::Asks(grant)).collect();
        taken.sort_by_key(|(_, row)| row.free_at().unwrap_or(grant.now));
        // So many have to end before one may be granted; with a limit of 0, all.
        let ends = (1..taken.len()).find(|ends| {
            let left = taken.iter().skip(*ends).map(|(_, row)| *row);
            left.clone().count() < usize::from(number(self.first(), asked, left))
        });
        let last = ends.unwrap_or(taken.len()).saturating_sub(1);
        taken.into_iter().nth(last)
    }

    /// The row that says that an operator froze the key, or that its limit is 0.
    pub(crate) fn frozen(&self) -> Option<&Row> {
        let frozen = self.each().rfind(|(_, row)| row.frozen.is_some());
        let limited = || self.first().filter(|first| first.is_limited_to_none());
        frozen.map(|(_, row)| row).or_else(limited)
    }

    /// Counts a request for another number of permits than that of somebody who has one: one of the two is set up wrongly, or a
    /// new number has just been deployed. An operator's limit stands in place of all of them.
    pub(crate) fn note_other_numbers(&self, key: &Key, asked: Permits, grant: &Grant) {
        let is_limited = self.first().is_some_and(|row| row.limit.is_some());
        let taken = self.taken(Candidate::Asks(grant)).map(|(_, row)| row);
        if let Some(other) = numbers(taken).find(|other| *other != asked)
            && !is_limited
        {
            metrics::record(Metric::PermitsDiffer, 1);
            let (asked, other) = (asked.get(), other.get());
            tracing::warn!(%key, asked, other, "callers ask for different numbers of permits: the smallest counts");
        }
    }

    /// This one was written.
    pub(crate) fn write(&mut self, permit: u16, row: Row) {
        self.by_permit.insert(permit, Stored::Row(row));
    }

    /// The same rows after a write of this one.
    pub(crate) fn with(self, permit: u16, row: Row) -> Self {
        self.with_stored(permit, Stored::Row(row))
    }

    /// The same, where this is stored by now.
    pub(crate) fn with_stored(mut self, permit: u16, stored: Stored) -> Self {
        self.by_permit.insert(permit, stored);
        self
    }
}

/// How many may hold a key at once: what an operator has stored in its first row, or else the smallest number that the caller
/// and those who have these permits have asked for.
fn number<'a>(first: Option<&Row>, asked: Permits, taken: impl Iterator<Item = &'a Row>) -> u16 {
    if let Some(limit) = first.and_then(|row| row.limit.as_ref()) {
        return limit.permits;
    }
    numbers(taken).fold(asked, Permits::min).get()
}

/// The numbers that those asked for who have these permits. The first may be free, and taken because others wait for it.
fn numbers<'a>(taken: impl Iterator<Item = &'a Row>) -> impl Iterator<Item = Permits> {
    let had = taken.filter(|row| row.free_at().is_some());
    had.filter_map(|row| row.permits)
}

impl<S: Store> Leases<S> {
    /// The first row of `key`: that of a mutex, which has the queue of any key.
    pub(crate) async fn read_queue_row(&self, key: &Key) -> Result<Option<Row>, Error> {
        self.read_row(&Address::first(key)).await
    }

    pub(crate) async fn read_row(&self, at: &Address) -> Result<Option<Row>, Error> {
        let stored = self.store().read_row(at, self.limit()).await?;
        own_row(&at.key, stored)
    }

    /// All rows of `key`.
    pub(crate) async fn read_rows(&self, key: &Key) -> Result<Rows, Error> {
        let read = self.store().read_key(key, self.limit()).await?;
        let rows = Rows::all(read);
        if let Stored::Foreign(reason) = rows.stored(0) {
            return Err(corrupt(key.clone(), reason));
        }
        Ok(rows)
    }

    /// The same for a caller who wants no other program's item among them.
    pub(crate) async fn read_own_rows(&self, key: &Key) -> Result<Vec<(u16, Row)>, Error> {
        let rows = self.store().read_key(key, self.limit()).await?.into_iter();
        let rows = rows.map(|(permit, stored)| Ok(own_row(key, stored)?.map(|row| (permit, row))));
        rows.filter_map(Result::transpose).collect()
    }

    /// What a caller that asked for so many permits may have been granted.
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
            by_permit: first.map(|row| (0, Stored::Row(row))).into_iter().collect(),
            all: false,
        })
    }

    /// The same, with the place or the permit of this request, if it has one. Several rows are read one after the other: what moves from one
    /// to another meanwhile may be in none of them, and is looked for once more.
    pub(crate) async fn read_rows_of(
        &self,
        key: &Key,
        permits: Option<Permits>,
        request: &RequestDigest,
    ) -> Result<Rows, Error> {
        let rows = self.read_rows_for(key, permits).await?;
        if rows.are_all() && matches!(rows.standing(request), Standing::Unknown) {
            return self.read_rows(key).await;
        }
        Ok(rows)
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

    /// Removes the first in the queue, whose item does not wait any more. By the version: a caller that passed it over before, after
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

    /// The item of a task token.
    pub(crate) async fn token_item(
        &self,
        key: &Key,
        request: &RequestDigest,
    ) -> Result<Option<TokenItem>, Error> {
        self.store().token_item(key, request, self.limit()).await
    }

    /// One that waits, by its item; none if it does not wait any more.
    pub(crate) async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
    ) -> Result<Option<Waiter>, Error> {
        if !request.is_start() {
            let item = self.token_item(key, request).await?;
            return Ok(item.map(|item| Waiter::Token(Box::new(item))));
        }
        let item = self.store().start_item(key, request, self.limit()).await?;
        let item = item.filter(|item| item.status == StartStatus::Waiting);
        Ok(item.map(|item| Waiter::Start(Box::new(item))))
    }
}
