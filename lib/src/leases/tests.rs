use super::*;
use crate::{
    Acquire, Memory,
    clock::ManualClock,
    test_support::{grant, make},
};

const MS: Duration = Duration::from_millis(1);

fn by<S: Store>(store: S, clock: &Arc<ManualClock>) -> Leases<S> {
    Leases::new(store, Settings::default()).with_clock(clock.clone())
}

fn asking(ttl: Duration) -> Acquire {
    make::request(make::key("k"), "h", ttl)
}

#[tokio::test]
async fn ttl_is_longer_than_guard() {
    let leases = by(Memory::new(), &make::clock());
    let guard = leases.settings().guard;
    let refused = leases.acquire(asking(guard)).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let lease = grant(&leases, asking(guard + MS)).await.lease;
    assert_eq!(lease.safe_until(), leases.now().plus(MS));
    let refused = leases.extend(&lease, make::extend_by(guard)).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

#[test]
fn past_deadline_is_not_believed() {
    let leases = by(Memory::new(), &make::clock());
    assert_eq!(leases.for_call(leases.now().plus(MS)).limit(), MS);
    assert_eq!(leases.for_call(leases.now()).limit(), leases.limit());
}
