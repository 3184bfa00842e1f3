//! What happens between two requests of one call.

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    Acquire, AcquireAll, Clock, Connection, Holder, Key, Keys, Memory, RequestId, Settings, Ttl,
    backoff::{FIRST_PAUSE, LONGEST_PAUSE},
    store::wire::{Before, Wire},
};

fn key(name: &str) -> Key {
    Key::new(name).expect("valid")
}

fn at(name: &str) -> Address {
    let key = key(name);
    Address { key, permit: 0 }
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_mins(1)).expect("valid")
}

fn set(names: [&str; 2]) -> AcquireAll {
    let keys = Keys::new(names.map(key).into()).expect("valid");
    let request_id = RequestId::new("1").expect("valid");
    AcquireAll::new(keys, Holder::new("h").expect("valid"), ttl()).request_id(request_id)
}

fn single(name: &str, holder: &str) -> Acquire {
    Acquire::new(key(name), Holder::new(holder).expect("valid"), ttl())
}

/// A row that somebody else was granted.
async fn somebody_elses(name: &str) -> crate::row::Item {
    let leases = Leases::new(Memory::new(), Settings::default());
    let granted = leases.acquire(single(name, "x")).await.expect("an answer");
    drop(granted.granted().expect("a grant"));
    let limit = Duration::from_secs(1);
    match leases.store().read(&at(name), limit).await {
        Ok(Stored::Row(row)) => row.to_item(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_before_its_token_was_read_is_not_handed_out() {
    let theirs = somebody_elses("b").await;
    let taken = move |table: &Memory| table.put(at("b"), &theirs);
    let store = Wire::meddled(Before::ReadAll, 1, taken);
    let leases = Leases::new(store.clone(), Settings::default());
    let answer = leases.acquire_all(set(["a", "b"])).await;
    assert!(
        matches!(&answer, Err(Error::Consumed { key }) if key.as_str() == "b"),
        "{answer:?}"
    );
    let purged = |table: &Memory| table.delete(&at("a"));
    let store = Wire::meddled(Before::ReadAll, 1, purged);
    let leases = Leases::new(store, Settings::default());
    let answer = leases.acquire_all(set(["a", "b"])).await;
    assert!(
        matches!(&answer, Err(Error::Consumed { key }) if key.as_str() == "a"),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_the_holders_own_that_ends_meanwhile_is_granted_anew_or_held() {
    let gone = |table: &Memory| table.delete(&at("a"));
    let theirs = somebody_elses("a").await;
    let taken = move |table: &Memory| table.put(at("a"), &theirs);
    let plans = [
        Wire::meddled(Before::ApplyAll, 2, gone),
        Wire::meddled(Before::ApplyAll, 2, taken),
    ];
    for (store, granted) in plans.into_iter().zip([true, false]) {
        let leases = Leases::new(store.clone(), Settings::default());
        let own = leases.acquire(single("a", "h")).await.expect("an answer");
        let own = own.granted().expect("a grant").lease;
        let answer = leases.acquire_all(set(["a", "b"]).reentrant()).await;
        assert!(store.is_done());
        match answer.expect("an answer") {
            AcquiredAll::Granted(set) => {
                assert!(granted);
                assert_ne!(set.leases[0].lease_id, own.lease_id);
            }
            AcquiredAll::Held(contention) => {
                assert!(!granted);
                assert_eq!(contention.held.holder.as_str(), "x");
            }
        }
    }
}

/// A clock that stands still but for the pauses, and remembers them.
#[derive(Default)]
struct Pauses(Mutex<Vec<Duration>>);

impl Clock for Pauses {
    fn now(&self) -> Timestamp {
        let slept = self.0.lock().expect("no panic").iter().sum();
        Timestamp::from_millis(1_800_000_000_000).plus(slept)
    }

    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.lock().expect("no panic").push(length);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_waited_out_with_jitter_and_not_for_ever() {
    let mut firsts = HashSet::new();
    for _ in 0..20 {
        let clock = Arc::new(Pauses::default());
        let leases = Leases::new(Wire::conflicting(u32::MAX), Settings::default());
        let answer = leases
            .with_clock(clock.clone())
            .acquire_all(set(["a", "b"]))
            .await;
        assert!(matches!(answer, Err(Error::Throttled { .. })), "{answer:?}");
        let pauses = clock.0.lock().expect("no panic").clone();
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

/// A cancelled transaction need not give a reason for each row that is in its way.
#[tokio::test(start_paused = true)]
async fn a_replay_is_one_though_the_refusal_does_not_say_so_of_every_row() {
    let store = Wire::default();
    let leases = Leases::new(store.clone(), Settings::default());
    let first = leases.acquire_all(set(["a", "b"])).await;
    let first = first.expect("an answer").granted().expect("a grant");
    store.leave_one_out();
    let again = leases.acquire_all(set(["a", "b"])).await;
    let again = again.expect("an answer").granted().expect("a grant");
    assert_eq!(
        (again.grant, &again.leases),
        (GrantKind::Replayed, &first.leases)
    );
    // One of them is over.
    let _ = leases.release(&first.leases[1]).await.expect("released");
    store.leave_one_out();
    let answer = leases.acquire_all(set(["a", "b"])).await;
    assert!(matches!(answer, Err(Error::Consumed { .. })), "{answer:?}");
}

#[tokio::test]
async fn a_set_whose_answer_no_workflow_could_take_is_refused_before_it_is_granted() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let of = |keys: u16, metadata: usize| {
        let keys = (0..keys).map(|n| key(&format!("k{n}"))).collect();
        let keys = Keys::new(keys).expect("valid");
        let text = [("text".to_owned(), "x".repeat(metadata))];
        let metadata = crate::Metadata::new(text.into()).expect("valid");
        AcquireAll::new(keys, Holder::new("h").expect("valid"), ttl()).metadata(metadata)
    };
    let refused = leases.acquire_all(of(100, 4000)).await;
    let Err(Error::Invalid { field, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(field.as_deref(), Some("metadata"));
    let granted = leases.acquire_all(of(100, 2000)).await.expect("an answer");
    let answer = serde_json::to_string(&granted).expect("JSON");
    assert!(answer.len() < LARGEST_ANSWER, "{}", answer.len());
}
