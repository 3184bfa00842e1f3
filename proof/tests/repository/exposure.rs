//! What is open to whom, as one text that a person reviews: every permission, everything that starts a function, and what
//! keeps the data. `exposure.txt` is that text; a change of the template that changes it shows there line by line.

use crate::stack::{SAMPLES, TEMPLATE, TRANSLATED, resources, text};
use crate::{Files, Rule, SeededEdit};
use serde_json::{Value, json};
use std::fmt::Write;

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "exposure is what was reviewed; if it may change, run: UPDATE_EXPOSURE=1 cargo test -p leasehold-proof --test repository",
        reviewed,
        &[
            (TEMPLATE, "\"dynamodb:UpdateItem\"", "\"dynamodb:*\""),
            (SAMPLES, "\"dynamodb:ConditionCheckItem\"", "\"dynamodb:*\""),
            (TEMPLATE, "lambda.amazonaws.com", "states.amazonaws.com"),
            (TEMPLATE, "\"SSEEnabled\": true", "\"SSEEnabled\": false"),
        ],
    ),
    (
        "an action is one action, and a resource that ends in an asterisk has a reason",
        asterisks,
        &[
            (
                TEMPLATE,
                "\"dynamodb:UpdateItem\"",
                "\"dynamodb:Update?tem\"",
            ),
            (
                TEMPLATE,
                "stateMachine:${AWS::StackName}_started_*",
                "stateMachine:${AWS::StackName}-*",
            ),
            (TEMPLATE, "\"xray:PutTraceSegments\"", "\"dynamodb:Scan\""),
            (
                "template.yaml",
                ":stateMachine:[a-zA-Z0-9_-]+\\\\*?)$\"",
                ":stateMachine:[a-zA-Z0-9_*-]+)$\"",
            ),
        ],
    ),
];

const REVIEWED: &str = "proof/tests/repository/exposure.txt";

/// What of a resource says how long its data stays, and who can read it.
const KEEPING: [&str; 9] = [
    "DeletionProtectionEnabled",
    "FunctionUrlConfig",
    "KmsKeyId",
    "KmsMasterKeyId",
    "PointInTimeRecoverySpecification",
    "RetentionInDays",
    "SSESpecification",
    "SqsManagedSseEnabled",
    "TracingConfig",
];

/// What starts something: a queue, a rule, a permission; who it acts as; and what a nested stack is given.
const STARTING: [&str; 11] = [
    "Action",
    "EventSourceArn",
    "FunctionName",
    "ManagedPolicyArns",
    "Parameters",
    "PermissionsBoundary",
    "Principal",
    "Role",
    "RoleArn",
    "SourceArn",
    "Targets",
];

/// Why a resource may end in an asterisk, by its prefix. An execution's may too, since it has no name before it runs.
const REASONS: [(&str, &str); 2] = [
    (
        "${AWS::StackName}_leasing_",
        "no other stack's name has an underscore there",
    ),
    (
        "${AWS::StackName}_started_",
        "no other stack's name has an underscore there",
    ),
];

/// With these actions, IAM knows no other resource than all. None is allowed with default parameters.
const ON_EVERYTHING: [&str; 3] = [
    "xray:PutTelemetryRecords, xray:PutTraceSegments on *",
    "ec2:AssignPrivateIpAddresses, ec2:CreateNetworkInterface, ec2:DeleteNetworkInterface, ec2:DescribeNetworkInterfaces, \
     ec2:DescribeSubnets, ec2:UnassignPrivateIpAddresses on *",
    "logs:CreateLogDelivery, logs:DeleteLogDelivery, logs:DescribeLogGroups, logs:DescribeResourcePolicies, \
     logs:GetLogDelivery, logs:ListLogDeliveries, logs:PutResourcePolicy, logs:UpdateLogDelivery on *",
];

fn reviewed(files: &Files) -> Vec<String> {
    let found = exposure(files);
    if std::env::var_os("UPDATE_EXPOSURE").is_some() {
        let path = leasehold_proof::root().join(REVIEWED);
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&found)
            && TRANSLATED
                .iter()
                .all(|file| files.text(file) == on_disk(file))
        {
            std::fs::write(path, &found).unwrap();
        }
    }
    let reviewed = files.text(REVIEWED);
    let more = found
        .lines()
        .filter(|line| !reviewed.lines().any(|known| known == *line));
    let less = reviewed
        .lines()
        .filter(|line| !found.lines().any(|known| known == *line));
    let mut wrong: Vec<String> = more.map(|line| format!("new: {line}")).collect();
    wrong.extend(less.map(|line| format!("gone: {line}")));
    if wrong.is_empty() && found != reviewed {
        wrong.push(format!(
            "{REVIEWED}: the same lines in another order or number"
        ));
    }
    wrong
}

fn on_disk(file: &str) -> String {
    std::fs::read_to_string(leasehold_proof::root().join(file)).unwrap_or_default()
}

fn exposure(files: &Files) -> String {
    let mut out = String::new();
    for (id, resource) in resources(files) {
        let properties = &resource["Properties"];
        write!(out, "{id}: {}", text(&resource["Type"])).unwrap();
        if let Some(condition) = resource["Condition"].as_str() {
            write!(out, " if {condition}").unwrap();
        }
        writeln!(out).unwrap();
        if !resource["DeletionPolicy"].is_null() {
            let (deleted, replaced) = (
                text(&resource["DeletionPolicy"]),
                text(&resource["UpdateReplacePolicy"]),
            );
            writeln!(
                out,
                "  {id} when deleted: {deleted}, when replaced: {replaced}"
            )
            .unwrap();
        }
        for name in KEEPING.iter().chain(&STARTING) {
            if !properties[*name].is_null() {
                writeln!(out, "  {id} {name} {}", text(&properties[*name])).unwrap();
            }
        }
        let mut found = Vec::new();
        statements(properties, &mut found);
        for line in found {
            writeln!(out, "  {id} {line}").unwrap();
        }
    }
    out
}

/// Every statement of every policy below, however deep.
fn statements(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| statements(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "Statement" {
                    found.extend(list(value).iter().map(statement));
                } else {
                    statements(value, found);
                }
            }
        }
        _ => {}
    }
}

/// `if HasKmsKey: allows kms:Decrypt on KmsKeyArn` and whatever else it says.
fn statement(value: &Value) -> String {
    if let Some([condition, then, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice)
        && text(otherwise) == "AWS::NoValue"
    {
        return format!("if {}: {}", text(condition), statement(then));
    }
    let said = |name: &str| {
        list(&value[name])
            .iter()
            .map(place)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let verb = if value["Effect"] == "Allow" {
        "allows".to_owned()
    } else {
        text(&value["Effect"])
    };
    let mut line = format!("{verb} {} on {}", said("Action"), said("Resource"));
    for (name, other) in value.as_object().into_iter().flatten() {
        if !["Action", "Effect", "Resource"].contains(&name.as_str()) {
            write!(line, " {name} {other}").unwrap();
        }
    }
    line
}

/// As [`text`]; of a choice both sides.
fn place(value: &Value) -> String {
    if let Some([condition, then, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice) {
        let (then, otherwise) = (place(then), place(otherwise));
        return format!("{then} if {}, else {otherwise}", text(condition));
    }
    // Those of a prefix, and those that a parameter adds.
    if value["Fn::Split"][0] == "," && value["Fn::Split"][1]["Fn::Join"][0] != "" {
        return names(&value["Fn::Split"][1]).join(", ");
    }
    let machines = &value["Fn::Split"][1]["Fn::Join"][1][0]["Fn::Join"][1]["Fn::Split"][1];
    let parameter = &machines["Fn::Join"][1];
    // From the ARNs of state machines to those of their executions.
    for (end, what) in [(":*", "executions"), ("/*:*", "items of Distributed Maps")] {
        let executions = json!({"Fn::Split": [",", {"Fn::Join": ["", [
            {"Fn::Join": [":execution:", {"Fn::Split": [":stateMachine:", {"Fn::Join": [format!("{end},"), parameter]}]}]},
            end,
        ]]}]});
        match parameter.as_array() {
            _ if *value != executions => {}
            None if parameter["Fn::Split"][0] == "," => {
                let all = names(&parameter["Fn::Split"][1]).into_iter();
                return all
                    .map(|name| of(&name, what, end))
                    .collect::<Vec<_>>()
                    .join(", ");
            }
            // Of a list that the template writes out, each.
            Some(machines) => {
                let all = machines.iter().map(|machine| {
                    let arn = text(machine).replace(":stateMachine:", ":execution:");
                    format!("{arn}{end}")
                });
                return all.collect::<Vec<_>>().join(", ");
            }
            None => return format!("{what} of {}", text(parameter)),
        }
    }
    // What belongs to each of a list of ARNs: of state machines, and of durable functions without a version.
    let parameter = &value["Fn::Split"][1]["Fn::Join"][1][0]["Fn::Join"][1];
    for (end, what) in [("/*", "Distributed Maps"), (":*", "durable executions")] {
        let each = json!({"Fn::Split": [",", {"Fn::Join": ["", [{"Fn::Join": [format!("{end},"), parameter]}, end]]}]});
        if *value == each {
            let all = match &parameter["Fn::Split"][1] {
                Value::Null => vec![text(parameter)],
                listed => names(listed),
            };
            return all
                .iter()
                .map(|name| of(name, what, end))
                .collect::<Vec<_>>()
                .join(", ");
        }
    }
    text(value)
}

/// The names in a text with commas: of a choice both sides, where they differ.
fn names(value: &Value) -> Vec<String> {
    if let Some([condition, then, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice) {
        let (mut all, others) = (names(then), names(otherwise));
        let bare = |other: &String| other.trim_start_matches("else ").to_owned();
        let (both, others): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|other| all.contains(&bare(other)));
        // What both sides have stands first.
        let also = all.split_off(both.len());
        let also = also
            .iter()
            .map(|name| format!("{name} if {}", text(condition)));
        let also: Vec<_> = also.collect();
        let rest: Vec<_> = others
            .iter()
            .map(|other| format!("else {}", bare(other)))
            .collect();
        return [all, also, rest].concat();
    }
    match value["Fn::Join"].as_array().map(Vec::as_slice) {
        Some([comma, Value::Array(parts)]) if comma == "," => {
            parts.iter().flat_map(names).collect()
        }
        Some([comma, list]) if comma == "," => vec![text(list)],
        _ => vec![text(value)],
    }
}

/// What belongs to a name: its executions, for example.
fn of(name: &str, what: &str, end: &str) -> String {
    let (first, condition) = name.split_once(" if ").unwrap_or((name, ""));
    let belongs = if first.contains("arn:") {
        first.replace(
            ":stateMachine:",
            if end == "/*" {
                ":stateMachine:"
            } else {
                ":execution:"
            },
        ) + end
    } else {
        format!("{what} of {first}")
    };
    match condition {
        "" => belongs,
        condition => format!("{belongs} if {condition}"),
    }
}

pub fn list(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

fn asterisks(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in exposure(files)
        .lines()
        .filter(|line| line.contains(" allows "))
    {
        let (_, grant) = line.split_once(" allows ").unwrap_or_default();
        let (actions, rest) = grant.split_once(" on ").unwrap_or_default();
        let where_to = rest.split(" Principal ").next().unwrap_or_default();
        let has_reason = where_to.split(", ").all(|resource| {
            let resource = resource.strip_prefix("else ").unwrap_or(resource);
            // Whoever deploys with an asterisk allows looks and answers by it, and nothing that starts or stops.
            if resource.ends_with(" if LeasingIsAll") {
                return !["Start", "Stop"].iter().any(|act| actions.contains(act));
            }
            let machine = resource.strip_suffix(":*").unwrap_or(resource);
            let before = machine.strip_suffix('*').unwrap_or(machine);
            !before.contains(['*', '?'])
                && (before == machine || REASONS.iter().any(|(end, _)| before.ends_with(end)))
        });
        if actions.contains(['*', '?']) || !(has_reason || ON_EVERYTHING.contains(&grant)) {
            wrong.push(line.trim().to_owned());
        }
    }
    // A parameter of a name may end in one, never before the first letter.
    let patterns = files
        .text("template.yaml")
        .matches(":[a-zA-Z0-9_-]+\\\\*?)$\"")
        .count();
    if patterns != 4 {
        wrong.push(format!(
            "{patterns} of 4 parameters that may end in an asterisk begin with a letter"
        ));
    }
    wrong
}
