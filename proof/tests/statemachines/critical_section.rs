use std::time::Duration;

use leasehold_local::Fault;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::execution::Execution;
use crate::world::{World, fresh_key, with_world};

const DEFINITION: &str = include_str!("../../../statemachines/critical-section.asl.json");

fn section(key: &str, first: Value, second: Value) -> Value {
    let mut input = json!({"key": key, "ttl_seconds": 30});
    input["first"] = first;
    input["second"] = second;
    input
}

/// The shipped machine, but giving up on a held key after two more tries.
async fn impatient(world: &World, name: &str) -> String {
    let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
    definition["States"]["Acquire"]["Retry"][0]["MaxAttempts"] = 2.into();
    world.create(name, &definition.to_string()).await
}

async fn assert_path(execution: &Execution, expected: &[&str]) {
    assert_eq!(execution.path().await, expected);
}

#[test]
fn an_uncontended_section_costs_five_transitions_and_27_events() {
    with_world(async |world| {
        let key = fresh_key();
        let run = world
            .start_section(section(&key, json!({}), json!({"output_bytes": 3})))
            .await;
        let output = run.ended().await.output();
        assert_eq!(
            (&output["step"], &output["output"]),
            (&json!("second"), &json!("xxx"))
        );
        assert_path(&run, &["Acquire", "First", "Extend", "Second", "Release"]).await;
        assert_eq!(run.history().await.len(), 27);
        assert_eq!(world.holder(&key).await, None);
        assert_eq!(world.audit(&key).await, 4);
    });
}

#[test]
fn contenders_pass_one_after_the_other() {
    with_world(async |world| {
        let key = fresh_key();
        let work = || json!({"seconds": 0.1});
        let mut runs = Vec::new();
        for _ in 0..6 {
            runs.push(world.start_section(section(&key, work(), work())).await);
        }
        for run in &runs {
            run.ended().await.output();
        }
        assert_eq!(world.audit(&key).await, 6 * 4);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_step_that_fails_ends_the_section_under_its_own_name_and_releases() {
    with_world(async |world| {
        for (first, second, failed) in [
            ("Step.Broken", "", "First"),
            ("", "Payment.Declined", "Second"),
        ] {
            let key = fresh_key();
            let work = |error: &str| {
                if error.is_empty() {
                    json!({})
                } else {
                    json!({"fail": error})
                }
            };
            let run = world
                .start_section(section(&key, work(first), work(second)))
                .await;
            let cause = run.ended().await.failed_with(&format!("{first}{second}"));
            assert!(cause.contains("asked to fail"), "{cause}");
            let path = run.path().await;
            assert_eq!(
                path[path.len() - 3..],
                [failed, "ReleaseAfterFailure", "Failed"]
            );
            assert_eq!(world.holder(&key).await, None);
        }
    });
}

#[test]
fn a_step_that_panics_releases_too() {
    with_world(async |world| {
        let key = fresh_key();
        let run = world
            .start_section(section(&key, json!({"panic": true}), json!({})))
            .await;
        let ended = run.ended().await;
        assert!(
            !ended.error.is_empty() && !ended.error.starts_with("Lease."),
            "{ended:?}"
        );
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_step_beyond_its_time_keeps_the_lease_until_it_runs_out() {
    with_world(async |world| {
        let key = fresh_key();
        let started = Instant::now();
        let slow = json!({"key": key, "ttl_seconds": 3, "first": {"seconds": 30}});
        let run = world.start_section(slow).await;
        run.ended().await.failed_with("Lease.StepTimeout");
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "cut off with the lease"
        );
        assert_path(&run, &["Acquire", "First", "StepMayRun"]).await;
        assert!(
            world.holder(&key).await.is_some(),
            "its Lambda may still be at work"
        );
        // The next one gets in by itself, after the deadline and the margin.
        let next = world
            .start_section(section(&key, json!({}), json!({})))
            .await;
        next.ended().await.output();
        assert_eq!(next.grant().await["previous"]["ended"], "expired");
        assert!(started.elapsed() > Duration::from_millis(3300));
        assert_eq!(world.overlaps(&key).await, 0);
    });
}

#[test]
fn a_lost_lease_ends_the_section_at_once_and_frees_nobody_elses() {
    with_world(async |world| {
        // Lost while a step runs: noticed before the next one, and at the latest by release.
        for (state, path) in [
            (
                "First",
                ["Acquire", "First", "Extend", "LeaseLost"].as_slice(),
            ),
            (
                "Second",
                &[
                    "Acquire",
                    "First",
                    "Extend",
                    "Second",
                    "Release",
                    "LeaseLost",
                ],
            ),
        ] {
            let key = fresh_key();
            let work = json!({"seconds": 1});
            let run = world.start_section(section(&key, work.clone(), work)).await;
            run.in_task(state, 1).await;
            world.take_away(&run.lease().await, None).await;
            // Another in between: the row does not remember any more that our lease was released in order.
            let other = world.occupy(&key, "another").await;
            world.take_away(&other, Some("somebody else")).await;
            let cause = run.ended().await.failed_with("Lease.Lost");
            assert!(cause.contains(&key), "{cause}");
            assert_path(&run, path).await;
            assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
        }
    });
}

#[test]
fn a_key_that_stays_held_ends_as_held_and_tells_by_whom_and_a_redrive_asks_again() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = impatient(world, "impatient").await;
        let lease = world.occupy(&key, "the night shift").await;
        let run = world
            .start(&machine, section(&key, json!({}), json!({})))
            .await;
        let cause: Value =
            serde_json::from_str(&run.ended().await.failed_with("Lease.Held")).unwrap();
        let message: Value = serde_json::from_str(cause["errorMessage"].as_str().unwrap()).unwrap();
        assert_eq!(message["holder"], "the night shift");
        assert_path(&run, &["Acquire"]).await;

        world.take_away(&lease, None).await;
        run.redrive().await;
        let ended = run.ended().await;
        assert_eq!(ended.redrives, 1);
        ended.output();
    });
}

#[test]
fn lost_answers_are_replayed_and_not_refused_by_our_own_lease() {
    with_world(async |world| {
        let key = fresh_key();
        let proxy = world.stack.proxy();
        // All attempts of one call: the function answers Lease.Unavailable, the Retry repeats the request.
        proxy.inject_matching(Fault::FailAnswer, "UpdateItem", &key, 3);
        let run = world
            .start_section(section(&key, json!({"seconds": 1}), json!({})))
            .await;
        run.in_task("First", 1).await;
        assert_eq!(run.grant().await["grant"], "replayed");
        run.ended().await.output();
        assert_eq!(world.holder(&key).await, None);
        assert_eq!(world.audit(&key).await, 4);
    });
}

#[test]
fn a_function_killed_before_it_answers_is_asked_again() {
    with_world(async |world| {
        // Functions of its own: the others run beside this test.
        let host = world.stack.functions();
        let mut definition = DEFINITION.to_owned();
        for verb in ["Acquire", "Extend", "Release"] {
            let mut function = host.function(&format!("{verb}Function")).unwrap();
            function.logical_id = format!("Mortal{verb}Function");
            let arn = format!(
                "arn:aws:lambda:us-east-1:123456789012:function:{}",
                function.logical_id
            );
            definition = definition.replace(&format!("${{{verb}Function}}"), &arn);
            host.register(function.clone());
            host.kill_before_answer(&function.logical_id, 1).unwrap();
        }
        let machine = world.create("mortal", &definition).await;
        let key = fresh_key();
        let run = world
            .start(&machine, section(&key, json!({}), json!({})))
            .await;
        run.ended().await.output();
        assert_eq!(run.grant().await["grant"], "replayed");
        assert_path(&run, &["Acquire", "First", "Extend", "Second", "Release"]).await;
        let failed = run.history().await;
        let failed = failed
            .iter()
            .filter(|event| event.task_failed_event_details().is_some());
        assert_eq!(failed.count(), 3);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_refusal_other_than_held_ends_under_its_own_name_at_once() {
    with_world(async |world| {
        let run = world
            .start_section(json!({"key": fresh_key(), "ttl_seconds": -1}))
            .await;
        let cause = run.ended().await.failed_with("Lease.Invalid");
        assert!(cause.contains("ttl_seconds"), "{cause}");
        assert_path(&run, &["Acquire"]).await;
    });
}

#[test]
fn a_ttl_too_short_to_work_in_fails_instead_of_going_round_for_ever() {
    with_world(async |world| {
        let key = fresh_key();
        let run = world
            .start_section(json!({"key": key, "ttl_seconds": 1}))
            .await;
        run.ended().await.failed_with("Step.QueryEvaluationError");
        assert!(run.path().await.len() < 12);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn no_step_ever_sees_the_lease_id() {
    with_world(async |world| {
        let key = fresh_key();
        let mut invocations = world.stack.functions().invocations();
        let run = world
            .start_section(section(&key, json!({}), json!({})))
            .await;
        run.ended().await.output();
        let lease_id = run.lease().await["lease_id"].as_str().unwrap().to_owned();
        let mut seen = 0;
        while seen < 2 {
            let invocation = invocations.recv().await.unwrap();
            if invocation.verb == "step" && invocation.payload.contains(&key) {
                assert!(!invocation.payload.contains(&lease_id));
                seen += 1;
            }
        }
    });
}

#[test]
fn a_definition_that_is_refused_does_no_harm_to_the_next_one() {
    with_world(async |world| {
        let refused = r#"{"QueryLanguage": "JSONata", "StartAt": "A", "States": {
            "A": {"Type": "Pass", "QueryLanguage": "JSONPath", "End": true}}}"#;
        let created = world.stack.sfn().create_state_machine();
        let created = created.name("refused").definition(refused);
        let created = created.role_arn("arn:aws:iam::123456789012:role/states");
        assert!(created.send().await.is_err());
        let path = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true}}}"#;
        world.create("accepted", path).await;
    });
}
