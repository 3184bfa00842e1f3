//! What happens by itself, and who has to allow it: services that act for a function's role, and rules that reach functions and
//! queues by what these say themselves.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Need, Roles};
use crate::lambda::{ACCOUNT, REGION};
use crate::template::{Target, Template};

/// The managed rule by which Step Functions hears of the end of an execution that another one waits for. It makes sure that it
/// may have it when the state machine is created.
const MANAGED_RULE: &str = "rule/StepFunctionsGetEventsForStepFunctionsExecutionRule";
const BUS: &str = "events.amazonaws.com";

/// The ways that are closed, each as the service that finds it so would say it.
pub(super) fn closed(roles: &Roles, template: &Template) -> Vec<String> {
    if template.roles.is_empty() {
        return Vec::new();
    }
    let mut refused = Vec::new();
    let mut need = |role: Option<&str>, what: &str, action: &str, resource: &str| {
        let judged = match role {
            Some(role) => roles.need(role, Need::new(action, resource)),
            None => Err("nobody has given it a role".to_owned()),
        };
        refused.extend(judged.err().map(|error| format!("{what}: {error}")));
    };
    let role_of = |id: &str| {
        let mut functions = template.functions.iter();
        let function = functions.find(|function| function.logical_id == id);
        function.and_then(|function| function.role.as_deref())
    };
    for function in &template.functions {
        let Some(group) = &function.log_group else {
            continue;
        };
        let role = function.role.as_deref();
        let stream = format!("arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}:log-stream:a");
        for action in ["logs:CreateLogStream", "logs:PutLogEvents"] {
            need(role, &function.logical_id, action, &stream);
        }
    }
    for source in &template.streams {
        let (role, what) = (role_of(&source.function), &source.function);
        for action in [
            "DescribeStream",
            "GetRecords",
            "GetShardIterator",
            "ListStreams",
        ] {
            let action = format!("dynamodb:{action}");
            need(role, what, &action, &source.stream_arn);
        }
        if let Some(queue) = &source.dead_letters {
            need(role, what, "sqs:SendMessage", &queue_arn(queue));
        }
    }
    for source in &template.queue_sources {
        let (role, what) = (role_of(&source.function), &source.function);
        for action in ["DeleteMessage", "GetQueueAttributes", "ReceiveMessage"] {
            need(
                role,
                what,
                &format!("sqs:{action}"),
                &queue_arn(&source.queue),
            );
        }
    }
    for machine in &template.state_machines {
        let definition = machine.definition().unwrap_or_default();
        for function in named_functions(&definition) {
            let what = format!("{}, by its definition", machine.logical_id);
            need(
                Some(&machine.role),
                &what,
                "lambda:InvokeFunction",
                &function,
            );
        }
        if definition.contains(":states:startExecution.sync") {
            let rule = format!("arn:aws:events:{REGION}:{ACCOUNT}:{MANAGED_RULE}");
            for action in ["events:DescribeRule", "events:PutRule", "events:PutTargets"] {
                need(Some(&machine.role), &machine.logical_id, action, &rule);
            }
        }
    }
    for rule in &template.rules {
        for target in &rule.targets {
            let (action, resource) = match target {
                Target::Function(id) => ("lambda:InvokeFunction", function_arn(id)),
                Target::Queue(id) => ("sqs:SendMessage", queue_arn(id)),
            };
            refused.extend(uninvited(template, &rule.arn, action, &resource));
        }
        for queue in &rule.dead_letters {
            let queue = queue_arn(queue);
            refused.extend(uninvited(template, &rule.arn, "sqs:SendMessage", &queue));
        }
    }
    refused
}

/// The functions that a definition names as they are, in states that an execution may never get to.
fn named_functions(definition: &str) -> BTreeSet<String> {
    fn search(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| search(item, found)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match field.as_str() {
                        Some(arn) if name == "FunctionName" && arn.starts_with("arn:") => {
                            found.insert(arn.to_owned());
                        }
                        _ => search(field, found),
                    }
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    search(
        &serde_json::from_str(definition).unwrap_or_default(),
        &mut found,
    );
    found
}

/// What a rule is told that wants something of a resource that does not say so itself.
fn uninvited(template: &Template, rule: &str, action: &str, resource: &str) -> Option<String> {
    // SAM writes the permission of an event that stands with its function.
    let invited = rule.is_empty()
        || template.invitations.iter().any(|invitation| {
            invitation.principal == BUS
                && invitation.source == rule
                && invitation.allowed.covers(action, Some(resource))
        });
    (!invited).then(|| format!("{rule}: {BUS} is not authorized to perform: {action} on resource: {resource} because no resource-based policy allows the {action} action"))
}

fn function_arn(id: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{id}")
}

fn queue_arn(id: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{id}")
}
