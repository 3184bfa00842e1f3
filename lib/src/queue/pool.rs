//! A grant of a key that needs a pool before anybody is notified of it.
//!
//! The row of the key says so from the grant on (`InPool`), and everything about the pool is in the pool's own row: who is inside, and who
//! waits (`Entries`), by the names of their grants. A walk of the pool ([`Walk::next`] says what is due, [`Queue::walk`] does it):
//!
//! 1. drops each entry whose grant has ended, as far as it has read the rows of the keys;
//! 2. puts the grants that ask in their places;
//! 3. lets the first of those who wait enter, as long as there is room: after the row of its key and its item were read;
//! 4. writes all that at once, if the pool is as it was read;
//! 5. notes in the row of each one who has entered that it has, on the condition of its version, and notifies it, as if the key had been
//!    granted at that moment.
//!
//! An entry is valid as long as the row of its key has that grant. So who gives a key up gives up the pool with it, in whichever way
//! it ends, and the next walk drops the entry. A row with a smaller token than its entry was read before: it is read again, and ends nothing.
//!
//! An operator's freeze of a key holds it back in the queue of the pool, and those behind pass it; who is inside stays there.
//!
//! # If a process dies between two writes
//!
//! | after | and before | what is left | who does the rest |
//! |---|---|---|---|
//! | the grant of the key | its entry | a row that waits, unknown to the pool | sweep walks the pool with it |
//! | its entry inside | the note of it in the row | one inside that nobody has notified | sweep notes and notifies it |
//! | the note | the notification | as after any grant from the queue | sweep notifies again |
//! | the end of the key's grant | the end of its entry | an entry of a grant that has ended | who walks the pool with the row of the key: the key's next, or sweep as soon as anybody waits |

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Queue,
    begin::{Begins, not_started_reason},
    serve::Effect,
};
use crate::{
    clock::Timestamp,
    error::Error,
    leases::{AuditReason, Evictable, ForceReleaseOutcome, TRIES, is_but_for_the_queue, pool_of},
    metrics::{self, Metric},
    request::Request,
    retry::{AT_ONCE, some_at_a_time},
    row::{Entries, Entry, Holding, InPool, Notification, Row, State, Stored},
    start::Known,
    start::StartItem,
    store::{Address, Applied, Connection, Operations, Store},
    transition::{Change, Head, ReplaceIfUnchanged},
    values::Key,
    waiter::Waiter,
};

#[cfg(test)]
mod tests;

/// How the grant of a key stands to its pool.
pub(crate) enum Entered {
    /// It needs none, or is inside: the row as it is.
    Yes(Box<Row>),
    /// It waits in the pool, or another process sees to it.
    Waits,
    /// It was granted its key again by a redrive, and these are inside.
    Full(String),
}

/// Rows of grants with a pool, as they were read.
pub(crate) type RowsInPools = BTreeMap<Address, Row>;

/// More steps than any pool needs.
const MOST_STEPS: usize = 20_000;

/// How large the entries of a pool may grow. An entrant that finds no place keeps its key, and asks again in the next sweep.
const MOST_BYTES: usize = 300_000;

/// What a walk knows of one grant, by the row of its key.
struct Seen {
    row: Option<Row>,
    /// Another program's item is in its place: nothing can be said of the grant.
    is_foreign: bool,
    /// After how many readings of the pool it was read.
    at: u32,
    /// Operators let nobody be granted the key.
    is_held_back: bool,
    notifies: Notifies,
}

/// Who is to be notified of a grant.
#[derive(Default)]
enum Notifies {
    /// Its item was not read.
    #[default]
    Unread,
    /// Its item is gone, or there never was one.
    Nobody,
    One(Waiter),
}

/// How an entry stands to the row of its key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// The row was not read, or before the entry was made.
    Unknown,
    /// The grant has ended.
    Dead,
    /// It has not entered, as far as its row says.
    Waits,
    /// The same, and operators hold it back, or it is not to be notified any more.
    HeldBack,
    /// It has entered.
    Entered,
}

/// What is due next in a pool.
enum Step {
    /// The row of this grant is to be read.
    Read(Entry),
    /// The entries are to be these.
    Write(Entries),
    /// It is inside: its row is to say so, and it is to be notified.
    Enter(Entry),
    /// The caller's own grant is one of a redrive, and has no room beside these.
    Full(Vec<Entry>),
    Rest,
}

/// A walk of a pool.
struct Walk<'a> {
    pool: &'a Key,
    began: Timestamp,
    /// How often the pool was read.
    reads: u32,
    rows: BTreeMap<Address, Seen>,
    /// The grants that are to be in it.
    asks: Vec<Entry>,
    /// That of the caller, who notifies it, and its request; without one, of a redrive.
    own: Option<(Entry, Option<&'a Request>)>,
    /// Of these the walk has done what it can.
    done: BTreeSet<Address>,
    /// Whether the rows of all who are inside are to be known.
    is_thorough: bool,
    /// One could not be notified, because the role may not call its state machine.
    is_forbidden: bool,
    /// Nobody else enters.
    is_over: bool,
    served: u64,
}

impl<'a> Walk<'a> {
    const fn new(pool: &'a Key, began: Timestamp) -> Self {
        Self {
            pool,
            began,
            reads: 0,
            rows: BTreeMap::new(),
            asks: Vec::new(),
            own: None,
            done: BTreeSet::new(),
            is_thorough: false,
            is_forbidden: false,
            is_over: false,
            served: 0,
        }
    }

    /// The row as it was read or written.
    fn know(&mut self, at: Address, row: Option<Row>) {
        let seen = Seen {
            row,
            is_foreign: false,
            at: self.reads,
            is_held_back: false,
            notifies: Notifies::Unread,
        };
        self.rows.insert(at, seen);
    }

    /// The grant in this row asks, if it is of this pool and has not entered.
    fn ask(&mut self, at: &Address, row: &Row) {
        let is_its = row.waited_for_pool() == self.pool.pool_name();
        if let Some(entry) = Entry::in_row(at, row).filter(|_| is_its) {
            self.asks.push(entry);
        }
    }

    /// Whether others may enter too. A caller that has an execution redriven need not be able to notify anybody.
    fn is_for_all(&self) -> bool {
        !matches!(self.own, Some((_, None)))
    }

    fn is_own(&self, entry: &Entry) -> bool {
        self.own.as_ref().is_some_and(|(own, _)| own == entry)
    }

    fn row_of(&self, entry: &Entry) -> Option<&Row> {
        self.rows.get(&entry.at())?.row.as_ref()
    }

    fn stand(&self, entry: &Entry) -> Stand {
        let Some(seen) = self.rows.get(&entry.at()) else {
            return Stand::Unknown;
        };
        let is_fresh = seen.at == self.reads;
        match &seen.row {
            None if seen.is_foreign => Stand::HeldBack,
            None if is_fresh => Stand::Dead,
            None => Stand::Unknown,
            Some(row) if entry.has_ended_in(row) => Stand::Dead,
            // Of a row that was restored from a backup nothing can be said.
            Some(row) if !entry.is_held_in(row) && is_fresh => Stand::HeldBack,
            Some(row) if !entry.is_held_in(row) => Stand::Unknown,
            Some(row) if !row.waits_in_pool() => Stand::Entered,
            Some(row) if seen.is_held_back || row.is_refused() => Stand::HeldBack,
            Some(_) => Stand::Waits,
        }
    }

    /// Whether this walk sees to it that it is notified; none if its item was not read.
    fn is_notified(&self, entry: &Entry) -> Option<bool> {
        if self.is_own(entry) || self.row_of(entry).is_some_and(Row::is_of_a_redrive) {
            return Some(true);
        }
        match self.rows.get(&entry.at())?.notifies {
            Notifies::Unread => None,
            Notifies::Nobody => Some(false),
            Notifies::One(_) => Some(true),
        }
    }

    /// What is due in the pool of this row, where the caller may begin starts, and may let anybody enter.
    fn next(&self, pool: Option<&Row>, may_begin: bool, may_enter: bool) -> Step {
        let before = pool.map(Row::in_pool).unwrap_or_default();
        let mut next = before.clone();
        let mut inside = before.inside.values();
        if self.is_thorough
            && let Some(unknown) = inside.find(|entry| self.stand(entry) == Stand::Unknown)
        {
            return Step::Read(unknown.clone());
        }
        let lasts = |entry: &Entry| self.stand(entry) != Stand::Dead;
        next.inside.retain(|_, entry| lasts(entry));
        next.waiting.retain(lasts);
        for ask in self.asks.iter().filter(|ask| lasts(ask)) {
            let same = next.all().find(|entry| entry.at() == ask.at());
            match same.map(|same| same.fencing_token == ask.fencing_token) {
                Some(true) => continue,
                // The row of the one that asks was read before it was granted that.
                Some(false) => return Step::Read(ask.clone()),
                None => {}
            }
            if self.stand(ask) == Stand::Entered {
                // It may run.
                next.enter(ask.clone());
            } else if !self.row_of(ask).is_some_and(Row::is_of_a_redrive) {
                if next.size() < MOST_BYTES {
                    next.waiting.push(ask.clone());
                }
            } else if may_enter && room(pool, &next, ask) {
                next.enter(ask.clone());
            } else if may_enter && self.is_own(ask) {
                // Nobody is stopped for an entry of a grant that has ended.
                let mut inside = next.inside.values();
                return match inside.find(|entry| self.stand(entry) == Stand::Unknown) {
                    Some(unknown) => Step::Read(unknown.clone()),
                    None => Step::Full(next.inside.into_values().collect()),
                };
            }
        }
        let mut place = 0;
        while may_enter
            && self.is_for_all()
            && let Some(head) = next.waiting.get(place)
            && room(pool, &next, head)
        {
            match self.stand(head) {
                Stand::Unknown => return Step::Read(head.clone()),
                Stand::Dead | Stand::HeldBack => place += 1,
                Stand::Waits if !may_begin && head.request.is_start() => break,
                Stand::Waits if self.is_notified(head).is_none() => {
                    return Step::Read(head.clone());
                }
                // Its item was deleted by hand: a look at its row ends the grant.
                Stand::Waits if self.is_notified(head) == Some(false) => place += 1,
                Stand::Waits | Stand::Entered => {
                    let head = next.waiting.remove(place);
                    next.enter(head);
                }
            }
        }
        if next != before {
            return Step::Write(next);
        }
        let is_due = |entry: &&Entry| {
            may_enter
                && (self.is_for_all() || self.is_own(entry))
                && self.stand(entry) == Stand::Waits
                && (may_begin || !entry.request.is_start())
                && self.is_notified(entry) != Some(false)
                && !self.done.contains(&entry.at())
        };
        // The caller notifies its own, when the others are done.
        let due = before.inside.values().filter(is_due);
        match due.min_by_key(|entry| self.is_own(entry)) {
            None => Step::Rest,
            Some(entry) if self.is_notified(entry).is_none() => Step::Read(entry.clone()),
            Some(entry) => Step::Enter(entry.clone()),
        }
    }
}

/// Whether there is room for one more besides these: as many as an operator has set may be inside, or as the smallest number says of those
/// who are and of this one.
fn room(pool: Option<&Row>, entries: &Entries, one: &Entry) -> bool {
    let inside = entries.inside.values();
    let number = match pool.and_then(|row| row.limit.as_ref()) {
        Some(limit) => limit.permits,
        None => inside
            .fold(one.number, |least, other| least.min(other.number))
            .get(),
    };
    let is_frozen = pool.is_some_and(|row| row.frozen.is_some());
    !is_frozen && entries.inside.len() < number.into()
}

impl<S: Store> Queue<S> {
    /// Lets the grant in this row enter its pool, before its holder is notified.
    pub(crate) async fn enter(
        &self,
        at: &Address,
        row: &Row,
        request: Option<&Request>,
    ) -> Result<Entered, Error> {
        let Some(entry) = Entry::in_row(at, row).filter(|_| row.waits_in_pool()) else {
            return Ok(Entered::Yes(Box::new(row.clone())));
        };
        let pool = row.holding().and_then(|held| held.pool.as_ref());
        let Some(pool) = pool.filter(|_| !row.is_refused()).map(|pool| &pool.key) else {
            return Ok(Entered::Waits);
        };
        if self.serving.as_ref() == Some(pool) {
            // The one that walks the pool finds it.
            return Ok(Entered::Waits);
        }
        let mut walk = Walk::new(pool, self.now());
        walk.know(at.clone(), Some(row.clone()));
        walk.asks.push(entry.clone());
        walk.own = Some((entry, request));
        let entered = Box::pin(self.walk(&mut walk)).await?;
        Ok(entered.unwrap_or(Entered::Waits))
    }

    /// Walks a pool, by a caller whose own work is done: what fails here is left to sweep. These rows were read or written by the caller, or
    /// have grants that may be in no place yet. Returns how many were notified.
    pub(crate) async fn serve_pool(&self, pool: &Key, rows: Vec<(Address, Row)>) -> u64 {
        if self.serving.as_ref() == Some(pool) {
            return 0;
        }
        let mut walk = Walk::new(pool, self.now());
        for (at, row) in rows {
            walk.ask(&at, &row);
            walk.know(at, Some(row));
        }
        if let Err(error) = Box::pin(self.walk(&mut walk)).await {
            error.count();
            let (pool, problem) = (pool.as_str(), error.in_full());
            tracing::error!(pool, problem, "who waits in the pool is left to sweep");
        }
        walk.served
    }

    /// The same for sweep: what has ended of those who are inside makes room, even if somebody has died since. Of those whose rows are not
    /// among the `known`, or were read before their entries were made, they are read.
    pub(crate) async fn maintain_pool(
        &self,
        pool: &Key,
        waiting: Vec<(Address, Row)>,
        known: &RowsInPools,
    ) -> Result<u64, Error> {
        let mut walk = Walk::new(pool, self.now());
        walk.is_thorough = true;
        for (at, row) in known
            .iter()
            .filter(|(_, row)| pool_of(row).as_ref() == Some(pool))
        {
            walk.know(at.clone(), Some(row.clone()));
        }
        for (at, row) in waiting {
            walk.ask(&at, &row);
            walk.know(at, Some(row));
        }
        let row = self.read_pool(&mut walk).await?;
        let entries = row.as_ref().map(Row::in_pool).unwrap_or_default();
        metrics::record(Metric::QueueDepth, entries.waiting.len() as u64);
        let unknown = entries.inside.values();
        let unknown = unknown.filter(|entry| walk.stand(entry) == Stand::Unknown);
        let reads = unknown.map(Entry::at).map(async |at| {
            let row = self.read_row(&at).await;
            (at, row)
        });
        for (at, row) in some_at_a_time(AT_ONCE, reads.collect()).await {
            match row {
                // Read again, and left alone.
                Err(Error::Corrupt { .. }) => {}
                row => walk.know(at, row?),
            }
        }
        Box::pin(self.walk_from(&mut walk, row)).await?;
        Ok(walk.served)
    }

    /// The same for the pools that grants of this key wait for.
    pub(crate) async fn serve_pools_of(&self, key: &Key) {
        match Box::pin(self.read_rows(key)).await {
            Ok(rows) => {
                for (permit, row) in rows.each() {
                    let key = key.clone();
                    let at = Address { key, permit };
                    if let Some(pool) = row.holding().and_then(|held| held.pool.as_ref())
                        && !pool.entered
                    {
                        self.serve_pool(&pool.key, vec![(at, row.clone())]).await;
                    }
                }
            }
            Err(error) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, problem, "who waits in a pool is left to sweep");
            }
        }
    }

    /// Does what is due in a pool. What became of the caller's own grant.
    async fn walk(&self, walk: &mut Walk<'_>) -> Result<Option<Entered>, Error> {
        let found = self.read_pool(walk).await?;
        self.walk_from(walk, found).await
    }

    /// The same, where the pool was read.
    async fn walk_from(
        &self,
        walk: &mut Walk<'_>,
        mut found: Option<Row>,
    ) -> Result<Option<Entered>, Error> {
        let (mut backoff, may_begin) = (self.conflict_backoff(), !self.starts.is_empty());
        let (first, mut tries) = (Address::first(walk.pool), TRIES);
        for _ in 0..MOST_STEPS {
            let in_time = match self.deadline() {
                Some(_) => !self.is_nearly_over(),
                None => self.now().since(walk.began) < Connection::OPERATION,
            };
            let may_enter = in_time && !walk.is_over && !self.settings().stopped;
            match walk.next(found.as_ref(), may_begin, may_enter) {
                Step::Rest => return Ok(None),
                Step::Full(inside) => {
                    let inside = inside.iter().map(|one| one.key.as_str());
                    let inside = inside.collect::<Vec<_>>().join(", ");
                    let pool = walk.pool.label();
                    let full = if inside.is_empty() {
                        format!("{pool} is closed by an operator")
                    } else {
                        format!("{pool} is full: of {inside}")
                    };
                    return Ok(Some(Entered::Full(full)));
                }
                Step::Read(entry) => self.learn(walk, &entry).await?,
                Step::Write(entries) => {
                    match self.write_entries(&first, found.as_ref(), entries).await? {
                        Ok(row) => found = Some(row),
                        Err(_) if backoff.wait().await => found = self.read_pool(walk).await?,
                        Err(_) => return Err(self.contention_error()),
                    }
                }
                Step::Enter(entry) => {
                    let own = walk.is_own(&entry);
                    match self.has_entered(walk, &entry).await? {
                        Some(row) if own => return Ok(Some(Entered::Yes(Box::new(row)))),
                        Some(_) => {}
                        // Its row has changed.
                        None if tries > 0 => {
                            tries -= 1;
                            walk.done.remove(&entry.at());
                            self.learn(walk, &entry).await?;
                        }
                        None => return Ok(None),
                    }
                }
            }
        }
        Err(self.contention_error())
    }

    async fn read_pool(&self, walk: &mut Walk<'_>) -> Result<Option<Row>, Error> {
        walk.reads += 1;
        self.read_queue_row(walk.pool).await
    }

    /// Reads the row of a grant, and who is to be notified of it, if that is still to be done.
    async fn learn(&self, walk: &mut Walk<'_>, entry: &Entry) -> Result<(), Error> {
        let at = entry.at();
        let (row, is_foreign) = match self.read_row(&at).await {
            Err(Error::Corrupt { .. }) => (None, true),
            row => (row?, false),
        };
        let mut seen = Seen {
            row,
            is_foreign,
            at: walk.reads,
            is_held_back: false,
            notifies: Notifies::Unread,
        };
        if let Some(row) = &seen.row
            && entry.is_held_in(row)
            && row.waits_in_pool()
        {
            let first = match at.permit {
                0 => None,
                _ => self.read_queue_row(&at.key).await?,
            };
            let is_limited = first.is_some_and(|first| first.is_limited_to_none());
            seen.is_held_back = is_limited || !row.may_be_granted();
            if !row.is_of_a_redrive() && !walk.is_own(entry) {
                let waiter = self.waiter(&at.key, &entry.request).await?;
                seen.notifies = waiter.map_or(Notifies::Nobody, Notifies::One);
            }
        }
        walk.rows.insert(at, seen);
        Ok(())
    }

    /// Writes the entries of a pool that was read. What is stored, if somebody else was faster.
    async fn write_entries(
        &self,
        at: &Address,
        pool: Option<&Row>,
        entries: Entries,
    ) -> Result<Result<Row, Stored>, Error> {
        let row = pool.cloned().unwrap_or_else(|| self.untouched());
        let purge_at = row.purge_once_free(self.purge_at(row.fencing_token));
        let next = Row {
            version: row.version.plus(1),
            purge_at: entries.is_empty().then_some(purge_at),
            entries: Some(Box::new(entries)),
            ..row
        };
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: pool.map(|row| row.version),
            row: next.clone(),
            head: Head::Any,
        }));
        Ok(match self.store().apply(at, &change, self.limit()).await? {
            Applied::Done { row, .. } => Ok(row),
            // This very write, whose response was lost.
            Applied::Refused(Stored::Row(found)) if found == next => Ok(found),
            Applied::Refused(stored) => Err(stored),
        })
    }

    /// One is inside: notes that in the row of its key, and notifies it, unless it is the caller's own. The row then; none if it has changed.
    async fn has_entered(&self, walk: &mut Walk<'_>, entry: &Entry) -> Result<Option<Row>, Error> {
        let at = entry.at();
        walk.done.insert(at.clone());
        let Some(seen) = walk.rows.get_mut(&at) else {
            return Ok(None);
        };
        let waiter = match std::mem::take(&mut seen.notifies) {
            Notifies::One(waiter) => Some(waiter),
            Notifies::Unread | Notifies::Nobody => None,
        };
        let Some(row) = seen.row.clone() else {
            return Ok(None);
        };
        let own = walk.own.as_ref().filter(|(own, _)| own == entry);
        let request = match own {
            Some((_, request)) => *request,
            None => waiter.as_ref().map(Waiter::request),
        };
        let Some(row) = self.note_entered(&at, &row, request).await? else {
            return Ok(None);
        };
        walk.know(at.clone(), Some(row.clone()));
        let Some(waiter) = waiter else {
            return Ok(Some(row));
        };
        let inside = Self {
            serving: Some(walk.pool.clone()),
            ..self.clone()
        };
        let effect = Box::pin(inside.put_into_effect(&at, row.clone(), waiter)).await?;
        match effect {
            Effect::Told => walk.served += 1,
            // Somebody else may have its key by now.
            Effect::Unknown => self.learn(walk, entry).await?,
            _ => {}
        }
        if let Effect::Forbidden(_) = effect {
            // Another one whose machine may be at fault; or the role is, and no third one loses its place.
            walk.is_over = walk.is_forbidden;
            walk.is_forbidden = true;
        }
        if let Some(free) = effect.into_free() {
            walk.know(at.clone(), Some(free.row.clone()));
            walk.served += u64::from(Box::pin(inside.serve(Some(free))).await);
            // The next of its key enters after those who wait.
            let rows = if at.permit == 0 {
                let first = self.read_queue_row(&at.key).await?;
                first.into_iter().map(|row| (0, row)).collect()
            } else {
                self.read_own_rows(&at.key).await?
            };
            for (permit, row) in rows {
                let key = at.key.clone();
                let at = Address { key, permit };
                if row.waits_in_pool() {
                    walk.done.remove(&at);
                }
                walk.ask(&at, &row);
                walk.know(at, Some(row));
            }
        }
        Ok(Some(row))
    }

    /// Notes in the row of a key that its grant is in its pool: the grant begins with it. None if the row has changed.
    async fn note_entered(
        &self,
        at: &Address,
        row: &Row,
        request: Option<&Request>,
    ) -> Result<Option<Row>, Error> {
        let mut row = row.clone();
        for _ in 0..TRIES {
            let Some(next) = self.entered(&row, request) else {
                return Ok(None);
            };
            let found = match self.replace(at, &row, next.clone(), Head::Any).await? {
                Applied::Done { row, .. } => {
                    self.own_grants.note(at, &row);
                    return Ok(Some(row));
                }
                Applied::Refused(Stored::Row(row)) => Some(row),
                Applied::Refused(_) => None,
            };
            // By this very write, whose response was lost, or by another at this moment, which notifies it too: who marks it last decides.
            if let Some(row) = found
                .as_ref()
                .filter(|row| is_but_for_the_queue(row, &next))
            {
                let Some(told) = row.holding().and_then(|held| held.notification) else {
                    return Ok(found);
                };
                return self.mark(at, row, told.ticket).await;
            }
            let is_same = |now: &Row| {
                now.holding().is_some()
                    && now.request == row.request
                    && now.fencing_token == row.fencing_token
            };
            // Somebody has left the queue, say.
            let Some(found) = found.filter(is_same) else {
                return Ok(None);
            };
            row = found;
        }
        Ok(None)
    }

    /// The row of the key once its grant has entered; none if it has before, or is not to any more.
    fn entered(&self, row: &Row, request: Option<&Request>) -> Option<Row> {
        let may = row.waits_in_pool() && !row.is_refused();
        let held = row.holding().filter(|_| may)?;
        let pool = held.pool.as_deref()?;
        let now = self.now();
        let look = Some(now.plus(self.settings().look));
        Some(Row {
            version: row.version.plus(1),
            opens_at: request.map_or(row.opens_at, |request| request.opens_at(now)),
            state: State::Held(Holding {
                acquired_at: now,
                // The index has it: one that is still to come stays.
                sweep_after: held.sweep_after.filter(|at| *at > now).or(look),
                notification: held
                    .notification
                    .map(|told| Notification::first(now, told.ticket)),
                pool: Some(Box::new(InPool {
                    entered: true,
                    ..pool.clone()
                })),
                ..held.clone()
            }),
            ..row.clone()
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
        };
        Box::pin(self.serve(freed)).await;
        Ok(())
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
}
