//! What has a lease on one path, and on another one none.

use super::{assert_found, found};
use serde_json::{Value, json};

#[test]
fn whatever_error_of_the_acquire_leads_to_the_work_it_has_no_lease() {
    for error in [
        "Lease.Held",
        "Lease.Frozen",
        "Lease.Consumed",
        "Lease.Unavailable",
        "Lambda.Unknown",
        "States.Timeout",
        "States.TaskFailed",
        "States.ALL",
    ] {
        let catch = json!([{"ErrorEquals": [error], "Next": "Work"}]);
        assert_found(
            "sound/01-smallest.asl.json",
            &[("/States/Acquire/Catch", catch)],
            &["without-lease Work"],
        );
    }
    // What only looks needs no lease; the release behind it does.
    let look = (
        "/States/Work/Resource",
        json!("arn:aws:states:::dynamodb:getItem"),
    );
    assert_found(
        "faulty/40-work-although-refused.asl.json",
        &[look],
        &[
            "without-lease GiveBack",
            "without-lease Release",
            "no-release StepMayRun",
        ],
    );
}

#[test]
fn the_lease_around_is_not_the_one_that_was_refused() {
    // The inner lease's release, on a path that has the outer one alone.
    let back = ("/States/Acquire order/Catch/0/Next", json!("GiveBack"));
    assert_found(
        "sound/10-section-in-section.asl.json",
        &[back],
        &["without-lease GiveBack"],
    );
}

#[test]
fn a_lease_that_is_asked_for_again_is_still_there_when_that_fails() {
    let caught = (
        "/States/Acquire/Catch",
        json!([{"ErrorEquals": ["States.ALL"], "Next": "Had?"}]),
    );
    let had = (
        "/States/Had?",
        json!({"Type": "Choice", "Choices": [{"Condition": "{% $exists($lease) %}", "Next": "GiveBack"}], "Default": "Failed"}),
    );
    let again = ("/States/Acquire/Arguments/Payload/reentrant", json!(true));
    let file = "faulty/04-acquired-again.asl.json";
    // What a Choice looks at is not known: nothing is had at the first time, and at the second it would have to be given back.
    assert_found(
        file,
        &[caught, had, again],
        &["no-release Failed", "without-lease GiveBack"],
    );
}

#[test]
fn an_outcome_that_is_not_there_is_none() {
    let granted = |condition: &str, next: &str, default: &str| json!({"Type": "Choice", "Choices": [{"Condition": condition, "Next": next}], "Default": default});
    let file = "sound/28-failure-is-busy.asl.json";
    for (condition, next, default, expected) in [
        (
            "{% $states.input.outcome != 'acquired' %}",
            "Busy",
            "Work",
            &[][..],
        ),
        (
            "{% $states.input.outcome != 'held' %}",
            "Work",
            "Busy",
            &["without-lease Work"],
        ),
        (
            "{% $states.input.outcome = 'held' %}",
            "Busy",
            "Work",
            &["without-lease Work"],
        ),
    ] {
        let changes = [
            ("/States/Granted?", granted(condition, next, default)),
            ("/States/Later", Value::Null),
        ];
        assert_found(file, &changes, expected);
    }
}

#[test]
fn items_may_take_leases_for_what_comes_after_them() {
    let call = |function: &str, payload: Value| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 10, "End": true,
            "Parameters": {"FunctionName": function, "Payload": payload}})
    };
    let each = |state: Value, next: &str| {
        json!({"Type": "Map", "MaxConcurrency": 1, "ResultPath": "$.held", "Next": next,
            "ItemProcessor": {"StartAt": "One", "States": {"One": state}}})
    };
    let request = json!({"key.$": "$", "holder.$": "$$.Execution.Id", "ttl_seconds": 600,
        "request_id.$": "States.Format('{}/{}', $$.State.EnteredTime, $$.Map.Item.Index)"});
    let definition = json!({"StartAt": "Take", "States": {
        "Take": each(call("acquire", request), "Work"),
        "Work": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 60, "ResultPath": "$.done",
            "Parameters": {}, "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Give"}], "Next": "Give"},
        "Give": each(call("release", json!({"lease.$": "$.Payload.lease"})), "Done"),
        "Done": {"Type": "Succeed"},
    }});
    let told = found(&definition);
    assert!(
        !told
            .iter()
            .any(|finding| finding.starts_with("without-lease")),
        "{told:?}"
    );
}
