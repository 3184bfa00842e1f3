//! What reap answers to the queues that trigger it.

use leasehold_proof::fixture::event;
use serde_json::{Value, json};

use crate::runner::with_fake_step_functions;

#[tokio::test(flavor = "multi_thread")]
async fn reap_names_non_status_messages() {
    let (fixture, _desk) = with_fake_step_functions([]).await;
    let whole = event("reap-succeeded");
    let with = |field: &str, value: Value| {
        let mut event = whole.clone();
        event["detail"][field] = value;
        event
    };
    let cases = [
        json!({}),
        json!({"detail": "hunter2"}),
        with("executionArn", json!("")),
        with("executionArn", json!(7)),
        with("status", Value::Null),
        with("status", json!("hunter2")),
    ];
    let mut messages = vec![json!({"messageId": "good", "body": whole.to_string()})];
    for (n, event) in cases.iter().enumerate() {
        messages.push(json!({"messageId": format!("{n}"), "body": event.to_string()}));
    }
    messages.push(json!({"messageId": "no JSON", "body": "{"}));
    messages.push(json!({"messageId": "no body"}));
    messages.push(json!({"body": "nobody's"}));
    let answer = fixture
        .call("reap", json!({"Records": messages}))
        .await
        .unwrap();
    let named = ["0", "1", "2", "3", "4", "5", "no JSON", "no body"];
    let named = named.map(|id| json!({"itemIdentifier": id}));
    assert_eq!(answer, json!({"batchItemFailures": named}));
}
