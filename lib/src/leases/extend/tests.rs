use std::sync::Arc;

use super::*;
use crate::{
    Acquire, ForceReleaseOptions, ReleaseOutcome, Settings, SweepBounds,
    clock::{Clock as _, ManualClock},
    row::Row,
    store::wire::{Before, Wire},
    test_support::FakeStepFunctions,
    test_support::{grant, make},
    values::{Counter, RequestDigest, RequestId},
};

const MINUTE: Duration = Duration::from_mins(1);

fn by(store: Wire, clock: &Arc<ManualClock>) -> Leases<Wire> {
    Leases::new(store, Settings::default()).with_clock(clock.clone())
}

#[tokio::test(start_paused = true)]
async fn overtaken_extend_moves_version_once() {
    let clock = make::clock();
    let first = Wire::default();
    let lease = grant(
        &by(first.clone(), &clock),
        make::request(make::key("k"), "h", MINUTE),
    )
    .await
    .lease;
    let extended = |minutes: u32| {
        let (table, clock, lease) = (first.clone(), clock.clone(), lease.clone());
        async move {
            let options = make::extend_by(MINUTE * minutes);
            let longer = by(table.clone(), &clock).extend(&lease, options).await;
            drop(longer.expect("extended"));
            table.row().await.to_item()
        }
    };
    let (longer, longest) = (extended(2).await, extended(3).await);
    let address = address_of(&lease);
    let second = Wire::meddled(Before::Apply, 2, move |table| table.put(address, &longest));
    second.table.put(address_of(&lease), &longer);
    let late = by(second.clone(), &clock)
        .extend(&lease, ExtendOptions::default())
        .await;
    assert!(second.is_done(), "it did look twice");
    let late = late.expect("it is the holder's").into_lease();
    assert_eq!(late.expires_at(), clock.now().plus(MINUTE * 3));
    assert_eq!(second.requests(), 2, "others have moved the version since");
}

#[tokio::test(start_paused = true)]
async fn late_extend_keeps_newer_extension() {
    let ttl = make::ttl(MINUTE);
    let clock = make::clock();
    let store = Wire::default();
    let (key, holder) = (make::key("k"), make::holder("h"));
    let acquire = Acquire::new(key, holder.clone(), ttl);
    let lease = grant(&by(store.clone(), &clock), acquire).await.lease;
    let before = Row {
        queue: vec![RequestDigest::of(&holder, &RequestId::random())],
        ..store.row().await
    };
    store.table.put(address_of(&lease), &before.to_item());
    clock.advance(ttl.as_duration().saturating_sub(Duration::from_millis(1)));
    let in_time = by(store.clone(), &clock)
        .extend(&lease, ExtendOptions::default())
        .await;
    drop(in_time.expect("extended"));
    let after = store.row().await.to_item();
    clock.advance(Duration::from_millis(2));
    clock.advance(Settings::default().clock_margin);

    // The row as the late extend reads it, and the row as it is when the late extend would end it.
    let address = address_of(&lease);
    let meddling = move |table: &crate::Memory| table.put(address, &after);
    let store = Wire::meddled(Before::Apply, 2, meddling);
    store.table.put(address_of(&lease), &before.to_item());
    let late = by(store.clone(), &clock)
        .extend(&lease, ExtendOptions::default())
        .await;
    assert!(store.is_done(), "it did look twice");
    let late = late.expect("it is the holder's").into_lease();
    assert_eq!(late.expires_at(), clock.now().plus(ttl.as_duration()));
    assert!(store.row().await.holding().is_some());
}

/// What its holder learns of a lost lease, by an extend and by a strict release. `others` ends it, and tells the fencing token of
/// the next grant, which is `T` in the answer.
async fn lost(
    others: impl AsyncFnOnce(&Leases<Wire>, &ManualClock, &Lease) -> Option<Counter>,
) -> [String; 2] {
    let clock = make::clock();
    let leases = by(Wire::default(), &clock);
    let request = make::request(make::key("k"), "h", MINUTE);
    let lease = grant(&leases, request).await.lease;
    let next = others(&leases, &clock, &lease).await;
    let next = next.map_or_else(|| "none".to_owned(), |token| token.to_string());
    let said = |answer: Option<Error>| answer.map_or_else(String::new, |error| error.to_string());
    let extended = leases.extend(&lease, ExtendOptions::default()).await;
    let released = leases.release_strictly(&lease).await;
    [said(extended.err()), said(released.err())].map(|said| {
        let said = said.replace("the lease of k has ended: ", "");
        said.replace(&next, "T")
    })
}

async fn other(leases: &Leases<Wire>) -> Option<Counter> {
    let granted = grant(leases, make::request(make::key("k"), "other", MINUTE)).await;
    Some(granted.lease.fencing_token)
}

async fn force(leases: &Leases<Wire>) {
    let (key, because) = (make::key("k"), make::because());
    let forced = leases.force_release(&key, ForceReleaseOptions::default(), &because);
    drop(forced.await.expect("an answer"));
}

#[tokio::test(start_paused = true)]
async fn former_holder_learns_rows_proof() {
    let by_whom = "an operator ended it: partner is down (night shift, 2027-01-15T08:00:00.000Z)";
    let forced = lost(async |leases, _, _| {
        force(leases).await;
        None
    });
    assert_eq!(forced.await, [by_whom; 2]);
    let and_granted = lost(async |leases, _, _| {
        force(leases).await;
        other(leases).await
    });
    let since = "; other was granted the key since, with fencing token T";
    assert_eq!(
        and_granted.await,
        [format!("{by_whom}{since}"), format!("{by_whom}{since}")]
    );
    let taken_over = lost(async |leases, clock, _| {
        clock.advance(MINUTE * 2);
        other(leases).await
    });
    assert_eq!(
        taken_over.await,
        [format!("it expired{since}"), format!("it expired{since}")]
    );
    let released = lost(async |leases, _, lease| {
        let released = leases.release(lease).await.expect("an answer");
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        None
    });
    assert_eq!(released.await, ["it was released", ""]);
    let swept = lost(async |leases, clock, _| {
        clock.advance(MINUTE * 2);
        let queue = leases
            .clone()
            .with_engine(Arc::new(FakeStepFunctions::default()));
        drop(queue.sweep(SweepBounds::Schedule).await.expect("swept"));
        None
    });
    assert_eq!(swept.await, ["it expired", ""]);
}

#[tokio::test]
async fn former_holder_learns_how_it_ended() {
    let clock = make::clock();
    let leases = Leases::new(crate::Memory::new(), Settings::default()).with_clock(clock);
    let mut lost = Vec::new();
    for holder in ["a", "b", "c"] {
        let lease = grant(&leases, make::request(make::key("k"), holder, MINUTE)).await;
        let released = leases.release(&lease.lease).await.expect("an answer");
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        lost.push(lease.lease);
    }
    let held = grant(&leases, make::request(make::key("k"), "d", MINUTE)).await;
    let held = held.lease;
    let since = format!(
        "; d was granted the key since, with fencing token {}",
        held.fencing_token
    );
    let unknown = held.fencing_token.plus(1);
    for (lease, wanted) in [
        (lost[2].clone(), format!("it was released{since}")),
        (lost[0].clone(), format!("it ended{since}")),
        (
            Lease {
                lease_id: lost[0].lease_id.clone(),
                ..held.clone()
            },
            "the row has another lease_id".to_owned(),
        ),
        (
            Lease {
                fencing_token: unknown,
                lease_id: lost[0].lease_id.clone(),
                ..held.clone()
            },
            "the row has never had its fencing token".to_owned(),
        ),
    ] {
        match leases.extend(&lease, ExtendOptions::default()).await {
            Err(Error::Lost { how, .. }) => assert_eq!(how, wanted),
            other => panic!("{other:?}"),
        }
    }
    // An execution lease, which is proven and not extended.
    let proven = grant(&leases, make::of_execution(make::key("e"), "one")).await;
    let released = leases.release(&proven.lease).await.expect("an answer");
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    match leases.extend(&proven.lease, ExtendOptions::default()).await {
        Err(Error::Lost { how, .. }) => assert_eq!(how, "it was released"),
        other => panic!("{other:?}"),
    }
}
