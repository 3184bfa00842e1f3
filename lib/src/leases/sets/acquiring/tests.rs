//! Changes between two requests of one call.

use std::{collections::HashSet, time::Duration};

use super::*;
use crate::{
    Acquire, AcquireAll, Connection, Memory, Settings,
    clock::paused::Paused,
    retry::{FIRST_PAUSE, LONGEST_PAUSE},
    store::wire::{Before, Wire},
    test_support::{grant, invalid, make},
};

fn at(name: &str) -> Address {
    Address::first(&make::key(name))
}

const TTL: Duration = Duration::from_mins(1);

fn set() -> AcquireAll {
    let keys = make::keys(["a", "b"].map(make::key).into());
    AcquireAll::new(keys, make::holder("h"), make::ttl(TTL)).request_id(make::request_id("1"))
}

fn single(name: &str, holder: &str) -> Acquire {
    make::request(make::key(name), holder, TTL)
}

/// A row that was granted to somebody else.
async fn somebody_elses(name: &str) -> crate::row::Item {
    let leases = Leases::new(Memory::new(), Settings::default());
    grant(&leases, single(name, "x")).await;
    let limit = Duration::from_secs(1);
    match leases.store().read_row(&at(name), limit).await {
        Ok(Stored::Row(row)) => row.to_item(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn ended_lease_is_not_handed_out() {
    let theirs = somebody_elses("b").await;
    let taken = move |table: &Memory| table.put(at("b"), &theirs);
    let purged = |table: &Memory| table.delete(&at("a"));
    let stores = [
        ("b", Wire::meddled(Before::ReadAll, 1, taken)),
        ("a", Wire::meddled(Before::ReadAll, 1, purged)),
    ];
    for (over, store) in stores {
        let leases = Leases::new(store, Settings::default());
        let answer = leases.acquire_all(set()).await;
        let is_it = matches!(&answer, Err(Error::Consumed { key }) if key.as_str() == over);
        assert!(is_it, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn own_lease_may_end_meanwhile() {
    let gone = |table: &Memory| table.delete(&at("a"));
    let theirs = somebody_elses("a").await;
    let taken = move |table: &Memory| table.put(at("a"), &theirs);
    let plans = [
        Wire::meddled(Before::ApplyAll, 2, gone),
        Wire::meddled(Before::ApplyAll, 2, taken),
    ];
    for (store, granted) in plans.into_iter().zip([true, false]) {
        let leases = Leases::new(store.clone(), Settings::default());
        let own = grant(&leases, single("a", "h")).await.lease;
        let answer = leases.acquire_all(set().reentrant()).await;
        assert!(store.is_done());
        match (granted, answer.expect("an answer")) {
            (true, AcquiredAll::Granted(set)) => assert_ne!(set.leases[0].lease_id, own.lease_id),
            (false, AcquiredAll::Held(held)) => assert_eq!(held.held.holder.as_str(), "x"),
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_retries_jitter_and_end() {
    let mut firsts = HashSet::new();
    for _ in 0..20 {
        let clock = Paused::new();
        let leases = Leases::new(Wire::conflicting(u32::MAX), Settings::default());
        let answer = leases.with_clock(clock.clone()).acquire_all(set()).await;
        assert!(matches!(answer, Err(Error::Throttled { .. })), "{answer:?}");
        let pauses = clock.pauses.lock().expect("no panic").clone();
        let total: Duration = pauses.iter().sum();
        let most = Connection::OPERATION;
        assert!(total <= most && total > most / 2, "{pauses:?}");
        let mut limit = FIRST_PAUSE;
        for pause in &pauses {
            assert!(*pause <= limit, "{pauses:?}");
            limit = (limit * 2).min(LONGEST_PAUSE);
        }
        firsts.insert(pauses[0]);
    }
    assert!(
        firsts.len() > 10,
        "the same pause again and again: {firsts:?}"
    );
}

/// A cancelled transaction need not give a reason for each row that caused it.
#[tokio::test(start_paused = true)]
async fn any_row_finds_replayed_set() {
    let store = Wire::default();
    let leases = Leases::new(store.clone(), Settings::default());
    let first = leases.acquire_all(set()).await;
    let first = first.expect("an answer").granted().expect("a grant");
    store.leave_one_out();
    let again = leases.acquire_all(set()).await;
    let again = again.expect("an answer").granted().expect("a grant");
    assert_eq!(again.grant, GrantKind::Replayed);
    assert_eq!(again.leases, first.leases);
    // One of them has ended.
    let _ = leases.release(&first.leases[1]).await.expect("released");
    store.leave_one_out();
    let answer = leases.acquire_all(set()).await;
    assert!(matches!(answer, Err(Error::Consumed { .. })), "{answer:?}");
}

#[tokio::test]
async fn oversized_set_answer_is_refused() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let of = |keys: u16, metadata: usize| {
        let keys = (0..keys).map(|n| make::key(format!("k{n}"))).collect();
        let keys = make::keys(keys);
        let metadata = make::metadata("text", &"x".repeat(metadata));
        AcquireAll::new(keys, make::holder("h"), make::ttl(TTL)).metadata(metadata)
    };
    let refused = leases.acquire_all(of(100, 4000)).await;
    invalid(refused, "metadata");
    let granted = leases.acquire_all(of(100, 2000)).await.expect("an answer");
    let answer = serde_json::to_string(&granted).expect("JSON");
    assert!(answer.len() < LARGEST_ANSWER, "{}", answer.len());
}
