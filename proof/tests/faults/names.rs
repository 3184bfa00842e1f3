//! Names that look alike, or like something else.

use std::collections::BTreeSet;

use leasehold_proof::fixture::{Fixture, quiet};
use serde_json::{Value, json};

/// Each is a name of its own, whatever it looks like: composed and decomposed, full width, ligature, sharp s, dotless i;
/// the same letters for the eye in Latin, Cyrillic and Greek; right to left, and marks that turn a line round or take no
/// room; separators, of ours and of others; what is in the rows beside; quotes and braces.
fn lookalikes() -> Vec<String> {
    let mut names: Vec<String> = serde_json::from_str(include_str!("lookalikes.json")).unwrap();
    // As long as they get, and different in the last letter; in bytes, not letters.
    names.extend(["x", "y"].map(|last| format!("{}{last}", "k".repeat(1023))));
    names.extend(["\u{e9}".repeat(512), "e\u{301}".repeat(341)]);
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn lookalike_keys_are_leased_apart() {
    let fixture = Fixture::with(quiet()).await;
    let mut leases = Vec::new();
    // Everybody's key is held at once, by a holder with the next name between characters that no key may have.
    let names = lookalikes();
    for (key, next) in names.iter().zip(names.iter().cycle().skip(1)) {
        let most = next.ceil_char_boundary(next.len().saturating_sub(1022));
        let holder = format!("\n{}\0", &next[most..]);
        let lease = fixture.acquire(key, &holder, "1").await;
        assert_eq!(
            (lease["key"].as_str(), lease["holder"].as_str()),
            (Some(&**key), Some(&*holder))
        );
        leases.push(lease);
    }
    for lease in &leases {
        let inspected = fixture
            .call("inspect", json!({"key": lease["key"]}))
            .await
            .unwrap();
        let found = &inspected["lease"];
        assert_eq!(
            (&found["key"], &found["holder"]),
            (&lease["key"], &lease["holder"])
        );
        assert_eq!(found["fencing_token"], lease["fencing_token"]);
        // And each holder's list has that lease alone.
        let listed = fixture
            .call("inspect", json!({"holder": lease["holder"]}))
            .await
            .unwrap();
        let keys: Vec<&Value> = listed["leases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| &l["key"])
            .collect();
        assert_eq!(keys, [&lease["key"]]);
    }
    for lease in &leases {
        let released = fixture
            .call("release", json!({"lease": lease, "strict": true}))
            .await
            .unwrap();
        assert_eq!(released["outcome"], "released", "{}", lease["key"]);
    }
}
