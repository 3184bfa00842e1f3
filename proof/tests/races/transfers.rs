//! Money moves between accounts, by plain reads and plain writes: nothing but the leases of both accounts keeps it from
//! being lost. An observer watches that a set is held as a whole or not at all.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;
use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, DynamoDb, Error, GrantKind, Holder, Key, Keys,
    Lease, LeaseSet, Leases, RequestId, Ttl,
    row::Stored,
    store::{Address, Store as _},
};
use leasehold_local::Fault;
use leasehold_proof::fixture::{Table, s};
use tokio::task::JoinSet;

use crate::programs::{RESOURCE, create_resource};

const TRANSFERS: usize = 200;
const WORKERS: usize = 16;
const OPENING: i64 = 1000;
/// Of all ten accounts.
const SUM: i64 = 10 * OPENING;

/// How the two accounts of a transfer are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    /// Both at once.
    Together,
    /// The second after the first, which is kept meanwhile: what sets are for.
    OneByOne,
    /// Not at all: what leases are for.
    Not,
}

struct Bank {
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
struct Tally {
    attempts: usize,
    most_attempts: usize,
    held: usize,
    unsure: usize,
    replayed: usize,
    given_up: usize,
    snapshots: usize,
    whole: usize,
    partial: Vec<String>,
}

impl Bank {
    async fn run(locking: Locking, attempts: usize, seed: u64) -> (Tally, i64) {
        println!("transfers: seed {seed}, {locking:?}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let table = Table::start().await;
        create_resource(&table).await;
        let bank = Arc::new(Self {
            table,
            locking,
            attempts,
            transfers: (0..TRANSFERS).map(|_| Transfer::random(&mut rng)).collect(),
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
            workers.spawn(bank.clone().work(rng.fork()));
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
             for one, {} answered as held, {} unsure, {} replayed, {} given up; {} snapshots, {} sets seen whole, {} in part; \
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

    async fn work(self: Arc<Self>, mut rng: Rng) {
        loop {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            let Some(transfer) = self.transfers.get(n).copied() else {
                return;
            };
            self.disturb(n);
            let leases = match self.locking {
                Locking::Together => Ok(self.together(n, transfer, &mut rng).await),
                Locking::OneByOne => self.one_by_one(n, transfer, &mut rng).await,
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

    async fn together(&self, n: usize, transfer: Transfer, rng: &mut Rng) -> Vec<Lease> {
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
            pause(rng).await;
        }
        panic!("transfer {n} waits for ever");
    }

    /// Or as many of them as there were until it gave up.
    async fn one_by_one(
        &self,
        n: usize,
        transfer: Transfer,
        rng: &mut Rng,
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
                pause(rng).await;
            }
        }
        Ok(leases)
    }

    async fn release(&self, leases: Vec<Lease>) {
        if let Ok(leases) = LeaseSet::new(leases) {
            let _ = self.leases().release_all(&leases).await.unwrap();
        }
    }

    /// Reads both, and then writes both: a write in between is overwritten.
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

async fn pause(rng: &mut Rng) {
    tokio::time::sleep(Duration::from_millis(5 + rng.u64(..45))).await;
}

fn holder(n: usize) -> Holder {
    Holder::new(format!("transfer {n}")).unwrap()
}

fn account_key(account: usize) -> Key {
    Key::new(format!("accounts/{account}")).unwrap()
}

fn pk(account: usize) -> AttributeValue {
    s(account_key(account).as_str())
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_mins(5)).unwrap()
}

fn accounts() -> std::ops::Range<usize> {
    0..ACCOUNTS
}

const ACCOUNTS: usize = 10;

#[derive(Clone, Copy, Debug)]
struct Transfer {
    accounts: [usize; 2],
    amount: i64,
}

impl Transfer {
    fn random(rng: &mut Rng) -> Self {
        let from = rng.usize(..ACCOUNTS);
        let to = (from + rng.usize(1..ACCOUNTS)) % ACCOUNTS;
        Self {
            accounts: [from, to],
            amount: rng.i64(1..=300),
        }
    }
}

/// Many times the number that one of a crowd needs; that many tries never succeed.
const ATTEMPTS: usize = 1000;

/// Another one each time, which the test tells; `TRANSFERS_SEED` repeats one.
fn seed() -> u64 {
    let given = std::env::var("TRANSFERS_SEED").ok();
    given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transfers_under_both_leases_at_once_all_end_and_lose_nothing() {
    let (tally, sum) = Bank::run(Locking::Together, ATTEMPTS, seed()).await;
    assert_eq!(sum, SUM);
    assert_eq!(tally.partial, Vec::<String>::new());
    // Far below what any machine manages: only to see that there was contention, and that somebody watched.
    assert!(tally.held >= 20 && tally.whole >= 20, "{tally:?}");
}

/// The observer and the bound on attempts find what sets are for: half a set, and a deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_taken_one_by_one_are_seen_in_part_and_stand_in_each_others_way() {
    let (tally, _) = Bank::run(Locking::OneByOne, 8, seed()).await;
    assert!(!tally.partial.is_empty());
    assert!(tally.given_up > 0);
}

/// The money finds what leases are for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_leases_money_is_lost_or_made() {
    let (_, sum) = Bank::run(Locking::Not, 0, seed()).await;
    assert_ne!(sum, SUM);
}

#[tokio::test]
async fn a_conflict_of_writers_is_never_reported_as_held() {
    let table = Table::start().await;
    for conflicts in 1..=4 {
        let keys = [2 * conflicts, 2 * conflicts + 1].map(|n| account_key(n as usize));
        let request = AcquireAll::new(Keys::new(keys.to_vec()).unwrap(), holder(0), ttl());
        table.proxy.reset();
        table
            .proxy
            .inject(Fault::Conflict, "TransactWriteItems", conflicts);
        let granted = table.leases().acquire_all(request).await.unwrap();
        assert_eq!(granted.granted().unwrap().grant, GrantKind::New);
        assert_eq!(table.proxy.pending_faults(), 0);
        let counts = table.proxy.counts();
        assert_eq!(counts.of("TransactWriteItems"), u64::from(conflicts) + 1);
    }
}
