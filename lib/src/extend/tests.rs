use std::sync::Arc;

use super::*;
use crate::{
    Acquire, Settings,
    clock::{Clock as _, ManualClock},
    conformance::{grant, make},
    row::Row,
    store::wire::{Before, Wire},
    values::{RequestDigest, RequestId},
};

const MINUTE: Duration = Duration::from_mins(1);

fn by(store: Wire, clock: &Arc<ManualClock>) -> Leases<Wire> {
    Leases::new(store, Settings::default()).with_clock(clock.clone())
}

#[tokio::test(start_paused = true)]
async fn an_extend_that_others_overtake_twice_moves_the_version_once_or_not_at_all() {
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
async fn a_late_extend_does_not_end_what_another_one_has_extended_in_time() {
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
