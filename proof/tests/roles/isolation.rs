//! Two stacks of one account whose names begin alike. Neither may do anything to the other's resources.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_local::{Options, Stack};
use leasehold_proof::fixture::scanned;

use crate::{start, template};

/// One name begins with the other, followed by a separator of words.
const NAMES: [&str; 2] = ["app", "app-2"];

/// What all stacks of an account share: the rule that notifies Step Functions of executions that others wait for.
const SHARED: &str = "rule/StepFunctionsGetEventsForStepFunctionsExecutionRule";

/// What the roles of each of two stacks of this template may do to the other stack.
async fn across(template: &str) -> Vec<String> {
    let [one, other] = [
        open(template, NAMES[0]).await,
        open(template, NAMES[1]).await,
    ];
    let mut across = Vec::new();
    for (stack, victim) in [(&one, &other), (&other, &one)] {
        for (action, resource) in actions(victim) {
            let roles = stack.roles().allowed().keys();
            let may = roles.filter(|role| stack.roles().may(role, &action, &resource));
            across.extend(may.map(|role| format!("{role} may {action} on {resource}")));
        }
    }
    one.stop().await;
    other.stop().await;
    across
}

async fn open(template: &str, name: &str) -> Stack {
    let directory = tempfile::tempdir().unwrap();
    // The resources of one stack's user do not belong to the other's.
    let work = format!("arn:aws:lambda:us-east-1:123456789012:function:{name}-work");
    let own = [
        ("StepFunctionArn", work),
        ("AccountsTableName", format!("{name}-accounts")),
    ];
    let own = own.map(|(parameter, value)| (parameter.to_owned(), value));
    let options = Options {
        parameters: BTreeMap::from(own),
        stack_name: name.to_owned(),
        ..scanned()
    };
    start(template, directory.path(), options).await
}

/// All that the stack's roles may do, and its callers: an action, and the ARN of one of the stack's resources.
fn actions(stack: &Stack) -> BTreeSet<(String, String)> {
    let allowed = stack.roles().allowed().values().flatten();
    let allowed = allowed.filter(|allowed| !allowed.resource.ends_with(SHARED));
    let within = allowed.map(|allowed| {
        let resource = allowed.resource.replace('*', "x");
        (allowed.action.clone(), resource)
    });
    let functions = stack.functions().functions().into_iter();
    let functions = functions.map(|function| ("lambda:InvokeFunction".to_owned(), function.arn()));
    let machines = stack.machines().into_iter();
    let machines = machines.flat_map(|machine| {
        let execution = machine.replace(":stateMachine:", ":execution:") + ":x";
        [
            ("states:StartExecution", machine.clone()),
            ("states:SendTaskSuccess", machine.clone()),
            ("states:ListExecutions", machine),
            ("states:DescribeExecution", execution.clone()),
            ("states:GetExecutionHistory", execution.clone()),
            ("states:StopExecution", execution),
        ]
        .map(|(action, arn)| (action.to_owned(), arn))
    });
    within.chain(functions).chain(machines).collect()
}

#[tokio::test]
async fn similarly_named_stacks_stay_apart() {
    assert_eq!(across(&template()).await, [""; 0]);
}

#[tokio::test]
async fn names_shared_by_stacks_are_found() {
    for (derived, shared) in [
        ("${AWS::StackName}_started_", "started-"),
        ("${AWS::StackName}_leasing_", "${AWS::StackName}-"),
    ] {
        let across = across(&template().replace(derived, shared)).await;
        assert!(!across.is_empty(), "machines by the name of {shared}");
    }
}
