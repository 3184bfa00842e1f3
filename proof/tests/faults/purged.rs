//! A row that is purged, or deleted by hand, under its holder's feet.

use leasehold::{Error, ExtendOptions, Key, ReleaseOutcome, store::Address};

use crate::calls::{Call, KEY, Scene, TTL};

#[tokio::test]
async fn a_row_that_is_deleted_starts_above_its_tokens_and_its_holder_has_lost() {
    for held in [true, false] {
        let scene = Scene::of(Call::Extend).await;
        let lease = scene.lease.clone().unwrap();
        if !held {
            let _ = scene.leases.release(&lease).await.unwrap();
        }
        let address = Address {
            key: Key::new(KEY).unwrap(),
            permit: 0,
        };
        scene.table.delete(&address).await;
        for call in 0..2 {
            let lost = scene.leases.extend(&lease, ExtendOptions::default()).await;
            assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
            let released = scene.leases.release(&lease).await.unwrap();
            let expected = [ReleaseOutcome::AlreadyReleased, ReleaseOutcome::Lost][call];
            assert_eq!(released.outcome, expected);
            assert_eq!(
                scene.table.get(&address).await.is_some(),
                call == 1,
                "nothing is created"
            );
            if call == 0 {
                // A second later: no key is granted more than once in two milliseconds.
                let next = scene.granted("b", "2").await;
                assert!(next.fencing_token > lease.fencing_token);
                assert!(
                    next.version > lease.version,
                    "nor does an observer meet an old version"
                );
            }
        }
    }
}

/// With a clock that was set back by less than the row was gone.
#[tokio::test]
async fn a_purged_row_starts_above_its_tokens_by_a_clock_that_was_set_back() {
    let scene = Scene::of(Call::Release).await;
    let mut last = scene.lease.clone().unwrap();
    scene.make().await.unwrap();
    // Even after as many grants as can be made meanwhile.
    for n in 0..50 {
        last = scene.granted("b", &n.to_string()).await;
        let _ = scene.leases.release(&last).await.unwrap();
    }
    let address = Address {
        key: last.key.clone(),
        permit: 0,
    };
    let retention = leasehold::Settings::default().retention;
    scene.clock.advance(retention);
    scene.table.delete(&address).await;
    let later = leasehold::Clock::now(scene.clock.as_ref());
    scene.clock.set(later.minus(retention).plus(TTL));
    let next = scene.granted("c", "1").await;
    assert!(next.fencing_token > last.fencing_token);
}
