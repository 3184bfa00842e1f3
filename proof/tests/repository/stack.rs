//! What the templates name exists, and what exists is in them. They are read as CloudFormation gets them: translated.

use crate::{Files, Rule, SeededEdit};
use serde_json::Value;
use std::collections::BTreeSet;

pub const TEMPLATE: &str = "local/template.json";
pub const MONITORING: &str = "local/monitoring.json";
pub const SAMPLES: &str = "local/samples.json";
const MACHINES: &str = "docs/reference/machines.md";
const OPERATORS: &str = "examples/operators/policy.json";
/// The stack's template, and those that it nests.
pub const TRANSLATED: [&str; 3] = [TEMPLATE, MONITORING, SAMPLES];

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "a directory of functions/ is a binary, a logical id and an event",
        functions,
        &[(TEMPLATE, "functions/sweep\"", "functions/sweeps\"")],
    ),
    (
        "a state machine's file is a resource with its name, and whatever lists the machines has it",
        machines,
        &[
            (TEMPLATE, "/with-lease.asl.json", "/with-leases.asl.json"),
            (TEMPLATE, "{Prefix}-observe\"", "{Prefix}-observes\""),
            (TEMPLATE, "\"TransferStateMachineArn\"", "\"TransferArn\""),
            (OPERATORS, "leasehold-semaphore:*", "leasehold-semaphores:*"),
            (
                MACHINES,
                "templates/statemachines/observe.asl",
                "templates/statemachines/observes.asl",
            ),
        ],
    ),
    (
        "a burst of events takes only as much concurrency as a parameter says",
        bursts,
        &[
            (TEMPLATE, "\"MaximumConcurrency\"", "\"MinimumConcurrency\""),
            (
                TEMPLATE,
                "\"Id\": \"reap\",\n      \"Arn\": {\n       \"Fn::GetAtt\": [\n        \"ReapQueue\"",
                "\"Id\": \"reap\",\n      \"Arn\": {\n       \"Fn::GetAtt\": [\n        \"ReapFunction\"",
            ),
        ],
    ),
];

/// The resources of the translated template and of those that it nests: logical id and resource.
pub fn resources(files: &Files) -> Vec<(String, Value)> {
    let mut resources: Vec<(String, Value)> = Vec::new();
    for file in TRANSLATED {
        let template: Value = serde_json::from_str(files.text(file)).unwrap_or_default();
        resources.extend(
            template["Resources"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
    }
    resources.sort_by(|one, other| one.0.cmp(&other.0));
    resources
}

pub fn of_type(files: &Files, kind: &str) -> Vec<(String, Value)> {
    let mut found = resources(files);
    found.retain(|(_, resource)| resource["Type"] == kind);
    found
}

/// A scalar as it is; a reference as what it leads to; anything else as JSON.
pub fn text(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.clone();
    }
    let only = value.as_object().filter(|fields| fields.len() == 1);
    match only.and_then(|fields| fields.iter().next()) {
        Some((name, Value::String(text))) if name == "Ref" || name == "Fn::Sub" => text.clone(),
        Some((name, Value::Array(path))) if name == "Fn::GetAtt" => {
            path.iter().map(text).collect::<Vec<_>>().join(".")
        }
        Some((name, Value::Array(parts))) if name == "Fn::Sub" => text(&parts[0]),
        _ => value.to_string(),
    }
}

fn functions(files: &Files) -> Vec<String> {
    let directories = files
        .all("functions/", "/Cargo.toml")
        .filter_map(|(path, _)| path.split('/').nth(1));
    let mut verbs: BTreeSet<&str> = directories.collect();
    let mut wrong = Vec::new();
    for (id, function) in of_type(files, "AWS::Lambda::Function") {
        let path = text(&function["Properties"]["Code"]["S3Key"]);
        let verb = path.trim_start_matches("functions/");
        let manifest = files.text(&format!("{path}/Cargo.toml"));
        let is_whole = verbs.remove(verb)
            && function["Metadata"]["BuildProperties"]["Binary"] == verb
            && manifest.contains(&format!("name = \"{verb}\""))
            && id.to_lowercase() == format!("{verb}function")
            && files
                .all(&format!("events/{verb}"), ".json")
                .next()
                .is_some();
        if !is_whole {
            wrong.push(format!(
                "{id}: directory, binary, logical id and event do not agree"
            ));
        }
    }
    wrong.extend(
        verbs
            .iter()
            .map(|verb| format!("functions/{verb}: not in the template")),
    );
    wrong
}

fn machines(files: &Files) -> Vec<String> {
    let mut paths: BTreeSet<&str> = files
        .all("templates/statemachines/", ".asl.json")
        .map(|(path, _)| path)
        .collect();
    let mut wrong = Vec::new();
    for (id, machine) in of_type(files, "AWS::StepFunctions::StateMachine") {
        let properties = &machine["Properties"];
        let path = text(&properties["DefinitionS3Location"]["Key"]);
        let name = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".asl.json");
        if !(paths.remove(path.as_str()) || path.starts_with("examples/"))
            || text(&properties["StateMachineName"]) != format!("${{Prefix}}-{name}")
        {
            wrong.push(format!(
                "{id}: {path} does not exist, is another one's or has another name"
            ));
        }
        // Written once in template.yaml, for the policy that looks up executions, LEASE_EXECUTIONS and the rule of reap.
        let list = format!("stateMachine:${{Prefix}}-{name}\"");
        let execution = format!("execution:leasehold-{name}:*\"");
        for (file, says) in [
            (TEMPLATE, list),
            (TEMPLATE, format!("\"{id}Arn\": {{")),
            (
                MACHINES,
                format!("drawn from ../../templates/statemachines/{name}.asl.json"),
            ),
            (OPERATORS, execution),
            (
                format!("proof/machines/{name}.yaml").as_str(),
                "cases:".to_owned(),
            ),
        ] {
            if !files.text(file).contains(&says) {
                wrong.push(format!("{id}: {file} does not say {says}"));
            }
        }
    }
    wrong.extend(
        paths
            .iter()
            .map(|path| format!("{path}: not in the template")),
    );
    wrong
}

/// A rule with a pattern delivers only to queues, and Lambda takes from those with a limit. A direct target would start an
/// invocation for each event, until the account has no concurrency left for extend.
fn bursts(files: &Files) -> Vec<String> {
    let queues = of_type(files, "AWS::SQS::Queue");
    let mut wrong = Vec::new();
    for (id, rule) in of_type(files, "AWS::Events::Rule") {
        let properties = &rule["Properties"];
        if properties["EventPattern"].is_null() {
            continue;
        }
        for target in properties["Targets"].as_array().into_iter().flatten() {
            let to = text(&target["Arn"]);
            if !queues.iter().any(|(queue, _)| to == format!("{queue}.Arn")) {
                wrong.push(format!("{id}: its target {to} is no queue"));
            }
        }
    }
    for (id, mapping) in of_type(files, "AWS::Lambda::EventSourceMapping") {
        let properties = &mapping["Properties"];
        let source = text(&properties["EventSourceArn"]);
        let limit = &properties["ScalingConfig"]["MaximumConcurrency"];
        if queues
            .iter()
            .any(|(queue, _)| source == format!("{queue}.Arn"))
            && limit.is_null()
        {
            wrong.push(format!("{id}: no limit for the batches from {source}"));
        }
    }
    wrong
}
