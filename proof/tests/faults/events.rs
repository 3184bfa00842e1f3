//! Events that are no requests, of whatever size and depth, to each of the three functions.

use serde_json::{Value, json};

use crate::functions::{Functions, quiet};

/// What an event must not bring back.
const SECRET: &str = "hunter2";

/// As large as Lambda takes them.
const LARGE: usize = 6 * 1024 * 1024 - 1024;

/// Of an event that would be taken, what a stranger makes of it.
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
    let functions = Functions::with(quiet()).await;
    let lease = functions.acquire("k", "a", "1").await;
    functions.stack.proxy().reset();
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
            let answer = functions.call(function, &event).await;
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
        functions.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
    // Its processes are none the worse for it.
    functions.call("extend", &with_handle).await.unwrap();
}
