//! What happens between two requests of one call.

use super::*;
use crate::{
    Acquire, AcquireAll, Holder, Key, Keys, Memory, RequestId, Settings, Ttl,
    store::meddled::{Before, Meddled},
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

#[tokio::test]
async fn a_lease_that_is_over_before_its_token_was_read_is_not_handed_out() {
    let theirs = somebody_elses("b").await;
    let taken = move |table: &Memory| table.put(at("b"), &theirs);
    let store = Meddled::new(Before::ReadAll, 1, taken);
    let leases = Leases::new(store.clone(), Settings::default());
    let answer = leases.acquire_all(set(["a", "b"])).await;
    assert!(
        matches!(&answer, Err(Error::Consumed { key }) if key.as_str() == "b"),
        "{answer:?}"
    );
    let purged = |table: &Memory| table.delete(&at("a"));
    let store = Meddled::new(Before::ReadAll, 1, purged);
    let leases = Leases::new(store, Settings::default());
    let answer = leases.acquire_all(set(["a", "b"])).await;
    assert!(
        matches!(&answer, Err(Error::Consumed { key }) if key.as_str() == "a"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_lease_of_the_holders_own_that_ends_meanwhile_is_granted_anew_or_held() {
    let gone = |table: &Memory| table.delete(&at("a"));
    let theirs = somebody_elses("a").await;
    let taken = move |table: &Memory| table.put(at("a"), &theirs);
    let plans = [
        Meddled::new(Before::ApplyAll, 2, gone),
        Meddled::new(Before::ApplyAll, 2, taken),
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
