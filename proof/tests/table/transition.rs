//! The pure transition against the condition expressions: random sequences of writes, some of them
//! on rows that somebody tampered with, run on the memory store and on a real DynamoDB API, must
//! end the same way each time, answer and row.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{Debug, Display},
    sync::Mutex,
    time::Duration,
};

use leasehold::{
    Key, Memory, TaskToken,
    row::{Item, Stored},
    store::{Address, Applied, Joined, Operations as _},
    transition::{Change, Head},
    waiter::TokenItem,
};
use leasehold_proof::fixture::Table;
use proptest::{prelude::*, test_runner::TestRunner};

use super::{
    changes, items,
    steps::{Step, Write, steps},
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

/// The memory store, which runs the pure transition, and the table, which is to do the same.
pub struct Stores {
    pub table: Table,
    memory: Memory,
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
    /// What stood there at [`Write::Keep`].
    kept: Option<Item>,
    /// A stranger was there.
    pub strange: bool,
}

type Checked<T = ()> = Result<T, TestCaseError>;

fn same<T: Debug + PartialEq>(memory: &T, table: &T, step: &Step) -> Checked {
    prop_assert_eq!(memory, table, "after {:?}", step);
    Ok(())
}

fn failed(step: &Step) -> impl Fn(leasehold::Error) -> TestCaseError {
    let shown = format!("{step:?}");
    move |error: leasehold::Error| {
        let error: &dyn Display = &error;
        TestCaseError::fail(format!("{shown}: {error}"))
    }
}

pub fn address(key: &str) -> Address {
    Address {
        key: Key::new(key).unwrap(),
        permit: 0,
    }
}

impl Stores {
    pub fn on(table: Table) -> Self {
        Self {
            table,
            memory: Memory::new(),
            seen: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// Takes the steps on both stores; fails at the first that they do not take the same way.
    pub async fn run(&self, key: &str, steps: &[Step]) -> Checked {
        let address = address(key);
        for step in steps {
            let stored = self.read(&address).await;
            if [Write::Tamper, Write::Keep, Write::Again, Write::Delete].contains(&step.write) {
                self.meddle(&address, step).await;
                continue;
            }
            self.take(&address, &stored, step).await?;
            let (ours, item) = (self.ours(&address).await, self.table.get(&address).await);
            same(&ours, &Stored::read(item.as_ref()), step)?;
            let strange = self.seen(&address, |seen| {
                seen.item.clone_from(&item);
                seen.strange
            });
            let (Stored::Row(row), Some(item)) = (&ours, &item) else {
                continue;
            };
            if !strange {
                let (ours, theirs) = (items::expected(row), items::plain(item));
                for name in ours.keys().chain(theirs.keys()) {
                    let both = (ours.get(name), theirs.get(name));
                    prop_assert_eq!(both.0, both.1, "{} after {:?}", name, step);
                }
            }
        }
        Ok(())
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

    async fn ours(&self, address: &Address) -> Stored {
        self.memory.read_row(address, LIMIT).await.unwrap()
    }

    /// What is stored, or was stored before it was no row of ours.
    async fn read(&self, address: &Address) -> Stored {
        let ours = self.ours(address).await;
        self.seen(address, |seen| match (&ours, &seen.row) {
            (Stored::Foreign(_), Some(row)) => row.clone(),
            _ => seen.row.insert(ours).clone(),
        })
    }

    pub fn seen<T>(&self, address: &Address, act: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        act(seen.entry(address.key.clone()).or_default())
    }

    async fn take(&self, address: &Address, stored: &Stored, step: &Step) -> Checked {
        match step.write {
            Write::Together => self.together(address, stored, step).await,
            Write::Join => self.join(address, stored, step).await,
            Write::CallBack | Write::Forget => self.waits(address, step).await,
            _ => self.write(address, stored, step).await,
        }
    }

    async fn write(&self, address: &Address, stored: &Stored, step: &Step) -> Checked {
        let Some(change) = changes::change(stored, step) else {
            return Ok(());
        };
        let ours = self.memory.apply(address, &change, LIMIT).await.unwrap();
        let theirs = self.table.store().apply(address, &change, LIMIT).await;
        same(&ours, &theirs.map_err(failed(step))?, step)?;
        if matches!(ours, Applied::Done { .. }) {
            self.count(&change);
        }
        Ok(())
    }

    /// What no call of the library does. Both tables have the same item afterwards.
    async fn meddle(&self, address: &Address, step: &Step) {
        let item = self.seen(address, |seen| {
            match step.write {
                Write::Keep => seen.kept.clone_from(&seen.item),
                Write::Delete => seen.item = None,
                Write::Again => {
                    seen.item.clone_from(&seen.kept);
                    seen.row = Some(Stored::read(seen.kept.as_ref()));
                }
                _ => return seen.item.clone(),
            }
            seen.strange &= step.write == Write::Keep;
            seen.item.clone()
        });
        if step.write == Write::Delete {
            self.table.delete(address).await;
            self.memory.delete(address);
        }
        let tampered = item
            .clone()
            .filter(|_| step.write != Write::Keep)
            .and_then(|item| items::tamper(item, step.attribute, step.value));
        if let Some(tampered) = tampered {
            self.seen(address, |seen| {
                seen.strange |= item.as_ref() != Some(&tampered);
                seen.item = Some(tampered.clone());
            });
            self.memory.put(address.clone(), &tampered);
            self.table.put(address, tampered).await;
        }
    }

    /// The joining waiter, and its item: both or neither, and the same on both tables.
    async fn join(&self, address: &Address, stored: &Stored, step: &Step) -> Checked {
        let (join, waiter) = changes::join(stored, step);
        let (key, join) = (&address.key, Change::Join(join));
        let first = Address::of(key.as_str(), "LEASE#0000").unwrap();
        let read = self.token_of(key, &waiter, step).await;
        let waits = (&waiter, read.as_ref());
        let ours = self.memory.put_token(&first, &join, waits, LIMIT).await;
        let ours = ours.unwrap();
        let theirs = self.table.store();
        let theirs = theirs.put_token(&first, &join, waits, LIMIT).await;
        same(&ours, &theirs.map_err(failed(step))?, step)?;
        if ours == Joined::Done {
            self.count(&join);
        }
        self.same_waiters(key, step).await
    }

    /// The token of this request as it is read before, or as it was before that: none, or another.
    async fn token_of(&self, key: &Key, waiter: &TokenItem, step: &Step) -> Option<TaskToken> {
        let found = self.memory.token_item(key, &waiter.request.digest, LIMIT);
        let found = found.await.unwrap().map(|found| found.task_token);
        let another = || TaskToken::new("an earlier token").unwrap();
        let is_old = step.strict && step.write == Write::CallBack;
        let found = found.map(|found| if is_old { another() } else { found });
        found.filter(|_| !step.told)
    }

    async fn waits(&self, address: &Address, step: &Step) -> Checked {
        let (key, table) = (&address.key, self.table.store());
        let waiter = changes::waiter(step, 0);
        if step.write == Write::CallBack {
            let read = self.token_of(key, &waiter, step).await;
            let waits = (&waiter, read.as_ref());
            let ours = self.memory.update_task_token(key, waits, LIMIT).await;
            let ours = ours.unwrap();
            let theirs = table.update_task_token(key, waits, LIMIT).await;
            same(&ours, &theirs.map_err(failed(step))?, step)?;
        } else {
            self.memory
                .delete_waiter(key, &waiter, LIMIT)
                .await
                .unwrap();
            let theirs = table.delete_waiter(key, &waiter, LIMIT).await;
            theirs.map_err(failed(step))?;
        }
        self.same_waiters(key, step).await
    }

    /// Whatever a waiter is read from.
    async fn same_waiters(&self, key: &Key, step: &Step) -> Checked {
        let waits = |sk: &str| sk.starts_with("WAIT#");
        let ours = self.memory.all().into_iter();
        let ours: BTreeMap<_, _> = ours
            .filter(|(pk, sk, _)| pk == key.as_str() && waits(sk))
            .map(|(_, sk, mut item)| {
                item.retain(|name, _| name != "pk" && name != "sk");
                (sk, item)
            })
            .collect();
        let theirs = self.table.items(key).await.into_iter();
        let theirs: BTreeMap<_, _> = theirs
            .filter_map(|mut item| {
                let sk = item.remove("sk")?.as_s().ok()?.clone();
                item.remove("pk");
                waits(&sk).then_some((sk, item))
            })
            .collect();
        for item in theirs.values() {
            // The items say so in an attribute of its own, by which sweep goes.
            same(&item.get("deadline"), &item.get("sweep_after"), step)?;
        }
        same(&ours, &theirs, step)
    }

    /// A transaction with a row that is in nobody's way: it must happen on both tables or on neither,
    /// and tell of the same row.
    async fn together(&self, address: &Address, stored: &Stored, step: &Step) -> Checked {
        let beside = self::address(&format!("{}/beside", address.key));
        self.table.delete(&beside).await;
        self.memory.delete(&beside);
        let [here, there] = changes::together(stored, step);
        let changes = [(address.clone(), here), (beside.clone(), there)];
        let ours = self.memory.apply_all(&changes, LIMIT).await.unwrap();
        let theirs = self.table.store().apply_all(&changes, LIMIT).await;
        same(&ours, &theirs.map_err(failed(step))?, step)?;
        let theirs = Stored::read(self.table.get(&beside).await.as_ref());
        same(&self.ours(&beside).await, &theirs, step)
    }
}

#[test]
fn table_does_as_pure_function_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stores = Stores::on(runtime.block_on(Table::patient()));
    let config = ProptestConfig {
        cases: std::env::var("DIFFERENTIAL_CASES").map_or(250, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // A key for each run, shrinking included: rows of other runs must not show.
    let run = std::sync::atomic::AtomicU64::new(0);
    TestRunner::new(config)
        .run(&steps(), |steps| {
            let n = run.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            runtime.block_on(stores.run(&format!("k{n}"), &steps))
        })
        .unwrap();
    // A sequence in which nothing fits shows nothing.
    let done = stores.done.into_inner().unwrap();
    println!("{done:?}");
    for kind in KINDS {
        assert!(done.contains_key(kind), "no {kind} in {done:?}");
    }
}
