//! The pure transition against the condition expressions: random sequences of writes, some of them
//! on rows that somebody tampered with, run on the memory store and on a real DynamoDB API, must
//! end the same way each time, answer and row.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Counter, Holder, Key, Keys, KeysDigest, Memory, Metadata, RequestDigest, RequestId, Ttl,
    row::{Item, Stored},
    store::{Address, Applied, Store},
    transition::{Change, Confirm, Expire, Extend, Grant, Over, Release, Swap, Tokens},
};
use proptest::{prelude::*, test_runner::TestRunner};

#[path = "../bench/mod.rs"]
mod bench;
mod steps;
use bench::Table;
use steps::{ATTRIBUTES, Step, Token, id, is_writable, near, operated, seconds, steps, strange};

const LIMIT: Duration = Duration::from_secs(1);

struct Twins {
    table: Table,
    memory: Memory,
}

impl Twins {
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
            _ => match self.change(address, step).await {
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
        } else {
            prop_assert_eq!(ours, theirs, "{:?}", step);
        }
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
        let grant = self.change(address, &grant).await.unwrap();
        let beside = Address {
            key: Key::new(format!("{}/beside", address.key)).unwrap(),
            permit: 0,
        };
        self.table.delete(&beside).await;
        self.memory.delete(&beside);
        let (fencing_token, _) = self.counters(address).await;
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

    /// The counters of what stands there, so that most writes fit.
    async fn counters(&self, address: &Address) -> (u64, u64) {
        match self.ours(address).await {
            Stored::Row(row) => (row.fencing_token.get(), row.version.get()),
            _ => (10, 10),
        }
    }

    async fn change(&self, address: &Address, step: &Step) -> Option<Change> {
        let (token, version) = self.counters(address).await;
        Some(match *step {
            Step::Grant {
                who,
                request,
                id: n,
                at,
                ttl,
                observed,
                several,
                floor,
            } => {
                let holder = Holder::new(format!("h{who}")).unwrap();
                let request = RequestId::new(format!("r{request}")).unwrap();
                let now = seconds(at);
                let ttl = Ttl::new(Duration::from_secs(ttl.into())).unwrap();
                let expires_at = now.plus(ttl.as_duration());
                Change::Grant(Grant {
                    request: RequestDigest::of(&holder, &request),
                    holder,
                    keys: several.then(two_keys).flatten(),
                    lease_id: id(n),
                    ttl,
                    metadata: Metadata::default(),
                    now,
                    tokens: match floor {
                        1 => Tokens::From(near(token, Token(0))),
                        2 => Tokens::From(near(token, Token(1))),
                        3 => Tokens::LiftedTo(near(token, Token(0))),
                        4 => Tokens::LiftedTo(near(token, Token(1))),
                        _ => Tokens::From(Counter::MIN),
                    },
                    over: match observed {
                        Some(step) => Over::Unmoved(near(version, step).into()),
                        None => Over::At(now.minus(Duration::from_secs(2))),
                    },
                    expires_at,
                    sweep_after: expires_at.plus(Duration::from_secs(2)),
                })
            }
            Step::Extend {
                id: n,
                token: step,
                at,
                ttl,
                require_unexpired,
            } => {
                let ttl = Ttl::new(Duration::from_secs(ttl.into())).unwrap();
                Change::Extend(Extend {
                    lease_id: id(n),
                    fencing_token: near(token, step),
                    ttl,
                    now: seconds(at),
                    expires_at: seconds(at).plus(ttl.as_duration()),
                    require_unexpired,
                })
            }
            Step::Release { id: n, token: step } => Change::Release(Release {
                lease_id: id(n),
                fencing_token: near(token, step),
                purge_at: 2000,
            }),
            Step::Expire { version: step } => Change::Expire(Expire {
                version: near(version, step),
                purge_at: 3000,
            }),
            Step::Swap { version: step, act } => {
                let Stored::Row(row) = self.ours(address).await else {
                    return None;
                };
                Change::Swap(Box::new(Swap {
                    seen: Some(near(version, step)),
                    row: operated(row, act),
                }))
            }
            Step::Together { .. } | Step::Tamper { .. } | Step::Freeze | Step::Delete => {
                unreachable!("no write of one row")
            }
        })
    }
}

fn two_keys() -> Option<KeysDigest> {
    let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
    KeysDigest::of(&Keys::new(keys.into()).unwrap())
}

#[test]
fn the_table_does_what_the_pure_function_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let twins = Twins {
        table: runtime.block_on(Table::start()),
        memory: Memory::new(),
    };
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
}
