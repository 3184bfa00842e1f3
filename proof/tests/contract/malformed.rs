//! What no function accepts.

use serde_json::{Value, json};

use crate::functions::{Functions, event};

/// Function, event, and the field that the refusal names.
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed() -> Vec<(&'static str, String, Option<&'static str>)> {
    let whole = event("acquire");
    let with = |field: &str, value: Value| {
        let mut event = whole.clone();
        event[field] = value;
        event.to_string()
    };
    let without = |field: &str| {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(field);
        event.to_string()
    };
    let handle = |field: &str, value: Value| {
        let mut event = event("extend");
        event["lease"][field] = value;
        event.to_string()
    };
    let secret = json!("hunter2");
    let one = event("extend")["lease"].clone();
    let set = |keys: Value| {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove("key");
        event["keys"] = keys;
        event.to_string()
    };
    let set_with = |field: &str, value: Value| {
        let mut event = event("acquire-keys");
        event[field] = value;
        event.to_string()
    };
    vec![
        ("acquire", String::new(), None),
        ("acquire", "hunter2".into(), None),
        ("acquire", "null".into(), None),
        ("acquire", r#"["hunter2"]"#.into(), None),
        ("acquire", r#"{"key": NaN}"#.into(), None),
        (
            "acquire",
            format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
            None,
        ),
        ("acquire", r#"{"key":"a","key":"b"}"#.into(), Some("key")),
        ("acquire", without("key"), Some("key")),
        ("acquire", without("holder"), Some("holder")),
        ("acquire", without("ttl_seconds"), Some("ttl_seconds")),
        ("acquire", with("key", json!("")), Some("key")),
        ("acquire", with("key", json!("a\u{0}b")), Some("key")),
        ("acquire", with("key", json!("k".repeat(1025))), Some("key")),
        ("acquire", with("key", json!(7)), Some("key")),
        ("acquire", with("holder", json!("")), Some("holder")),
        ("acquire", with("request_id", json!("")), Some("request_id")),
        (
            "acquire",
            with("request_id", Value::Null),
            Some("request_id"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(1)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(86401)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(u64::MAX)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", secret.clone()),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("metadata", json!({"a": 1})),
            Some("metadata.a"),
        ),
        (
            "acquire",
            with("metadata", json!({"a": "x".repeat(4096)})),
            Some("metadata"),
        ),
        ("acquire", with("on_held", secret.clone()), Some("on_held")),
        ("acquire", with("permits", json!(0)), Some("permits")),
        ("acquire", with("hunter", secret.clone()), Some("hunter")),
        ("acquire", with("permits", json!(1001)), Some("permits")),
        ("acquire", with("permits", json!(2.5)), Some("permits")),
        ("acquire", with("permits", json!(u64::MAX)), Some("permits")),
        ("acquire", with("permits", secret.clone()), Some("permits")),
        ("acquire", with("reentrant", json!(1)), Some("reentrant")),
        (
            "acquire",
            with("observed_version", json!(-1)),
            Some("observed_version"),
        ),
        (
            "acquire",
            with("observed_version", json!(0.5)),
            Some("observed_version"),
        ),
        (
            "acquire",
            with("observed_version", json!(u64::MAX)),
            Some("observed_version"),
        ),
        (
            "acquire",
            with("observed_version", Value::Null),
            Some("observed_version"),
        ),
        // A key and keys.
        ("acquire", with("keys", json!(["a", "b"])), Some("keys")),
        ("acquire", set(json!([])), Some("keys")),
        ("acquire", set(json!(["a", "b", "a"])), Some("keys")),
        ("acquire", set(json!(["a", ""])), Some("keys")),
        ("acquire", set(json!(["a", "b\u{7f}"])), Some("keys")),
        ("acquire", set(json!(["a", 7])), Some("keys.1")),
        ("acquire", set(secret.clone()), Some("keys")),
        ("acquire", set(json!({"a": "b"})), Some("keys")),
        (
            "acquire",
            set((0..101).map(|n| format!("k{n}")).collect()),
            Some("keys"),
        ),
        // What does not go together.
        (
            "acquire",
            set_with("observed_version", json!(1)),
            Some("observed_version"),
        ),
        ("acquire", set_with("permits", json!(2)), Some("permits")),
        (
            "acquire",
            {
                let mut event = whole.clone();
                event["permits"] = json!(2);
                event["observed_version"] = json!(1);
                event.to_string()
            },
            Some("observed_version"),
        ),
        (
            "acquire",
            with("wait_seconds", json!(5)),
            Some("wait_seconds"),
        ),
        ("extend", json!({"leases": []}).to_string(), Some("leases")),
        (
            "extend",
            json!({"leases": vec![one.clone(); 2]}).to_string(),
            Some("leases"),
        ),
        (
            "extend",
            json!({"leases": [one], "lease": one}).to_string(),
            Some("leases"),
        ),
        (
            "extend",
            json!({"leases": [one, {"key": "k"}]}).to_string(),
            Some("leases.1.holder"),
        ),
        (
            "extend",
            json!({"leases": [one], "ttl_seconds": 1}).to_string(),
            Some("ttl_seconds"),
        ),
        (
            "release",
            json!({"leases": vec![one.clone(); 101]}).to_string(),
            Some("leases"),
        ),
        ("release", json!({}).to_string(), Some("lease")),
        (
            "release",
            json!({"lease": [one]}).to_string(),
            Some("lease"),
        ),
        (
            "release",
            json!({"leases": [["a", "b"]]}).to_string(),
            Some("leases.0"),
        ),
        ("extend", json!({}).to_string(), Some("lease")),
        (
            "extend",
            json!({"lease": secret}).to_string(),
            Some("lease"),
        ),
        (
            "extend",
            handle("fencing_token", json!(1.5)),
            Some("lease.fencing_token"),
        ),
        (
            "extend",
            handle("fencing_token", json!(-1)),
            Some("lease.fencing_token"),
        ),
        (
            "extend",
            handle("lease_id", json!(["hunter2"])),
            Some("lease.lease_id"),
        ),
        (
            "extend",
            handle("expires_at", json!("hunter2")),
            Some("lease.expires_at"),
        ),
        (
            "extend",
            handle("more", json!("hunter2")),
            Some("lease.more"),
        ),
        ("release", json!({"leases": []}).to_string(), Some("leases")),
        (
            "release",
            json!({"lease": {}}).to_string(),
            Some("lease.key"),
        ),
        ("sweep", json!({"limit": 0}).to_string(), Some("limit")),
        (
            "sweep",
            json!({"cursor": "hunter2"}).to_string(),
            Some("cursor"),
        ),
        (
            "sweep",
            json!({"more": "hunter2"}).to_string(),
            Some("more"),
        ),
        ("inspect", json!({}).to_string(), Some("key")),
        (
            "inspect",
            json!({"key": "k", "holder": "h"}).to_string(),
            Some("key"),
        ),
    ]
}

/// Requests to wait in line, which differ in one field from one that would be taken.
fn not_in_line() -> Vec<(&'static str, String, Option<&'static str>)> {
    let whole = event("acquire-queued");
    let with = |field: &'static str, value: Value| {
        let mut event = whole.clone();
        event[field] = value;
        ("acquire", event.to_string(), Some(field))
    };
    let without = |field: &'static str| {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(field);
        ("acquire", event.to_string(), Some("wait_seconds"))
    };
    let mut keys = whole.clone();
    keys.as_object_mut().unwrap().remove("key");
    keys["keys"] = json!(["a", "b"]);
    vec![
        ("acquire", keys.to_string(), Some("keys")),
        with("keys", json!(["a", "b"])),
        with("permits", json!(2)),
        with("permits", json!(0)),
        with("observed_version", json!(1)),
        with("observed_version", json!(0)),
        with("on_held", json!("result")),
        with("on_held", json!("error")),
        without("wait_seconds"),
        without("task_token"),
        with("wait_seconds", json!(-1)),
        with("wait_seconds", json!(31_536_001)),
        with("wait_seconds", json!(u64::MAX)),
        with("wait_seconds", json!("hunter2")),
        with("wait_seconds", Value::Null),
        with("task_token", json!("")),
        with("task_token", json!("hunter2".repeat(300))),
        with("task_token", json!(7)),
        with("task_token", json!(["hunter2"])),
        with("task_token", Value::Null),
        with("ttl_seconds", json!(1)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_names_its_field_and_changes_nothing() {
    let functions = Functions::start().await;
    functions.stack.proxy().reset();
    for (function, event, field) in malformed().into_iter().chain(not_in_line()) {
        let shown: String = event.chars().take(200).collect();
        let (name, message) = functions.call(function, &event).await.unwrap_err();
        assert_eq!(name, "Lease.Invalid", "{shown}");
        assert_eq!(message["field"].as_str(), field, "{shown}: {message}");
        let text = message["message"].as_str().unwrap();
        assert!(!text.is_empty(), "{shown}");
        for jargon in ["struct ", "u16", "sequence", "a map"] {
            assert!(!text.contains(jargon), "{shown}: {text}");
        }
        assert!(
            !message.to_string().contains("hunter2"),
            "{shown}: {message}"
        );
    }
    let sample = functions.event("acquire-invalid").await.unwrap_err();
    assert_eq!(
        (sample.0.as_str(), &sample.1["field"]),
        ("Lease.Invalid", &json!("ttl_seconds"))
    );
    assert_eq!(sample.1["key"], "orders/47");
    let sample = functions.event("acquire-not-in-line").await.unwrap_err();
    assert_eq!(
        (sample.0.as_str(), &sample.1["field"]),
        ("Lease.Invalid", &json!("permits"))
    );
    assert_eq!(
        functions.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
}
