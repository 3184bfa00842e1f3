//! The smallest stack, `templates/minimal.yaml`: its functions answer by the permissions of their roles and need each of them, and what the stack
//! does not offer is refused.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_local::Options;
use leasehold_proof::fixture::{Fixture, eventually, scanned};
use leasehold_proof::permissions::Permissions;
use serde_json::{Value, json};

use crate::{read, template};

const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:1";

/// The stack, in which an expired lease can be freed at once.
async fn fixture() -> Fixture {
    Fixture::with(Options {
        template: Some(leasehold_proof::root().join("local/minimal.json")),
        parameters: BTreeMap::from([("ClockMarginMs".to_owned(), "0".to_owned())]),
        ..scanned()
    })
    .await
}

fn resources(template: &str) -> Value {
    let mut whole: Value = serde_json::from_str(template).unwrap();
    whole["Resources"].take()
}

#[tokio::test]
async fn smallest_stack_needs_exactly_its_permissions() {
    let fixture = fixture().await;
    let call = async |verb: &str, event: Value| fixture.call(verb, event).await.unwrap();
    let acquire = |what: Value, id: &str| {
        let mut event = json!({"holder": "a person", "request_id": id, "ttl_seconds": 60});
        let fields = what.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(fields);
        event
    };

    // One key: granted, repeated, extended, observed by another holder, released twice.
    let one = acquire(json!({"key": "one"}), "1");
    let granted = call("acquire", one.clone()).await;
    assert_eq!(granted["grant"], "new");
    assert_eq!(call("acquire", one).await["grant"], "replayed");
    let extended = call("extend", json!({"lease": granted["lease"]})).await;
    let seen = json!({"key": "one", "holder": "another", "observed_version": 0, "if_held": "skip"});
    assert_eq!(call("acquire", acquire(seen, "2")).await["outcome"], "held");
    let release = json!({"lease": extended["lease"]});
    assert_eq!(
        call("release", release.clone()).await["outcome"],
        "released"
    );
    let again = call("release", release).await;
    assert_eq!(again["outcome"], "already_released");

    // Permits, and pace.
    let permit = json!({"key": "permit", "permits": 2, "at_least_seconds": 1});
    for id in ["1", "2"] {
        let granted = call("acquire", acquire(permit.clone(), id)).await;
        call("release", json!({"lease": granted["lease"]})).await;
    }

    // Several keys, of which the holder has one already.
    call("acquire", acquire(json!({"key": "b"}), "1")).await;
    let several = json!({"keys": ["a", "b"], "reentrant": true});
    let granted = call("acquire", acquire(several, "2")).await;
    let leases = json!({"leases": granted["leases"]});
    assert_eq!(granted["leases"].as_array().map(Vec::len), Some(2));
    let extended = call("extend", leases).await;
    call("release", json!({"leases": extended["leases"]})).await;

    // A holder that crashed.
    let crashed = json!({"key": "crashed", "ttl_seconds": 1.1});
    call("acquire", acquire(crashed, "1")).await;
    eventually("freed by sweep", async || {
        let swept = call("sweep", json!({})).await;
        assert!(swept.get("failed").is_none(), "{swept}");
        (swept["freed"] == 1).then_some(())
    })
    .await;

    leasehold::table::check(&fixture.stack.dynamodb(), fixture.table())
        .await
        .unwrap();
    let mut permissions = Permissions::default();
    permissions.add(fixture.stack.roles());
    assert_eq!(permissions.refused(&[]), [""; 0]);
    assert_eq!(permissions.idle(), [""; 0]);
    fixture.stack.stop().await;
}

#[tokio::test]
async fn smallest_stack_refuses_missing_features() {
    let fixture = fixture().await;
    let functions = fixture.stack.functions().functions().into_iter();
    // The sample work belongs to every local stack.
    let ours = functions.filter(|function| function.verb != "step");
    let ours: BTreeSet<_> = ours.map(|function| function.logical_id).collect();
    let shipped = ["Acquire", "Extend", "Release", "Sweep"].map(|verb| format!("{verb}Function"));
    assert_eq!(ours, shipped.into());

    let lasting = json!({"key": "k", "holder": EXECUTION, "lifetime": "execution"});
    let waiting = json!({"key": "k", "holder": EXECUTION, "task_token": "t", "wait_seconds": 60});
    // The queue is refused whether the key is free or held.
    for event in [&lasting, &waiting] {
        let (name, message) = fixture.call("acquire", event).await.unwrap_err();
        assert_eq!(name, "Lease.Invalid", "{message}");
        let message = message.to_string();
        assert!(message.contains("may not check"), "{message}");
    }
    assert!(fixture.item("k").await.is_none());
    fixture.acquire("k", EXECUTION, "1").await;
    let (name, _) = fixture.call("acquire", &waiting).await.unwrap_err();
    assert_eq!(name, "Lease.Invalid");
    assert_eq!(fixture.stack.roles().refused(), [""; 0]);
    fixture.stack.stop().await;
}

/// Deploying template.yaml to the same stack then changes its resources, and replaces or deletes none.
#[test]
fn smallest_stack_is_part_of_whole() {
    let (part, whole) = (
        resources(&read("local/minimal.json")),
        resources(&template()),
    );
    for (id, resource) in part.as_object().unwrap() {
        assert_eq!(resource["Type"], whole[id]["Type"], "{id}");
        let named = [
            "LogGroupName",
            "TableName",
            "KeySchema",
            "GlobalSecondaryIndexes",
        ];
        for name in named {
            let of = |all: &Value| all["Properties"][name].clone();
            assert_eq!(of(resource), of(&whole[id]), "{id} {name}");
        }
    }
    for name in ["DeletionPolicy", "UpdateReplacePolicy"] {
        assert_eq!(part["LeaseTable"][name], whole["LeaseTable"][name]);
    }
    let kept = [
        "BillingMode",
        "AttributeDefinitions",
        "TimeToLiveSpecification",
        "PointInTimeRecoverySpecification",
    ];
    for name in kept {
        let of = |all: &Value| all["LeaseTable"]["Properties"][name].clone();
        assert_eq!(of(&part), of(&whole), "{name}");
    }
}
