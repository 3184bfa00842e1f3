//! Names go to DynamoDB and come back byte for byte, and those that only look the same stay apart.

use std::{collections::BTreeSet, time::Duration};

use leasehold::{Acquire, Acquired, GrantKind, Holder, Inspected, Key, RequestId, Ttl};

use leasehold_proof::fixture::{TABLE, Table};

/// Letters that are written in two ways, run backwards, take no room, mean something to a table or to us; and the longest.
fn names() -> Vec<String> {
    let mut names: Vec<_> = [
        "\u{e9}",
        "e\u{301}",
        "\u{c5}",
        "\u{212b}",
        "A\u{30a}",
        "\u{fb01}",
        "fi",
        "\u{202e}abc",
        "abc",
        "abc ",
        " abc",
        "a\u{200b}bc",
        "a\u{200d}bc",
        "\u{feff}abc",
        "ABC",
        "#",
        "LEASE#0000",
        "WAIT#0123456789abcdef0123456789abcdef",
        "a/b",
        "a//b",
        "a|b",
        "\"",
        "\\",
        "\\u00e9",
        "{\"S\":\"a\"}",
        ":pk",
        "#pk",
        "%00",
        "null",
        "0",
        "\u{10ffff}",
        "\u{1f469}\u{200d}\u{1f680}",
    ]
    .map(str::to_owned)
    .into();
    names.extend([
        "k".repeat(1024),
        "\u{e9}".repeat(512),
        "e\u{301}".repeat(341),
    ]);
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_back_as_they_went_and_none_is_taken_for_another() {
    let table = Table::start().await;
    let leases = table.leases();
    let ttl = Ttl::new(Duration::from_mins(5)).unwrap();
    let names = names();
    // Holders and request ids may hold what a key must not.
    let within = |name: &str| format!("\n{}\0", &name[..name.floor_char_boundary(1022)]);
    for name in &names {
        let (key, holder) = (
            Key::new(name.clone()).unwrap(),
            Holder::new(within(name)).unwrap(),
        );
        let id = RequestId::new(within(name)).unwrap();
        let acquire = Acquire::new(key.clone(), holder.clone(), ttl).request_id(id);
        let granted = leases
            .acquire(acquire.clone())
            .await
            .unwrap()
            .granted()
            .unwrap();
        assert_eq!(granted.grant, GrantKind::New, "{name:?}");
        let again = leases.acquire(acquire).await.unwrap().granted().unwrap();
        assert_eq!(again.grant, GrantKind::Replayed, "{name:?}");
        assert_eq!(
            (again.lease.key.as_str(), again.lease.holder.as_str()),
            (name.as_str(), holder.as_str())
        );
        let other = Acquire::new(key.clone(), Holder::new("somebody else").unwrap(), ttl);
        let Acquired::Held(contention) = leases.acquire(other).await.unwrap() else {
            panic!("{name:?} was granted twice");
        };
        assert_eq!(contention.held.holder, holder, "{name:?}");
        let Inspected::Found { first, .. } = leases.inspect(&key).await.unwrap() else {
            panic!("{name:?} is not there");
        };
        assert_eq!(first.lease.held.unwrap().holder, holder, "{name:?}");
        let theirs = leases.held_by(&holder, 10, None).await.unwrap();
        let keys: Vec<_> = theirs.leases.iter().map(|view| &view.key).collect();
        assert_eq!(keys, [&key], "{name:?}");
    }
    let items = table.client.scan().table_name(TABLE).send().await.unwrap();
    let stored = items
        .items()
        .iter()
        .map(|item| item["pk"].as_s().unwrap().clone());
    assert_eq!(stored.collect::<BTreeSet<_>>(), names.into_iter().collect());
}
