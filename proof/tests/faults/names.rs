//! Keys and holders that look alike, or like something else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::functions::{Functions, fields, quiet};

const CONTROL_CHARACTERS: [&str; 9] = [
    "\0", "\u{1}", "\t", "\n", "\r", "\u{1b}", "\u{7f}", "\u{85}", "\u{9f}",
];

/// Each is a name of its own, whatever it looks like.
fn lookalikes() -> Vec<String> {
    let mut names: Vec<String> = [
        // Composed and decomposed, full width, ligature, sharp s, dotless i: nothing is normalised or folded.
        "caf\u{e9}",
        "cafe\u{301}",
        "CAF\u{c9}",
        "\u{ff41}",
        "a",
        "A",
        "\u{fb01}",
        "fi",
        "ss",
        "\u{df}",
        "i",
        "\u{131}",
        "\u{130}",
        // The same letters for the eye: Latin, Cyrillic, Greek.
        "\u{430}",
        "\u{3b1}",
        // Right to left, and marks that turn a line round or take no room.
        "\u{5d0}\u{5d1}",
        "\u{5d1}\u{5d0}",
        "\u{202e}ab",
        "ba",
        "ab",
        "a\u{200d}b",
        "a\u{200b}b",
        "\u{feff}ab",
        "ab\u{feff}",
        // Separators, of ours and of others.
        "a#b",
        "a/b",
        "a//b",
        "a:b",
        "a|b",
        "a\\b",
        "a,b",
        "a b",
        " ab",
        "ab ",
        "a  b",
        "a\u{a0}b",
        "a%2Fb",
        "a%b",
        "a+b",
        // What stands in the rows beside.
        "LEASE#0000",
        "LEASE#0001",
        "a#LEASE#0000",
        "WAIT#0",
        "pk",
        ":pk",
        "#pk",
        "held",
        "null",
        "0",
        "00",
        "0.0",
        "-0",
        // Quotes and braces, for whoever builds a text from it.
        "\"",
        "'",
        "`",
        "{}",
        "${a}",
        "$.a",
        "{\"S\":\"a\"}",
        "\\u0061",
        "\\n",
        "--",
        ";",
        "*",
        "?",
        "..",
        "../a",
        "\u{1f512}",
        "\u{10ffff}",
        "\u{fffd}",
        "\u{2028}",
        "\u{2029}",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    // As long as they get, and different in the last letter; in bytes, not letters.
    names.extend(["x", "y"].map(|last| format!("{}{last}", "k".repeat(1023))));
    names.push("\u{e9}".repeat(512));
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_look_alike_are_leased_apart_and_kept_byte_for_byte() {
    let functions = Functions::with(quiet()).await;
    let mut leases = Vec::new();
    // Everybody's key is held at once, by a holder with the next name.
    let names = lookalikes();
    for (key, holder) in names.iter().zip(names.iter().cycle().skip(1)) {
        let lease = functions.acquire(key, holder, "1").await;
        assert_eq!(
            (lease["key"].as_str(), lease["holder"].as_str()),
            (Some(&**key), Some(&**holder))
        );
        leases.push(lease);
    }
    for lease in &leases {
        let inspected = functions
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
        let listed = functions
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
        let released = functions
            .call("release", json!({"lease": lease, "strict": true}))
            .await
            .unwrap();
        assert_eq!(released["outcome"], "released", "{}", lease["key"]);
    }
}

/// Of holder and request: no two pairs are one request, however their parts are put together.
#[tokio::test(flavor = "multi_thread")]
async fn holders_and_requests_that_read_alike_together_are_told_apart() {
    let functions = Functions::with(quiet()).await;
    let pairs = [
        ("a", "b/c"),
        ("a/b", "c"),
        ("a", "b"),
        ("ab", "c"),
        ("a", "bc"),
        ("1:a", "b"),
        ("1", "a:b"),
        ("caf\u{e9}", "1"),
        ("cafe\u{301}", "1"),
    ];
    for (n, (holder, request)) in pairs.iter().enumerate() {
        for (m, (other, id)) in pairs.iter().enumerate() {
            let ask = |holder: &str, id: &str| {
                let key = format!("{n}/{m}");
                json!({"key": key, "holder": holder, "request_id": id, "ttl_seconds": 300, "on_held": "result"})
            };
            functions
                .call("acquire", ask(holder, request))
                .await
                .unwrap();
            let second = functions.call("acquire", ask(other, id)).await.unwrap();
            let expected = if n == m { "acquired" } else { "held" };
            assert_eq!(
                second["outcome"], expected,
                "{holder} {request} and {other} {id}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_empty_or_too_long_and_keys_with_control_characters_are_refused() {
    let functions = Functions::with(quiet()).await;
    let handle = functions.acquire("k", "a", "1").await;
    functions.stack.proxy().reset();
    let mut empty_or_long = vec![String::new()];
    empty_or_long
        .extend([("k", 1025), ("\u{e9}", 513), ("\u{1f512}", 257)].map(|(c, n)| c.repeat(n)));
    let with = |field: &str, value: Value| {
        let mut request = json!({"key": "k", "holder": "a", "request_id": "1", "ttl_seconds": 300});
        request[field] = value;
        request
    };
    let lease = |field: &str, value: &str| {
        let mut lease = handle.clone();
        lease[field] = json!(value);
        json!({"lease": lease})
    };
    let mut refused = Vec::new();
    let controlled = CONTROL_CHARACTERS.map(|c| format!("a{c}b"));
    for name in empty_or_long.iter().chain(&controlled) {
        let mut keys = with("keys", json!(["k", name]));
        keys.as_object_mut().unwrap().remove("key");
        refused.extend([
            ("acquire", with("key", json!(name)), "key"),
            ("acquire", keys, "keys"),
            ("extend", lease("key", name), "lease.key"),
            ("release", lease("key", name), "lease.key"),
            ("inspect", json!({"key": name}), "key"),
        ]);
    }
    for name in &empty_or_long {
        refused.extend([
            ("acquire", with("holder", json!(name)), "holder"),
            ("acquire", with("request_id", json!(name)), "request_id"),
            ("extend", lease("holder", name), "lease.holder"),
            ("release", lease("holder", name), "lease.holder"),
        ]);
    }
    for (function, event, field) in refused {
        let (error, message) = functions.call(function, &event).await.unwrap_err();
        assert_eq!(error, "Lease.Invalid", "{event} {message}");
        assert_eq!(message["field"], field, "{event} {message}");
        // A key that is none is not repeated as one.
        assert!(
            !fields(&message).contains("key") || message["key"] == "k",
            "{message}"
        );
    }
    assert_eq!(
        functions.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
}
