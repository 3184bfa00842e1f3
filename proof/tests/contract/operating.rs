//! What operate answers, and who may not call it.

use serde_json::{Value, json};

use crate::functions::{Functions, HOLDER, event, fields, name_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_reports_the_evicted_and_raises_the_token() {
    let functions = Functions::start().await;
    let not_held = json!({"outcome": "not_held"});
    assert_eq!(
        functions.event("operate-force-release").await.unwrap(),
        not_held
    );
    let lease = functions.acquire("orders/80", HOLDER, "1").await;
    // Not whoever holds it by now, but the grant that was looked at.
    let mut named = event("operate-force-release");
    named["fencing_token"] = json!(lease["fencing_token"].as_u64().unwrap() - 2);
    named["permit"] = json!(0.0);
    let answer = functions.call("operate", &named).await.unwrap();
    assert_eq!(answer, not_held);
    named["fencing_token"] = lease["fencing_token"].clone();
    let answer = functions.call("operate", &named).await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "evicted", "fencing_token"].into()
    );
    assert_eq!(answer["outcome"], "forced");
    let mut shown = lease.clone();
    shown.as_object_mut().unwrap().remove("lease_id");
    assert_eq!(answer["evicted"], shown, "all but the secret");
    assert!(answer["fencing_token"].as_u64() > lease["fencing_token"].as_u64());
    assert_eq!(
        functions.event("operate-force-release").await.unwrap(),
        not_held
    );

    let lost = functions.call("extend", json!({"lease": lease})).await;
    assert_eq!(name_of(&lost), "Lease.Lost");
    let lost = functions.call("release", json!({"lease": lease})).await;
    assert_eq!(lost.unwrap(), json!({"outcome": "lost", "expired": false}));
    let inspected = functions
        .call("inspect", json!({"key": "orders/80"}))
        .await
        .unwrap();
    let token = &lease["fencing_token"];
    let previous = json!({"holder": HOLDER, "fencing_token": token, "ended": "forced"});
    assert_eq!(inspected["previous"], previous);
    let record = &inspected["operator"];
    assert_eq!(fields(record), ["act", "who", "why", "at"].into());
    let event = event("operate-force-release");
    for field in ["who", "why"] {
        assert_eq!(record[field], event[field]);
    }
    let request = json!({"key": "orders/80", "holder": "next", "ttl_seconds": 300});
    let next = functions.call("acquire", request).await.unwrap();
    assert_eq!(
        (&next["grant"], &next["previous"]),
        (&json!("takeover"), &previous)
    );
    assert!(next["lease"]["fencing_token"].as_u64() > answer["fencing_token"].as_u64());
    let log = functions.log("operate");
    let told = |field: &str| log.contains(event[field].as_str().unwrap());
    assert!(told("who") && told("why") && log.contains(HOLDER), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_frozen_until_it_is_unfrozen() {
    let functions = Functions::start().await;
    let call = async |name: &str| functions.event(name).await.unwrap();
    assert_eq!(
        call("operate-unfreeze").await,
        json!({"outcome": "not_frozen"})
    );
    assert_eq!(call("operate-freeze").await, json!({"outcome": "frozen"}));
    assert_eq!(
        call("operate-freeze").await,
        json!({"outcome": "already_frozen"})
    );
    let request = json!({"key": "orders/81", "holder": HOLDER, "ttl_seconds": 300});
    let (name, message) = functions.call("acquire", &request).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Frozen", &json!("orders/81"))
    );
    let text = message["message"].as_str().unwrap();
    assert!(
        text.contains("the partner is down until noon (night shift, "),
        "{text}"
    );
    let set = json!({"keys": ["orders/83", "orders/81"], "holder": HOLDER, "ttl_seconds": 300});
    assert_eq!(
        name_of(&functions.call("acquire", set).await),
        "Lease.Frozen"
    );
    let inspected = functions
        .call("inspect", json!({"key": "orders/81"}))
        .await
        .unwrap();
    assert_eq!(
        (&inspected["frozen"], &inspected["state"]),
        (&json!(true), &json!("free"))
    );
    assert_eq!(
        call("operate-unfreeze").await,
        json!({"outcome": "unfrozen"})
    );
    assert_eq!(
        functions.call("acquire", &request).await.unwrap()["grant"],
        "new"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floor_is_raised_unless_somebody_holds_the_key() {
    let functions = Functions::start().await;
    let lease = functions.acquire("orders/82", HOLDER, "1").await;
    let (name, message) = functions.event("operate-raise-floor").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["holder"]),
        ("Lease.Held", &json!(HOLDER))
    );
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let raised = functions.event("operate-raise-floor").await.unwrap();
    assert_eq!(raised, json!({"outcome": "raised"}));
    let again = functions.event("operate-raise-floor").await.unwrap();
    assert_eq!(again, json!({"outcome": "high_enough"}));
    let next = functions.acquire("orders/82", HOLDER, "2").await;
    assert!(next["fencing_token"].as_u64().unwrap() > 1_900_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_says_who_and_why() {
    let functions = Functions::start().await;
    functions.acquire("orders/80", HOLDER, "1").await;
    functions.stack.proxy().reset();
    let whole = event("operate-force-release");
    let with = |field: &str, value: Value| {
        let mut event = whole.clone();
        event[field] = value;
        event
    };
    let other = |field: &str, value: Value| {
        let mut event = event("operate-freeze");
        event[field] = value;
        event
    };
    let without = |field: &str| {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(field);
        event
    };
    for (event, field) in [
        (without("operation"), "operation"),
        (without("key"), "key"),
        (without("who"), "who"),
        (without("why"), "why"),
        (with("operation", json!("delete")), "operation"),
        (with("operation", json!(1)), "operation"),
        (with("key", json!("")), "key"),
        (with("who", json!("")), "who"),
        (with("who", json!("x".repeat(129))), "who"),
        (with("why", json!("")), "why"),
        (with("why", json!("a\nb")), "why"),
        (with("why", json!("x".repeat(513))), "why"),
        (with("permit", json!(-1)), "permit"),
        (with("permit", json!(1.5)), "permit"),
        (with("permit", json!(1000)), "permit"),
        (with("permit", json!(70_000)), "permit"),
        (with("permit", json!("hunter2")), "permit"),
        (with("fencing_token", json!("hunter2")), "fencing_token"),
        (other("permit", json!(1)), "permit"),
        (other("fencing_token", json!(1)), "fencing_token"),
        (with("floor", json!(5)), "floor"),
        (with("floor", json!(0)), "floor"),
        (with("lease", json!({})), "lease"),
    ] {
        let (name, message) = functions.call("operate", &event).await.unwrap_err();
        assert_eq!(
            (name.as_str(), message["field"].as_str()),
            ("Lease.Invalid", Some(field)),
            "{event}"
        );
        assert!(!message.to_string().contains("hunter2"), "{message}");
        assert!(!message.to_string().contains("u16"), "{message}");
    }
    assert_eq!(
        functions.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
}
