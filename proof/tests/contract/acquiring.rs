//! What acquire answers.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::functions::{Functions, HANDLE, HOLDER, fields, s};

#[tokio::test(flavor = "multi_thread")]
async fn acquire_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    let answer = functions.event("acquire").await.unwrap();
    let lease = &answer["lease"];
    assert_eq!(
        fields(&answer),
        ["outcome", "lease", "grant", "previous"].into()
    );
    assert_eq!(fields(lease), HANDLE.into());
    assert_eq!(
        (&answer["outcome"], &answer["grant"], &answer["previous"]),
        (&json!("acquired"), &json!("new"), &Value::Null)
    );
    assert_eq!(
        (
            &lease["key"],
            &lease["holder"],
            &lease["ttl_seconds"],
            &lease["permit"]
        ),
        (&json!("orders/42"), &json!(HOLDER), &json!(300), &json!(0))
    );
    assert_eq!(lease["metadata"], json!({"order": "42"}));
    assert!(lease["fencing_token"].as_u64().unwrap() < 1 << 53);
    assert_eq!(lease["lease_id"].as_str().unwrap().len(), 32);
    for instant in ["acquired_at", "expires_at", "safe_until"] {
        let text = lease[instant].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z'), "{text}");
    }

    // The same event again, and twice at once: the same lease.
    let (again, once_more) = tokio::join!(functions.event("acquire"), functions.event("acquire"));
    for again in [again.unwrap(), once_more.unwrap()] {
        assert_eq!(
            (&again["lease"], &again["grant"]),
            (lease, &json!("replayed"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contention_is_an_error_or_a_result() {
    let functions = Functions::start().await;
    let other = functions.acquire("orders/43", "other", "1").await;
    let (name, message) = functions.event("acquire-held").await.unwrap_err();
    assert_eq!(name, "Lease.Held");
    let held = [
        "key",
        "holder",
        "fencing_token",
        "version",
        "ttl_seconds",
        "expires_at",
        "metadata",
        "waiting",
        "permit",
        "by_you",
    ];
    let beside = ["message", "retry_at", "wait_seconds"];
    assert_eq!(fields(&message), held.into_iter().chain(beside).collect());
    assert_eq!(message["holder"], "other");

    let answer = functions.event("acquire-held-as-result").await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "held", "retry_at", "wait_seconds"].into()
    );
    assert_eq!(
        (&answer["outcome"], &answer["wait_seconds"]),
        (&json!("held"), &json!(301))
    );
    assert_eq!(fields(&answer["held"]), held.into());
    for same in ["key", "holder", "fencing_token", "version", "expires_at"] {
        assert_eq!(answer["held"][same], other[same]);
    }
    let text = format!("{message}{answer}");
    assert!(
        !text.contains(other["lease_id"].as_str().unwrap()),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_metadata_is_cut_in_the_error_and_whole_in_the_result() {
    let functions = Functions::start().await;
    let metadata = json!({"a": "x".repeat(1000), "b": "y".repeat(3000)});
    let request =
        json!({"key": "k", "holder": "a", "ttl_seconds": 300, "metadata": metadata.clone()});
    functions.call("acquire", &request).await.unwrap();
    let mut other = json!({"key": "k", "holder": "b", "ttl_seconds": 300});
    let (_, message) = functions.call("acquire", &other).await.unwrap_err();
    assert_eq!(message["metadata"], json!({"a": metadata["a"]}));
    other["on_held"] = json!("result");
    let answer = functions.call("acquire", &other).await.unwrap();
    assert_eq!(answer["held"]["metadata"], metadata);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_names_the_previous_holder() {
    let functions = Functions::start().await;
    let old = functions.acquire("orders/44", "other", "1").await;
    functions
        .change(
            "orders/44",
            "expires_at",
            AttributeValue::N("1700000000000".into()),
        )
        .await;
    let answer = functions.event("acquire-takeover").await.unwrap();
    let token = &old["fencing_token"];
    assert_eq!(answer["grant"], "takeover");
    assert_eq!(
        answer["previous"],
        json!({"holder": "other", "fencing_token": token, "ended": "expired"})
    );
    assert_eq!(answer["lease"]["ttl_seconds"], 1.5);
    assert!(answer["lease"]["fencing_token"].as_u64() > token.as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spent_request_a_frozen_key_and_a_strange_item_are_refused() {
    let functions = Functions::start().await;
    let spent = functions.event("acquire-consumed").await.unwrap();
    let released = functions
        .call("release", json!({"lease": spent["lease"]}))
        .await
        .unwrap();
    assert_eq!(released, json!({"outcome": "released", "expired": false}));
    let (name, message) = functions.event("acquire-consumed").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Consumed", &json!("orders/45"))
    );
    assert_eq!(fields(&message), ["message", "key"].into());

    functions.acquire("orders/46", "other", "1").await;
    functions
        .change("orders/46", "frozen", s("maintenance"))
        .await;
    let (name, message) = functions.event("acquire-frozen").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Frozen", ["message", "key"].into())
    );

    functions
        .put("orders/48", [("colour".to_owned(), s("blue"))].into())
        .await;
    let before = functions.item("orders/48").await;
    let (name, message) = functions.event("acquire-corrupt").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Corrupt", ["message", "key"].into())
    );
    assert_eq!(functions.item("orders/48").await, before, "untouched");
}
