//! What functions never write, however their calls go wrong.

use leasehold_local::{FakeStepFunctionsServer, Fault};
use leasehold_proof::fixture::{Fixture, event};
use serde_json::{Value, json};

use crate::{
    runner::with_fake_step_functions,
    triggered::{one, record},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_reaches_the_logs() {
    let levels = [("LEASE_LOG_LEVEL", "TRACE"), ("RUST_LOG", "trace")];
    let (fixture, step_functions) = with_fake_step_functions(levels).await;
    let lease = fixture.acquire("k", "a", "1").await;
    fixture
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    fixture.call("inspect", json!({"key": "k"})).await.unwrap();
    fixture
        .stack
        .proxy()
        .inject(Fault::HalfAnswer, "UpdateItem", 3);
    fixture
        .call("release", json!({"lease": lease}))
        .await
        .unwrap_err();
    fixture
        .call("release", json!({"lease": lease, "strict": 1}))
        .await
        .unwrap_err();
    fixture
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    // A permit and a set, by way of answers that broke off.
    let mut secrets = vec![lease["lease_id"].clone()];
    let proxy = fixture.stack.proxy();
    for (operation, what) in [
        ("TransactWriteItems", json!({"keys": ["x", "y"]})),
        ("TransactGetItems", json!({"keys": ["x", "y"]})),
        ("Query", json!({"key": "s", "permits": 5})),
    ] {
        let mut request = json!({"holder": "a", "request_id": operation, "ttl_seconds": 300});
        request
            .as_object_mut()
            .unwrap()
            .extend(what.as_object().unwrap().clone());
        proxy.inject(Fault::HalfAnswer, operation, 3);
        fixture.call("acquire", &request).await.unwrap_err();
        let answer = fixture.call("acquire", &request).await.unwrap();
        let set = answer["leases"].as_array().cloned();
        let set = set.unwrap_or_else(|| vec![answer["lease"].clone()]);
        secrets.extend(set.iter().map(|lease| lease["lease_id"].clone()));
        let set = json!({"leases": set});
        fixture.call("extend", &set).await.unwrap();
        // Every attempt of every one of them.
        let attempts = 3 * u32::try_from(set["leases"].as_array().unwrap().len()).unwrap();
        proxy.inject(Fault::HalfAnswer, "UpdateItem", attempts);
        fixture.call("release", &set).await.unwrap_err();
        fixture.call("release", &set).await.unwrap();
        fixture.call("extend", &set).await.unwrap_err();
    }
    secrets.extend(wait_in_line(&fixture, &step_functions).await);
    let forced = fixture.acquire("k", "a", "2").await;
    secrets.push(forced["lease_id"].clone());
    let operation = json!({"operation": "force_release", "key": "k", "who": "night shift", "why": "it is stuck"});
    fixture.call("operate", operation).await.unwrap();
    let (one, both) = (r#""key":"k""#, r#""key":"x, y""#);
    for (name, about) in [
        ("acquire", &[one, both][..]),
        ("extend", &[one, both]),
        ("release", &[one, both]),
        ("inspect", &[one]),
        ("operate", &[one, "night shift", "it is stuck", "\"a\""]),
        ("sweep", &[]),
        ("grant", &[]),
        ("reap", &[]),
    ] {
        let log = fixture.log(name);
        assert!(!log.is_empty(), "{name}");
        for about in about {
            assert!(log.contains(about), "{name} says what it was about: {log}");
        }
        for secret in &secrets {
            assert!(!log.contains(secret.as_str().unwrap()), "{name}: {log}");
        }
    }
}

/// Everything that can go wrong in a queue: the tokens of the waiters, and the proofs of
/// their reservations.
async fn wait_in_line(fixture: &Fixture, step_functions: &FakeStepFunctionsServer) -> Vec<Value> {
    let proxy = fixture.stack.proxy();
    let token = |who: &str| format!("token of {who} {}", "x".repeat(40));
    let wait = |key: &str, who: &str, seconds: u32| {
        json!({
            "key": key, "holder": who, "request_id": "1", "ttl_seconds": 300,
            "task_token": token(who), "wait_seconds": seconds,
        })
    };
    let mut secrets: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|who| json!(token(who)))
        .into();
    let mut lease = fixture.acquire("line", "holder", "1").await;
    for who in ["a", "b", "c", "d"] {
        proxy.inject(Fault::HalfAnswer, "TransactWriteItems", 3);
        fixture
            .call("acquire", wait("line", who, 60))
            .await
            .unwrap_err();
        fixture
            .call("acquire", wait("line", who, 60))
            .await
            .unwrap();
    }
    step_functions.expire_token(&token("a"));
    proxy.inject(Fault::HalfAnswer, "UpdateItem", 1);
    // Notified, and again; confirmed, and released with the step_functions out of order.
    fixture
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let notified: Value = serde_json::from_str(one(step_functions).output()).unwrap();
    lease = notified["lease"].clone();
    secrets.push(lease["lease_id"].clone());
    fixture
        .call("acquire", wait("line", "b", 60))
        .await
        .unwrap();
    proxy.inject(Fault::HalfAnswer, "UpdateItem", 3);
    fixture
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap_err();
    fixture
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    step_functions.calls();
    for error in ["AccessDeniedException", "InternalFailure"] {
        step_functions.fail_with(Some(error));
        fixture
            .call("release", json!({"lease": lease}))
            .await
            .unwrap();
        fixture.call("acquire", wait("line", "e", 0)).await.unwrap();
        fixture.event("sweep").await.unwrap();
    }
    let row = fixture.item("line").await.unwrap();
    secrets.push(json!(row["claim_id"].as_s().unwrap()));
    fixture
        .call("grant", record("1", "line"))
        .await
        .unwrap_err();
    let records = json!({"Records": [record("1", "line")]});
    fixture.call("grant", records).await.unwrap();
    let mut ended = event("reap-succeeded");
    ended["detail"]["executionArn"] = json!("c");
    let _ = fixture.call("reap", &ended).await;
    step_functions.fail_with(None);
    fixture.call("reap", &ended).await.unwrap();
    fixture.event("sweep").await.unwrap();
    secrets
}
