//! What grant and reap answer to those that trigger them.

use serde_json::{Value, json};

use crate::{
    desk::One,
    functions::{event, fields, s},
    queueing::with_desk,
};

/// A record of the table's stream.
pub fn record(number: &str, key: &str) -> Value {
    let mut record = event("grant")["Records"][0].clone();
    record["dynamodb"]["Keys"]["pk"]["S"] = json!(key);
    record["dynamodb"]["SequenceNumber"] = json!(number);
    record
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_names_the_records_that_failed_and_works_on_the_rest() {
    let (functions, desk) = with_desk(&[]).await;
    let nothing = functions.event("grant").await.unwrap();
    assert_eq!(
        nothing,
        json!({"batchItemFailures": []}),
        "nothing stands there"
    );

    // Freed by an operator, who tells nobody.
    functions.acquire("orders/91", "other", "1").await;
    functions.event("acquire-queued").await.unwrap();
    let operation =
        json!({"operation": "force_release", "key": "orders/91", "who": "w", "why": "y"});
    functions.call("operate", operation).await.unwrap();
    assert!(desk.calls().is_empty());
    functions
        .put("strange", [("colour".to_owned(), s("blue"))].into())
        .await;
    let mut unreadable = record("3", "k");
    unreadable["dynamodb"]
        .as_object_mut()
        .unwrap()
        .remove("Keys");
    let mut nameless = unreadable.clone();
    nameless["dynamodb"]
        .as_object_mut()
        .unwrap()
        .remove("SequenceNumber");
    let mut waiter = record("4", "orders/91");
    waiter["dynamodb"]["Keys"]["sk"]["S"] = json!("WAIT#8f0e4a6b0d5c4e2f9a1b3c5d7e9f0a1b");
    let batch = json!({"Records": [
        record("1", "strange"), nameless, unreadable, waiter, json!(7), record("5", "orders/91"),
        record("6", "orders/91"), record("7", ""),
    ]});
    let answer = functions.call("grant", &batch).await.unwrap();
    let failed = json!([{"itemIdentifier": "1"}, {"itemIdentifier": "3"}]);
    assert_eq!(answer, json!({"batchItemFailures": failed}));
    let told = desk.one();
    let granted: Value = serde_json::from_str(told.output()).unwrap();
    assert_eq!(granted["previous"]["ended"], "forced");
    // Repeated, it changes nothing.
    let item = functions.item("orders/91").await;
    functions.call("grant", &batch).await.unwrap();
    assert!(desk.calls().is_empty());
    assert_eq!(functions.item("orders/91").await, item);

    for strange in [json!({}), json!({"Records": 7}), json!([])] {
        let (name, message) = functions.call("grant", strange).await.unwrap_err();
        assert_eq!(
            (name.as_str(), &message["field"]),
            ("Lease.Invalid", &json!("Records"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_says_what_it_did() {
    let (functions, desk) = with_desk(&[]).await;
    let of = |name: &str| {
        event(name)["detail"]["executionArn"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = of("reap-succeeded");
    functions.acquire("orders/80", &first, "1").await;
    let answer = functions.event("reap-succeeded").await.unwrap();
    let done = json!({"outcome": "reaped", "released": 1, "cut": 0, "left": 0});
    assert_eq!(answer, done);
    let answer = functions.event("reap-succeeded").await.unwrap();
    assert_eq!(
        answer,
        json!({"outcome": "reaped", "released": 0, "cut": 0, "left": 0})
    );
    let answer = functions.event("reap-running-again").await.unwrap();
    assert_eq!(answer, json!({"outcome": "running"}));

    // One that was stopped, and that waited for another key.
    let second = of("reap-aborted");
    let long = json!({"key": "orders/80", "holder": second, "ttl_seconds": 86400});
    let lease = functions.call("acquire", long).await.unwrap()["lease"].clone();
    functions.acquire("orders/91", "other", "1").await;
    let mut waits = event("acquire-queued");
    waits["holder"] = json!(second);
    functions.call("acquire", waits).await.unwrap();
    desk.run(&second);
    let answer = functions.event("reap-aborted").await.unwrap();
    assert_eq!(answer, json!({"outcome": "running"}), "it was redriven");
    desk.fail_with(Some("AccessDeniedException"));
    let (name, _) = functions.event("reap-aborted").await.unwrap_err();
    assert_eq!(name, "Lease.Denied");
    desk.fail_with(None);
    let later = functions.event("reap-later").await.unwrap();
    assert_eq!(later, json!({"batchItemFailures": []}), "it runs still");
    let held = functions
        .call("inspect", json!({"key": "orders/80"}))
        .await
        .unwrap();
    assert_eq!(held["lease"]["expires_at"], lease["expires_at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_what_was_stopped_is_cut_once_and_now_or_later() {
    for name in ["reap-aborted", "reap-later"] {
        let (functions, desk) = with_desk(&[("LEASE_REAP_GRACE_SECONDS", "60")]).await;
        let arn = &event("reap-aborted")["detail"]["executionArn"];
        desk.stop(arn.as_str().unwrap());
        let long = json!({"key": "orders/80", "holder": arn, "ttl_seconds": 86400});
        let lease = functions.call("acquire", long).await.unwrap()["lease"].clone();
        functions.acquire("orders/91", "other", "1").await;
        let mut waits = event("acquire-queued");
        waits["holder"] = arn.clone();
        functions.call("acquire", waits).await.unwrap();
        let answer = functions.event(name).await.unwrap();
        let done = json!({"outcome": "reaped", "released": 0, "cut": 1, "left": 1});
        let expected = match name {
            "reap-aborted" => done,
            _ => json!({"batchItemFailures": []}),
        };
        assert_eq!(answer, expected);
        let held = functions
            .call("inspect", json!({"key": "orders/80"}))
            .await
            .unwrap();
        assert_eq!(held["state"], "held");
        let deadline = |lease: &Value| lease["expires_at"].as_str().unwrap().to_owned();
        assert!(deadline(&held["lease"]) < deadline(&lease));
        let waiting = functions
            .call("inspect", json!({"key": "orders/91"}))
            .await
            .unwrap();
        assert_eq!(waiting["waiting"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reap_refuses_what_is_no_status_event_and_names_the_message_in_a_batch() {
    let (functions, _desk) = with_desk(&[]).await;
    let whole = event("reap-succeeded");
    let with = |field: &str, value: Value| {
        let mut event = whole.clone();
        event["detail"][field] = value;
        event
    };
    let cases = [
        (json!({}), "detail.executionArn"),
        (json!({"detail": "hunter2"}), "detail.executionArn"),
        (with("executionArn", json!("")), "detail.executionArn"),
        (with("executionArn", json!(7)), "detail.executionArn"),
        (with("status", Value::Null), "detail.status"),
        (with("status", json!("hunter2")), "detail.status"),
    ];
    let mut messages = vec![json!({"messageId": "good", "body": whole.to_string()})];
    for (n, (event, field)) in cases.iter().enumerate() {
        let (name, message) = functions.call("reap", event).await.unwrap_err();
        assert_eq!(
            (name.as_str(), &message["field"]),
            ("Lease.Invalid", &json!(field))
        );
        assert_eq!(fields(&message), ["message", "field"].into());
        assert!(!message.to_string().contains("hunter2"), "{message}");
        messages.push(json!({"messageId": format!("{n}"), "body": event.to_string()}));
    }
    messages.push(json!({"messageId": "no JSON", "body": "{"}));
    messages.push(json!({"messageId": "no body"}));
    messages.push(json!({"body": "nobody's"}));
    let answer = functions
        .call("reap", json!({"Records": messages}))
        .await
        .unwrap();
    let named = ["0", "1", "2", "3", "4", "5", "no JSON", "no body"];
    let named = named.map(|id| json!({"itemIdentifier": id}));
    assert_eq!(answer, json!({"batchItemFailures": named}));
}
