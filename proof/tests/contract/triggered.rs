//! What grant and reap answer to those that trigger them.

use leasehold_local::{FakeStepFunctionsServer, StepFunctionsCall};
use leasehold_proof::fixture::{event, s};
use serde_json::{Value, json};

use crate::runner::{remove, set, with_fake_step_functions};

/// The waiter that was notified since.
pub fn one(step_functions: &FakeStepFunctionsServer) -> StepFunctionsCall {
    let mut notified = step_functions.calls();
    assert_eq!(notified.len(), 1);
    notified.remove(0)
}

/// A record of the table's stream.
pub fn record(number: &str, key: &str) -> Value {
    let mut record = event("grant")["Records"][0].clone();
    record["dynamodb"]["Keys"]["pk"]["S"] = json!(key);
    record["dynamodb"]["SequenceNumber"] = json!(number);
    record
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_names_the_records_that_failed_and_works_on_the_rest() {
    let (fixture, step_functions) = with_fake_step_functions([]).await;
    let nothing = fixture.event("grant").await.unwrap();
    assert_eq!(
        nothing,
        json!({"batchItemFailures": []}),
        "nothing is stored"
    );

    // Freed by an operator, who notifies nobody.
    fixture.acquire("orders/91", "other", "1").await;
    fixture.event("acquire-queued").await.unwrap();
    let operation =
        json!({"operation": "force_release", "key": "orders/91", "who": "w", "why": "y"});
    fixture.call("operate", operation).await.unwrap();
    assert!(step_functions.calls().is_empty());
    fixture
        .put("strange", [("colour".to_owned(), s("blue"))].into())
        .await;
    let mut unreadable = record("3", "k");
    remove(&mut unreadable, "dynamodb.Keys");
    let mut nameless = unreadable.clone();
    remove(&mut nameless, "dynamodb.SequenceNumber");
    let (mut waiter, sort) = (
        record("4", "orders/91"),
        "WAIT#8f0e4a6b0d5c4e2f9a1b3c5d7e9f0a1b",
    );
    set(&mut waiter, "dynamodb.Keys.sk.S", json!(sort));
    let batch = json!({"Records": [
        record("1", "strange"), nameless, unreadable, waiter, json!(7), record("5", "orders/91"),
        record("6", "orders/91"), record("7", ""),
    ]});
    let answer = fixture.call("grant", &batch).await.unwrap();
    let failed = json!([{"itemIdentifier": "1"}, {"itemIdentifier": "3"}]);
    assert_eq!(answer, json!({"batchItemFailures": failed}));
    let granted: Value = serde_json::from_str(one(&step_functions).output()).unwrap();
    assert_eq!(granted["previous"]["ended"], "forced");
    // Repeated, it changes nothing.
    let item = fixture.item("orders/91").await;
    fixture.call("grant", &batch).await.unwrap();
    assert!(step_functions.calls().is_empty());
    assert_eq!(fixture.item("orders/91").await, item);
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_names_the_messages_of_a_batch_that_are_no_status_events() {
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
