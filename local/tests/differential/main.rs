//! The pure transition against the condition expressions: random sequences of writes, some of them
//! on rows that somebody tampered with, run on the memory store and on a real DynamoDB API, must
//! end the same way each time, answer and row.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Key, Memory, RequestDigest,
    row::{Item, Row, Stored},
    store::{Address, Applied, Joined, Store},
    transition::{Change, Confirm, Of},
};
use proptest::{prelude::*, test_runner::TestRunner};

mod agreeing;
#[path = "../bench/mod.rs"]
mod bench;
mod changes;
mod operations;
mod rare;
mod reference;
mod steps;
mod strange;
mod values;
mod worlds;
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
    "Expire",
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
    /// Which kinds of writes happened, and how often.
    done: Mutex<BTreeMap<String, usize>>,
}

impl Twins {
    fn on(table: Table) -> Self {
        Self {
            table,
            memory: Memory::new(),
            done: Mutex::default(),
        }
    }

    async fn run(&self, key: &str, steps: &[Step]) -> Result<(), TestCaseError> {
        let address = Address {
            key: Key::new(key).unwrap(),
            permit: 0,
        };
        for step in steps {
            self.take(&address, step).await?;
            let (ours, theirs) = (self.ours(&address).await, self.theirs(&address).await);
            prop_assert_eq!(ours, theirs, "after {:?}", step);
        }
        Ok(())
    }

    fn count(&self, change: &Change) {
        let said = format!("{change:?}");
        let mut kind = said.split('(').next().unwrap_or_default().to_owned();
        if let Change::Release(release) = change {
            let of = matches!(release.of, Of::Reservation(_));
            kind += if of { " of what was kept" } else { "" };
        }
        *self.done.lock().unwrap().entry(kind).or_default() += 1;
    }

    async fn ours(&self, address: &Address) -> Stored {
        self.memory.read(address, LIMIT).await.unwrap()
    }

    async fn theirs(&self, address: &Address) -> Stored {
        Stored::read(self.table.get(address).await.as_ref())
    }

    async fn take(&self, address: &Address, step: &Step) -> Result<(), TestCaseError> {
        let change = match step {
            Step::Tamper { attribute, value } => {
                let (name, value) = (ATTRIBUTES[usize::from(*attribute)], strange(*value));
                if let Some(mut item) = self.table.get(address).await
                    && is_writable(name, value.as_ref())
                {
                    match value {
                        Some(value) => drop(item.insert(name.to_owned(), value)),
                        None => drop(item.remove(name)),
                    }
                    self.put(address, item).await;
                }
                return Ok(());
            }
            Step::Freeze => {
                if let Some(mut item) = self.table.get(address).await {
                    item.insert("frozen".to_owned(), AttributeValue::Bool(true));
                    self.put(address, item).await;
                }
                return Ok(());
            }
            Step::Delete => {
                self.table.delete(address).await;
                self.memory.delete(address);
                return Ok(());
            }
            Step::Together { .. } => return self.together(address, step).await,
            Step::Join { .. } => return self.join(address, step).await,
            Step::CallBack { .. } | Step::Forget { .. } => return self.waits(address, step).await,
            _ => match changes::change(&self.ours(address).await, step) {
                Some(change) => change,
                None => return Ok(()),
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
            if sets_the_heir(&change) {
                prop_assert_eq!(self.heir(address).await, heir_of(a), "{:?}", step);
            }
        } else {
            prop_assert_eq!(ours, theirs, "{:?}", step);
        }
        Ok(())
    }

    /// Who joins, and the item beside: both or neither, and the same on both tables.
    async fn join(&self, address: &Address, step: &Step) -> Result<(), TestCaseError> {
        let stands = self.ours(address).await;
        let (join, waiter) = changes::join(&stands, step).expect("a step that joins");
        let key = &address.key;
        let ours = self.memory.join(key, &join, &waiter, LIMIT).await.unwrap();
        let theirs = self.table.store().join(key, &join, &waiter, LIMIT).await;
        let theirs = theirs.map_err(|e| TestCaseError::fail(format!("{step:?}: {e}")))?;
        prop_assert_eq!(&ours, &theirs, "{:?}", step);
        if ours == Joined::Done {
            self.count(&Change::Join(join.clone()));
        }
        self.same_waiter(key, &join.request, step).await
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
                let theirs = table.call_back_by(key, &waiter, LIMIT).await.unwrap();
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
                table.forget(key, &waiter, LIMIT).await.unwrap();
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
        let theirs = self
            .table
            .store()
            .waiter(key, request, LIMIT)
            .await
            .unwrap();
        prop_assert_eq!(ours, theirs, "{:?}", step);
        Ok(())
    }

    /// What the stream is filtered by.
    async fn heir(&self, address: &Address) -> Option<String> {
        let item = self.table.get(address).await?;
        match item.get("heir")? {
            AttributeValue::S(digest) => Some(digest.clone()),
            AttributeValue::Null(true) => None,
            strange => panic!("{strange:?}"),
        }
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
        let stands = self.ours(address).await;
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
        prop_assert_eq!(self.ours(&beside).await, self.theirs(&beside).await);
        Ok(())
    }

    async fn put(&self, address: &Address, item: Item) {
        self.memory.put(address.clone(), &item);
        self.table.put(address, item).await;
    }
}

/// Joining and leaving do not: they move nobody to the front of a row that was not kept for somebody
/// already, or that somebody has been told of.
fn sets_the_heir(change: &Change) -> bool {
    !matches!(
        change,
        Change::Extend(_) | Change::Cut(_) | Change::Leave(_) | Change::TryAgain(_)
    )
}

/// Whoever is first in line of a row that is free, and kept for nobody.
fn heir_of(row: &Row) -> Option<String> {
    let nobodys = row.holding().is_none() && row.reserved().is_none();
    let item = row.to_item();
    let line = item.get("line").filter(|_| nobodys)?.as_l().unwrap();
    line.first().map(|head| head.as_s().unwrap().clone())
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
