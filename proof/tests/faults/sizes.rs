//! The largest events: those that a request may need are served, and others fit into a function's memory.

use std::{fmt::Write as _, fs};

use leasehold_proof::fixture::{Fixture, event};
use serde_json::{Map, Value, json};

/// What Lambda accepts as an event.
const LARGEST: usize = 6 * 1024 * 1024;

/// `MemorySize` in the template.
const MEMORY_KB: u64 = 256 * 1024;

/// Values without end, up to Lambda's limit.
fn full_of(value: &str) -> String {
    let mut text = String::from(r#"{"x":["#);
    while text.len() + value.len() + 3 < LARGEST {
        text.push_str(value);
        text.push(',');
    }
    text + "0]}"
}

/// The most memory that a process of this function has had, of those that this program has started.
fn peak_kb(function: &str) -> u64 {
    let parent = std::process::id().to_string();
    let peaks = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let status = fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let ours = field("Name:")?.trim() == function && field("PPid:")?.trim() == parent;
        let peak = field("VmHWM:")?.trim().trim_end_matches(" kB");
        ours.then(|| peak.parse::<u64>().unwrap())
    });
    peaks.max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn six_megabyte_event_fits_memory() {
    let fixture = Fixture::start().await;
    let nested = format!("{}0{}", r#"{"":"#.repeat(100), "}".repeat(100));
    for value in ["[1]", r#"{"":0}"#, &nested] {
        let (name, message) = fixture.call("release", full_of(value)).await.unwrap_err();
        assert_eq!(name, "Lease.Invalid");
        let message = message["message"].as_str().unwrap();
        assert!(message.contains("more than 250000 values"), "{message}");
    }
    let body = full_of(&nested);
    let body = &body[..LARGEST / 3];
    let messages: Vec<_> = (0..2)
        .map(|n| json!({"messageId": n.to_string(), "body": body}))
        .collect();
    let batch = json!({ "Records": messages }).to_string();
    assert!(batch.len() < LARGEST);
    let failed = fixture.call("reap", batch).await.unwrap();
    assert_eq!(failed["batchItemFailures"].as_array().unwrap().len(), 2);
    for function in ["release", "reap"] {
        let peak = peak_kb(function);
        assert!(peak < MEMORY_KB, "{function}: {peak} KB");
    }
}

/// As many names as 4096 bytes can be: those of one byte, and of two.
fn most_metadata() -> Value {
    let one = (0..=0x7f).map(|c| char::from(c).to_string());
    let two = ('\u{80}'..='\u{7ff}').map(String::from).take(1920);
    let pairs = ('a'..='h').flat_map(|a| ('a'..='h').map(move |b| format!("{a}{b}")));
    let names: Map<_, _> = one
        .chain(two)
        .chain(pairs)
        .map(|name| (name, json!("")))
        .collect();
    assert_eq!(names.keys().map(String::len).sum::<usize>(), 4096);
    Value::Object(names)
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_largest_leases_are_released() {
    let fixture = Fixture::start().await;
    let mut handle = event("release")["lease"].clone();
    handle["metadata"] = most_metadata();
    let leases: Vec<_> = (0..100)
        .map(|n| {
            let mut handle = handle.clone();
            handle["key"] = json!(format!("orders/{n}"));
            handle
        })
        .collect();
    let answer = fixture
        .call("release", json!({ "leases": leases }))
        .await
        .unwrap();
    assert_eq!(answer["outcomes"].as_array().unwrap().len(), 100);
    let peak = peak_kb("release");
    assert!(peak < MEMORY_KB, "{peak} KB");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_largest_status_events_are_read() {
    let fixture = Fixture::start().await;
    let mut input = String::from("[");
    while input.len() < 256 * 1024 - 8 {
        let _ = write!(input, r#"{{"":1}},"#);
    }
    let mut running = event("reap-running-again");
    running["detail"]["input"] = json!(input + "0]");
    let messages: Vec<_> = (0..10)
        .map(|n| json!({"messageId": n.to_string(), "body": running.to_string()}))
        .collect();
    let answer = fixture.call("reap", json!({ "Records": messages })).await;
    assert_eq!(answer.unwrap(), json!({"batchItemFailures": []}));
}
