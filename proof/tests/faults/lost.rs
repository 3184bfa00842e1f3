//! Answers and requests that are lost on the way.

use leasehold::{Error, GrantKind, ReleaseOutcome};
use leasehold_local::Fault;

use crate::calls::{Call, Scene, Told, UPDATE, each};

/// What never reaches the database.
const LOST_REQUESTS: [Fault; 3] = [Fault::LoseRequest, Fault::ServerError, Fault::Hang];

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_in_five_ways_costs_one_more_request() {
    each(&Fault::LOST_ANSWERS, &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, 1);
        let told = scene.make().await;
        assert_eq!(scene.table.proxy.pending_faults(), 0);
        assert_eq!(scene.requests(), 2, "{fault:?}");
        found_out(&scene, told.unwrap()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_every_answer_is_lost_in_five_ways_asking_again_finds_out() {
    each(&Fault::LOST_ANSWERS, &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, 3);
        unknown(&scene.make().await);
        scene.table.proxy.reset();
        found_out(&scene, scene.make().await.unwrap()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_lost_before_it_is_applied_is_sent_again() {
    each(&LOST_REQUESTS, &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, 1);
        let told = scene.make().await.unwrap();
        assert_eq!(scene.requests(), 2, "{fault:?}");
        done_once(&scene, told).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_every_request_is_lost_nothing_has_happened() {
    each(&LOST_REQUESTS, &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, 3);
        unknown(&scene.make().await);
        scene.table.proxy.reset();
        if let Some(lease) = &scene.lease {
            scene.stands(lease).await;
        }
        done_once(&scene, scene.make().await.unwrap()).await;
    })
    .await;
}

/// However many attempts are on their way, a holder is told before it must stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_not_waited_for_past_the_lease() {
    each(&[Fault::Hang], &Call::ALL, async |fault, scene| {
        // Less than one attempt is left of it, and one attempt is all that is made.
        if let Some(lease) = &scene.lease {
            let soon = std::time::Duration::from_millis(100);
            scene.clock.set(lease.safe_until.minus(soon));
        }
        scene.table.proxy.inject(fault, UPDATE, 3);
        unknown(&scene.make().await);
        let requests = scene.requests();
        if scene.call == Call::Extend {
            assert!(requests <= 1, "{requests}");
        } else {
            assert!((2..=3).contains(&requests), "{requests}");
        }
    })
    .await;
}

fn unknown(told: &Result<Told, Error>) {
    assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
}

/// It had happened before, and the answer says so.
async fn found_out(scene: &Scene, told: Told) {
    match told {
        Told::Granted(GrantKind::Replayed, lease) => scene.stands(&lease).await,
        Told::Extended(lease) => {
            assert_eq!(lease.expires_at, scene.whole());
            scene.stands(&lease).await;
        }
        Told::Released(ReleaseOutcome::AlreadyReleased) => {
            assert!(scene.table.row(crate::calls::KEY).await.holding().is_none());
        }
        other => panic!("{:?}: {other:?}", scene.call),
    }
}

/// It happened now.
async fn done_once(scene: &Scene, told: Told) {
    match told {
        Told::Granted(GrantKind::New, lease) => scene.stands(&lease).await,
        Told::Extended(lease) => {
            assert_eq!(lease.expires_at, scene.whole());
            let before = scene.lease.as_ref().unwrap().version.get();
            assert_eq!(lease.version.get(), before + 1, "one write");
            scene.stands(&lease).await;
        }
        Told::Released(ReleaseOutcome::Released) => {
            assert!(scene.table.row(crate::calls::KEY).await.holding().is_none());
        }
        other => panic!("{:?}: {other:?}", scene.call),
    }
}
