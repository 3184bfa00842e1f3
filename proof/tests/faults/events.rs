//! Events that are no requests, of whatever size and depth, and names that look alike, or like something else.

use std::collections::BTreeSet;

use leasehold_proof::fixture::{Fixture, quiet};
use serde_json::{Value, json};

/// What an event must not bring back.
const SECRET: &str = "hunter2";

/// As large as Lambda takes them.
const LARGE: usize = 6 * 1024 * 1024 - 1024;

/// The hostile variants of a valid event.
fn hostile(whole: &Value, field: &str) -> Vec<String> {
    let text = whole.to_string();
    let inside = |value: &str| format!("{},\"{field}\":{value}}}", &text[..text.len() - 1]);
    let instead = |value: &str| {
        let mut event = whole.clone();
        event[field] = json!("0\u{1}0");
        event.to_string().replace("\"0\\u00010\"", value)
    };
    let nested =
        |n: usize, open: &str, close: &str| format!("{}{}", open.repeat(n), close.repeat(n));
    let mut all = vec![
        String::new(),
        "\u{feff}".to_owned() + &text,
        text.clone() + &text,
        format!("[{text}]"),
        text[..text.len() / 2].to_owned(),
        text.replace(':', "="),
        format!("\"{SECRET}\""),
        "null".to_owned(),
        "0".to_owned(),
        nested(10_000, "[", "]"),
        nested(10_000, "{\"a\":", "").replace("{\"a\":}", "0"),
        // Known and unknown fields, twice, too deep, and much too large.
        inside(&format!("\"{SECRET}\"")),
        text.replacen('{', "{\"more\":\"hunter2\",", 1),
        text.replacen('{', "{\"metadata\":{\"a\":\"hunter2\",\"a\":\"b\"},", 1),
        text.replacen('{', &format!("{{\"{}\":1,", "x".repeat(LARGE)), 1),
        inside("null").replace(&format!("\"{field}\":null"), "\"more\":{\"more\":null}"),
        instead(&nested(10_000, "[", "]")),
        instead(&nested(10_000, "{\"a\":", "1}").replace("1}{", "{")),
        instead(&format!("\"{}\"", "x".repeat(LARGE))),
        instead(&format!("[{}1]", "1,".repeat(LARGE / 2))),
        format!("{}{text}", " ".repeat(LARGE)).replace('{', "{\"more\":0,"),
    ];
    all.extend(
        [
            "NaN",
            "-Infinity",
            "1e999",
            "-1",
            "0",
            "00",
            "0x10",
            "18446744073709551615",
            "18446744073709551616",
            "true",
            "null",
            "{}",
            "[]",
            "[null]",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "\"\u{1}\"",
            "'a'",
            "\"hunter2",
        ]
        .map(instead),
    );
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_event_is_invalid_and_nothing_is_written_or_echoed() {
    let fixture = Fixture::with(quiet()).await;
    let lease = fixture.acquire("k", "a", "1").await;
    fixture.stack.proxy().reset();
    let request = json!({"key": "k", "holder": "b", "request_id": "2", "ttl_seconds": 300});
    let with_handle = json!({"lease": lease});
    for (function, whole, fields) in [
        ("acquire", &request, ["ttl_seconds", "key"]),
        ("extend", &with_handle, ["ttl_seconds", "lease"]),
        ("release", &with_handle, ["strict", "lease"]),
    ] {
        let proof = lease["lease_id"].as_str().unwrap();
        for event in fields.iter().flat_map(|field| hostile(whole, field)) {
            // The one of them that a field takes.
            if event.ends_with("\"strict\":true}") {
                continue;
            }
            let shown: String = event.chars().take(300).collect();
            let answer = fixture.call(function, &event).await;
            let (name, message) = answer.expect_err(&shown);
            assert_eq!(name, "Lease.Invalid", "{shown}: {message}");
            let said = message.to_string();
            assert!(
                !said.contains(SECRET) && !said.contains(proof),
                "{shown}: {said}"
            );
            assert!(said.len() < 2000, "{shown}: {said}");
        }
    }
    assert_eq!(
        fixture.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
    // Its processes are none the worse for it.
    fixture.call("extend", &with_handle).await.unwrap();
}

const CONTROL_CHARACTERS: [&str; 9] = [
    "\0", "\u{1}", "\t", "\n", "\r", "\u{1b}", "\u{7f}", "\u{85}", "\u{9f}",
];

/// Each is a name of its own, whatever it looks like: composed and decomposed, full width, ligature, sharp s, dotless i;
/// the same letters for the eye in Latin, Cyrillic and Greek; right to left, and marks that turn a line round or take no
/// room; separators, of ours and of others; what is in the rows beside; quotes and braces.
fn lookalikes() -> Vec<String> {
    let mut names: Vec<String> = serde_json::from_str(include_str!("lookalikes.json")).unwrap();
    // As long as they get, and different in the last letter; in bytes, not letters.
    names.extend(["x", "y"].map(|last| format!("{}{last}", "k".repeat(1023))));
    names.push("\u{e9}".repeat(512));
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_look_alike_are_leased_apart_and_kept_byte_for_byte() {
    let fixture = Fixture::with(quiet()).await;
    let mut leases = Vec::new();
    // Everybody's key is held at once, by a holder with the next name.
    let names = lookalikes();
    for (key, holder) in names.iter().zip(names.iter().cycle().skip(1)) {
        let lease = fixture.acquire(key, holder, "1").await;
        assert_eq!(
            (lease["key"].as_str(), lease["holder"].as_str()),
            (Some(&**key), Some(&**holder))
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

/// Of holder and request: no two pairs are one request, however their parts are put together.
#[tokio::test(flavor = "multi_thread")]
async fn holders_and_requests_that_read_alike_together_are_distinguished() {
    let fixture = Fixture::with(quiet()).await;
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
            fixture.call("acquire", ask(holder, request)).await.unwrap();
            let second = fixture.call("acquire", ask(other, id)).await.unwrap();
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
    let fixture = Fixture::with(quiet()).await;
    let handle = fixture.acquire("k", "a", "1").await;
    fixture.stack.proxy().reset();
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
        let (error, message) = fixture.call(function, &event).await.unwrap_err();
        assert_eq!(error, "Lease.Invalid", "{event} {message}");
        assert_eq!(message["field"], field, "{event} {message}");
        // A key that is none is not repeated as one.
        assert!(message.get("key").is_none_or(|key| key == "k"), "{message}");
    }
    assert_eq!(
        fixture.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
}
