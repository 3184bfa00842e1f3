//! The stack with every parameter at its default, with every parameter set, and with a role that lacks what it needs.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_local::{Options, Stack};
use leasehold_proof::fixture::{Fixture, scanned};
use serde_json::{Value, json};

use crate::{read, start, template};

/// Empty, as they are by default: a local stack would fill them in.
const SAMPLES: [(&str, &str); 2] = [("StepFunctionArn", ""), ("AccountsTableName", "")];

/// Values for every parameter that is empty or off by default. A local stack fills in those of the samples, and has no table of
/// another stack.
const EVERY: [(&str, &str); 23] = [
    ("AcquireConcurrency", "10"),
    ("AlarmTopicArn", "arn:aws:sns:us-east-1:123456789012:alarms"),
    ("DeletionProtection", "false"),
    (
        "DurableFunction",
        "arn:aws:lambda:us-east-1:123456789012:function:orders",
    ),
    ("ExtendConcurrency", "10"),
    ("InspectConcurrency", "1"),
    ("KmsKeyArn", "arn:aws:kms:us-east-1:123456789012:key/a"),
    (
        "LeasingStateMachine",
        "arn:aws:states:us-east-1:123456789012:stateMachine:orders",
    ),
    ("MachineLogging", "ERROR"),
    ("NamePrefix", "ours"),
    ("OperateConcurrency", "1"),
    (
        "PermissionsBoundaryArn",
        "arn:aws:iam::123456789012:policy/boundary",
    ),
    ("ReapConcurrency", "5"),
    ("ReapStatuses", "FAILED,TIMED_OUT,ABORTED"),
    ("ReleaseConcurrency", "10"),
    ("RunbookUrl", "https://wiki.example.com/leases"),
    ("SecurityGroupIds", "sg-1"),
    ("StartConcurrency", "10"),
    (
        "StartKeys",
        "orders/*=arn:aws:states:us-east-1:123456789012:stateMachine:orders",
    ),
    (
        "StartedStateMachine",
        "arn:aws:states:us-east-1:123456789012:stateMachine:orders,arn:aws:states:us-east-1:123456789012:stateMachine:bills*",
    ),
    ("SubnetIds", "subnet-1,subnet-2"),
    ("SweepConcurrency", "1"),
    ("Tracing", "Active"),
];

/// How many resources of each type the stack has with these parameters: it starts only if every reference resolves, and every service that acts
/// for a function, a machine or a rule may.
async fn resources(parameters: &[(&str, &str)]) -> BTreeMap<String, usize> {
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let started = Stack::start(Options {
        parameters: parameters.collect(),
        ..scanned()
    });
    let stack = started.await.unwrap_or_else(|error| panic!("{error}"));
    leasehold::table::check(&stack.dynamodb(), stack.tables()[0])
        .await
        .unwrap();
    let resources = stack.resources().into_iter();
    let resources = resources.map(|(kind, n)| (kind.to_owned(), n)).collect();
    stack.stop().await;
    resources
}

#[tokio::test]
async fn parameters_may_be_omitted_or_set() {
    let template: Value = serde_json::from_str(&template()).unwrap();
    let parameters = template["Parameters"].as_object().unwrap().iter();
    let empty = parameters.filter(|(_, parameter)| parameter["Default"] == "");
    let empty: BTreeSet<_> = empty.map(|(name, _)| name.as_str()).collect();
    let set = EVERY.iter().chain(&SAMPLES).map(|(name, _)| *name);
    let set: BTreeSet<_> = set.chain(["ExistingTableName"]).collect();
    assert!(empty.is_subset(&set), "not set: {:?}", &empty - &set);
    for (name, parameter) in template["Parameters"].as_object().unwrap() {
        let has = |field: &str| parameter.get(field).is_some();
        let is_explained = has("AllowedPattern") == has("ConstraintDescription");
        assert!(is_explained, "{name} does not say what it may be");
    }

    let written = |files: &[&str], conditions: Option<&[&str]>| {
        let mut kinds = BTreeMap::<String, usize>::new();
        for file in files {
            let template: Value = serde_json::from_str(&read(file)).unwrap();
            for resource in template["Resources"].as_object().unwrap().values() {
                let condition = resource["Condition"].as_str();
                if condition.is_none_or(|one| conditions.is_none_or(|all| all.contains(&one))) {
                    let kind = resource["Type"].as_str().unwrap();
                    *kinds.entry(kind.to_owned()).or_default() += 1;
                }
            }
        }
        kinds
    };
    let (core, monitoring) = ("local/template.json", "local/monitoring.json");
    let by_default: &[_] = &["CreatesTable", "IsMonitored"];
    let expected = written(&[core, monitoring], Some(by_default));
    assert_eq!(resources(&SAMPLES).await, expected, "nothing set");
    let expected = written(&[core, monitoring, "local/samples.json"], None);
    assert_eq!(resources(&EVERY).await, expected, "everything set");
}

/// What acquire needs for permits.
const NEEDED: &str = "dynamodb:Query";

#[tokio::test]
async fn role_lacking_permission_is_refused() {
    let mut changed: Value = serde_json::from_str(&template()).unwrap();
    let actions = "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action";
    let actions = changed.pointer_mut(actions).and_then(Value::as_array_mut);
    actions.unwrap().retain(|action| action != NEEDED);
    let directory = tempfile::tempdir().unwrap();
    let stack = start(&changed.to_string(), directory.path(), scanned()).await;
    let fixture = Fixture { stack };
    fixture.acquire("a/one", "a person", "1").await;
    assert_eq!(fixture.stack.roles().refused(), [""; 0]);
    let permit = json!({"key": "a/permit", "holder": "a person", "ttl_seconds": 60, "permits": 2});
    let (error, _) = fixture.call("acquire", permit).await.unwrap_err();
    assert_eq!(error, "Lease.Denied");
    let refused = fixture.stack.roles().refused().join("\n");
    let expected = format!("not authorized to perform: {NEEDED}");
    assert!(refused.contains(&expected), "{refused}");
}
