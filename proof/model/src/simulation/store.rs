//! A table in memory whose every call is two steps: before it takes effect, and before its answer
//! arrives.

use std::{sync::Arc, time::Duration};

use super::shared::{
    Broken, Delayed, DeliveryFault, START, Shared, at_once, kind_of, no_answer, too_busy,
};
use crate::rows;
use leasehold::{
    Counter, Error, Holder, Key, ResultItem,
    redrivable::Redrivable,
    row::{Entries, Row, Stored},
    store::{
        Address, ItemAddress, Memory, Note, Operations as _, Page, Position, ScanSegment, Slot,
        Store, Write, Written,
    },
    transition::Change,
    transition::Head,
    waiter::TokenItem,
};

#[derive(Clone)]
pub struct FaultyStore {
    pub memory: Memory,
    pub shared: Shared,
    /// The table as the index may still show it.
    pub index: Option<Memory>,
}

/// A call.
struct Call<'a, T> {
    name: String,
    /// The key that it asks for, if for one.
    key: Option<&'a Key>,
    /// It may take effect after its caller has given up on it.
    is_write: bool,
    /// It takes effect once, however often it is sent.
    once: bool,
    /// The answer of a table that is too busy to take it.
    busy: Result<T, Error>,
}

const LIMIT: Duration = Duration::MAX;

impl<'a, T> Call<'a, T> {
    fn read(name: impl Into<String>, key: Option<&'a Key>) -> Self {
        Self {
            name: name.into(),
            key,
            is_write: false,
            once: false,
            busy: Err(too_busy()),
        }
    }

    fn write(name: impl Into<String>, key: Option<&'a Key>) -> Self {
        Self {
            is_write: true,
            ..Self::read(name, key)
        }
    }

    /// A transaction, by its token.
    fn once(self) -> Self {
        Self { once: true, ..self }
    }

    fn or_if_busy(self, answer: T) -> Self {
        Self {
            busy: Ok(answer),
            ..self
        }
    }
}

impl FaultyStore {
    async fn call<T>(
        &self,
        call: Call<'_, T>,
        effect: impl Fn(&Self) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let effect = Arc::new(effect);
        let once = call.once;
        let Call { name, key, .. } = &call;
        let fault = self.shared.step().await;
        self.note(name, *key, "before", fault);
        match fault {
            Some(fault @ (DeliveryFault::Late | DeliveryFault::Again)) if call.is_write => {
                let is_again = fault == DeliveryFault::Again;
                if !(is_again && once) {
                    let mut shared = self.shared.get();
                    let now = shared.now;
                    let (name, effect) = (name.clone(), effect.clone());
                    let late = move |store: &Self| drop(store.perform(&name, &*effect));
                    shared.delayed.push((now, Delayed::Write(Box::new(late))));
                }
                if !is_again {
                    return Err(no_answer());
                }
            }
            None | Some(DeliveryFault::Again) => {}
            Some(DeliveryFault::Twice) => return call.busy,
            Some(DeliveryFault::Lost | DeliveryFault::Late) => return Err(no_answer()),
        }
        let answer = self.perform(name, &*effect)?;
        let fault = self.shared.step().await;
        self.note(name, *key, "after", fault);
        match fault {
            Some(DeliveryFault::Twice) if !once => self.perform(name, &*effect),
            None | Some(DeliveryFault::Twice | DeliveryFault::Again) => Ok(answer),
            Some(DeliveryFault::Lost | DeliveryFault::Late) => Err(no_answer()),
        }
    }

    fn is_broken(&self, as_this: Broken) -> bool {
        self.shared.get().broken == Some(as_this)
    }

    fn note(&self, name: &str, key: Option<&Key>, when: &str, fault: Option<DeliveryFault>) {
        if let Some(fault) = fault {
            let mut shared = self.shared.get();
            shared.note(|| format!("{name}: {fault:?} {when} its effect"));
            shared.met.push(key.cloned());
        }
    }

    /// A call takes effect, whether anybody still waits for its answer or not.
    fn perform<T>(
        &self,
        name: &str,
        effect: &impl Fn(&Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.shared.get().note(|| name.to_owned());
        effect(self)
    }

    /// A page of the index, in which each item may be as it was a while ago.
    fn late(&self, page: Page, walk: impl Fn(&Memory) -> Result<Page, Error>) -> Page {
        let Some(Ok(older)) = self.index.as_ref().map(walk) else {
            return page;
        };
        let mut shared = self.shared.get();
        let mut entries = Vec::new();
        for entry in page.entries {
            match older
                .entries
                .iter()
                .find(|other| other.address == entry.address)
            {
                Some(other) if shared.by_chance() => entries.push(other.clone()),
                None if shared.by_chance() => {}
                _ => entries.push(entry),
            }
        }
        for other in older.entries {
            if !entries.iter().any(|entry| entry.address == other.address) && shared.by_chance() {
                entries.push(other);
            }
        }
        Page {
            entries,
            next: page.next,
        }
    }

    fn stored(&self, address: &Address) -> Stored {
        at_once(self.memory.read_row(address, LIMIT)).expect("memory does not fail")
    }

    /// Rows are changed, and the judge sees it.
    fn changes<T>(
        &self,
        changes: &[(Address, Change)],
        made: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let stood: Vec<_> = changes.iter().map(|(at, _)| self.stored(at)).collect();
        let answer = made()?;
        for ((address, change), before) in changes.iter().zip(stood) {
            self.break_it(address, change, &before);
            let after = self.stored(address);
            if before == after {
                continue;
            }
            let mut shared = self.shared.get();
            let shared = &mut *shared;
            shared.saw(&kind_of(change));
            let now = shared.now;
            let text = shared.row(&after);
            let closed = closed_until(&after);
            shared.note(|| format!("  {}: {text}{closed}", address.permit));
            shared.judge(|judge| judge.row(address, change, &before, &after, now));
        }
        Ok(answer)
    }

    /// Writes take effect, as a broken library would send them.
    fn carry_out(&self, mut writes: Vec<Write>) -> Result<Written, Error> {
        if matches!(writes[..], [Write::Note(_)]) && self.is_broken(Broken::NotesNothing) {
            return Ok(Written::Done(Slot::EMPTY));
        }
        if let Some(written) = self.leaves_out(&writes) {
            return Ok(written);
        }
        if let [Write::Row(address, change)] = &mut writes[..] {
            *change = self.broken(address, change.clone());
        }
        let alone = matches!(&writes[..], [Write::Row(address, change), Write::Settle(..)]
            if self.settles_alone(address, change));
        if alone {
            writes.remove(0);
        }
        let rows = writes.iter().filter_map(|write| match write {
            Write::Row(address, change) => Some((address.clone(), change.clone())),
            _ => None,
        });
        let rows: Vec<_> = rows.collect();
        let mut written = self.changes(&rows, || at_once(self.memory.write(&writes, LIMIT)))?;
        for write in &writes {
            self.judge_of(write, matches!(written, Written::Done(_)));
        }
        if let Written::Refused(parts) = &mut written
            && alone
        {
            parts.insert(0, None);
        }
        Ok(written)
    }

    /// What a broken library would not write in the row of a pool, and what it believes instead.
    fn leaves_out(&self, writes: &[Write]) -> Option<Written> {
        let broken = self.shared.get().broken?;
        let [Write::Row(address, Change::ReplaceIfUnchanged(swap))] = writes else {
            return None;
        };
        address.key.pool_name()?;
        let before = entries_of(&self.stored(address));
        let after = swap.row.entries.as_deref()?;
        let enters = |entry: &_| before.waiting.contains(entry);
        match broken {
            Broken::PoolIgnored => Some(Written::Done(Slot::of(Some(swap.row.to_item())))),
            Broken::PoolNotServed if after.inside.values().any(enters) => {
                let Stored::Row(row) = self.stored(address) else {
                    return None;
                };
                Some(Written::Refused(vec![Some(Slot::of(Some(row.to_item())))]))
            }
            _ => None,
        }
    }

    /// The judge of starts sees what became of their items.
    fn judge_of(&self, write: &Write, is_done: bool) {
        let mut shared = self.shared.get();
        let now = shared.now;
        match write {
            Write::Start(item) | Write::Restart(item, _) if is_done => {
                shared.judge(|judge| judge.put(item, now));
            }
            Write::Settle(item, settlement) if is_done => {
                shared.note(|| format!("  {}: {settlement:?}", item.name));
                shared.judge(|judge| judge.settled(item, settlement, now));
            }
            Write::Settle(item, _) => shared.note(|| format!("  {}: not settled", item.name)),
            Write::Note(Note { noted, .. }) if is_done => {
                let (count, version) = (noted.redrives, noted.version);
                shared.note(|| format!("  {}: {count:?}, version {version}", noted.execution));
                shared.judge(|judge| judge.noted(noted, now));
            }
            _ => {}
        }
    }

    /// What a broken library does with what it has read, and what it would remember of it.
    fn was_read(&self, item: &ItemAddress, slot: &Slot) -> Result<(), Error> {
        match item {
            ItemAddress::Redrivable(..) => {
                if self.is_broken(Broken::NoteForgotten)
                    && let Some(found) = slot.item().and_then(Redrivable::read)
                {
                    let _ = at_once(self.memory.write(&[Write::ForgetNote(found)], LIMIT))?;
                }
            }
            ItemAddress::Result(..) => {
                if self.is_broken(Broken::ResultForgotten)
                    && let Some(found) = slot.item().and_then(ResultItem::read)
                {
                    let _ = at_once(self.memory.write(&[Write::ForgetResult(found)], LIMIT))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What a broken library would change instead.
    fn broken(&self, address: &Address, mut change: Change) -> Change {
        let shared = self.shared.get();
        match (shared.broken, &mut change) {
            (Some(Broken::TakesBackWithoutCheck), Change::ReplaceIfUnchanged(swap))
                if swap.row.holding().is_none() =>
            {
                if let Stored::Row(row) = self.stored(address)
                    && row.holding().is_some()
                    && row.operator == swap.row.operator
                    && row.fencing_token == swap.row.fencing_token
                {
                    swap.seen = Some(row.version);
                }
            }
            (Some(Broken::EntryNotedLate), Change::ReplaceIfUnchanged(swap))
                if has_entered(&swap.row) =>
            {
                if let Stored::Row(row) = self.stored(address) {
                    swap.seen = Some(row.version);
                    swap.row.version = Counter::new(row.version.get() + 1).unwrap_or(Counter::MIN);
                }
            }
            (Some(broken), Change::ReplaceIfUnchanged(swap)) if swap.row.entries.is_some() => {
                let before = entries_of(&self.stored(address));
                let Some(entries) = &mut swap.row.entries else {
                    return change;
                };
                match broken {
                    Broken::PoolNeverLeft => entries.inside.extend(before.inside),
                    Broken::EntryEnds if !entries.waiting.is_empty() => {
                        entries.inside.pop_first();
                    }
                    Broken::PoolOrderIgnored if entries.waiting.len() > before.waiting.len() => {
                        entries.waiting.rotate_right(1);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        change
    }

    /// Whether a broken library would not ask the row whether a start has a place there.
    fn settles_alone(&self, address: &Address, change: &Change) -> bool {
        let Change::Leave(leave) = change else {
            return false;
        };
        let waits = |row: &Row| row.waiting().contains(&leave.request);
        self.shared.get().broken == Some(Broken::SettledAlone)
            && !matches!(&self.stored(address), Stored::Row(row) if waits(row))
    }

    /// Does wrong what a broken library would.
    fn break_it(&self, address: &Address, change: &Change, before: &Stored) {
        let Some(broken) = self.shared.get().broken else {
            return;
        };
        let (Stored::Row(before), Stored::Row(mut row)) = (before, self.stored(address)) else {
            return;
        };
        match (broken, change) {
            (Broken::OrderIgnored, Change::Join(_)) if *before != row => row.queue.rotate_right(1),
            // It would be granted the free row before those who wait.
            (Broken::QueueIgnored, Change::Join(_))
                if *before != row && row.holding().is_none() =>
            {
                row.queue.rotate_right(1);
            }
            (Broken::DropsNextWaiter, Change::ReplaceIfUnchanged(swap))
                if *before != row && matches!(swap.head, Head::Leaves(_)) =>
            {
                row.queue = row.waiting().iter().skip(1).cloned().collect();
            }
            (Broken::QueueIgnored, Change::Grant(_)) if *before == row => {
                let Some(granted) = rows::past_the_line(before, change) else {
                    return;
                };
                row = granted;
            }
            _ => return,
        }
        self.memory.put(address.clone(), &row.to_item());
    }
}

/// Whether the grant in this row is in its pool.
fn has_entered(row: &Row) -> bool {
    let pool = row.holding().and_then(|held| held.pool.as_ref());
    pool.is_some_and(|pool| pool.entered)
}

/// Who is in the pool that this is the row of.
fn entries_of(stored: &Stored) -> Entries {
    let Stored::Row(row) = stored else {
        return Entries::default();
    };
    row.entries.as_deref().cloned().unwrap_or_default()
}

/// Until when a row stays closed, in words.
fn closed_until(stored: &Stored) -> String {
    let Stored::Row(Row {
        opens_at: Some(at), ..
    }) = stored
    else {
        return String::new();
    };
    let at = at.as_millis().saturating_sub(START);
    format!(", closed until {at}")
}

/// What a write is called in a trace.
fn name_of(writes: &[Write]) -> String {
    let token = |what: &str, waiter: &TokenItem| format!("{what} {}", waiter.task_token.expose());
    match writes {
        [Write::Row(_, change)] => kind_of(change),
        [_, Write::Wait(..)] => "join".to_owned(),
        [Write::NewToken(_, waiter, _)] => token("call back", waiter),
        [Write::Forget(_, waiter)] => token("forget", waiter),
        [.., Write::Supersede(_, waiter, _)] => token("supersede", waiter),
        [.., Write::Start(_) | Write::Restart(..)] => "put start".to_owned(),
        [.., Write::Settle(..)] => "settle start".to_owned(),
        [Write::Note(_)] => "note".to_owned(),
        [Write::ForgetNote(_)] => "forget note".to_owned(),
        [.., Write::Result(_)] => "await result".to_owned(),
        [Write::LookAtResult(_)] => "look at result later".to_owned(),
        [.., Write::ForgetResult(_)] => "forget result".to_owned(),
        _ => "write all".to_owned(),
    }
}

/// The key that all of them are about.
fn key_of(mut all: impl Iterator<Item = ItemAddress>) -> Option<Key> {
    let key = all.next()?.key()?.clone();
    all.all(|other| other.key() == Some(&key)).then_some(key)
}

impl Store for FaultyStore {
    fn name(&self) -> &'static str {
        "step by step"
    }

    async fn write(&self, writes: &[Write], _: Duration) -> Result<Written, Error> {
        // The table's rules do not change here.
        if let [Write::Rules(_)] = writes {
            return self.memory.write(writes, LIMIT).await;
        }
        let key = key_of(writes.iter().map(Write::address));
        let mut call = Call::write(name_of(writes), key.as_ref());
        if writes.len() > 1 {
            call = call.once().or_if_busy(Written::Conflict);
        }
        let mut writes = writes.to_vec();
        if let [Write::Note(note)] = &mut writes[..] {
            note.noted.started |= self.is_broken(Broken::StopsWhoAcquires);
            if self.is_broken(Broken::CountsAhead) {
                note.noted.redrives = note.noted.redrives.map(|count| count + 1);
            }
        }
        self.call(call, move |store| store.carry_out(writes.clone()))
            .await
    }

    async fn read(&self, items: &[ItemAddress], _: Duration) -> Result<Option<Vec<Slot>>, Error> {
        let name = match items {
            [ItemAddress::Rules] => return self.memory.read(items, LIMIT).await,
            [ItemAddress::Row(_)] => "read",
            [ItemAddress::Waiter(..)] => "read waiter",
            [ItemAddress::Start(..)] => "read start",
            [ItemAddress::Redrivable(..)] => "read note",
            [ItemAddress::Result(..)] => "read result",
            _ => "read all",
        };
        let key = key_of(items.iter().cloned());
        let mut call = Call::read(name, key.as_ref());
        if items.len() > 1 {
            call = call.or_if_busy(None);
        }
        let items = items.to_vec();
        self.call(call, move |store| {
            let slots = at_once(store.memory.read(&items, LIMIT))?;
            for (item, slot) in items.iter().zip(slots.iter().flatten()) {
                store.was_read(item, slot)?;
            }
            Ok(slots)
        })
        .await
    }

    async fn read_key(&self, key: &Key, _: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let (call, key) = (Call::read("read key", Some(key)), key.clone());
        // Each row is read at some moment since the request set out.
        let older = match self.shared.get().starts {
            Some(_) => at_once(self.memory.read_key(&key, LIMIT))?,
            None => Vec::new(),
        };
        self.call(call, move |store| {
            let mut rows = at_once(store.memory.read_key(&key, LIMIT))?;
            for (permit, row) in &mut rows {
                let was = older.iter().find(|(other, _)| other == permit);
                if let Some((_, was)) = was
                    && store.shared.get().by_chance()
                {
                    *row = was.clone();
                }
            }
            Ok(rows)
        })
        .await
    }

    async fn scan(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        let from = from.cloned();
        self.call(Call::read("walk", None), move |store| {
            let walk = |memory: &Memory| at_once(memory.scan(segment, from.as_ref(), most, LIMIT));
            Ok(store.late(walk(&store.memory)?, walk))
        })
        .await
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        let (holder, from) = (holder.clone(), from.cloned());
        self.call(Call::read("walk holder", None), move |store| {
            let walk =
                |memory: &Memory| at_once(memory.held_by(&holder, from.as_ref(), most, LIMIT));
            Ok(store.late(walk(&store.memory)?, walk))
        })
        .await
    }
}
