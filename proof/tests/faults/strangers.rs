//! Items that are not ours, in the place of a lease.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{Error, ExtendOptions, Key, ReleaseOutcome, row::Item, store::Address};

use crate::{
    bench::{TABLE, request},
    calls::{Call, KEY, Scene},
};

fn n(text: &str) -> AttributeValue {
    AttributeValue::N(text.to_owned())
}

/// What stands in the place of each attribute of a lease.
fn values() -> Vec<Option<AttributeValue>> {
    let s = |text: &str| AttributeValue::S(text.to_owned());
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
        Some(AttributeValue::B(aws_sdk_dynamodb::primitives::Blob::new(
            b"1",
        ))),
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

/// Strange elsewhere, and here a text like any other.
fn is_ordinary(name: &str, value: Option<&AttributeValue>) -> bool {
    ["lease_id", "request"].contains(&name) && value.is_some_and(AttributeValue::is_s)
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
async fn is_left_alone(scene: &Scene, item: Item, what: &str) {
    let lease = scene.lease.as_ref().unwrap();
    scene.table.put(&address(), item).await;
    let stands = scene.table.get(&address()).await;
    let asked = scene.leases.acquire(request(KEY, "b", "2")).await.err();
    let again = scene.leases.acquire(request(KEY, "a", "1")).await.err();
    let extended = scene
        .leases
        .extend(lease, ExtendOptions::default())
        .await
        .err();
    let released = scene.leases.release(lease).await.err();
    for refused in [asked, again, extended, released] {
        assert!(
            matches!(refused, Some(Error::Corrupt { .. })),
            "{what}: {refused:?}"
        );
    }
    assert_eq!(scene.table.get(&address()).await, stands, "{what}");
}

#[tokio::test]
async fn a_lease_with_a_part_that_is_missing_ill_typed_negative_huge_or_fractional_is_corrupt() {
    let scene = Scene::of(Call::Extend).await;
    let item = scene.table.get(&address()).await.unwrap();
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
            is_left_alone(&scene, strange, &what).await;
        }
    }
}

/// Whatever it holds, an item this large is none of ours; that it cannot grow is not our caller's fault.
#[tokio::test]
async fn an_item_of_400_kb_is_corrupt() {
    let scene = Scene::of(Call::Extend).await;
    let mut item = scene.table.get(&address()).await.unwrap();
    let filler = AttributeValue::S("x".repeat(408_500));
    item.remove("version");
    item.insert("filler".to_owned(), filler);
    is_left_alone(&scene, item, "400 KB").await;
}

/// The holder's own extend is what no longer fits.
#[tokio::test]
async fn a_lease_that_was_filled_up_to_400_kb_is_corrupt_and_can_still_be_given_back() {
    let scene = Scene::of(Call::Extend).await;
    let lease = scene.lease.as_ref().unwrap();
    let mut item = scene.table.get(&address()).await.unwrap();
    let mut filler = "x".repeat(409_400);
    loop {
        let text = AttributeValue::S(filler.clone());
        item.insert("filler".to_owned(), text);
        let put = scene.table.client.put_item().table_name(TABLE);
        if put.set_item(Some(item.clone())).send().await.is_ok() {
            break;
        }
        // Less than an instant and its name take.
        filler.truncate(filler.len() - 10);
    }
    let extended = scene.leases.extend(lease, ExtendOptions::default()).await;
    assert!(
        matches!(extended, Err(Error::Corrupt { .. })),
        "{extended:?}"
    );
    assert_eq!(scene.table.get(&address()).await, Some(item), "untouched");
    let released = scene.leases.release(lease).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn an_item_of_somebody_elses_is_corrupt() {
    let scene = Scene::of(Call::Extend).await;
    for item in [
        Item::new(),
        Item::from([("colour".to_owned(), AttributeValue::S("blue".to_owned()))]),
        Item::from([
            ("owner".to_owned(), AttributeValue::S("a".to_owned())),
            ("expires_at".to_owned(), n("1")),
        ]),
        Item::from([("ended".to_owned(), AttributeValue::S("released".to_owned()))]),
        Item::from([
            ("fencing_token".to_owned(), n("1")),
            ("version".to_owned(), n("1")),
        ]),
    ] {
        let what = format!("{item:?}");
        is_left_alone(&scene, item, &what).await;
    }
}

/// No condition can see that a number has a fraction: whoever has the `lease_id` of such a row may end it, and is
/// told what it was. Everybody else is refused.
#[tokio::test]
async fn a_fraction_that_no_condition_sees_is_told_as_corrupt_and_only_its_own_lease_id_moves_it() {
    for name in ["acquired_at", "expires_at", "version"] {
        let scene = Scene::of(Call::Extend).await;
        let lease = scene.lease.clone().unwrap();
        let mut item = scene.table.get(&address()).await.unwrap();
        let whole = item[name].as_n().unwrap().clone();
        item.insert(name.to_owned(), n(&format!("{whole}.5")));
        scene.table.put(&address(), item.clone()).await;
        for (holder, id) in [("a", "1"), ("b", "2")] {
            let refused = scene.leases.acquire(request(KEY, holder, id)).await;
            assert!(
                matches!(refused, Err(Error::Corrupt { .. })),
                "{name}: {refused:?}"
            );
        }
        let mut anothers = lease.clone();
        anothers.lease_id = leasehold::LeaseId::random();
        for lease in [&anothers, &lease] {
            assert_eq!(
                scene.table.get(&address()).await.as_ref(),
                Some(&item),
                "{name}"
            );
            let extended = scene.leases.extend(lease, ExtendOptions::default()).await;
            assert!(
                matches!(extended, Err(Error::Corrupt { .. })),
                "{name}: {extended:?}"
            );
        }
        // Also when its own extend has made it whole again.
        let _ = scene.leases.release(&anothers).await;
        let stands = scene.table.get(&address()).await.unwrap();
        assert!(stands.contains_key("holder"), "{name}");
    }
}
