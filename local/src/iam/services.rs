//! The permissions that services need for a function's or a state machine's role, and those that rules need from a resource's own
//! policy. They are checked when the stack starts, because the local services never make these requests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Context, Need, Roles};
use crate::arn;
use crate::template::{Target, Template};

/// The managed rule by which Step Functions learns of the end of an execution that another one waits for. The service checks
/// the permission for it when the state machine is created.
const MANAGED_RULE: &str = "StepFunctionsGetEventsForStepFunctionsExecutionRule";
const BUS: &str = "events.amazonaws.com";

/// The missing permissions, each in the words of the service that would refuse. A template without roles has none.
pub(super) fn refused(roles: &Roles, template: &Template) -> Vec<String> {
    if template.roles.is_empty() {
        return Vec::new();
    }
    let definitions = template.state_machines.iter();
    let unreadable = definitions.filter_map(|machine| machine.definition().err());
    let mut refused: Vec<_> = unreadable.map(|error| error.to_string()).collect();
    for (what, role, need) in needs(template) {
        let judged = match role {
            Some(role) => roles.need(role, need),
            None => Err("nobody has given it a role".to_owned()),
        };
        refused.extend(judged.err().map(|error| format!("{what}: {error}")));
    }
    for rule in &template.rules {
        let targets = rule.targets.iter().map(|(target, _)| match target {
            Target::Function(id) => ("lambda:InvokeFunction", arn::function(id)),
            Target::Queue(id) => ("sqs:SendMessage", arn::queue(id)),
        });
        let dead_letters = rule.dead_letters.iter();
        let dead_letters = dead_letters.map(|id| ("sqs:SendMessage", arn::queue(id)));
        for (action, resource) in targets.chain(dead_letters) {
            let permitted = template.permissions.iter().any(|permission| {
                permission.principal == BUS
                    && permission.source == rule.arn
                    && permission
                        .allowed
                        .covers(action, Some(&resource), &Context::new())
            });
            if !permitted {
                let rule = &rule.arn;
                refused.push(format!("{rule}: {BUS} is not authorized to perform: {action} on resource: {resource} because no resource-based policy allows the {action} action"));
            }
        }
    }
    refused
}

/// A needed permission: a logical id, its role, and an action on a resource.
fn needs(template: &Template) -> Vec<(&str, Option<&str>, Need)> {
    let mut all = Vec::new();
    let mut add = |id, role, service: &str, actions: &[&str], resource: &str| {
        for action in actions {
            let need = Need::new(format!("{service}:{action}"), resource);
            all.push((id, role, need));
        }
    };
    let role_of = |id: &str| {
        let mut functions = template.functions.iter();
        functions.find(|f| f.logical_id == id)?.role.as_deref()
    };
    for function in &template.functions {
        if let Some(group) = &function.log_group {
            let stream = format!("{}:log-stream:a", arn::log_group(group));
            let actions = ["CreateLogStream", "PutLogEvents"];
            let role = function.role.as_deref();
            add(
                function.logical_id.as_str(),
                role,
                "logs",
                &actions,
                &stream,
            );
        }
    }
    for source in &template.queue_sources {
        let role = role_of(&source.function);
        let actions = ["DeleteMessage", "GetQueueAttributes", "ReceiveMessage"];
        add(
            &source.function,
            role,
            "sqs",
            &actions,
            &arn::queue(&source.queue),
        );
    }
    for machine in &template.state_machines {
        let (id, role) = (machine.logical_id.as_str(), Some(machine.role.as_str()));
        let definition = machine.definition().unwrap_or_default();
        for function in functions_in(&definition) {
            add(id, role, "lambda", &["InvokeFunction"], &function);
        }
        if definition.contains(":states:startExecution.sync") {
            let actions = ["DescribeRule", "PutRule", "PutTargets"];
            add(id, role, "events", &actions, &arn::rule(MANAGED_RULE));
        }
    }
    all
}

/// The functions that a definition names, even in states that no execution may reach.
fn functions_in(definition: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut values = vec![serde_json::from_str(definition).unwrap_or_default()];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match field {
                        Value::String(arn) if name == "FunctionName" && arn.starts_with("arn:") => {
                            found.insert(arn);
                        }
                        other => values.push(other),
                    }
                }
            }
            _ => {}
        }
    }
    found
}
