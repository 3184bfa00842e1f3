//! Whether a function of a listed machine may run longer than leases are kept for it.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_asl::plain;
use serde_json::Value;

use super::account::{Account, CallError};
use super::report::Outcome;

/// A function runs 900 seconds at most, and an asynchronous invocation on Lambda Managed Instances this long.
const LONGEST: Duration = Duration::from_secs(5400);

/// Compares the time limits of the functions that these state machines call with the grace. `lists` are the ARNs of machines, of
/// which those with an asterisk name none.
pub(super) async fn of_grace(account: &Account, lists: &[&str], grace: Duration) -> Outcome {
    if grace >= LONGEST {
        return Outcome::of(Vec::new());
    }
    let mut functions = BTreeSet::new();
    for machine in machines(lists) {
        let describe = account.sfn.describe_state_machine();
        match describe.state_machine_arn(machine).send().await {
            Ok(described) => functions.extend(functions_of(described.definition())),
            Err(error) => match CallError::of("states:DescribeStateMachine", &error) {
                CallError::Missing => {}
                trouble => return trouble.outcome(&plain(machine)),
            },
        }
    }
    let mut found = Vec::new();
    for function in functions {
        let describe = account.lambda.get_function_configuration();
        match describe.function_name(&function).send().await {
            Ok(described) => found.extend(too_long(&function, described.timeout(), grace)),
            Err(error) => match CallError::of("lambda:GetFunctionConfiguration", &error) {
                CallError::Missing => {}
                trouble => return trouble.outcome(&plain(&function)),
            },
        }
    }
    Outcome::of(found)
}

/// The machines that a list names one by one. An entry of start's list may have a key before it.
fn machines<'a>(lists: &[&'a str]) -> BTreeSet<&'a str> {
    let entries = lists.iter().flat_map(|list| list.split(','));
    let arns = entries.map(|entry| entry.rsplit_once('=').map_or(entry, |(_, arn)| arn).trim());
    arns.filter(|arn| arn.contains(":stateMachine:") && !arn.contains('*'))
        .collect()
}

/// The functions that a definition names, in any of its states.
fn functions_of(definition: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<Value> = serde_json::from_str(definition).into_iter().collect();
    while let Some(node) = open.pop() {
        match node {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if is_function(&name, &text) => {
                            found.insert(text);
                        }
                        member => open.push(member),
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}

fn is_function(field: &str, text: &str) -> bool {
    match field {
        "FunctionName" => !text.starts_with("{%"),
        "Resource" => text.contains(":lambda:") && text.contains(":function:"),
        _ => false,
    }
}

fn too_long(function: &str, seconds: Option<i32>, grace: Duration) -> Option<String> {
    let limit = Duration::from_secs(seconds?.try_into().ok()?);
    let (limit, grace) = (limit.as_secs(), grace.as_secs());
    (limit > grace).then(|| {
        format!(
            "{} may run {limit} seconds, and the grace has {grace}",
            plain(function)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_one_by_one() {
        let machine = "arn:aws:states:us-east-1:123456789012:stateMachine:";
        let leasing = format!("{machine}one,{machine}two_*,,arn:aws:lambda:a:1:function:f");
        let starts = format!("orders/*={machine}three,*={machine}one");
        let expected = ["one", "three"].map(|name| format!("{machine}{name}"));
        let found = machines(&[&leasing, &starts]);
        assert!(found.into_iter().eq(&expected));
    }

    #[test]
    fn functions_are_found_in_every_state() {
        let definition = r#"{"States": {
            "A": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:direct"},
            "B": {"Type": "Parallel", "Branches": [{"States": {"C": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
                "Arguments": {"FunctionName": "named:1"}}}}]},
            "D": {"Type": "Task", "Parameters": {"FunctionName.$": "$.f"}},
            "E": {"Type": "Task", "Arguments": {"FunctionName": "{% $f %}"}}}}"#;
        let expected = [
            "arn:aws:lambda:us-east-1:123456789012:function:direct",
            "named:1",
        ];
        assert!(functions_of(definition).into_iter().eq(expected));
        assert!(functions_of("not JSON").is_empty());
    }

    #[test]
    fn a_longer_limit_is_told() {
        let grace = Duration::from_secs(900);
        assert_eq!(too_long("f", Some(900), grace), None);
        assert_eq!(too_long("f", None, grace), None);
        let told = too_long("f", Some(5400), grace);
        assert_eq!(
            told.as_deref(),
            Some("f may run 5400 seconds, and the grace has 900")
        );
    }
}
