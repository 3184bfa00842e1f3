//! The accounts, those who work on them, and the one who watches.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, DynamoDb, Error, GrantKind, Holder, Key, Keys,
    Lease, LeaseSet, Leases, RequestId, Ttl,
    row::Stored,
    store::{Address, Store as _},
};
use leasehold_local::Fault;
use leasehold_proof::fixture::Table;
use tokio::task::JoinSet;

use crate::{
    plan::{ACCOUNTS, Dice, Transfer},
    programs::{RESOURCE, create_resource, s},
};

const TRANSFERS: usize = 200;
const WORKERS: usize = 16;
const OPENING: i64 = 1000;
pub const SUM: i64 = OPENING * ACCOUNTS as i64;

/// How the two accounts of a transfer are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// Both at once.
    Together,
    /// The second after the first, which is kept meanwhile: what sets are for.
    OneByOne,
    /// Not at all: what leases are for.
    Not,
}

pub struct Bank {
    table: Table,
    locking: Locking,
    attempts: usize,
    transfers: Vec<Transfer>,
    next: AtomicUsize,
    /// The transfers that have begun to release.
    leaving: Mutex<HashSet<usize>>,
    tally: Mutex<Tally>,
    over: AtomicBool,
}

#[derive(Debug, Default)]
pub struct Tally {
    pub attempts: usize,
    pub most_attempts: usize,
    pub held: usize,
    pub unsure: usize,
    pub replayed: usize,
    pub given_up: usize,
    pub snapshots: usize,
    pub whole: usize,
    pub partial: Vec<String>,
}

impl Bank {
    pub async fn run(locking: Locking, attempts: usize, seed: u64) -> (Tally, i64) {
        println!("transfers: seed {seed}, {locking:?}");
        let mut dice = Dice(seed);
        let table = Table::start().await;
        create_resource(&table).await;
        let bank = Arc::new(Self {
            table,
            locking,
            attempts,
            transfers: (0..TRANSFERS).map(|_| dice.transfer()).collect(),
            next: AtomicUsize::default(),
            leaving: Mutex::default(),
            tally: Mutex::default(),
            over: AtomicBool::default(),
        });
        for account in accounts() {
            bank.set(account, OPENING).await;
        }
        let observer = tokio::spawn(bank.clone().observe());
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(bank.clone().work(Dice(dice.roll(u64::MAX))));
        }
        // The first that panics ends it all.
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
        bank.over.store(true, Ordering::SeqCst);
        observer.await.unwrap();
        let mut sum = 0;
        for account in accounts() {
            sum += bank.balance(account).await;
        }
        let tally = std::mem::take(&mut *bank.tally.lock().unwrap());
        println!(
            "transfers: {TRANSFERS} by {WORKERS} workers over {ACCOUNTS} accounts, {locking:?}: {} attempts, at most {} \
             for one, {} told as held, {} unsure, {} replayed, {} given up; {} snapshots, {} sets seen whole, {} in part; \
             sum {sum} of {SUM}",
            tally.attempts,
            tally.most_attempts,
            tally.held,
            tally.unsure,
            tally.replayed,
            tally.given_up,
            tally.snapshots,
            tally.whole,
            tally.partial.len(),
        );
        assert_eq!(bank.table.proxy.pending_faults(), 0);
        (tally, sum)
    }

    async fn work(self: Arc<Self>, mut dice: Dice) {
        loop {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            let Some(transfer) = self.transfers.get(n).copied() else {
                return;
            };
            self.disturb(n);
            let leases = match self.locking {
                Locking::Together => Ok(self.together(n, transfer, &mut dice).await),
                Locking::OneByOne => self.one_by_one(n, transfer, &mut dice).await,
                Locking::Not => Ok(Vec::new()),
            };
            match leases {
                Ok(leases) => {
                    self.transfer(transfer).await;
                    self.leaving.lock().unwrap().insert(n);
                    self.release(leases).await;
                }
                Err(some) => {
                    self.tally.lock().unwrap().given_up += 1;
                    self.leaving.lock().unwrap().insert(n);
                    self.release(some).await;
                }
            }
        }
    }

    /// Now and then writers collide, or an answer gets lost.
    fn disturb(&self, n: usize) {
        let proxy = &self.table.proxy;
        if self.locking == Locking::Together {
            if n.is_multiple_of(7) {
                proxy.inject(Fault::Conflict, "TransactWriteItems", 2);
            }
            if n.is_multiple_of(13) {
                proxy.inject(Fault::LoseAnswer, "TransactWriteItems", 1);
            }
            if n.is_multiple_of(11) {
                proxy.inject(Fault::Conflict, "UpdateItem", 1);
            }
        }
    }

    async fn together(&self, n: usize, transfer: Transfer, dice: &mut Dice) -> Vec<Lease> {
        let keys = Keys::new(transfer.accounts.map(account_key).to_vec()).unwrap();
        // Every attempt is the same request: it was granted once at most.
        let request =
            AcquireAll::new(keys, holder(n), ttl()).request_id(RequestId::new("1").unwrap());
        for attempt in 1..=self.attempts {
            self.count_attempt(attempt);
            match self.leases().acquire_all(request.clone()).await {
                Ok(AcquiredAll::Granted(granted)) => {
                    let replayed = granted.grant == GrantKind::Replayed;
                    self.tally.lock().unwrap().replayed += usize::from(replayed);
                    return granted.leases;
                }
                Ok(AcquiredAll::Held(contention)) => {
                    assert!(!contention.held.by_you, "{contention:?}");
                    self.tally.lock().unwrap().held += 1;
                }
                Err(Error::Throttled { .. } | Error::Unavailable { .. }) => {
                    self.tally.lock().unwrap().unsure += 1;
                }
                Err(error) => panic!("transfer {n}: {error}"),
            }
            pause(dice).await;
        }
        panic!("transfer {n} waits for ever");
    }

    /// Or as many of them as there were until it gave up.
    async fn one_by_one(
        &self,
        n: usize,
        transfer: Transfer,
        dice: &mut Dice,
    ) -> Result<Vec<Lease>, Vec<Lease>> {
        let mut leases = Vec::new();
        for account in transfer.accounts {
            let mut attempt = 1;
            loop {
                self.count_attempt(attempt);
                let request = Acquire::new(account_key(account), holder(n), ttl());
                if let Acquired::Granted(granted) = self.leases().acquire(request).await.unwrap() {
                    leases.push(granted.lease);
                    break;
                }
                attempt += 1;
                if attempt > self.attempts {
                    return Err(leases);
                }
                pause(dice).await;
            }
        }
        Ok(leases)
    }

    async fn release(&self, leases: Vec<Lease>) {
        if let Ok(leases) = LeaseSet::new(leases) {
            let _ = self.leases().release_all(&leases).await.unwrap();
        }
    }

    /// Reads both, and then writes both: whoever comes in between is overwritten.
    async fn transfer(&self, transfer: Transfer) {
        let [from, to] = transfer.accounts;
        let (rich, poor) = (self.balance(from).await, self.balance(to).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.set(from, rich - transfer.amount).await;
        self.set(to, poor + transfer.amount).await;
    }

    async fn balance(&self, account: usize) -> i64 {
        let get = self.table.client.get_item().table_name(RESOURCE);
        let get = get.key("pk", pk(account)).key("sk", s("BALANCE"));
        let output = get.consistent_read(true).send().await.unwrap();
        let item = output.item.unwrap();
        item["balance"].as_n().unwrap().parse().unwrap()
    }

    async fn set(&self, account: usize, balance: i64) {
        let put = self.table.client.put_item().table_name(RESOURCE);
        let put = put.item("pk", pk(account)).item("sk", s("BALANCE"));
        let put = put.item("balance", AttributeValue::N(balance.to_string()));
        put.send().await.unwrap();
    }

    /// Looks at all lease rows as they are at one moment, over and over.
    async fn observe(self: Arc<Self>) {
        let addresses: Vec<_> = accounts()
            .map(|account| Address {
                key: account_key(account),
                permit: 0,
            })
            .collect();
        while !self.over.load(Ordering::SeqCst) {
            let store = self.table.store();
            let rows = store.read_all(&addresses, Duration::from_secs(1)).await;
            let Some(rows) = rows.unwrap() else { continue };
            let holders: Vec<_> = rows.iter().map(transfer_of).collect();
            // Who has not begun to leave by now had not then.
            let leaving = self.leaving.lock().unwrap().clone();
            let mut tally = self.tally.lock().unwrap();
            tally.snapshots += 1;
            let holding: HashSet<_> = holders.iter().flatten().copied().collect();
            for n in holding.difference(&leaving) {
                let accounts = self.transfers[*n].accounts;
                if accounts.iter().all(|account| holders[*account] == Some(*n)) {
                    tally.whole += 1;
                } else {
                    let seen = format!("{n} of {accounts:?} in {holders:?}");
                    tally.partial.push(seen);
                }
            }
        }
    }

    fn leases(&self) -> Leases<DynamoDb> {
        self.table.leases()
    }

    fn count_attempt(&self, attempt: usize) {
        let mut tally = self.tally.lock().unwrap();
        tally.attempts += 1;
        tally.most_attempts = tally.most_attempts.max(attempt);
    }
}

fn transfer_of(stored: &Stored) -> Option<usize> {
    match stored {
        Stored::Row(row) => {
            row.holding()?;
            let holder = row.granted_to.as_str().strip_prefix("transfer ");
            Some(holder.unwrap().parse().unwrap())
        }
        Stored::Absent => None,
        Stored::Foreign(reason) => panic!("{reason}"),
    }
}

async fn pause(dice: &mut Dice) {
    tokio::time::sleep(Duration::from_millis(5 + dice.roll(45))).await;
}

pub fn holder(n: usize) -> Holder {
    Holder::new(format!("transfer {n}")).unwrap()
}

pub fn account_key(account: usize) -> Key {
    Key::new(format!("accounts/{account}")).unwrap()
}

fn pk(account: usize) -> AttributeValue {
    s(account_key(account).as_str())
}

pub fn ttl() -> Ttl {
    Ttl::new(Duration::from_mins(5)).unwrap()
}

fn accounts() -> std::ops::Range<usize> {
    0..ACCOUNTS as usize
}
