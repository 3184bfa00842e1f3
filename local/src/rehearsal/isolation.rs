//! Two stacks of one account whose names begin alike. Neither may do anything to the other's resources.

use std::collections::BTreeSet;
use std::path::Path;

use leasehold_local::{Error, Options, Stack};

use super::{options, read, write};

/// One name begins with the other, followed by a separator of words.
const NAMES: [&str; 2] = ["app", "app-2"];

/// What all stacks of an account share: the rule that notifies Step Functions of executions that others wait for.
const SHARED: &str = "rule/StepFunctionsGetEventsForStepFunctionsExecutionRule";

/// An act on a stack: an action, and the ARN of one of its resources.
type Deed = (String, String);

/// The acts that one of the two may do to the other under the policies of the template's roles, and how many acts were tried.
pub(super) async fn cross_stack_permissions(
    template: &Path,
    out: &Path,
) -> Result<(Vec<String>, usize), Error> {
    let [one, other] = NAMES;
    let one = open(template, out, one).await?;
    let other = open(template, out, other).await?;
    let mut wrong = Vec::new();
    let mut tried = 0;
    for (stack, victim) in [(&one, &other), (&other, &one)] {
        let deeds = deeds(victim);
        for role in stack.roles().allowed().keys() {
            tried += deeds.len();
            let done = deeds
                .iter()
                .filter(|(action, resource)| stack.roles().may(role, action, resource));
            wrong.extend(
                done.map(|(action, resource)| format!("{role} may {action} on {resource}")),
            );
        }
    }
    one.stop().await;
    other.stop().await;
    Ok((wrong, tried))
}

async fn open(template: &Path, out: &Path, name: &str) -> Result<Stack, Error> {
    let mut options = options(template, &out.join(name));
    // The resources of one stack's user do not belong to the other's.
    let work = format!("arn:aws:lambda:us-east-1:123456789012:function:{name}-work");
    let own = [
        ("StepFunctionArn", work),
        ("AccountsTableName", format!("{name}-accounts")),
    ];
    let own = own.map(|(parameter, value)| (parameter.to_owned(), value));
    options.parameters.extend(own);
    Stack::start(Options {
        engine: false,
        stack_name: name.to_owned(),
        ..options
    })
    .await
}

/// Seeds names that two stacks share, or that begin with only the stack's name. Each must be found.
pub(super) async fn seeded(template: &Path, out: &Path) -> Result<Vec<String>, Error> {
    let text = read(template)?;
    let mut missed = Vec::new();
    for (derived, shared) in [
        ("${AWS::StackName}_wrapped_", "wrapped-"),
        ("${AWS::StackName}_leasing_", "${AWS::StackName}-"),
    ] {
        let changed = text.replace(derived, shared);
        let file = write(&out.join("crossed.json"), &changed)?;
        if cross_stack_permissions(&file, out).await?.0.is_empty() {
            missed.push(format!("machines by the name of {shared} are not found"));
        }
    }
    Ok(missed)
}

/// All acts of the stack's roles, and of its callers: starting its machines and invoking its functions.
fn deeds(stack: &Stack) -> BTreeSet<Deed> {
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
            ("states:SendTaskSuccess", machine),
            ("states:DescribeExecution", execution.clone()),
            ("states:GetExecutionHistory", execution.clone()),
            ("states:StopExecution", execution),
        ]
        .map(|(action, arn)| (action.to_owned(), arn))
    });
    within.chain(functions).chain(machines).collect()
}
