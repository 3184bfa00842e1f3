//! Two teams on one table, each with the functions and the role of examples/teams. Neither can reach the other's leases: its
//! functions refuse, and without their own check its role does.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_local::{Options, Stack};
use leasehold_proof::fixture::scanned;
use leasehold_proof::permissions::Permissions;
use serde_json::{Map, Value, json};

use crate::{read, start, template};

const EXAMPLE: &str = "examples/teams/template.yaml";
const VERBS: [&str; 5] = ["acquire", "extend", "release", "inspect", "operate"];
/// One name begins with the other.
const TEAMS: [(&str, &str); 2] = [("TeamA", "team"), ("TeamB", "team-b")];
const VARIABLES: [&str; 3] = ["LEASE_KEY_PREFIX", "LEASE_HOLDER_PREFIX", "LEASE_REENTRANT"];

/// The stack with both teams; without the functions' own boundary, the role has to refuse.
async fn teams(by_role: bool) -> Stack {
    let mut whole: Value = serde_json::from_str(&template()).unwrap();
    let example = read(EXAMPLE);
    for (id, team) in TEAMS {
        for (name, resource) in of_team(&example, id, team) {
            whole["Resources"][name] = resource;
        }
    }
    let open = VARIABLES.map(|name| (name.to_owned(), None));
    let without = BTreeMap::from([("*".to_owned(), open.into())]);
    let options = Options {
        environment: if by_role { without } else { BTreeMap::new() },
        ..scanned()
    };
    let directory = tempfile::tempdir().unwrap();
    start(&whole.to_string(), directory.path(), options).await
}

#[tokio::test]
async fn teams_functions_refuse_other_teams() {
    let stack = teams(false).await;
    cross(&stack, false).await;
    let mut permissions = Permissions::default();
    permissions.add(stack.roles());
    assert_eq!(permissions.refused(&[]), [""; 0]);
    let mut idle = permissions.idle();
    // Nobody waits in the queue here.
    let of_queue = ["dynamodb:DeleteItem", "states:SendTask"];
    idle.retain(|idle| {
        idle.starts_with("Team") && !of_queue.iter().any(|action| idle.contains(action))
    });
    assert_eq!(idle, [""; 0]);
}

#[tokio::test]
async fn teams_role_reaches_no_other_team() {
    cross(&teams(true).await, true).await;
}

/// One team uses its own leases, and is refused all of the other's.
async fn cross(stack: &Stack, by_role: bool) {
    let [(own, team), (_, other)] = TEAMS;
    let person = |team: &str, name: &str| {
        format!("arn:aws:states:us-east-1:123456789012:execution:{team}_{name}:1")
    };
    let acquire = |team: &str, name: &str| json!({"key": format!("{team}/{name}"), "holder": person(team, "job"), "request_id": name, "ttl_seconds": 600});
    let operate = |team: &str, operation: &str| json!({"key": format!("{team}/mine"), "operation": operation, "who": "a", "why": "b"});
    let limit = |team: &str| json!({"pool": format!("{team}/pool"), "operation": "limit", "permits": 2, "who": "a", "why": "b"});
    let pooled = |team: &str, of: &str| {
        json!({"key": format!("{team}/pooled"), "holder": person(team, "job"), "request_id": "pooled",
        "task_token": "t".repeat(32), "wait_seconds": 60, "pool": {"name": format!("{of}/pool"), "permits": 3}})
    };
    let mut leases = Vec::new();
    for (id, team) in TEAMS {
        let call = async |verb: &str, event: Value| {
            let function = function_of(id, verb);
            stack.functions().call(&function, &event).await.unwrap()
        };
        let granted = call("acquire", acquire(team, "mine")).await;
        let granted = call("extend", json!({"lease": granted["lease"]})).await;
        let keys = [format!("{team}/one"), format!("{team}/two")];
        let set = json!({"keys": keys, "holder": person(team, "job"), "request_id": "set", "ttl_seconds": 600});
        let set = call("acquire", set.clone()).await;
        call("release", json!({"leases": [set["leases"][1]]})).await;
        let mut permit = acquire(team, "permit");
        permit["permits"] = 2.into();
        call("acquire", permit).await;
        call("inspect", json!({"key": format!("{team}/mine")})).await;
        let listed = call("inspect", json!({"holder": person(team, "job")})).await;
        assert_eq!(
            listed["leases"].as_array().map(Vec::len),
            Some(3),
            "{id}: {listed}"
        );
        for operation in ["freeze", "unfreeze"] {
            call("operate", operate(team, operation)).await;
        }
        call("operate", limit(team)).await;
        let pool = json!({"pool": format!("{team}/pool")});
        assert_eq!(
            call("inspect", pool).await["lease"]["pool"],
            format!("{team}/pool")
        );
        leases.push(granted["lease"].clone());
    }
    let theirs = &leases[1];
    let mut as_if_own = acquire(other, "mine");
    as_if_own["holder"] = person(team, "job").into();
    let mut reentrant = acquire(other, "mine");
    reentrant["reentrant"] = true.into();
    reentrant["request_id"] = "another".into();
    for (verb, event) in [
        ("acquire", acquire(other, "mine")),
        ("acquire", as_if_own),
        ("acquire", reentrant),
        (
            "acquire",
            json!({"keys": [format!("{team}/x"), format!("{other}/x")], "holder": person(team, "job"), "ttl_seconds": 60}),
        ),
        ("extend", json!({"lease": theirs})),
        ("extend", json!({"leases": [leases[0], theirs]})),
        ("release", json!({"lease": theirs})),
        ("release", json!({"leases": [leases[0], theirs]})),
        ("inspect", json!({"key": format!("{other}/mine")})),
        ("inspect", json!({"holder": person(other, "job")})),
        ("inspect", json!({"list": true})),
        ("operate", operate(other, "freeze")),
        ("operate", operate(other, "force_release")),
        ("operate", operate(other, "raise_floor")),
        ("inspect", json!({"pool": format!("{other}/pool")})),
        ("operate", limit(other)),
        ("acquire", pooled(team, other)),
    ] {
        if by_role {
            is_refused(stack, own, verb, &event, "Lease.Denied", "").await;
        } else {
            is_refused(stack, own, verb, &event, "Lease.Invalid", "team").await;
        }
    }
    // None of these calls has changed anything.
    let extend = function_of(TEAMS[1].0, "extend");
    let kept = json!({"lease": theirs});
    stack.functions().call(&extend, &kept).await.unwrap();
    if by_role {
        return;
    }
    let mut beyond = acquire(team, "mine");
    beyond["holder"] = person(other, "job").into();
    let mut again = acquire(team, "mine");
    again["reentrant"] = true.into();
    for (event, said) in [(beyond, "LEASE_HOLDER_PREFIX"), (again, "LEASE_REENTRANT")] {
        is_refused(stack, own, "acquire", &event, "Lease.Invalid", said).await;
    }
}

fn function_of(team: &str, verb: &str) -> String {
    format!("{team}{}{}Function", verb[..1].to_uppercase(), &verb[1..])
}

/// A team's function refuses an event by this error, in words that contain these.
async fn is_refused(stack: &Stack, team: &str, verb: &str, event: &Value, name: &str, words: &str) {
    let function = function_of(team, verb);
    let event = event.to_string();
    let invoked = stack.functions().invoke(&function, &event).await.unwrap();
    let error = invoked.outcome.json().unwrap_err();
    let message = error["errorMessage"].to_string();
    assert!(
        error["errorType"] == name && message.contains(words),
        "{function} {event}: {error}"
    );
}

/// The example's resources for one team, as SAM would translate them, in the stack that they import from.
fn of_team(example: &str, id: &str, team: &str) -> Map<String, Value> {
    let text = example.replace("${Team}", team);
    let yaml: yaml_serde::Value = yaml_serde::from_str(&text).unwrap();
    // A tag is the only member of an object here.
    let example = serde_json::to_value(yaml).unwrap();
    let globals = &example["Globals"]["Function"];
    let mut all = Map::new();
    for (name, resource) in example["Resources"].as_object().into_iter().flatten() {
        let mut resource = resource.clone();
        if resource["Type"] == "AWS::Serverless::Function" {
            let own = &resource["Properties"];
            let code = own["CodeUri"].as_str().unwrap_or_default();
            let code = code.trim_start_matches("../");
            resource = json!({"Type": "AWS::Lambda::Function", "Properties": {
                "Code": {"S3Bucket": "bucket", "S3Key": code},
                "Environment": globals["Environment"],
                "LoggingConfig": globals["LoggingConfig"],
                "MemorySize": globals["MemorySize"],
                "Role": own["Role"],
                "Timeout": globals["Timeout"],
            }});
        }
        all.insert(name.clone(), resource);
    }
    let verbs: BTreeSet<_> = VERBS.map(|verb| format!("functions/{verb}")).into();
    let found = all
        .values()
        .filter_map(|resource| resource["Properties"]["Code"]["S3Key"].as_str());
    assert_eq!(found.map(str::to_owned).collect::<BTreeSet<_>>(), verbs);
    let mut text = Value::Object(all).to_string();
    for (written, meant) in [
        (r#"{"!Ref":"TableName"}"#, r#"{"Ref":"LeaseTable"}"#),
        ("${TableName}", "${LeaseTable}"),
        (r#""!Ref""#, r#""Ref""#),
        (r#""!Sub""#, r#""Fn::Sub""#),
        (
            r#"{"!GetAtt":"TeamRole.Arn"}"#,
            r#"{"Fn::GetAtt":["TeamRole","Arn"]}"#,
        ),
        (
            r#"{"!GetAtt":"TeamLogs.Arn"}"#,
            r#"{"Fn::GetAtt":["TeamLogs","Arn"]}"#,
        ),
        (r#""Team"#, &format!("\"{id}")),
        ("${AWS::StackName}", team),
    ] {
        text = text.replace(written, meant);
    }
    serde_json::from_str(&text).unwrap()
}
