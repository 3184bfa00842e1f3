//! The corpus with one thing changed: each change makes a fault, or unmakes one.

mod without;

use leasehold_asl::{Options, Source, check};
use serde_json::{Value, json};
use std::path::Path;

/// A definition of the corpus with these fields set, or, where the value is null, taken out.
fn changed(file: &str, changes: &[(&str, Value)]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(file);
    let mut definition: Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (place, value) in changes {
        let (around, key) = place.rsplit_once('/').unwrap();
        let around = definition.pointer_mut(around).unwrap();
        if let Some(list) = around.as_array_mut() {
            list.insert(key.parse().unwrap(), value.clone());
        } else if value.is_null() {
            around.as_object_mut().unwrap().remove(key).unwrap();
        } else {
            around[key] = value.clone();
        }
    }
    definition
}

fn found(definition: &Value) -> Vec<String> {
    let source = Source::new("x.asl.json", definition.to_string());
    let checked = check(&source.read().unwrap(), &Options::default());
    let findings = checked.findings.iter();
    findings
        .map(|finding| format!("{} {}", finding.rule.id(), finding.state))
        .collect()
}

#[track_caller]
fn assert_found(file: &str, changes: &[(&str, Value)], expected: &[&str]) {
    assert_eq!(found(&changed(file, changes)), expected, "{changes:?}");
}

#[test]
fn a_request_has_to_be_the_same_only_if_it_is_repeated() {
    assert_found(
        "faulty/20-request-changes.asl.json",
        &[("/States/Acquire/Retry", Value::Null)],
        &[],
    );
    let request_id = ("/States/Acquire/Arguments/Payload/request_id", Value::Null);
    let smallest = "sound/01-smallest.asl.json";
    assert_found(
        smallest,
        std::slice::from_ref(&request_id),
        &["unstable-request Acquire"],
    );
    let refused_only = (
        "/States/Acquire/Retry",
        json!([{"ErrorEquals": ["Lease.Held"]}]),
    );
    assert_found(smallest, &[request_id, refused_only], &[]);
    // What is in it cannot be told.
    assert_found(
        smallest,
        &[(
            "/States/Acquire/Arguments/Payload",
            json!("{% $states.input %}"),
        )],
        &[],
    );
}

#[test]
fn waiting_has_to_end_before_the_history_does() {
    assert_found(
        "sound/03-in-line.asl.json",
        &[("/States/Acquire/TimeoutSeconds", Value::Null)],
        &["held-unbounded Acquire"],
    );
    let attempts = (
        "/States/Acquire/Retry",
        json!([{"ErrorEquals": ["Lease.Held"], "MaxAttempts": 9000, "MaxDelaySeconds": 5}]),
    );
    assert_found(
        "sound/01-smallest.asl.json",
        &[attempts],
        &["too-many-events Acquire"],
    );
}

#[test]
fn a_number_that_is_not_raised_counts_nothing() {
    let page = (
        "/States/Page/Output/page",
        json!("{% $states.result.Payload.pages + 1 %}"),
    );
    assert_found(
        "sound/04-counted-loop.asl.json",
        &[page],
        &["too-many-events Extend"],
    );
    let rounds = (
        "/States/More?/Choices/0",
        json!({"Condition": "{% $states.input.page < 9000 %}", "Next": "Page"}),
    );
    assert_found(
        "sound/04-counted-loop.asl.json",
        &[rounds],
        &["too-many-events Extend"],
    );
    let rows = (
        "/States/Last row?/Choices",
        json!([{"Variable": "$.count.rows", "NumericLessThan": 20, "Next": "Extend"}]),
    );
    let pages = (
        "/States/Last page?/Choices",
        json!([{"Variable": "$.count.pages", "NumericLessThan": 20, "Next": "Extend"}]),
    );
    assert_found(
        "sound/05-nested-loops.asl.json",
        &[rows, pages],
        &["too-many-events Extend", "unreachable Extend page"],
    );
}

#[test]
fn a_branch_that_keeps_a_lease_ends_with_the_one_beside_it() {
    let job = "/States/Guarded/Branches/0/States/Job";
    let round =
        [(&*format!("{job}/Next"), json!("Job"))].map(|(place, value)| (place.to_owned(), value));
    let round: Vec<(&str, Value)> = round
        .iter()
        .map(|(place, value)| (place.as_str(), value.clone()))
        .collect();
    assert_found(
        "sound/09-kept-alive.asl.json",
        &round,
        &["too-many-events Guarded / Extend"],
    );
    let unlimited = format!("{job}/TimeoutSeconds");
    assert_found(
        "sound/09-kept-alive.asl.json",
        &[(&unlimited, Value::Null)],
        &["too-many-events Guarded / Extend"],
    );
    // It goes on after the lease is lost, and so does the job.
    let catch = json!([{"ErrorEquals": ["Lease.Lost"], "Next": "Wait"}]);
    let place = "/States/Guarded/Branches/1/States/Extend/Catch";
    let found = found(&changed("sound/09-kept-alive.asl.json", &[(place, catch)]));
    assert!(
        found.contains(&"work-after-lost Guarded / Wait".to_owned()),
        "{found:?}"
    );
    // It ends, and the job goes on without.
    let end = [
        ("/States/Guarded/Branches/1/States/Extend/Next", Value::Null),
        ("/States/Guarded/Branches/1/States/Extend/End", json!(true)),
    ];
    assert_found(
        "sound/09-kept-alive.asl.json",
        &end,
        &["outlasts Guarded / Job"],
    );
}

#[test]
fn lost_is_retried_only_by_attempts() {
    let retrier = |attempts: u8| {
        (
            "/States/Confirm/Retry/0",
            json!({"ErrorEquals": ["Lease.Lost"], "MaxAttempts": attempts}),
        )
    };
    assert_found("sound/03-in-line.asl.json", &[retrier(0)], &[]);
    assert_found(
        "sound/03-in-line.asl.json",
        &[retrier(1)],
        &["lost-retried Confirm"],
    );
    let strict = [
        ("/States/Release/Arguments/Payload/strict", json!(true)),
        (
            "/States/Release/Retry",
            json!([{"ErrorEquals": ["States.ALL"]}]),
        ),
    ];
    assert_found(
        "sound/01-smallest.asl.json",
        &strict,
        &["lost-retried Release"],
    );
    assert_found("sound/01-smallest.asl.json", &strict[1..], &[]);
}

#[test]
fn a_result_beside_the_handle_leaves_it_alone() {
    let path = |path: &str| [("/States/First/ResultPath", json!(path))];
    let file = "sound/02-fixed-limits.asl.json";
    assert_found(file, &path("$.held.result"), &[]);
    assert_found(file, &path("$.held"), &["handle-overwritten First"]);
    assert_found(
        file,
        &path("$.held.lease.result"),
        &["handle-overwritten First"],
    );
    let filter = |path: &str| [("/States/First/OutputPath", json!(path))];
    assert_found(file, &filter("$.result"), &["handle-overwritten First"]);
    let count = [("/States/Count page/ResultPath", json!("$.held"))];
    assert_found(
        "sound/05-nested-loops.asl.json",
        &count,
        &["handle-overwritten Count page"],
    );
}

#[test]
fn a_handle_may_travel_with_the_data() {
    let all = [
        ("/States/Acquire/Assign", Value::Null),
        (
            "/States/Acquire/Output",
            json!("{% $states.result.Payload %}"),
        ),
        (
            "/States/Work/TimeoutSeconds",
            json!(
                "{% ($left := ($toMillis($states.input.lease.safe_until) - $millis()) / 1000; $left >= 1 ? $left) %}"
            ),
        ),
        (
            "/States/Work/Catch/1",
            json!({"ErrorEquals": ["States.ALL"], "Output": "{% $states.input %}", "Next": "GiveBack"}),
        ),
        (
            "/States/Release/Arguments/Payload/lease",
            json!("{% $states.input.lease %}"),
        ),
        (
            "/States/GiveBack/Arguments/Payload/lease",
            json!("{% $states.input.lease %}"),
        ),
        (
            "/States/Work/Output",
            json!("{% $merge([$states.input, {'result': $states.result.Payload}]) %}"),
        ),
    ];
    let file = "sound/01-smallest.asl.json";
    assert_found(file, &all, &[]);
    assert_found(file, &all[..6], &["handle-overwritten Work"]);
}

#[test]
fn a_function_is_ours_by_what_it_is_given_too() {
    let name = (
        "/States/Work/Arguments/FunctionName",
        json!("notify-of-release"),
    );
    assert_found("sound/01-smallest.asl.json", &[name], &[]);
}

#[test]
fn a_map_may_have_no_item_at_all() {
    let release = json!({
        "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 15, "End": true,
        "Arguments": {"FunctionName": "release", "Payload": {"lease": "{% $lease %}"}}
    });
    let changes = [
        ("/States/Each/ItemProcessor/States/Count", release),
        ("/States/Each/Next", Value::Null),
        ("/States/Each/End", json!(true)),
        ("/States/Release", Value::Null),
    ];
    assert_found(
        "sound/21-list-at-once.asl.json",
        &changes,
        &["no-release Each"],
    );
}

#[test]
fn a_branch_that_fails_aborts_the_others_and_not_itself() {
    let fails = (
        "/States/Both/Branches/0/States/Stock ends",
        json!({"Type": "Fail", "Error": "Stock.Out"}),
    );
    let mut definition = changed("sound/22-branches-with-their-own.asl.json", &[fails]);
    assert_eq!(found(&definition), ["aborted-siblings Both / Stock ends"]);
    definition["States"]["Both"]["Branches"]
        .as_array_mut()
        .unwrap()
        .pop();
    assert_eq!(found(&definition), [""; 0]);
}

#[test]
fn a_task_that_does_not_take_the_handle_may_run_after_the_release() {
    let payload = (
        "/States/Work/Arguments/Payload",
        json!("{% $states.input %}"),
    );
    assert_found("faulty/31-work-after-release.asl.json", &[payload], &[]);
}

#[test]
fn items_may_be_express_workflows_too() {
    let kind = (
        "/States/Each/ItemProcessor/ProcessorConfig/ExecutionType",
        json!("EXPRESS"),
    );
    assert_found(
        "sound/25-distributed.asl.json",
        &[kind],
        &["express Each / Acquire"],
    );
}

#[test]
fn what_is_not_confirmed_is_told_of_once() {
    let limit = ("/States/Work/TimeoutSeconds", json!(60));
    assert_found(
        "faulty/13-woken-and-not-confirmed.asl.json",
        &[limit],
        &["unconfirmed Work"],
    );
}

#[test]
fn a_job_that_nobody_catches_leaves_the_lease_behind() {
    let job = [
        (
            "/States/Work/Resource",
            json!("arn:aws:states:::glue:startJobRun.sync"),
        ),
        ("/States/Work/Catch", Value::Null),
        ("/States/GiveBack", Value::Null),
    ];
    assert_found("sound/01-smallest.asl.json", &job, &["no-release Work"]);
    let caught = [
        job[0].clone(),
        (
            "/States/Work/Catch/0",
            json!({"ErrorEquals": ["States.ALL"], "Next": "Release"}),
        ),
    ];
    assert_found(
        "sound/01-smallest.asl.json",
        &caught,
        &["unreachable GiveBack"],
    );
}

#[test]
fn a_state_without_what_it_is_made_of_is_malformed() {
    let definition = json!({"StartAt": "A", "States": {
        "A": {"Type": "Parallel", "Next": "B"},
        "B": {"Type": "Map", "Next": "C"},
        "C": {"Type": "Choice", "Choices": [], "Default": "D"},
        "D": {"Type": "Parallel", "Branches": [{"StartAt": "E", "States": {"E": {"Type": "Succeed"}}}], "End": true},
    }});
    assert_eq!(
        found(&definition),
        ["malformed A", "malformed B", "malformed C"]
    );
}
