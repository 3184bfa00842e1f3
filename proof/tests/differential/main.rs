//! The pure transition against the condition expressions: random sequences of writes, some of them
//! on rows that somebody tampered with, run on the memory store and on a real DynamoDB API, must
//! end the same way each time, answer and row.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::Duration,
};

use leasehold::{
    Key, Memory, RequestDigest,
    row::{Item, Stored},
    store::{Address, Applied, Joined, Store},
    transition::{Change, Confirm, ReleaseTarget},
};
use proptest::{prelude::*, test_runner::TestRunner};

mod agreeing;
#[path = "../bench/mod.rs"]
mod bench;
mod bites;
mod changes;
mod guards;
mod items;
mod operations;
mod rare;
mod reference;
mod steps;
mod strange;
mod values;
mod worlds;
mod writes;
use bench::Table;
use steps::{Step, steps};
use strange::{ATTRIBUTES, is_writable, strange};
use values::{digest, id, near, seconds};

const LIMIT: Duration = Duration::from_secs(1);

/// Every kind of write of one row.
const KINDS: [&str; 13] = [
    "Grant",
    "Extend",
    "Cut",
    "Release",
    "Release of what was kept",
    "End",
    "Swap",
    "Join",
    "Leave",
    "Reserve",
    "TryAgain",
    "Pass",
    "Take",
];

struct Twins {
    table: Table,
    memory: Memory,
    seen: Mutex<HashMap<Key, Seen>>,
    /// Which kinds of writes happened, and how often.
    done: Mutex<BTreeMap<String, usize>>,
}

/// What is known of a key beyond what stands there.
#[derive(Clone, Default)]
struct Seen {
    /// The last row that was ours: what was read, before a stranger came, by those who write after.
    row: Option<Stored>,
    /// What stands in the table.
    item: Option<Item>,
    /// What stood there at [`Step::Keep`].
    kept: Option<Item>,
    /// A stranger was there.
    strange: bool,
}

impl Twins {
    fn on(table: Table) -> Self {
        Self {
            table,
            memory: Memory::new(),
            seen: Mutex::default(),
            done: Mutex::default(),
        }
    }

    async fn run(&self, key: &str, steps: &[Step]) -> Result<(), TestCaseError> {
        let address = Address {
            key: Key::new(key).unwrap(),
            permit: 0,
        };
        for step in steps {
            self.read(&address).await;
            let heir_is_set = self.take(&address, step).await?;
            let (ours, item) = (self.ours(&address).await, self.table.get(&address).await);
            let theirs = Stored::read(item.as_ref());
            prop_assert_eq!(&ours, &theirs, "after {:?}", step);
            let strange = self.seen(&address, |seen| {
                seen.item.clone_from(&item);
                seen.strange
            });
            if let (Stored::Row(row), Some(item)) = (&ours, &item) {
                if heir_is_set {
                    prop_assert_eq!(items::heir(item), items::heir_of(row), "{:?}", step);
                }
                if !strange {
                    let (ours, theirs) = (items::expected(row), items::plain(row, item));
                    for name in ours.keys().chain(theirs.keys()) {
                        let both = (ours.get(name), theirs.get(name));
                        prop_assert_eq!(both.0, both.1, "{} after {:?}", name, step);
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&self, change: &Change) {
        let said = format!("{change:?}");
        let mut kind = said.split('(').next().unwrap_or_default().to_owned();
        if let Change::Release(release) = change {
            let of = matches!(release.of, ReleaseTarget::Reservation(_));
            kind += if of { " of what was kept" } else { "" };
        }
        *self.done.lock().unwrap().entry(kind).or_default() += 1;
    }

    async fn ours(&self, address: &Address) -> Stored {
        self.memory.read(address, LIMIT).await.unwrap()
    }

    /// What stands there, or stood there before it was no row of ours.
    async fn read(&self, address: &Address) -> Stored {
        let ours = self.ours(address).await;
        self.seen(address, |seen| match (&ours, &seen.row) {
            (Stored::Foreign(_), Some(row)) => row.clone(),
            _ => seen.row.insert(ours).clone(),
        })
    }

    fn seen<T>(&self, address: &Address, act: impl FnOnce(&mut Seen) -> T) -> T {
        act(self
            .seen
            .lock()
            .unwrap()
            .entry(address.key.clone())
            .or_default())
    }

    /// Whether it was a write that says who is first in line.
    async fn take(&self, address: &Address, step: &Step) -> Result<bool, TestCaseError> {
        let change = match step {
            Step::Tamper { attribute, value } => {
                let item = self.seen(address, |seen| seen.item.clone());
                self.tamper(address, item, *attribute, *value).await;
                return Ok(false);
            }
            Step::Keep => {
                self.seen(address, |seen| seen.kept = seen.item.clone());
                return Ok(false);
            }
            Step::Again { attribute, value } => {
                let item = self.seen(address, |seen| {
                    seen.row = Some(Stored::read(seen.kept.as_ref()));
                    seen.strange = false;
                    seen.kept.clone()
                });
                self.tamper(address, item, *attribute, *value).await;
                return Ok(false);
            }
            Step::Delete => {
                self.table.delete(address).await;
                self.memory.delete(address);
                self.seen(address, |seen| seen.strange = false);
                return Ok(false);
            }
            Step::Together { .. } => {
                self.together(address, step).await?;
                return Ok(false);
            }
            Step::Join { .. } => return self.join(address, step).await,
            Step::CallBack { .. } | Step::Forget { .. } => {
                self.waits(address, step).await?;
                return Ok(false);
            }
            _ => match changes::change(&self.read(address).await, step) {
                Some(change) => change,
                None => return Ok(false),
            },
        };
        let ours = self.memory.apply(address, &change, LIMIT).await.unwrap();
        let theirs = self.table.store().apply(address, &change, LIMIT).await;
        let theirs = theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
        if let (
            Applied::Done {
                row: a,
                deadline_before: x,
            },
            Applied::Done {
                row: b,
                deadline_before: y,
            },
        ) = (&ours, &theirs)
        {
            prop_assert_eq!(a, b, "{:?}", step);
            prop_assert_eq!(x, y, "{:?}", step);
            self.count(&change);
            return Ok(items::sets_the_heir(&change));
        }
        prop_assert_eq!(ours, theirs, "{:?}", step);
        Ok(false)
    }

    async fn tamper(&self, address: &Address, item: Option<Item>, attribute: u8, value: u8) {
        let (name, value) = (ATTRIBUTES[usize::from(attribute)], strange(value));
        let Some(mut item) = item.filter(|_| is_writable(name, value.as_ref())) else {
            return;
        };
        let before = match value {
            Some(value) => item.insert(name.to_owned(), value),
            None => item.remove(name),
        };
        let same = before.as_ref() == item.get(name);
        self.seen(address, |seen| seen.strange |= !same);
        self.memory.put(address.clone(), &item);
        self.table.put(address, item).await;
    }

    /// Who joins, and the item beside: both or neither, and the same on both tables.
    async fn join(&self, address: &Address, step: &Step) -> Result<bool, TestCaseError> {
        let stands = self.read(address).await;
        let (join, waiter) = changes::join(&stands, step).expect("a step that joins");
        let key = &address.key;
        let ours = self.memory.join(key, &join, &waiter, LIMIT).await.unwrap();
        let theirs = self.table.store().join(key, &join, &waiter, LIMIT).await;
        let theirs = theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
        prop_assert_eq!(&ours, &theirs, "{:?}", step);
        if ours == Joined::Done {
            self.count(&Change::Join(join.clone()));
        }
        self.same_waiter(key, &join.request, step).await?;
        Ok(false)
    }

    async fn waits(&self, address: &Address, step: &Step) -> Result<(), TestCaseError> {
        let (key, table) = (&address.key, self.table.store());
        match *step {
            Step::CallBack {
                who,
                request,
                token,
            } => {
                let waiter = changes::waiter(who, request, 0, token);
                let ours = self.memory.call_back_by(key, &waiter, LIMIT).await.unwrap();
                let theirs = table.call_back_by(key, &waiter, LIMIT).await;
                let theirs = theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
                prop_assert_eq!(ours, theirs, "{:?}", step);
                self.same_waiter(key, &waiter.request, step).await
            }
            Step::Forget {
                who,
                request,
                token,
            } => {
                let waiter = changes::waiter(who, request, 0, token);
                self.memory.forget(key, &waiter, LIMIT).await.unwrap();
                let theirs = table.forget(key, &waiter, LIMIT).await;
                theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
                self.same_waiter(key, &digest(who, request), step).await
            }
            _ => unreachable!("called for no other"),
        }
    }

    async fn same_waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        step: &Step,
    ) -> Result<(), TestCaseError> {
        let ours = self.memory.waiter(key, request, LIMIT).await.unwrap();
        let store = self.table.store();
        let theirs = store.waiter(key, request, LIMIT).await.unwrap();
        if theirs.is_some() {
            // The items say so in an attribute of its own, which sweep goes by.
            for item in self.table.items(key).await {
                if item.contains_key("deadline") {
                    let name = "sweep_after";
                    prop_assert_eq!(item.get(name), item.get("deadline"), "{:?}", step);
                }
            }
        }
        prop_assert_eq!(ours, theirs, "{:?}", step);
        Ok(())
    }

    /// A transaction with a row that is in nobody's way: it must happen on both tables or on neither,
    /// and tell of the same row.
    async fn together(&self, address: &Address, step: &Step) -> Result<(), TestCaseError> {
        let &Step::Together {
            id: n,
            token,
            at,
            check,
        } = step
        else {
            unreachable!("called for no other")
        };
        let grant = Step::Grant {
            who: n,
            request: n,
            id: n,
            at,
            ttl: 10,
            observed: None,
            several: true,
            floor: 0,
        };
        let stands = self.read(address).await;
        let grant = changes::change(&stands, &grant).unwrap();
        let beside = Address {
            key: Key::new(format!("{}/beside", address.key)).unwrap(),
            permit: 0,
        };
        self.table.delete(&beside).await;
        self.memory.delete(&beside);
        let fencing_token = match stands {
            Stored::Row(row) => row.fencing_token.get(),
            Stored::Absent | Stored::Foreign(_) => 10,
        };
        let confirm = Change::Confirm(Confirm {
            lease_id: id(n),
            fencing_token: near(fencing_token, token),
            now: seconds(at),
        });
        let changes = [
            (address.clone(), if check { confirm } else { grant.clone() }),
            (beside.clone(), grant),
        ];
        let ours = self.memory.apply_all(&changes, LIMIT).await.unwrap();
        let theirs = self.table.store().apply_all(&changes, LIMIT).await;
        let theirs = theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
        prop_assert_eq!(ours, theirs, "{:?}", step);
        let theirs = Stored::read(self.table.get(&beside).await.as_ref());
        prop_assert_eq!(self.ours(&beside).await, theirs);
        Ok(())
    }
}

#[tokio::test]
async fn it_does_so_of_rows_that_chance_brings_about_too_seldom() {
    let twins = Twins::on(Table::start().await);
    for (n, steps) in rare::sequences().into_iter().enumerate() {
        let same = twins.run(&format!("k{n}"), &steps).await;
        assert!(same.is_ok(), "{steps:?}: {same:?}");
    }
}

#[test]
fn the_table_does_what_the_pure_function_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let twins = Twins::on(runtime.block_on(Table::start()));
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
            runtime.block_on(twins.run(&format!("k{n}"), &steps))
        })
        .unwrap();
    // A sequence in which nothing fits shows nothing.
    let done = twins.done.into_inner().unwrap();
    println!("{done:?}");
    for kind in KINDS {
        assert!(done.contains_key(kind), "no {kind} in {done:?}");
    }
}
