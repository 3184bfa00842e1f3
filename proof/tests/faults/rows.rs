//! Other changes to a row: something else changes it, it is purged or deleted, and sweep runs at the same time.

use std::time::Duration;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use leasehold::{
    Error, ExtendOptions, Key, ReleaseOutcome, SweepBounds,
    row::{Item, State},
    store::Address,
};
use leasehold_local::Fault;
use leasehold_proof::fixture::{TABLE, n, request, s, without_executions};

use crate::operations::{KEY, Operation, Scenario, TTL, UPDATE};

/// What is put in the place of each attribute of a lease.
fn values() -> Vec<Option<AttributeValue>> {
    vec![
        None,
        Some(s("")),
        Some(s("\u{202e}17")),
        Some(n("-1")),
        Some(n("0")),
        Some(n("0.5")),
        Some(n("9007199254740993")),
        Some(n("9.9999999999999999999999999999999999999E+125")),
        Some(n("-1E-130")),
        Some(AttributeValue::Bool(true)),
        Some(AttributeValue::Null(true)),
        Some(AttributeValue::L(vec![n("1")])),
        Some(AttributeValue::M([("a".to_owned(), n("1"))].into())),
        Some(AttributeValue::B(Blob::new(b"1"))),
        Some(AttributeValue::Ss(vec!["a".to_owned()])),
        Some(AttributeValue::Ns(vec!["1".to_owned()])),
    ]
}

const OF_A_LEASE: [&str; 9] = [
    "holder",
    "lease_id",
    "ttl_ms",
    "acquired_at",
    "expires_at",
    "fencing_token",
    "version",
    "request",
    "granted_to",
];

/// Strange elsewhere, and here like any other.
fn is_ordinary(name: &str, value: Option<&AttributeValue>) -> bool {
    match name {
        "lease_id" => value.is_some_and(AttributeValue::is_s),
        "request" => value.is_some_and(AttributeValue::is_b),
        _ => false,
    }
}

/// The index's own key cannot be written with anything but a string that is not empty.
fn is_writable(name: &str, value: Option<&AttributeValue>) -> bool {
    name != "holder" || value.is_none_or(|v| v.as_s().is_ok_and(|text| !text.is_empty()))
}

fn address() -> Address {
    Address {
        key: Key::new(KEY).unwrap(),
        permit: 0,
    }
}

/// Each call is refused as corrupt, and the item is what it was, to the byte.
async fn is_left_alone(scenario: &Scenario, item: Item, what: &str) {
    let lease = scenario.lease.as_ref().unwrap();
    scenario.table.put(&address(), item).await;
    let stored = scenario.table.get(&address()).await;
    let asked = scenario.leases.acquire(request(KEY, "b", "2")).await.err();
    let again = scenario.leases.acquire(request(KEY, "a", "1")).await.err();
    let extended = scenario
        .leases
        .extend(lease, ExtendOptions::default())
        .await
        .err();
    let released = scenario.leases.release(lease).await.err();
    for refused in [asked, again, extended, released] {
        assert!(
            matches!(refused, Some(Error::Corrupt { .. })),
            "{what}: {refused:?}"
        );
    }
    assert_eq!(scenario.table.get(&address()).await, stored, "{what}");
}

#[tokio::test]
async fn bad_attribute_makes_row_corrupt() {
    let scenario = Scenario::of(Operation::Extend).await;
    let item = scenario.table.get(&address()).await.unwrap();
    for name in OF_A_LEASE {
        for value in values() {
            if is_ordinary(name, value.as_ref()) || !is_writable(name, value.as_ref()) {
                continue;
            }
            let mut strange = item.clone();
            let what = format!("{name} {value:?}");
            match value {
                Some(value) => drop(strange.insert(name.to_owned(), value)),
                None => drop(strange.remove(name)),
            }
            is_left_alone(&scenario, strange, &what).await;
        }
    }
}

/// The holder's own extend is what no longer fits.
#[tokio::test]
async fn full_row_can_be_released() {
    let scenario = Scenario::of(Operation::Extend).await;
    let lease = scenario.lease.as_ref().unwrap();
    let mut item = scenario.table.get(&address()).await.unwrap();
    let mut filler = "x".repeat(409_400);
    loop {
        let text = s(&filler);
        item.insert("filler".to_owned(), text);
        let put = scenario.table.client.put_item().table_name(TABLE);
        if put.set_item(Some(item.clone())).send().await.is_ok() {
            break;
        }
        // Less than an instant and its name take.
        filler.truncate(filler.len() - 10);
    }
    let extended = scenario
        .leases
        .extend(lease, ExtendOptions::default())
        .await;
    assert!(
        matches!(extended, Err(Error::Corrupt { .. })),
        "{extended:?}"
    );
    assert_eq!(
        scenario.table.get(&address()).await,
        Some(item),
        "untouched"
    );
    let released = scenario.leases.release(lease).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn foreign_item_is_corrupt() {
    let scenario = Scenario::of(Operation::Extend).await;
    for item in [
        Item::new(),
        Item::from([("colour".to_owned(), s("blue"))]),
        Item::from([
            ("owner".to_owned(), s("a")),
            ("expires_at".to_owned(), n("1")),
        ]),
        Item::from([("ended".to_owned(), s("released"))]),
        Item::from([
            ("fencing_token".to_owned(), n("1")),
            ("version".to_owned(), n("1")),
        ]),
    ] {
        let what = format!("{item:?}");
        is_left_alone(&scenario, item, &what).await;
    }
}

/// No condition can see that a number has a fraction: whoever has the `lease_id` of such a row may end it, and is
/// answered what it was. Everybody else is refused.
#[tokio::test]
async fn fraction_is_corrupt_except_to_holder() {
    for name in ["acquired_at", "expires_at", "version"] {
        let scenario = Scenario::of(Operation::Extend).await;
        let lease = scenario.lease.clone().unwrap();
        let mut item = scenario.table.get(&address()).await.unwrap();
        let whole = item[name].as_n().unwrap().clone();
        item.insert(name.to_owned(), n(format!("{whole}.5")));
        scenario.table.put(&address(), item.clone()).await;
        for (holder, id) in [("a", "1"), ("b", "2")] {
            let refused = scenario.leases.acquire(request(KEY, holder, id)).await;
            assert!(
                matches!(refused, Err(Error::Corrupt { .. })),
                "{name}: {refused:?}"
            );
        }
        let mut anothers = lease.clone();
        anothers.lease_id = leasehold::LeaseId::random();
        for lease in [&anothers, &lease] {
            assert_eq!(
                scenario.table.get(&address()).await.as_ref(),
                Some(&item),
                "{name}"
            );
            let extended = scenario
                .leases
                .extend(lease, ExtendOptions::default())
                .await;
            assert!(
                matches!(extended, Err(Error::Corrupt { .. })),
                "{name}: {extended:?}"
            );
        }
        // Also when its own extend has made it whole again.
        let _ = scenario.leases.release(&anothers).await;
        let stored = scenario.table.get(&address()).await.unwrap();
        assert!(stored.contains_key("holder"), "{name}");
    }
}

#[tokio::test]
async fn deleted_row_restarts_above_its_tokens() {
    for held in [true, false] {
        let scenario = Scenario::of(Operation::Extend).await;
        let lease = scenario.lease.clone().unwrap();
        if !held {
            let _ = scenario.leases.release(&lease).await.unwrap();
        }
        let address = address();
        scenario.table.delete(&address).await;
        for round in 0..2 {
            let lost = scenario
                .leases
                .extend(&lease, ExtendOptions::default())
                .await;
            assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
            let released = scenario.leases.release(&lease).await.unwrap();
            let expected = [ReleaseOutcome::AlreadyReleased, ReleaseOutcome::Lost][round];
            assert_eq!(released.outcome, expected);
            assert_eq!(
                scenario.table.get(&address).await.is_some(),
                round == 1,
                "nothing is created"
            );
            if round == 0 {
                // A second later: no key is granted more than once in two milliseconds.
                let next = scenario.granted("b", "2").await;
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
async fn purged_row_restarts_above_its_tokens() {
    let scenario = Scenario::of(Operation::Release).await;
    let mut last = scenario.lease.clone().unwrap();
    scenario.call().await.unwrap();
    // Even after as many grants as can be made meanwhile.
    for n in 0..50 {
        last = scenario.granted("b", &n.to_string()).await;
        let _ = scenario.leases.release(&last).await.unwrap();
    }
    let address = address();
    let retention = leasehold::Settings::default().retention;
    scenario.clock.advance(retention);
    scenario.table.delete(&address).await;
    let later = leasehold::Clock::now(scenario.clock.as_ref());
    scenario.clock.set(later.minus(retention).plus(TTL));
    let next = scenario.granted("c", "1").await;
    assert!(next.fencing_token > last.fencing_token);
}

/// What `rival` does to an expired lease between sweep's read and its write. Sweep then frees nothing, and a second
/// sweep does whatever it does to the row as it is.
async fn swept_while(rival: impl AsyncFn(&Scenario)) {
    let scenario = Scenario::of(Operation::Extend).await;
    scenario.expire();
    let proxy = &scenario.table.proxy;
    proxy.inject(Fault::Hang, UPDATE, 1);
    let rivals = async {
        while proxy.pending_faults() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rival(&scenario).await;
    };
    let queue = without_executions(&scenario.leases);
    let (swept, ()) = tokio::join!(queue.sweep(SweepBounds::Schedule), rivals);
    assert_eq!(swept.unwrap().freed, 0);
}

#[tokio::test]
async fn sweep_never_frees_revived_lease() {
    let revive = async |scenario: &Scenario| {
        let lease = scenario.lease.as_ref().unwrap();
        let extended = scenario.leases.extend(lease, ExtendOptions::default());
        let lease = extended.await.unwrap().into_lease();
        without_executions(&scenario.leases)
            .sweep(SweepBounds::Schedule)
            .await
            .unwrap();
        scenario.matches_table(&lease).await;
    };
    Box::pin(swept_while(revive)).await;
}

#[tokio::test]
async fn sweep_never_frees_a_newer_grant() {
    let take_over = async |scenario: &Scenario| {
        let old = scenario.lease.as_ref().unwrap();
        let acquired = scenario.leases.acquire(request(KEY, "b", "2")).await;
        let lease = acquired.unwrap().granted().expect("it was over").lease;
        assert!(lease.fencing_token > old.fencing_token);
        without_executions(&scenario.leases)
            .sweep(SweepBounds::Schedule)
            .await
            .unwrap();
        scenario.matches_table(&lease).await;
    };
    Box::pin(swept_while(take_over)).await;
}

#[tokio::test]
async fn release_meeting_sweep_ends_lease_once() {
    let release = async |scenario: &Scenario| {
        let lease = scenario.lease.as_ref().unwrap();
        let released = scenario.leases.release(lease).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        let row = scenario.table.row(KEY).await;
        let State::Free { ended, .. } = row.state else {
            panic!("{row:?}")
        };
        assert_eq!(ended, leasehold::Ended::Released);
        assert_eq!(row.version.get(), lease.version.get() + 1, "one end");
    };
    Box::pin(swept_while(release)).await;
}
