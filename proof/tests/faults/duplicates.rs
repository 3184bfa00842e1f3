//! Duplicates that come late: after the release, after others had the key, after the row has forgotten.

use std::time::Duration;

use leasehold::{
    Error, GrantKind, Holder, Key, LeaseId, Metadata, ReleaseOutcome, RequestDigest, RequestId,
    Ttl,
    row::Stored,
    store::{Address, Applied, Store as _},
    transition::{Change, Grant, TakeoverRule, Tokens},
};

use leasehold_proof::fixture::request;

use crate::operations::{KEY, Operation, Outcome, Scenario, TTL};

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
        let scenario = Scenario::of(Operation::Release).await;
        let lease = scenario.lease.clone().unwrap();
        happen(&scenario, meanwhile).await;
        let before = scenario.table.row(KEY).await;

        let spent = scenario.leases.acquire(request(KEY, "a", "1")).await;
        assert!(
            matches!(spent, Err(Error::Consumed { .. })),
            "{meanwhile:?}: {spent:?}"
        );
        let lost = scenario
            .leases
            .extend(&lease, leasehold::ExtendOptions::default())
            .await;
        assert!(
            matches!(lost, Err(Error::Lost { .. })),
            "{meanwhile:?}: {lost:?}"
        );
        let Outcome::Released(released) = scenario.call().await.unwrap() else {
            unreachable!("it releases")
        };
        let expected = match meanwhile {
            Meanwhile::TakenOver => ReleaseOutcome::Lost,
            _ => ReleaseOutcome::AlreadyReleased,
        };
        assert_eq!(released, expected, "{meanwhile:?}");
        assert_eq!(scenario.table.row(KEY).await, before, "{meanwhile:?}");
    }
}

async fn happen(scenario: &Scenario, meanwhile: Meanwhile) {
    let lease = scenario.lease.as_ref().unwrap();
    match meanwhile {
        Meanwhile::Released => drop(scenario.leases.release(lease).await.unwrap()),
        Meanwhile::ReleasedAndTaken | Meanwhile::ReleasedTakenAndReleased => {
            let _ = scenario.leases.release(lease).await.unwrap();
            let other = scenario.granted("b", "2").await;
            if meanwhile == Meanwhile::ReleasedTakenAndReleased {
                let _ = scenario.leases.release(&other).await.unwrap();
            }
        }
        Meanwhile::TakenOver => {
            scenario.expire();
            scenario.granted("b", "2").await;
        }
        Meanwhile::Swept => {
            scenario.expire();
            let swept = scenario
                .leases
                .sweep(leasehold::SweepBounds::Schedule)
                .await;
            assert_eq!(swept.unwrap().freed, 1);
        }
    }
}

/// The very request that a client once sent, as the network would deliver it again.
fn delayed(scenario: &Scenario) -> Grant {
    let now = leasehold::Clock::now(scenario.clock.as_ref());
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
        let scenario = Scenario::of(Operation::Acquire).await;
        let address = Address {
            key: Key::new(KEY).unwrap(),
            permit: 0,
        };
        let sent = delayed(&scenario);
        let arrives = async || {
            let store = scenario.leases.store();
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
        scenario.granted("a", "1").await;
        let Outcome::Granted(GrantKind::Replayed, lease) = scenario.call().await.unwrap() else {
            panic!("its own")
        };
        let _ = scenario.leases.release(&lease).await.unwrap();
        for n in 0..others {
            scenario.clock.advance(TTL);
            let lease = scenario.granted("b", &n.to_string()).await;
            // While somebody holds it, it is refused in any case.
            assert!(matches!(arrives().await, Applied::Refused(_)));
            scenario.matches_table(&lease).await;
            let _ = scenario.leases.release(&lease).await.unwrap();
        }
        match arrives().await {
            Applied::Refused(Stored::Row(_)) if others < REMEMBERED => {}
            Applied::Done { row, .. } if others == REMEMBERED => {
                assert!(row.fencing_token > first, "another grant, after all others");
                let until = row.holding().unwrap().expires_at;
                assert_eq!(until, sent.expires_at);
                // The lease has ended: the next caller gets it at once.
                scenario.granted("c", "1").await;
            }
            other => panic!("{others}: {other:?}"),
        }
    }
}
