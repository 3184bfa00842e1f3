//! Which errors of a step the written clauses tell apart: those after which it may still be running.

use leasehold_asl::weave::{Spec, weave};
use leasehold_asl::{Options, Source};
use serde_json::{Value, json};

const LAMBDA: [&str; 6] = [
    "States.Timeout",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
];

fn task(resource: &str) -> Value {
    json!({"Type": "Task", "Resource": resource, "TimeoutSeconds": 30, "Arguments": {"FunctionName": "f"}, "End": true})
}

fn around(task: &Value) -> Value {
    json!({"Type": "Parallel", "Branches": [{"StartAt": "B", "States": {"B": task}}], "End": true})
}

/// The names of each clause, and the last word of the state that it leads to.
fn clauses(step: &Value) -> Vec<(Vec<String>, String)> {
    let mut machine = json!({"QueryLanguage": "JSONata", "StartAt": "A", "States": {"A": step}});
    if step["Catch"].is_array() {
        machine["States"]["E"] = json!({"Type": "Succeed"});
    }
    let source = Source::new("m.json", machine.to_string());
    let spec = "machine: m\nsections:\n  - {states: [A], key: k, ttl_seconds: 300, name: S}\n";
    let spec = Spec::read(&Source::new("s.yaml", spec)).unwrap();
    let woven = weave(&source, &spec, &Options::default()).unwrap();
    let woven: Value = serde_json::from_str(&woven).unwrap();
    let clauses = woven["States"]["A"]["Catch"].as_array().unwrap().iter();
    clauses
        .map(|clause| {
            let names = clause["ErrorEquals"].as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().to_owned());
            let next = clause["Next"].as_str().unwrap().trim_start_matches('S');
            (names.collect(), next.to_owned())
        })
        .collect()
}

#[test]
fn clause_names_what_step_raises() {
    let states = "arn:aws:states:::";
    let (none, timeout): (&[&str], &[&str]) = (&[], &LAMBDA[..1]);
    let cases = [
        (task(&format!("{states}lambda:invoke")), &LAMBDA[..]),
        (task("arn:aws:states:eu-west-1:1:activity:a"), timeout),
        (task(&format!("{states}ecs:runTask.sync")), timeout),
        (task(&format!("{states}dynamodb:putItem")), timeout),
        (task(&format!("{states}dynamodb:getItem")), none),
        (
            around(&task(&format!("{states}lambda:invoke"))),
            &LAMBDA[..],
        ),
        (
            around(&task("arn:aws:states:eu-west-1:1:activity:a")),
            timeout,
        ),
        (around(&task(&format!("{states}ecs:runTask.sync"))), timeout),
        (around(&task(&format!("{states}dynamodb:putItem"))), timeout),
        (around(&task(&format!("{states}dynamodb:getItem"))), none),
    ];
    for (step, open) in cases {
        let found = clauses(&step);
        let of = |to: &str| {
            let mut found = found.iter().filter(|(_, next)| next == to);
            found.find_map(|(names, _)| {
                (names[0] != "States.DataLimitExceeded").then(|| names.clone())
            })
        };
        assert_eq!(of("tepMayRun").unwrap_or_default(), open, "{step}");
        assert_eq!(of("ReleaseAfterFailure").unwrap(), ["States.ALL"], "{step}");
    }
}

#[test]
fn express_that_did_not_start_is_over() {
    let mut step = task("arn:aws:states:::aws-sdk:sfn:startSyncExecution");
    let of = |found: &[(Vec<String>, String)], name: &str| {
        let mut found = found.iter();
        found
            .find_map(|(names, next)| (names[0] == name).then(|| next.clone()))
            .unwrap()
    };
    let found = clauses(&step);
    assert_eq!(
        of(&found, "States.QueryEvaluationError"),
        "ReleaseAfterFailure"
    );
    assert_eq!(of(&found, "States.ALL"), "RunOut");
    step["Catch"] = json!([{"ErrorEquals": ["States.QueryEvaluationError"], "Next": "E"}, {"ErrorEquals": ["States.ALL"], "Next": "E"}]);
    let found = clauses(&step);
    assert_eq!(of(&found, "States.QueryEvaluationError"), "GiveBackThenE");
    assert_eq!(of(&found, "States.ALL"), "LeaveThenE");
}
