//! Semaphores, several keys at once, observation and re-entrance.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::functions::{Functions, HANDLE, HOLDER, event, fields, name_of, s};

fn with(name: &str, field: &str, value: Value) -> Value {
    let mut event = event(name);
    event[field] = value;
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_is_a_lease_and_a_full_semaphore_is_held() {
    let functions = Functions::start().await;
    let first = functions.event("acquire-permit").await.unwrap();
    assert_eq!(
        fields(&first),
        ["outcome", "lease", "grant", "previous"].into()
    );
    assert_eq!(fields(&first["lease"]), HANDLE.into());
    assert_eq!(
        (&first["outcome"], &first["grant"]),
        (&json!("acquired"), &json!("new"))
    );
    let again = functions.event("acquire-permit").await.unwrap();
    assert_eq!(
        (&again["lease"], &again["grant"]),
        (&first["lease"], &json!("replayed"))
    );
    let mut permits = vec![first["lease"]["permit"].as_u64().unwrap()];
    for n in 1..5 {
        let event = with("acquire-permit", "request_id", json!(format!("item {n}")));
        let lease = &functions.call("acquire", event).await.unwrap()["lease"];
        permits.push(lease["permit"].as_u64().unwrap());
    }
    permits.sort_unstable();
    assert_eq!(permits, [0, 1, 2, 3, 4]);
    let full = with("acquire-permit", "request_id", json!("item 5"));
    let (name, message) = functions.call("acquire", &full).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Held", &json!("partner"))
    );
    assert_eq!(
        (&message["permit"], &message["by_you"]),
        (&first["lease"]["permit"], &json!(true))
    );

    let inspected = functions
        .call("inspect", json!({"key": "partner"}))
        .await
        .unwrap();
    let shown = [
        "outcome", "state", "lease", "previous", "frozen", "waiting", "permits",
    ];
    assert_eq!(fields(&inspected), shown.into());
    let of_each = inspected["permits"].as_array().unwrap();
    assert_eq!(of_each.len(), 5);
    for one in of_each {
        assert_eq!(
            fields(one),
            ["state", "lease", "previous", "frozen", "waiting"].into()
        );
    }
    for (verb, outcome) in [("extend", "extended"), ("release", "released")] {
        let answer = functions.call(verb, json!({"lease": first["lease"]})).await;
        assert_eq!(answer.unwrap()["outcome"], outcome);
    }
    let next = functions.call("acquire", &full).await.unwrap();
    assert_eq!(next["lease"]["permit"], first["lease"]["permit"]);
    assert!(next["lease"]["fencing_token"].as_u64() > first["lease"]["fencing_token"].as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_keys_are_leased_together_or_not_at_all() {
    let functions = Functions::start().await;
    let blocker = functions.acquire("accounts/2", "other", "1").await;
    let (name, message) = functions.event("acquire-keys").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Held", &json!("accounts/2"))
    );
    assert_eq!(
        (&message["holder"], &message["by_you"]),
        (&json!("other"), &json!(false))
    );
    let told = with("acquire-keys", "on_held", json!("result"));
    let told = functions.call("acquire", told).await.unwrap();
    assert_eq!(
        fields(&told),
        ["outcome", "held", "retry_at", "wait_seconds"].into()
    );
    assert_eq!(told["held"]["version"], blocker["version"]);
    assert_eq!(
        functions.item("accounts/1").await,
        None,
        "nothing was written"
    );
    functions
        .call("release", json!({"lease": blocker}))
        .await
        .unwrap();

    let answer = functions.event("acquire-keys").await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "leases", "grant", "previous"].into()
    );
    assert_eq!(
        (&answer["outcome"], &answer["grant"]),
        (&json!("acquired"), &json!("new"))
    );
    let leases = answer["leases"].as_array().unwrap();
    for (lease, key) in leases.iter().zip(["accounts/1", "accounts/2"]) {
        assert_eq!((fields(lease), &lease["key"]), (HANDLE.into(), &json!(key)));
    }
    assert_eq!(answer["previous"][0], Value::Null);
    assert_eq!(answer["previous"][1]["ended"], "released");
    let again = functions.event("acquire-keys").await.unwrap();
    assert_eq!(
        (&again["leases"], &again["grant"]),
        (&answer["leases"], &json!("replayed"))
    );
    assert_eq!(again["previous"], answer["previous"]);
    let other = with("acquire-keys", "keys", json!(["accounts/1", "accounts/9"]));
    let (name, message) = functions.call("acquire", other).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["field"]),
        ("Lease.Invalid", &json!("request_id"))
    );

    let set = json!({"leases": answer["leases"]});
    let extended = functions.call("extend", &set).await.unwrap();
    assert_eq!(fields(&extended), ["outcome", "leases"].into());
    assert_eq!(extended["outcome"], "extended");
    assert_eq!(
        extended["leases"][1]["fencing_token"],
        leases[1]["fencing_token"]
    );
    let released = functions.call("release", &set).await.unwrap();
    let expected = json!({
        "outcome": "released", "expired": false, "outcomes": ["released", "released"],
    });
    assert_eq!(released, expected);
    let name = name_of(&functions.call("extend", &set).await).to_owned();
    assert_eq!(name, "Lease.Lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_handles_has_the_worst_outcome() {
    let functions = Functions::start().await;
    functions.stand_all("extend-leases").await;
    let answer = functions.event("extend-leases").await.unwrap();
    assert_eq!(fields(&answer), ["outcome", "leases", "lapsed_ms"].into());
    assert_eq!(answer["outcome"], "revived");

    functions.delete("accounts/4").await;
    let (name, message) = functions.event("extend-leases").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Lost", ["message", "key"].into())
    );
    assert_eq!(message["key"], "accounts/4");
    let text = message["message"].as_str().unwrap();
    assert!(
        text.contains("accounts/3: extended, accounts/4: Lease.Lost"),
        "{text}"
    );

    functions.acquire("accounts/4", "other", "1").await;
    let released = functions.event("release-leases").await.unwrap();
    let expected = json!({"outcome": "lost", "expired": true, "outcomes": ["released", "lost"]});
    assert_eq!(released, expected);
    let strict = with("release-leases", "strict", json!(true));
    let (name, message) = functions.call("release", strict).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Lost", &json!("accounts/4"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_version_takes_over_and_no_clock_does() {
    let functions = Functions::start().await;
    functions.acquire("orders/49", "other", "1").await;
    // Held until long past by this machine's clock, and at the version that the event names.
    let past = AttributeValue::N("1700000000000".into());
    functions.change("orders/49", "expires_at", past).await;
    let version = |n: &str| AttributeValue::N(n.to_owned());
    functions
        .change("orders/49", "version", version("1795230000999"))
        .await;
    for observed in [
        json!(0),
        json!(1_795_230_000_124_u64),
        json!(1_795_230_000_124.0),
    ] {
        let asked = with("acquire-observed", "observed_version", observed);
        let (name, message) = functions.call("acquire", asked).await.unwrap_err();
        assert_eq!(
            (name.as_str(), &message["version"]),
            ("Lease.Held", &json!(1_795_230_000_999_u64))
        );
        assert_eq!(message["wait_seconds"], 301);
    }
    let named = event("acquire-observed")["observed_version"].to_string();
    functions
        .change("orders/49", "version", version(&named))
        .await;
    let answer = functions.event("acquire-observed").await.unwrap();
    assert_eq!(answer["grant"], "takeover");
    assert_eq!(answer["previous"]["ended"], "expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reentrant_request_is_a_replay() {
    let functions = Functions::start().await;
    let first = functions.event("acquire").await.unwrap();
    let again = functions.event("acquire-reentrant").await.unwrap();
    assert_eq!(
        (&again["outcome"], &again["grant"], &again["lease"]),
        (&json!("acquired"), &json!("replayed"), &first["lease"])
    );
    let plain = with("acquire-reentrant", "reentrant", json!(false));
    let (name, message) = functions.call("acquire", plain).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["by_you"]),
        ("Lease.Held", &json!(true))
    );
    let past = AttributeValue::N("1700000000000".into());
    functions.change("orders/42", "expires_at", past).await;
    let taken = functions.event("acquire-reentrant").await.unwrap();
    assert_eq!(taken["grant"], "takeover", "an expired one is nobody's");
    assert_eq!(taken["previous"]["holder"], HOLDER);
    functions.change("orders/42", "frozen", s("x")).await;
    let frozen = with("acquire-reentrant", "request_id", json!("a third"));
    assert_eq!(
        functions.call("acquire", frozen).await.unwrap()["grant"],
        "replayed"
    );
}
