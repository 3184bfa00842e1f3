//! Small random definitions: one lease, and states that lead to one another.

use crate::random::{in_json_path, name, put};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The errors after which a function may still be running.
const MAY_RUN: [&str; 6] = [
    "States.Timeout",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
];
const ALL: [&str; 1] = ["States.ALL"];
/// The time left until `safe_until`.
const SAFE: &str = "{% ($left := $floor(($toMillis($lease.safe_until) - $millis()) / 1000); $left >= 1 ? $left) %}";

/// `Acquire` leads to the first of the states S0, S1, … `Release` leads to `Done`, and `GiveBack` to `Failed`. After `MayRun` the work
/// may still run. `Around`, if it is there, bypasses the acquire.
pub fn definitions() -> impl Strategy<Value = Value> {
    let ttl = prop::sample::select(vec![60_u64, 120, 300]);
    let head = (any::<bool>(), ttl, 1_u64..20, 0_u64..3, 1_usize..5);
    head.prop_flat_map(|(jsonata, ttl, limit, again, count)| {
        let inner: Vec<_> = (0..count).map(|nth| inner(nth, count, jsonata)).collect();
        let all = (stray(count, 3), stray(count, 9), inner);
        all.prop_map(move |(caught, around, inner)| {
            let request = json!({"key": "k", "holder": "{% $states.context.Execution.Id %}",
                "request_id": "{% $states.context.State.EnteredTime %}", "ttl_seconds": ttl});
            let asked = retry("Lease.Unavailable", again, 2, 1);
            let release = |next: &str| {
                let always = Some(next.to_owned());
                call("release", &handle(), 10, json!([]), &[(&ALL, always)], next)
            };
            let mut states = json!({
                "Acquire": call("acquire", &request, limit, asked, &[(&ALL, caught)], &name(0)),
                "Release": release("Done"),
                "GiveBack": release("Failed"),
                "Done": {"Type": "Succeed"},
                "Failed": {"Type": "Fail", "Error": "Failed"},
                "MayRun": {"Type": "Fail", "Error": "MayRun"},
            });
            for (nth, state) in inner.into_iter().enumerate() {
                states[name(nth)] = state;
            }
            let mut start = "Acquire";
            if let Some(to) = around {
                start = "Around";
                states[start] = choice(&[to], Some("Acquire".to_owned()));
            }
            let mut definition =
                json!({"QueryLanguage": "JSONata", "StartAt": start, "States": states});
            if !jsonata {
                in_json_path(&mut definition);
            }
            definition
        })
    })
}

/// A rare edge to any state.
fn stray(count: usize, seldom: u32) -> impl Strategy<Value = Option<String>> {
    let ends = vec!["Release", "GiveBack", "Failed", "Done"];
    prop_oneof![
        seldom => Just(None),
        1 => prop::sample::select(ends).prop_map(|end| Some(end.to_owned())),
        1 => (0..count).prop_map(|nth| Some(name(nth))),
    ]
}

/// A state in the middle, which usually leads to the next one.
fn inner(nth: usize, count: usize, jsonata: bool) -> impl Strategy<Value = Value> {
    let at = |name: &str| Just(name.to_owned());
    let maybe = |name: &str| Just(Some(name.to_owned()));
    let on = if nth + 1 == count {
        "Release".to_owned()
    } else {
        name(nth + 1)
    };
    let next = prop_oneof![
        12 => Just(on),
        2 => at("Release"),
        2 => (0..count).prop_map(name),
        1 => prop_oneof![at("Acquire"), at("Done"), at("GiveBack")],
    ];
    let all = prop_oneof![
        12 => maybe("GiveBack"),
        1 => Just(None),
        1 => maybe("Failed"),
        1 => (0..count).prop_map(|nth| Some(name(nth))),
    ];
    let timeout = prop_oneof![8 => maybe("MayRun"), 1 => Just(None)];
    let limit = prop_oneof![
        8 => (1_u64..60).prop_map(Value::from),
        1 => Just(Value::Null),
        if jsonata { 3 } else { 0 } => Just(Value::from(SAFE)),
    ];
    let lost = prop_oneof![8 => maybe("Failed"), 1 => Just(None), 1 => maybe("Acquire")];
    let aborted = prop_oneof![6 => maybe("MayRun"), 1 => Just(None)];
    let work = (
        limit,
        0_u64..3,
        1_u64..4,
        timeout,
        all.clone(),
        next.clone(),
    );
    let extend = (1_u64..20, 0_u64..2, lost, all, next.clone());
    let rules = prop::collection::vec(next.clone(), 1..3);
    let default = prop::option::weighted(0.9, next.clone());
    prop_oneof![
        5 => work.prop_map(|(limit, again, wait, timeout, all, next)| {
            let again = retry("Own.Error", again, wait, 2);
            step(limit, again, &[(&MAY_RUN, timeout), (&ALL, all)], &next)
        }),
        4 => extend.prop_map(|(limit, again, lost, all, next)| {
            let again = retry("Lease.Unavailable", again, 1, 2);
            call("extend", &handle(), limit, again, &[(&["Lease.Lost"], lost), (&ALL, all)], &next)
        }),
        2 => (1_u64..90, next.clone())
            .prop_map(|(seconds, next)| json!({"Type": "Wait", "Seconds": seconds, "Next": next})),
        2 => (rules, default).prop_map(|(rules, default)| choice(&rules, default)),
        1 => (1_u64..60, 1_u64..60, aborted, next).prop_map(|(left, right, all, next)| {
            let side = |at: &str, limit: u64| {
                let mut work = step(limit.into(), json!([]), &[], "");
                work["End"] = true.into();
                json!({"StartAt": at, "States": {at: work}})
            };
            let mut both = json!({"Type": "Parallel", "Output": "{% $states.input %}", "Next": next,
                "Branches": [side("Left", left), side("Right", right)]});
            put(&mut both, "Catch", catch(&[(&ALL, all)]));
            both
        }),
    ]
}

fn handle() -> Value {
    json!({"lease": "{% $lease %}"})
}

fn retry(error: &str, again: u64, wait: u64, rate: u64) -> Value {
    json!([{"ErrorEquals": [error], "MaxAttempts": again, "IntervalSeconds": wait, "BackoffRate": rate}])
}

/// Names of errors, and where they lead. Nowhere if nothing catches them.
type Caught<'a> = (&'a [&'a str], Option<String>);

fn catch(clauses: &[Caught<'_>]) -> Value {
    let clauses = clauses
        .iter()
        .filter_map(|(errors, to)| Some(json!({"ErrorEquals": errors, "Next": to.as_ref()?})));
    clauses.collect()
}

/// A function that works.
fn step(limit: Value, again: Value, caught: &[Caught<'_>], next: &str) -> Value {
    let mut task = json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": "step"}, "Output": "{% $states.input %}"});
    put(&mut task, "TimeoutSeconds", limit);
    put(&mut task, "Retry", again);
    put(&mut task, "Catch", catch(caught));
    task["Next"] = next.into();
    task
}

/// A call of one of the functions, whose result takes the place of the handle.
fn call(
    function: &str,
    payload: &Value,
    limit: u64,
    again: Value,
    caught: &[Caught<'_>],
    next: &str,
) -> Value {
    let mut call = step(limit.into(), again, caught, next);
    call["Arguments"] = json!({"FunctionName": function, "Payload": payload});
    call["Assign"] = json!({"lease": "{% $states.result.Payload.lease %}"});
    call
}

fn choice(rules: &[String], default: Option<String>) -> Value {
    let rule = |to: &String| json!({"Condition": "{% $states.input.x %}", "Next": to});
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let mut choice = json!({"Type": "Choice", "Choices": rules});
    put(&mut choice, "Default", default.into());
    choice
}
