//! A table in memory whose every call is two steps: before it takes effect, and before its answer
//! arrives.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    first_of,
    shared::{Broken, Delayed, DeliveryFault, START, Shared, kind_of, no_answer, too_busy},
    world::at_once,
};
use crate::design::{Flaw, flawed};
use leasehold::{
    Counter, Ended, Error, Holder, Key, RequestDigest, StartItem, TableRules, Timestamp,
    redrivable::Redrivable,
    row::{Holding, Row, Stored},
    store::{
        Address, Applied, AppliedAll, Joined, Memory, Page, Position, PutStart, ScanSegment,
        Settled, Settlement, Store,
    },
    transition::{Change, EndIfUnchanged, Join, Leave, ShortenDeadline},
    waiter::Waiter,
};

#[derive(Clone)]
pub struct FaultyStore {
    pub memory: Memory,
    pub shared: Shared,
    /// A call has failed.
    pub ill: Arc<AtomicBool>,
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
        let answer = self.in_two_steps(call, effect).await;
        if answer.is_err() {
            self.ill.store(true, Ordering::Relaxed);
        }
        answer
    }

    async fn in_two_steps<T>(
        &self,
        call: Call<'_, T>,
        effect: impl Fn(&Self) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let effect = Arc::new(effect);
        let once = call.once && self.shared.get().starts.is_some();
        let Call { name, key, .. } = &call;
        let fault = self.shared.step(name.clone()).await;
        self.note(name, *key, "before", fault);
        if self.stops() {
            return Err(no_answer());
        }
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
        let fault = self.shared.step(format!("hear of {name}")).await;
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

    /// What a broken sweep does after its first failure.
    fn stops(&self) -> bool {
        let shared = self.shared.get();
        let sweeps = shared.broken == Some(Broken::SweepStops) && shared.actor == "sweep";
        sweeps && self.ill.load(Ordering::Relaxed)
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
            match older.entries.iter().find(|other| other.what == entry.what) {
                Some(other) if shared.by_chance() => entries.push(other.clone()),
                None if shared.by_chance() => {}
                _ => entries.push(entry),
            }
        }
        for other in older.entries {
            if !entries.iter().any(|entry| entry.what == other.what) && shared.by_chance() {
                entries.push(other);
            }
        }
        Page {
            entries,
            next: page.next,
        }
    }

    fn stored(&self, address: &Address) -> Stored {
        at_once(self.memory.read(address, LIMIT)).expect("memory does not fail")
    }

    /// Rows are changed, and the oracle sees it.
    fn changes<T>(
        &self,
        changes: &[(Address, Change)],
        waiter: Option<&Waiter>,
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
            if shared.starts.is_some() {
                let text = shared.oracle.row(&after);
                let closed = closed_until(&after);
                shared.note(|| format!("  {}: {text}{closed}", address.permit));
                shared.judge(|judge| judge.row(address, change, &before, &after, now));
                continue;
            }
            let seen = shared
                .oracle
                .saw(address, change, waiter, &before, &after, now);
            for what in std::mem::take(&mut shared.oracle.seen) {
                shared.saw(what);
            }
            let text = shared.oracle.row(&after);
            shared.note(|| format!("  {text}"));
            if let Err(problem) = seen {
                shared.wrong(problem);
            }
        }
        Ok(answer)
    }

    fn change(&self, address: &Address, change: Change) -> Result<Applied, Error> {
        let changes = [(address.clone(), change)];
        self.changes(&changes, None, || {
            at_once(self.memory.apply(address, &changes[0].1, LIMIT))
        })
    }

    /// What a broken library would change instead.
    fn broken(&self, address: &Address, mut change: Change) -> Change {
        let shared = self.shared.get();
        match (shared.broken, &mut change) {
            (Some(Broken::NoFloor), _) => {
                change = flawed::without_the_floor(Flaw::GrantsIgnoreTheFloor, change);
                if let Change::ReplaceIfUnchanged(swap) = &mut change
                    && swap.head.is_some()
                    && let Stored::Row(row) = self.stored(address)
                {
                    swap.row.fencing_token =
                        Counter::new(row.fencing_token.get() + 1).unwrap_or(Counter::MIN);
                }
            }
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
            (
                Some(Broken::ReapLate),
                Change::ShortenDeadline(ShortenDeadline { version, .. })
                | Change::EndIfUnchanged(EndIfUnchanged {
                    version,
                    ended: Ended::Released,
                    ..
                }),
            ) => {
                let read = shared.read.get(&(address.clone(), *version));
                if let Stored::Row(row) = self.stored(address)
                    && row.holding().is_some_and(|h| Some(&h.lease_id) == read)
                {
                    *version = row.version;
                }
            }
            _ => {}
        }
        change
    }

    /// What a broken extend does when it has expired by its own clock, and somebody waits.
    fn end_without_margin(&self, address: &Address, change: &Change) -> Result<(), Error> {
        let (Some(Broken::NoMargin), Change::Extend(extend)) = (self.shared.get().broken, change)
        else {
            return Ok(());
        };
        let Stored::Row(row) = self.stored(address) else {
            return Ok(());
        };
        let over =
            |held: &Holding| held.lease_id == extend.lease_id && held.expires_at() <= extend.now;
        if row.holding().is_some_and(over) && row.head().is_some() {
            let end = Change::EndIfUnchanged(EndIfUnchanged {
                version: row.version,
                ended: Ended::Expired,
                purge_at: 0,
            });
            let _ = self.change(address, end)?;
        }
        Ok(())
    }

    /// Whether a broken library would not ask the row whether a start has a place there.
    fn settles_alone(&self, (address, change): &(Address, Change)) -> bool {
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
            (Broken::TokenReused, Change::ReplaceIfUnchanged(swap))
                if *before != row && swap.head.is_some() =>
            {
                row.fencing_token = before.fencing_token;
            }
            (Broken::OrderIgnored, Change::Join(_)) if *before != row => row.queue.rotate_right(1),
            (Broken::DropsNextWaiter, Change::ReplaceIfUnchanged(swap))
                if *before != row && swap.head.is_some() =>
            {
                row.queue = row.waiting().iter().skip(1).cloned().collect();
            }
            (Broken::QueueIgnored, Change::Grant(_)) if *before == row => {
                let Some(granted) = flawed::past_the_line(before, change) else {
                    return;
                };
                row = granted;
            }
            _ => return,
        }
        self.memory.put(address.clone(), &row.to_item());
    }
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

impl Store for FaultyStore {
    fn name(&self) -> &'static str {
        "step by step"
    }

    async fn apply(&self, at: &Address, change: &Change, _: Duration) -> Result<Applied, Error> {
        let call = Call::write(kind_of(change), Some(&at.key));
        let (at, change) = (at.clone(), change.clone());
        self.call(call, move |store| {
            let change = store.broken(&at, change.clone());
            store.end_without_margin(&at, &change)?;
            store.change(&at, change)
        })
        .await
    }

    async fn read(&self, at: &Address, _: Duration) -> Result<Stored, Error> {
        let (call, at) = (Call::read("read", Some(&at.key)), at.clone());
        self.call(call, move |store| {
            let stored = store.stored(&at);
            if let Stored::Row(row) = &stored
                && let Some(held) = row.holding()
            {
                let read = (at.clone(), row.version);
                let mut shared = store.shared.get();
                shared.read.insert(read, held.lease_id.clone());
            }
            Ok(stored)
        })
        .await
    }

    async fn apply_all(&self, all: &[(Address, Change)], _: Duration) -> Result<AppliedAll, Error> {
        let call = Call::write("write all", None)
            .once()
            .or_if_busy(AppliedAll::Conflict);
        let all = all.to_vec();
        self.call(call, move |store| {
            let made = || at_once(store.memory.apply_all(&all, LIMIT));
            store.changes(&all, None, made)
        })
        .await
    }

    async fn read_all(&self, all: &[Address], _: Duration) -> Result<Option<Vec<Stored>>, Error> {
        let call = Call::read("read all", None).or_if_busy(None);
        let all = all.to_vec();
        self.call(call, move |store| {
            at_once(store.memory.read_all(&all, LIMIT))
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

    async fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Joined, Error> {
        let call = Call::write("join", Some(key))
            .once()
            .or_if_busy(Joined::Conflict);
        let (key, join, waiter) = (key.clone(), join.clone(), waiter.clone());
        self.call(call, move |store| {
            let changes = [(first_of(&key), Change::Join(join.clone()))];
            store.changes(&changes, Some(&waiter), || {
                at_once(store.memory.join(&key, &join, &waiter, LIMIT))
            })
        })
        .await
    }

    async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<Waiter>, Error> {
        let call = Call::read("read waiter", Some(key));
        let (key, request) = (key.clone(), request.clone());
        self.call(call, move |store| {
            let (memory, shared) = (&store.memory, &store.shared);
            let found = at_once(memory.waiter(&key, &request, LIMIT))?;
            if shared.get().broken == Some(Broken::ForgottenWhenRead)
                && let Some(found) = &found
            {
                at_once(memory.delete_waiter(&key, found, LIMIT))?;
            }
            Ok(found)
        })
        .await
    }

    async fn update_task_token(
        &self,
        key: &Key,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Waiter, Error> {
        let name = format!("call back {}", waiter.task_token.expose());
        let call = Call {
            is_write: !self.shared.get().clocks_differ,
            ..Call::read(name, Some(key))
        };
        let (key, waiter) = (key.clone(), waiter.clone());
        self.call(call, move |store| {
            at_once(store.memory.update_task_token(&key, &waiter, LIMIT))
        })
        .await
    }

    async fn delete_waiter(&self, key: &Key, waiter: &Waiter, _: Duration) -> Result<(), Error> {
        let name = format!("forget {}", waiter.task_token.expose());
        let call = Call::write(name, Some(key));
        let (key, waiter) = (key.clone(), waiter.clone());
        self.call(call, move |store| {
            at_once(store.memory.delete_waiter(&key, &waiter, LIMIT))
        })
        .await
    }

    async fn supersede_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        by: &Holder,
        leave: &Leave,
        _: Duration,
    ) -> Result<Settled, Error> {
        let name = format!("supersede {}", waiter.task_token.expose());
        let call = Call::write(name, Some(key)).once();
        let (key, waiter, by) = (key.clone(), waiter.clone(), by.clone());
        let leave = leave.clone();
        self.call(call, move |store| {
            let changes = [(first_of(&key), Change::Leave(leave.clone()))];
            store.changes(&changes, None, || {
                let memory = &store.memory;
                at_once(memory.supersede_waiter(&key, &waiter, &by, &leave, LIMIT))
            })
        })
        .await
    }

    async fn put_start(
        &self,
        item: &StartItem,
        repeat: bool,
        _: Duration,
    ) -> Result<PutStart, Error> {
        let call = Call::write("put start", Some(&item.key));
        let item = item.clone();
        self.call(call, move |store| {
            let put = at_once(store.memory.put_start(&item, repeat, LIMIT))?;
            if put == PutStart::Done {
                let mut shared = store.shared.get();
                let now = shared.now;
                shared.judge(|judge| judge.put(&item, now));
            }
            Ok(put)
        })
        .await
    }

    async fn start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<StartItem>, Error> {
        let call = Call::read("read start", Some(key));
        let (key, request) = (key.clone(), request.clone());
        self.call(call, move |store| {
            at_once(store.memory.start_item(&key, &request, LIMIT))
        })
        .await
    }

    async fn redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<Redrivable>, Error> {
        let call = Call::read("read note", Some(key));
        let (key, request) = (key.clone(), request.clone());
        self.call(call, move |store| {
            let found = at_once(store.memory.redrivable(&key, &request, LIMIT))?;
            if store.is_broken(Broken::NoteForgotten)
                && let Some(found) = &found
            {
                at_once(store.memory.forget_redrivable(found, LIMIT))?;
            }
            Ok(found)
        })
        .await
    }

    async fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        _: Duration,
    ) -> Result<bool, Error> {
        let call = Call::write("note", Some(&noted.key));
        let mut noted = noted.clone();
        noted.started |= self.is_broken(Broken::StopsWhoAcquires);
        if self.is_broken(Broken::CountsAhead) {
            noted.redrives = noted.redrives.map(|count| count + 1);
        }
        self.call(call, move |store| {
            if store.is_broken(Broken::NotesNothing) {
                return Ok(true);
            }
            let stored = at_once(store.memory.note_redrivable(&noted, seen, times, LIMIT))?;
            if stored {
                let mut shared = store.shared.get();
                let (count, version) = (noted.redrives, noted.version);
                shared.note(|| format!("  {}: {count:?}, version {version}", noted.execution));
                let now = shared.now;
                shared.judge(|judge| judge.noted(&noted, now));
            }
            Ok(stored)
        })
        .await
    }

    async fn forget_redrivable(&self, noted: &Redrivable, _: Duration) -> Result<(), Error> {
        let call = Call::write("forget note", Some(&noted.key));
        let noted = noted.clone();
        self.call(call, move |store| {
            at_once(store.memory.forget_redrivable(&noted, LIMIT))
        })
        .await
    }

    async fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        _: Duration,
    ) -> Result<Settled, Error> {
        let mut call = Call::write("settle start", Some(&item.key));
        if with.is_some() {
            call = call.once().or_if_busy(Settled::Conflict);
        }
        let with = with.map(|(address, change)| (address.clone(), change.clone()));
        let (item, settlement) = (item.clone(), settlement.clone());
        self.call(call, move |store| {
            let with = with.as_ref().filter(|with| !store.settles_alone(with));
            let change = with.map(|(address, change)| (address, change));
            let changes: Vec<_> = with.into_iter().cloned().collect();
            let settled = store.changes(&changes, None, || {
                at_once(store.memory.settle_start(&item, &settlement, change, LIMIT))
            })?;
            let mut shared = store.shared.get();
            if settled == Settled::Done {
                let now = shared.now;
                shared.note(|| format!("  {}: {settlement:?}", item.name));
                shared.judge(|judge| judge.settled(&item, &settlement, now));
            } else {
                shared.note(|| format!("  {}: not settled", item.name));
            }
            Ok(settled)
        })
        .await
    }

    async fn scan_held(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        let from = from.cloned();
        self.call(Call::read("walk", None), move |store| {
            let walk =
                |memory: &Memory| at_once(memory.scan_held(segment, from.as_ref(), most, LIMIT));
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

    // The table's rules do not change here.
    async fn rules(&self, _: Duration) -> Result<Option<TableRules>, Error> {
        self.memory.rules(LIMIT).await
    }

    async fn publish_rules(&self, rules: &TableRules, _: Duration) -> Result<bool, Error> {
        self.memory.publish_rules(rules, LIMIT).await
    }
}
