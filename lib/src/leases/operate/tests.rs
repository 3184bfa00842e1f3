//! Another writer is faster than the operator.

use std::time::Duration;

use super::*;
use crate::{
    ExtendOptions, Lease, Memory, Settings,
    row::Item,
    store::wire::{Before, Wire},
    test_support::{self, make, make::because},
};

fn address() -> Address {
    Address::first(&make::key("k"))
}

async fn grant(leases: &Leases<Memory>, holder: &str) -> Lease {
    let request = make::request(address().key, holder, Duration::from_mins(1));
    test_support::grant(leases, request).await.lease
}

fn evicted(forced: ForceReleaseOutcome) -> (Counter, Counter) {
    match forced {
        ForceReleaseOutcome::Forced {
            evicted,
            fencing_token,
        } => (evicted.fencing_token, fencing_token),
        other => panic!("nobody was evicted: {other:?}"),
    }
}

async fn force<S: Store>(leases: &Leases<S>) -> ForceReleaseOutcome {
    let (key, because) = (address().key, because());
    let forced = leases.force_release(&key, ForceReleaseOptions::default(), &because);
    forced.await.expect("an answer")
}

async fn row(table: &Memory) -> Row {
    match table.read_row(&address(), Duration::MAX).await {
        Ok(Stored::Row(row)) => row,
        other => panic!("{other:?}"),
    }
}

/// What is stored when the operator reads, and what it becomes before the operator writes.
fn quicker(before: Option<Item>, after: Item) -> (Leases<Wire>, Wire) {
    let store = Wire::meddled(Before::Apply, 1, move |table: &Memory| {
        table.put(address(), &after);
    });
    if let Some(before) = before {
        store.table.put(address(), &before);
    }
    (Leases::new(store.clone(), Settings::default()), store)
}

/// A forced release that read `before` and writes to the current row in the table of `leases`, which stays as it is.
/// Then the next holder is granted the key.
async fn force_after(leases: &Leases<Memory>, before: &Item) -> ForceReleaseOutcome {
    let after = row(leases.store()).await;
    let (quick, store) = quicker(Some(before.clone()), after.to_item());
    let forced = force(&quick).await;
    assert_eq!(row(&store.table).await, after, "the other one goes on");
    if after.holding().is_none() {
        grant(leases, "b").await;
    }
    forced
}

#[tokio::test(start_paused = true)]
async fn a_freeze_is_tried_again() {
    let leases = Leases::new(Memory::new(), Settings::default());
    grant(&leases, "a").await;
    let (leases, store) = quicker(None, row(leases.store()).await.to_item());
    let froze = leases.freeze(&address().key, &because()).await;
    assert_eq!(froze.expect("an answer"), FreezeOutcome::Frozen);
    assert!(store.is_done());
    let row = row(&store.table).await;
    assert!(row.frozen.is_some() && row.holding().is_some());
}

#[tokio::test(start_paused = true)]
async fn force_release_spares_next_holder() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let lease = grant(&leases, "a").await;
    let before = row(leases.store()).await.to_item();

    // Extended in between: it is the same grant.
    let extended = leases.extend(&lease, ExtendOptions::default()).await;
    drop(extended.expect("extended"));
    let after = row(leases.store()).await.to_item();
    let (quick, store) = quicker(Some(before.clone()), after);
    let (token, _) = evicted(force(&quick).await);
    assert_eq!(token, lease.fencing_token);
    assert!(store.is_done() && row(&store.table).await.holding().is_none());

    // Ended by force already, by this very call whose response was lost, and granted to somebody else.
    evicted(force(&leases).await);
    let token = lease.fencing_token;
    for _ in 0..2 {
        let forced = force_after(&leases, &before).await;
        assert_eq!(evicted(forced), (token, token.plus(1)));
    }

    // Released in between, and granted to somebody else.
    let leases = Leases::new(Memory::new(), Settings::default());
    let lease = grant(&leases, "a").await;
    let before = row(leases.store()).await.to_item();
    let _ = leases.release(&lease).await.expect("released");
    for _ in 0..2 {
        assert_eq!(
            force_after(&leases, &before).await,
            ForceReleaseOutcome::NotHeld
        );
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_grant_is_no_raised_floor() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let lease = grant(&leases, "a").await;
    let _ = leases.release(&lease).await.expect("released");
    let before = row(leases.store()).await.to_item();
    grant(&leases, "b").await;
    let after = row(leases.store()).await;
    let (leases, store) = quicker(Some(before), after.to_item());
    let floor = Some(after.fencing_token.plus(1_000_000));
    let raised = leases.raise_floor(&address().key, floor, &because()).await;
    assert!(matches!(raised, Err(Error::Held(_))), "{raised:?}");
    assert!(store.is_done());
    assert_eq!(row(&store.table).await, after);
}

#[tokio::test]
async fn act_records_signing_identity() {
    let caller = crate::Caller::new("arn:aws:iam::123456789012:user/alice").expect("valid");
    let leases = Leases::new(Memory::new(), Settings::default());
    let leases = leases.with_caller(Some(caller.clone()));
    let froze = leases.freeze(&address().key, &because()).await;
    assert_eq!(froze.expect("an answer"), FreezeOutcome::Frozen);
    let record = row(leases.store()).await.operator.expect("a record");
    assert_eq!(record.caller, Some(caller));
}
