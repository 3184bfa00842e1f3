//! The stack with every parameter at its default, with every parameter set, and with a role that lacks what it needs.

use leasehold_local::{Options, Stack};
use leasehold_proof::fixture::{Fixture, scanned};
use serde_json::{Value, json};

use crate::{start, template};

/// Empty, as they are by default: a local stack would fill them in.
const SAMPLES: [(&str, &str); 2] = [("StepFunctionArn", ""), ("AccountsTableName", "")];

/// Values for every parameter that is empty or off by default. A local stack fills in those of the samples.
const EVERY: [(&str, &str); 20] = [
    ("AcquireConcurrency", "10"),
    ("AlarmTopicArn", "arn:aws:sns:us-east-1:123456789012:alarms"),
    ("DeletionProtection", "false"),
    ("ExtendConcurrency", "10"),
    ("InspectConcurrency", "1"),
    ("KmsKeyArn", "arn:aws:kms:us-east-1:123456789012:key/a"),
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

/// How many resources the stack has with these parameters: it starts only if every reference resolves, and every service that acts
/// for a function, a machine or a rule may.
async fn resources(parameters: &[(&str, &str)]) -> usize {
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
    let resources = stack.resources().values().sum();
    stack.stop().await;
    resources
}

#[tokio::test]
async fn every_parameter_may_be_left_out_or_set() {
    let (none, all) = (resources(&SAMPLES).await, resources(&EVERY).await);
    assert!(
        none < all,
        "{none} resources without parameters, {all} with"
    );
}

/// What acquire needs for permits.
const NEEDED: &str = "dynamodb:Query";

#[tokio::test]
async fn a_role_without_a_right_that_it_needs_is_refused() {
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
