use std::time::Duration;

use aws_sdk_sfn::types::ExecutionStatus;
use leasehold::Timestamp;
use leasehold_local::Fault;
use serde_json::{Value, json};

use crate::world::{World, fresh_key, with_world};

/// A child that knows nothing of leases: waits `seconds`, then answers its input.
pub const WAITS: &str = r#"{"StartAt": "Work", "States": {
    "Work": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true}}}"#;
const FAILS: &str = r#"{"StartAt": "Fail", "States": {
    "Fail": {"Type": "Fail", "ErrorPath": "$.error", "CausePath": "$.cause"}}}"#;
const TIMES_OUT: &str = r#"{"StartAt": "Work", "TimeoutSeconds": 1, "States": {
    "Work": {"Type": "Wait", "Seconds": 60, "End": true}}}"#;
const ANSWERS_MUCH: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke", "OutputPath": "$.Payload", "End": true,
    "Parameters": {"FunctionName": "${StepFunction}",
        "Payload": {"step": "only", "work": {"output_bytes.$": "$.bytes"}}}}}}"#;

fn wrapped(key: &str, machine: &str, ttl: u32, input: &Value) -> Value {
    json!({"key": key, "ttl_seconds": ttl, "state_machine_arn": machine, "input": input})
}

async fn costs(world: &World, machine: &str, seconds: u32) -> (usize, usize, usize) {
    let key = fresh_key();
    let input = wrapped(&key, machine, 6, &json!({"seconds": seconds}));
    let run = world.start_with_lease(input).await;
    run.ended().await.output();
    let path = run.path().await;
    let extends = path.iter().filter(|state| *state == "Extend").count();
    (path.len(), run.history().await.len(), extends)
}

#[test]
fn the_childs_output_becomes_ours_for_seven_transitions_and_two_more_per_extend() {
    with_world(async |world| {
        let machine = world.create("costs", WAITS).await;
        let short = costs(world, &machine, 0).await;
        assert_eq!(short, (7, 29, 0));
        // A third of the ttl is 2 s.
        let (transitions, events, extends) = costs(world, &machine, 5).await;
        assert!(extends >= 1);
        // The last round may be cut off anywhere.
        assert!(
            transitions - 7 <= 2 * extends + 1,
            "{transitions} {extends}"
        );
        assert!(events - 29 <= 7 * extends + 3, "{events} {extends}");
    });
}

#[test]
fn the_childs_output_is_unchanged_and_may_be_large() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("answers-much", ANSWERS_MUCH).await;
        let input = wrapped(&key, &machine, 30, &json!({"bytes": 200_000}));
        let output = world.start_with_lease(input).await.ended().await.output();
        assert_eq!(output["output"].as_str().unwrap().len(), 200_000);
        assert_eq!(world.holder(&key).await, None);

        let machine = world.create("echoes", WAITS).await;
        let odd =
            json!({"seconds": 0, "quote": "a \"b\" \\ \n", "nothing": null, "list": [], "ü": 1.5});
        let input = wrapped(&fresh_key(), &machine, 30, &odd);
        assert_eq!(
            world.start_with_lease(input).await.ended().await.output(),
            odd
        );
    });
}

#[test]
fn the_childs_error_and_cause_become_ours_and_the_lease_is_released() {
    with_world(async |world| {
        let machine = world.create("fails", FAILS).await;
        for (error, cause, ours) in [
            (
                "Payment.Declined",
                "card \"42\"".to_owned(),
                "Payment.Declined",
            ),
            ("States.Timeout", "late".to_owned(), "Step.Timeout"),
            ("Much.ToSay", "c".repeat(30_000), "Much.ToSay"),
        ] {
            let key = fresh_key();
            let input = wrapped(&key, &machine, 30, &json!({"error": error, "cause": cause}));
            let run = world.start_with_lease(input).await;
            assert_eq!(run.ended().await.failed_with(ours), cause);
            assert_eq!(world.holder(&key).await, None);
        }
    });
}

#[test]
fn a_child_that_was_stopped_or_timed_out_may_have_left_work_so_the_lease_stays() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("times-out", TIMES_OUT).await;
        let run = world
            .start_with_lease(wrapped(&key, &machine, 30, &json!({})))
            .await;
        run.ended().await.failed_with("WithLease.ChildTimedOut");
        assert!(world.holder(&key).await.is_some());

        let key = fresh_key();
        let machine = world.create("is-stopped", WAITS).await;
        let run = world
            .start_with_lease(wrapped(&key, &machine, 30, &json!({"seconds": 60})))
            .await;
        run.child(&machine, 1).await.stop().await;
        run.ended().await.failed_with("WithLease.ChildAborted");
        assert!(world.holder(&key).await.is_some());
    });
}

#[test]
fn a_child_that_cannot_start_releases() {
    with_world(async |world| {
        let key = fresh_key();
        let nowhere =
            "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold-wrapped-nowhere";
        let run = world
            .start_with_lease(wrapped(&key, nowhere, 30, &json!({})))
            .await;
        run.ended()
            .await
            .failed_with("StepFunctions.StateMachineDoesNotExistException");
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn stopping_the_wrapper_stops_the_child() {
    with_world(async |world| {
        let machine = world.create("stopped-with-us", WAITS).await;
        let run = world
            .start_with_lease(wrapped(&fresh_key(), &machine, 30, &json!({"seconds": 60})))
            .await;
        let child = run.child(&machine, 1).await;
        run.stop().await;
        assert_eq!(child.ended().await.status, ExecutionStatus::Aborted);
    });
}

#[test]
fn a_lost_lease_stops_the_child_and_frees_nobody_elses() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("loses", WAITS).await;
        let run = world
            .start_with_lease(wrapped(&key, &machine, 6, &json!({"seconds": 60})))
            .await;
        let child = run.child(&machine, 1).await;
        world
            .take_away(&run.lease().await, Some("somebody else"))
            .await;
        run.ended().await.failed_with("Lease.Lost");
        assert_eq!(child.ended().await.status, ExecutionStatus::Aborted);
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
    });
}

#[test]
fn a_child_is_stopped_before_a_lease_that_cannot_be_extended_runs_out() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("starves", WAITS).await;
        let input = wrapped(&key, &machine, 6, &json!({"seconds": 60}));
        let run = world.start_with_lease(input).await;
        let child = run.child(&machine, 1).await;
        let proxy = world.stack.proxy();
        proxy.inject_matching(Fault::Throttle, "UpdateItem", &key, 1000);
        run.ended().await.failed_with("Lease.Expired");
        assert_eq!(child.ended().await.status, ExecutionStatus::Aborted);
        let expires_at: Timestamp =
            serde_json::from_value(run.lease().await["expires_at"].clone()).unwrap();
        // Half a second for a busy machine; nobody else is let in before the margin is over.
        let stopped_at = child.stopped_at().await;
        assert!(
            stopped_at < expires_at.plus(Duration::from_millis(500)),
            "{stopped_at} {expires_at}"
        );
        assert!(run.path().await.contains(&"Again".to_owned()));
        assert!(world.holder(&key).await.is_some());
    });
}

#[test]
fn an_extend_that_fails_for_a_while_does_no_harm() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("stutters", WAITS).await;
        let run = world
            .start_with_lease(wrapped(&key, &machine, 9, &json!({"seconds": 8})))
            .await;
        run.child(&machine, 1).await;
        let proxy = world.stack.proxy();
        // All attempts of one call, applied or not.
        proxy.inject_matching(Fault::FailAnswer, "UpdateItem", &key, 3);
        run.ended().await.output();
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn wrapped_children_run_one_after_the_other() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("one-by-one", WAITS).await;
        let mut runs = Vec::new();
        for _ in 0..3 {
            let input = wrapped(&key, &machine, 30, &json!({"seconds": 1}));
            runs.push(world.start_with_lease(input).await);
        }
        for run in &runs {
            run.ended().await.output();
        }
        let listed = world
            .stack
            .sfn()
            .list_executions()
            .state_machine_arn(&machine)
            .send()
            .await;
        let mut children: Vec<_> = listed
            .unwrap()
            .executions()
            .iter()
            .map(|child| (*child.start_date(), *child.stop_date().unwrap()))
            .collect();
        children.sort();
        assert_eq!(children.len(), 3);
        assert!(
            children.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{children:?}"
        );
    });
}

#[test]
fn a_ttl_too_short_to_extend_in_is_refused_before_anything_is_leased() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("hurries", WAITS).await;
        let run = world
            .start_with_lease(wrapped(&key, &machine, 5, &json!({})))
            .await;
        let cause = run.ended().await.failed_with("States.QueryEvaluationError");
        assert!(cause.contains("ttl_seconds of 6 or more"), "{cause}");
        assert_eq!(world.holder(&key).await, None);
    });
}
