//! Duplicates that come so late that the row has forgotten them.

use std::time::Duration;

use leasehold::{
    AtLeast, GrantKind, Holder, Key, LeaseId, Metadata, RequestDigest, RequestId, Ttl,
    request::Request,
    row::Stored,
    store::{Address, Applied, Operations as _},
    transition::{Change, Grant, TakeoverRule, TokenFloor},
};

use crate::operations::{KEY, Operation, Outcome, Scenario, TTL};

/// How many requests a row remembers.
const REMEMBERED: usize = 4;

/// The very request that a client once sent, as the network would deliver it again.
fn delayed(scenario: &Scenario) -> Grant {
    let now = leasehold::Clock::now(scenario.clock.as_ref());
    let holder = Holder::new("a").unwrap();
    let margin = Duration::from_secs(2);
    Grant {
        request: Request {
            digest: RequestDigest::of(&holder, &RequestId::new("1").unwrap()),
            holder,
            keys: None,
            lifetime: Ttl::new(TTL).unwrap().into(),
            permits: None,
            pool: None,
            at_least: AtLeast::default(),
            metadata: Metadata::default(),
            instead_of: None,
        },
        lease_id: LeaseId::random(),
        now,
        over: TakeoverRule::by_clock(now.minus(margin)),
        tokens: TokenFloor::Reached(leasehold::Counter::MIN),
        sweep_after: now.plus(TTL + margin),
        by_token: false,
    }
}

#[tokio::test]
async fn forgotten_duplicate_ends_at_its_deadline() {
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
                assert_eq!(row.holding().unwrap().term, sent.request.term(sent.now));
                // The lease has ended: the next caller gets it at once.
                scenario.granted("c", "1").await;
            }
            other => panic!("{others}: {other:?}"),
        }
    }
}
