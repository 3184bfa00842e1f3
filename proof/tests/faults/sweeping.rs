//! Sweep, at work on a lease that has run out, while its holder or somebody else is at it too.

use std::time::Duration;

use leasehold::{
    Error, ExtendOptions, ReleaseOutcome, SweepBounds, Swept,
    row::{Row, State},
};
use leasehold_local::Fault;

use crate::{
    bench::request,
    calls::{Call, KEY, Scene, UPDATE},
};

/// Enough of them that sweep comes in before, between and after.
const ROUNDS: usize = 20;

/// A lease that has run out, past the margin.
async fn expired() -> Scene {
    let scene = Scene::of(Call::Extend).await;
    scene.expire();
    scene
}

/// `rival` says whether it came before sweep. It does once for sure, between sweep's read and its write; and then
/// chance decides, with two sweeps on their way.
async fn swept_while(rival: impl AsyncFn(&Scene) -> bool) {
    let freed = |swept: Result<Swept, Error>| swept.unwrap().freed;
    let scene = expired().await;
    let proxy = &scene.table.proxy;
    proxy.inject(Fault::Hang, UPDATE, 1);
    let rivals = async {
        while proxy.pending_faults() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rival(&scene).await
    };
    let (swept, first) = tokio::join!(scene.leases.sweep(SweepBounds::Schedule), rivals);
    assert!(first, "sweep's write was held up");
    assert_eq!(freed(swept), 0);

    for _ in 0..ROUNDS {
        let scene = expired().await;
        let sweep = || scene.leases.sweep(SweepBounds::Schedule);
        let (swept, _, again) = tokio::join!(sweep(), rival(&scene), sweep());
        assert!(freed(swept) + freed(again) <= 1, "freed twice");
    }
}

async fn row(scene: &Scene) -> Row {
    scene.table.row(KEY).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_never_frees_what_was_revived_meanwhile() {
    let rival = async |scene: &Scene| {
        let lease = scene.lease.as_ref().unwrap();
        let extended = scene.leases.extend(lease, ExtendOptions::default()).await;
        // Whatever sweep still does now, it does to the row as it stands.
        scene.leases.sweep(SweepBounds::Schedule).await.unwrap();
        match extended {
            Ok(extended) => {
                scene.stands(&extended.into_lease()).await;
                true
            }
            Err(Error::Lost { .. }) => {
                assert!(matches!(row(scene).await.state, State::Free { .. }));
                false
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    Box::pin(swept_while(rival)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_never_frees_a_newer_grant() {
    let rival = async |scene: &Scene| {
        let old = scene.lease.as_ref().unwrap();
        let acquired = scene.leases.acquire(request(KEY, "b", "2")).await;
        let lease = acquired.unwrap().granted().expect("it was over").lease;
        assert!(lease.fencing_token > old.fencing_token);
        scene.leases.sweep(SweepBounds::Schedule).await.unwrap();
        scene.stands(&lease).await;
        lease.version.get() == old.version.get() + 1
    };
    Box::pin(swept_while(rival)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_meets_sweep_ends_the_lease_once() {
    let rival = async |scene: &Scene| {
        let lease = scene.lease.as_ref().unwrap();
        let released = scene.leases.release(lease).await.unwrap();
        let row = row(scene).await;
        let State::Free { ended, .. } = row.state else {
            panic!("{row:?}")
        };
        assert_eq!(row.version.get(), lease.version.get() + 1, "one end");
        let mine = released.outcome == ReleaseOutcome::Released;
        assert_eq!(mine, ended == leasehold::Ended::Released);
        assert!(mine || released.outcome == ReleaseOutcome::AlreadyReleased);
        mine
    };
    Box::pin(swept_while(rival)).await;
}
