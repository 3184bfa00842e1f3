//! Duplicates that come late: after the release, after others had the key, after the row has forgotten.

use std::time::Duration;

use leasehold::{
    Error, GrantKind, Holder, Key, LeaseId, Metadata, ReleaseOutcome, RequestDigest, RequestId,
    Ttl,
    row::Stored,
    store::{Address, Applied, Store as _},
    transition::{Change, Grant, TakeoverRule, Tokens},
};

use crate::{
    bench::request,
    calls::{Call, KEY, Scene, TTL, Told},
};

/// How many requests a row remembers.
const REMEMBERED: usize = 4;

/// What became of the lease before its duplicate came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Released,
    /// And somebody else holds the key.
    ReleasedAndTaken,
    /// And somebody else held it, and gave it back.
    ReleasedTakenAndReleased,
    /// It ran out, and somebody else holds the key.
    TakenOver,
    Swept,
}

const MEANWHILE: [Meanwhile; 5] = [
    Meanwhile::Released,
    Meanwhile::ReleasedAndTaken,
    Meanwhile::ReleasedTakenAndReleased,
    Meanwhile::TakenOver,
    Meanwhile::Swept,
];

#[tokio::test]
async fn a_duplicate_after_the_end_grants_nothing_and_moves_nobody() {
    for meanwhile in MEANWHILE {
        let scene = Scene::of(Call::Release).await;
        let lease = scene.lease.clone().unwrap();
        happen(&scene, meanwhile).await;
        let before = scene.table.row(KEY).await;

        let spent = scene.leases.acquire(request(KEY, "a", "1")).await;
        assert!(
            matches!(spent, Err(Error::Consumed { .. })),
            "{meanwhile:?}: {spent:?}"
        );
        let lost = scene
            .leases
            .extend(&lease, leasehold::ExtendOptions::default())
            .await;
        assert!(
            matches!(lost, Err(Error::Lost { .. })),
            "{meanwhile:?}: {lost:?}"
        );
        let Told::Released(released) = scene.make().await.unwrap() else {
            unreachable!("it releases")
        };
        let expected = match meanwhile {
            Meanwhile::TakenOver => ReleaseOutcome::Lost,
            _ => ReleaseOutcome::AlreadyReleased,
        };
        assert_eq!(released, expected, "{meanwhile:?}");
        assert_eq!(scene.table.row(KEY).await, before, "{meanwhile:?}");
    }
}

async fn happen(scene: &Scene, meanwhile: Meanwhile) {
    let lease = scene.lease.as_ref().unwrap();
    match meanwhile {
        Meanwhile::Released => drop(scene.leases.release(lease).await.unwrap()),
        Meanwhile::ReleasedAndTaken | Meanwhile::ReleasedTakenAndReleased => {
            let _ = scene.leases.release(lease).await.unwrap();
            let other = scene.granted("b", "2").await;
            if meanwhile == Meanwhile::ReleasedTakenAndReleased {
                let _ = scene.leases.release(&other).await.unwrap();
            }
        }
        Meanwhile::TakenOver => {
            scene.expire();
            scene.granted("b", "2").await;
        }
        Meanwhile::Swept => {
            scene.expire();
            let swept = scene.leases.sweep(leasehold::SweepBounds::Schedule).await;
            assert_eq!(swept.unwrap().freed, 1);
        }
    }
}

/// The very request that a client once sent, as the network would deliver it again.
fn delayed(scene: &Scene) -> Grant {
    let now = leasehold::Clock::now(scene.clock.as_ref());
    let holder = Holder::new("a").unwrap();
    let margin = Duration::from_secs(2);
    Grant {
        request: RequestDigest::of(&holder, &RequestId::new("1").unwrap()),
        holder,
        keys: None,
        lease_id: LeaseId::random(),
        ttl: Ttl::new(TTL).unwrap(),
        metadata: Metadata::default(),
        now,
        over: TakeoverRule::At(now.minus(margin)),
        tokens: Tokens::From(leasehold::Counter::MIN),
        expires_at: now.plus(TTL),
        sweep_after: now.plus(TTL + margin),
    }
}

#[tokio::test]
async fn a_duplicate_beyond_the_rows_memory_ends_at_the_deadline_that_it_carried() {
    for others in [REMEMBERED - 1, REMEMBERED] {
        let scene = Scene::of(Call::Acquire).await;
        let address = Address {
            key: Key::new(KEY).unwrap(),
            permit: 0,
        };
        let sent = delayed(&scene);
        let arrives = async || {
            let store = scene.leases.store();
            let change = Change::Grant(sent.clone());
            store
                .apply(&address, &change, Duration::from_secs(1))
                .await
                .unwrap()
        };
        let Applied::Done { row, .. } = arrives().await else {
            panic!("it is free")
        };
        let first = row.fencing_token;
        // Released long ago, and others had it since: as many as the row remembers beside it, or one more.
        scene.granted("a", "1").await;
        let Told::Granted(GrantKind::Replayed, lease) = scene.make().await.unwrap() else {
            panic!("its own")
        };
        let _ = scene.leases.release(&lease).await.unwrap();
        for n in 0..others {
            scene.clock.advance(TTL);
            let lease = scene.granted("b", &n.to_string()).await;
            // While somebody holds it, it is refused in any case.
            assert!(matches!(arrives().await, Applied::Refused(_)));
            scene.stands(&lease).await;
            let _ = scene.leases.release(&lease).await.unwrap();
        }
        match arrives().await {
            Applied::Refused(Stored::Row(_)) if others < REMEMBERED => {}
            Applied::Done { row, .. } if others == REMEMBERED => {
                assert!(row.fencing_token > first, "another grant, after all others");
                let until = row.holding().unwrap().expires_at;
                assert_eq!(until, sent.expires_at);
                // Which is over: whoever asks gets it at once.
                scene.granted("c", "1").await;
            }
            other => panic!("{others}: {other:?}"),
        }
    }
}
