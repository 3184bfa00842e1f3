use super::*;
use crate::{
    Acquire, GrantKind, Memory,
    clock::ManualClock,
    conformance::{grant, make},
    store::wire::{Before, Wire},
};

const MINUTE: Duration = Duration::from_mins(1);
const MS: Duration = Duration::from_millis(1);

fn by<S: Store>(store: S, clock: &Arc<ManualClock>) -> Leases<S> {
    Leases::new(store, Settings::default()).with_clock(clock.clone())
}

fn asking(ttl: Duration) -> Acquire {
    make::request(make::key("k"), "h", ttl)
}

#[tokio::test]
async fn a_ttl_leaves_something_after_the_guard() {
    let leases = by(Memory::new(), &make::clock());
    let guard = leases.settings().guard;
    let refused = leases.acquire(asking(guard)).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let lease = grant(&leases, asking(guard + MS)).await.lease;
    assert_eq!(lease.safe_until, leases.now().plus(MS));
    let refused = leases.extend(&lease, make::extend_by(guard)).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

#[test]
fn a_deadline_that_has_come_is_not_believed() {
    let leases = by(Memory::new(), &make::clock());
    assert_eq!(leases.for_call(leases.now().plus(MS)).limit(), MS);
    assert_eq!(leases.for_call(leases.now()).limit(), leases.limit());
}

#[tokio::test(start_paused = true)]
async fn an_extend_that_others_overtake_twice_moves_the_version_once_or_not_at_all() {
    let clock = make::clock();
    let first = Wire::default();
    let lease = grant(&by(first.clone(), &clock), asking(MINUTE))
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
    assert_eq!(late.expires_at, clock.now().plus(MINUTE * 3));
    assert_eq!(second.requests(), 2, "others have moved the version since");
}

/// After a lost response the same value finds its lease, although the caller set no request id.
#[tokio::test]
async fn a_clone_of_a_request_is_the_same_request() {
    let leases = by(Memory::new(), &make::clock());
    let request = asking(MINUTE);
    let first = grant(&leases, request.clone()).await;
    let again = grant(&leases, request).await;
    assert_eq!(again.grant, GrantKind::Replayed);
    assert_eq!(again.lease, first.lease);
}
