//! A store beside the memory store, which runs the pure transition. Sequences of writes, some of them on rows that
//! somebody tampered with, must end the same way on both each time, answer and items.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    ops::Range,
    sync::Mutex,
    time::Duration,
};

use fastrand::Rng;
use leasehold::{
    Key, Memory, TaskToken,
    row::{Item, Stored},
    store::{
        Address, AttributeValue, ItemAddress, Operations as _, Slot, Store as _, Write, Written,
    },
    transition::{Change, Head},
    waiter::TokenItem,
};

use crate::{
    Bench, changes, items, sequences,
    steps::{self, Step},
};

/// Far more than a call takes, on a busy machine too: what is lost on the way is not what is looked for here.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Every kind of write of one row.
const KINDS: [&str; 12] = [
    "Grant",
    "Extend",
    "Prove",
    "Look",
    "ShortenDeadline",
    "Release",
    "EndIfUnchanged",
    "ReplaceIfUnchanged",
    "ReplaceIfUnchanged for the head",
    "ReplaceIfUnchanged where nobody waits",
    "Join",
    "Leave",
];

/// The memory store and the store that is to do the same.
pub struct Stores<B> {
    pub table: B,
    pub(crate) memory: Memory,
    seen: Mutex<HashMap<Key, Seen>>,
    /// Which kinds of writes happened, and how often.
    done: Mutex<BTreeMap<String, usize>>,
}

/// What is known of a key beyond what is stored.
#[derive(Clone, Default)]
pub struct Seen {
    /// The last row that was ours: what was read, before a stranger came, by those who write after.
    row: Option<Stored>,
    /// What is in the table.
    pub item: Option<Item>,
    /// The same, if both tables are known to have it.
    agreed: Option<Item>,
    /// What stood there at [`steps::Write::Keep`].
    kept: Option<Item>,
    /// A stranger was there.
    pub strange: bool,
    /// What was written, the row first.
    written: Vec<ItemAddress>,
}

/// What was found, or how the two differ.
pub type Checked<T = ()> = Result<T, String>;

/// What is compared of what is stored: the row that is read from it, and every attribute.
type Shown = (Option<Stored>, Option<BTreeMap<String, AttributeValue>>);

pub(crate) fn same<T: Debug + PartialEq>(memory: &T, store: &T, what: &dyn Debug) -> Checked {
    if memory == store {
        return Ok(());
    }
    Err(format!(
        "after {what:?}\nin memory: {memory:?}\nthe store: {store:?}"
    ))
}

pub(crate) fn answered<T>(answer: Result<T, leasehold::Error>, what: &dyn Debug) -> Checked<T> {
    answer.map_err(|error| format!("after {what:?}: {error}"))
}

pub fn address(key: &str) -> Address {
    Address {
        key: Key::new(key).unwrap(),
        permit: 0,
    }
}

impl<B: Bench> Stores<B> {
    pub fn on(table: B) -> Self {
        Self {
            table,
            memory: Memory::new(),
            seen: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// The whole suite, with a random sequence for each of these seeds.
    pub async fn all(&self, seeds: Range<u64>) -> Checked {
        self.reads_agree().await?;
        self.item_writes_agree().await?;
        self.races_have_one_winner().await?;
        let chosen = [sequences::of_strangers(), sequences::of_every_part()].concat();
        for steps in chosen {
            self.sequence("a written sequence", steps).await?;
        }
        self.random(seeds).await?;
        // A sequence in which nothing fits shows nothing.
        let done = self.done.lock().unwrap();
        for kind in KINDS {
            assert!(done.contains_key(kind), "no {kind} in {done:?}");
        }
        Ok(())
    }

    pub(crate) async fn random(&self, seeds: Range<u64>) -> Checked {
        for seed in seeds {
            let steps = steps::steps(&mut Rng::with_seed(seed));
            self.sequence(&format!("seed {seed}"), steps).await?;
        }
        Ok(())
    }

    /// Takes the steps, and of those that fail as few as still do.
    async fn sequence(&self, what: &str, mut steps: Vec<Step>) -> Checked {
        let Err(mut difference) = self.on_an_empty_table(&steps).await else {
            return Ok(());
        };
        let mut size = steps.len();
        while size > 0 {
            let mut at = 0;
            while at < steps.len() {
                let (before, rest) = steps.split_at(at);
                let fewer = [before, &rest[size.min(rest.len())..]].concat();
                match self.on_an_empty_table(&fewer).await {
                    Err(shorter) => (steps, difference) = (fewer, shorter),
                    Ok(()) => at += size,
                }
            }
            size /= 2;
        }
        Err(format!("{what}: {steps:?}\n{difference}"))
    }

    /// Takes the steps, compares what can be read then, and deletes everything.
    async fn on_an_empty_table(&self, steps: &[Step]) -> Checked {
        let address = address("k");
        let mut taken = self.run(address.key.as_str(), steps).await;
        let (strange, written) = self.seen(&address, |seen| (seen.strange, seen.written.clone()));
        if taken.is_ok() && !written.is_empty() {
            taken = self.same_items(&written, &steps.last()).await.map(drop);
        }
        // What a stranger left in the index stays there longer in one store than in the other.
        if taken.is_ok() && !strange {
            taken = self.same_index(100, &steps.last()).await;
        }
        self.seen(&address, |seen| *seen = Seen::default());
        for item in written {
            self.lay(&item, &Slot::EMPTY).await;
        }
        taken
    }

    /// Takes the steps on both stores; fails at the first that they do not take the same way.
    pub async fn run(&self, key: &str, steps: &[Step]) -> Checked {
        let address = address(key);
        for step in steps {
            let stored = self.read(&address).await;
            if step.meddles() {
                self.meddle(&address, step).await;
                continue;
            }
            let writes = self.writes(&address, &stored, step).await;
            if writes.is_empty() {
                continue;
            }
            let written = self.note(&address, writes.iter().map(Write::address));
            self.seen(&address, |seen| seen.agreed = None);
            let happened = self.write(&writes, step).await?;
            // The refusal has told what is there. Whether such a write leaves it alone, rows of ours show.
            if !happened && writes.len() == 1 && self.seen(&address, |seen| seen.strange) {
                continue;
            }
            let items = self.same_items(&written, step).await?;
            let item = items.into_iter().next().and_then(Slot::into_item);
            self.seen(&address, |seen| {
                seen.agreed = item.clone().filter(|_| !seen.strange);
                seen.item = item;
            });
        }
        Ok(())
    }

    /// What is written to this key now, the row first.
    fn note(&self, address: &Address, more: impl Iterator<Item = ItemAddress>) -> Vec<ItemAddress> {
        let row = ItemAddress::Row(address.clone());
        let more = more.filter(|item| *item != row);
        let items: Vec<_> = [row.clone()].into_iter().chain(more).collect();
        self.seen(address, |seen| {
            for item in &items {
                if !seen.written.contains(item) {
                    seen.written.push(item.clone());
                }
            }
        });
        items
    }

    /// Writes on both stores, which have to answer the same. Returns whether it happened.
    pub(crate) async fn write(&self, writes: &[Write], what: &(dyn Debug + Sync)) -> Checked<bool> {
        let ours = self.memory.write(writes, LIMIT).await.unwrap();
        let theirs = self.table.store().write(writes, LIMIT).await;
        let theirs = answered(theirs, what)?;
        same(&self.told(writes, &ours), &self.told(writes, &theirs), what)?;
        let happened = matches!(ours, Written::Done(_));
        for write in writes.iter().filter(|_| happened) {
            if let Write::Row(_, change) = write {
                self.count(change);
            }
        }
        Ok(happened)
    }

    /// Whether the writes happened, and what they found. Of several that happened nothing is told.
    fn told(&self, writes: &[Write], written: &Written) -> (bool, Vec<Option<Shown>>) {
        let shown = |n: usize, slot| self.shown(&writes[n].address(), slot);
        match written {
            Written::Done(found) if writes.len() == 1 => (true, vec![Some(shown(0, found))]),
            Written::Done(_) => (true, Vec::new()),
            Written::Refused(parts) if parts.len() == writes.len() => {
                let parts = parts.iter().enumerate();
                let parts = parts.map(|(n, part)| part.as_ref().map(|slot| shown(n, slot)));
                (false, parts.collect())
            }
            // There is nobody else to be in conflict with.
            Written::Refused(_) | Written::Conflict => (false, Vec::new()),
        }
    }

    fn shown(&self, address: &ItemAddress, slot: &Slot) -> Shown {
        let ItemAddress::Row(row) = address else {
            return (None, slot.item().map(items::plain));
        };
        // Of a stranger's attributes more may stay in one store than in the other.
        let strange = self.seen(row, |seen| seen.strange);
        let item = slot.item().filter(|_| !strange);
        (Some(Stored::read(slot.item())), item.map(items::plain))
    }

    /// Reads these on both stores, which have to have the same. Returns what the tested one has.
    pub(crate) async fn same_items(
        &self,
        addresses: &[ItemAddress],
        what: &(dyn Debug + Sync),
    ) -> Checked<Vec<Slot>> {
        let ours = self.memory.read(addresses, LIMIT).await.unwrap();
        let theirs = self.table.store().read(addresses, LIMIT).await;
        let theirs = answered(theirs, what)?;
        let shown = |slots: &Option<Vec<Slot>>| {
            let slots = slots.iter().flatten().enumerate();
            let shown = slots.map(|(n, slot)| Some(self.shown(addresses.get(n)?, slot)));
            shown.collect::<Vec<_>>()
        };
        same(&shown(&ours), &shown(&theirs), what)?;
        Ok(theirs.unwrap_or_default())
    }

    fn count(&self, change: &Change) {
        let said = format!("{change:?}");
        let mut kind = said.split('(').next().unwrap_or_default().to_owned();
        if let Change::ReplaceIfUnchanged(swap) = change {
            kind += match swap.head {
                Head::Any => "",
                Head::Leaves(_) => " for the head",
                Head::Nobody => " where nobody waits",
            };
        }
        *self.done.lock().unwrap().entry(kind).or_default() += 1;
    }

    /// What is stored, or was stored before it was no row of ours.
    async fn read(&self, address: &Address) -> Stored {
        let ours = self.memory.read_row(address, LIMIT).await.unwrap();
        self.seen(address, |seen| match (&ours, &seen.row) {
            (Stored::Foreign(_), Some(row)) => row.clone(),
            _ => seen.row.insert(ours).clone(),
        })
    }

    pub fn seen<T>(&self, address: &Address, act: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        act(seen.entry(address.key.clone()).or_default())
    }

    /// The writes that a step is; none where it makes no sense.
    async fn writes(&self, address: &Address, stored: &Stored, step: &Step) -> Vec<Write> {
        let key = &address.key;
        let row = |change| Write::Row(address.clone(), change);
        match step.write {
            steps::Write::Together => {
                // In nobody's way: both must happen or neither.
                let beside = self::address(&format!("{key}/beside"));
                let item = ItemAddress::Row(beside.clone());
                self.lay(&item, &Slot::EMPTY).await;
                let [here, there] = changes::together(stored, step);
                vec![row(here), Write::Row(beside, there)]
            }
            steps::Write::Join => {
                let (join, waiter) = changes::join(stored, step);
                let read = self.token_of(key, &waiter, step).await;
                vec![
                    row(Change::Join(join)),
                    Write::Wait(key.clone(), waiter, read),
                ]
            }
            steps::Write::CallBack => {
                let waiter = changes::waiter(step, 0);
                let read = self.token_of(key, &waiter, step).await;
                vec![Write::NewToken(key.clone(), waiter, read)]
            }
            steps::Write::Forget => {
                vec![Write::Forget(key.clone(), changes::waiter(step, 0))]
            }
            _ => changes::change(stored, step).map(row).into_iter().collect(),
        }
    }

    /// The token of this request as it is read before, or as it was before that: none, or another.
    async fn token_of(&self, key: &Key, waiter: &TokenItem, step: &Step) -> Option<TaskToken> {
        let found = self.memory.token_item(key, &waiter.request.digest, LIMIT);
        let found = found.await.unwrap().map(|found| found.task_token);
        let another = || TaskToken::new("an earlier token").unwrap();
        let is_old = step.strict && step.write == steps::Write::CallBack;
        let found = found.map(|found| if is_old { another() } else { found });
        found.filter(|_| !step.told)
    }

    /// What no call of the library does. Both tables have the same item afterwards.
    async fn meddle(&self, address: &Address, step: &Step) {
        let item = self.seen(address, |seen| {
            match step.write {
                steps::Write::Keep => seen.kept.clone_from(&seen.item),
                steps::Write::Delete => seen.item = None,
                steps::Write::Again => {
                    seen.item.clone_from(&seen.kept);
                    seen.row = Some(Stored::read(seen.kept.as_ref()));
                }
                _ => return seen.item.clone(),
            }
            seen.strange &= step.write == steps::Write::Keep;
            seen.item.clone()
        });
        let row = ItemAddress::Row(address.clone());
        if step.write == steps::Write::Delete {
            self.lay(&row, &Slot::EMPTY).await;
        }
        let agreed = self.seen(address, |seen| seen.agreed.take());
        let tampered = item
            .clone()
            .filter(|_| step.write != steps::Write::Keep)
            .and_then(|item| items::tamper(item, step.attribute, step.value));
        if let Some(tampered) = tampered {
            self.seen(address, |seen| {
                seen.strange |= item.as_ref() != Some(&tampered);
                seen.item = Some(tampered.clone());
            });
            self.note(address, std::iter::empty());
            if agreed.as_ref() != Some(&tampered) {
                self.lay(&row, &Slot::of(Some(tampered))).await;
            }
        }
    }

    /// An item and nothing else, or none, on both tables.
    pub(crate) async fn lay(&self, address: &ItemAddress, slot: &Slot) {
        Bench::put(&self.memory, address, slot).await;
        self.table.put(address, slot).await;
    }
}
