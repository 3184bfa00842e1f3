//! Money moves between accounts, by plain reads and plain writes: nothing but the leases of both
//! accounts keeps it from being lost. An observer watches that a set is held as a whole or not
//! at all.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../programs/mod.rs"]
mod programs;

mod bank;
mod plan;

use leasehold::{AcquireAll, GrantKind, Keys};
use leasehold_local::Fault;

use bank::{Bank, Locking, SUM, account_key, holder, ttl};
use leasehold_proof::fixture::Table;

/// Many times what one of a crowd needs; whoever asks that often asks in vain.
const ATTEMPTS: usize = 1000;

/// Another one each time, which the test tells; `TRANSFERS_SEED` repeats one.
fn seed() -> u64 {
    let given = std::env::var("TRANSFERS_SEED").ok();
    given.map_or_else(|| getrandom::u64().unwrap(), |seed| seed.parse().unwrap())
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
async fn a_conflict_of_writers_is_never_told_as_held() {
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
