//! The section that waits in line: what it costs, how it ends, and by which names it is refused.

use serde_json::{Value, json};

use crate::world::{World, fresh_key, with_world};

pub const DEFINITION: &str = include_str!("../../../statemachines/queued-section.asl.json");
pub const PATH: [&str; 6] = ["Acquire", "Confirm", "First", "Extend", "Second", "Release"];

pub fn section(key: &str, first: Value, second: Value) -> Value {
    let mut input = json!({"key": key, "ttl_seconds": 30, "wait_seconds": 120});
    input["first"] = first;
    input["second"] = second;
    input
}

/// The shipped machine, with one of its functions replaced by the test's own.
pub async fn machine_with(world: &World, name: &str, function: &str, arn: &str) -> String {
    let definition = DEFINITION.replace(&format!("${{{function}}}"), arn);
    world.create(name, &definition).await
}

#[test]
fn a_section_costs_six_transitions_and_33_events_and_waiting_in_line_adds_none() {
    with_world(async |world| {
        for waits in [false, true] {
            let key = fresh_key();
            let input = section(&key, json!({}), json!({"output_bytes": 3}));
            let run = if waits {
                let lease = world.occupy(&key, "somebody else").await;
                let run = world.start_queued(input).await;
                world.is_waited_for_by(&key, 1).await;
                // Asked again and again, it would by now have asked more than once.
                tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                world.take_away(&lease, None).await;
                run
            } else {
                world.start_queued(input).await
            };
            let output = run.ended().await.output();
            assert_eq!(
                (&output["step"], &output["output"]),
                (&json!("second"), &json!("xxx"))
            );
            assert_eq!(run.path().await, PATH);
            assert_eq!(run.history().await.len(), 33, "waits: {waits}");
            assert_eq!(world.holder(&key).await, None);
            assert_eq!(world.audit(&key).await, 4);
        }
    });
}

#[test]
fn the_hour_that_it_waits_if_nothing_is_said_and_the_wait_that_is_asked_for_reach_the_line() {
    with_world(async |world| {
        for (asked, granted) in [(None, 3600), (Some(0.5), 1), (Some(90.0), 90)] {
            let key = fresh_key();
            world.occupy(&key, "somebody else").await;
            let mut input = section(&key, json!({}), json!({}));
            match asked {
                Some(seconds) => input["wait_seconds"] = seconds.into(),
                None => drop(input.as_object_mut().unwrap().remove("wait_seconds")),
            }
            let run = world.start_queued(input).await;
            world.is_waited_for_by(&key, 1).await;
            let scheduled = run.history().await.into_iter().find_map(|event| {
                let details = event.task_scheduled_event_details()?;
                let parameters: Value = serde_json::from_str(details.parameters()).unwrap();
                Some((details.timeout_in_seconds(), parameters))
            });
            let (limit, parameters) = scheduled.unwrap();
            let wait = parameters["Payload"]["wait_seconds"].as_f64().unwrap();
            assert!((wait - asked.unwrap_or(3600.0)).abs() < 1e-9);
            // Whoever is told late must still be there to hear it.
            assert_eq!(limit, Some(granted + 120));
            run.stop().await;
        }
    });
}

#[test]
fn a_step_that_fails_ends_the_section_under_its_own_name_and_wakes_the_next() {
    with_world(async |world| {
        let fails = |name: &str| json!({"fail": name, "seconds": 1});
        for (first, second, name) in [
            (fails("Step.Broken"), json!({}), "Step.Broken"),
            (json!({}), fails("Payment.Declined"), "Payment.Declined"),
        ] {
            let key = fresh_key();
            let run = world.start_queued(section(&key, first, second)).await;
            run.in_task("Confirm", 1).await;
            let next = world
                .start_queued(section(&key, json!({}), json!({})))
                .await;
            let cause = run.ended().await.failed_with(name);
            assert!(cause.contains("asked to fail"), "{cause}");
            let path = run.path().await;
            assert_eq!(path[path.len() - 2..], ["ReleaseAfterFailure", "Failed"]);
            next.ended().await.output();
            assert_eq!(next.path().await, PATH);
        }
    });
}

#[test]
fn a_step_beyond_its_time_keeps_the_lease() {
    with_world(async |world| {
        let key = fresh_key();
        let mut invocations = world.stack.functions().invocations();
        let mut input = section(&key, json!({"seconds": 30}), json!({}));
        input["ttl_seconds"] = 3.into();
        let run = world.start_queued(input).await;
        run.ended().await.failed_with("Lease.StepTimeout");
        assert_eq!(
            run.path().await,
            ["Acquire", "Confirm", "First", "StepMayRun"]
        );
        // Nor does reap free it, which hears of the failure.
        loop {
            let invocation = invocations.recv().await.unwrap();
            if invocation.verb == "reap" && invocation.payload.contains(&run.arn) {
                break;
            }
        }
        assert!(world.holder(&key).await.is_some());
    });
}

#[test]
fn a_lost_lease_ends_the_section_at_once_and_frees_nobody_elses() {
    with_world(async |world| {
        for (state, last) in [("First", "Extend"), ("Second", "Release")] {
            let key = fresh_key();
            let work = json!({"seconds": 1});
            let run = world.start_queued(section(&key, work.clone(), work)).await;
            run.in_task(state, 1).await;
            world.take_away(&run.lease().await, None).await;
            // Another in between: the row does not remember any more that our lease was released in order.
            let other = world.occupy(&key, "another").await;
            world.take_away(&other, Some("somebody else")).await;
            let cause = run.ended().await.failed_with("Lease.Lost");
            assert!(cause.contains(&key), "{cause}");
            let path = run.path().await;
            assert_eq!(path[path.len() - 2..], [last, "LeaseLost"]);
            assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
        }
    });
}

#[test]
fn a_refusal_ends_under_its_own_name_and_tells_why() {
    with_world(async |world| {
        let short = world.own_function("AcquireFunction", "ShortLine", &[("LEASE_QUEUE_CAP", "1")]);
        let short = machine_with(world, "short-line", "AcquireFunction", &short).await;

        let invalid = json!({"key": fresh_key(), "ttl_seconds": -1});
        let run = world.start_queued(invalid).await;
        let cause = run.ended().await.failed_with("Lease.Invalid");
        assert!(cause.contains("ttl_seconds"), "{cause}");
        assert_eq!(run.path().await, ["Acquire"]);

        let key = fresh_key();
        let freeze =
            json!({"operation": "freeze", "key": key, "who": "day shift", "why": "stocktaking"});
        let frozen = world.call("OperateFunction", &freeze).await;
        assert!(frozen.get("errorType").is_none(), "{frozen}");
        let run = world
            .start_queued(section(&key, json!({}), json!({})))
            .await;
        let cause = run.ended().await.failed_with("Lease.Frozen");
        assert!(cause.contains("stocktaking"), "{cause}");
        assert_eq!(run.path().await, ["Acquire"]);

        let key = fresh_key();
        world.occupy(&key, "somebody else").await;
        let first = world
            .start(&short, section(&key, json!({}), json!({})))
            .await;
        world.is_waited_for_by(&key, 1).await;
        let second = world
            .start(&short, section(&key, json!({}), json!({})))
            .await;
        let cause = second.ended().await.failed_with("Lease.QueueFull");
        assert!(cause.contains(&key), "{cause}");
        assert_eq!(second.path().await, ["Acquire"]);
        first.stop().await;
    });
}

#[test]
fn a_ttl_too_short_to_work_in_fails_instead_of_going_round_for_ever() {
    with_world(async |world| {
        let key = fresh_key();
        let run = world
            .start_queued(json!({"key": key, "ttl_seconds": 1}))
            .await;
        run.ended().await.failed_with("Step.QueryEvaluationError");
        assert!(run.path().await.len() < 14);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn neither_the_lease_id_nor_the_task_token_reaches_a_step() {
    with_world(async |world| {
        let key = fresh_key();
        let mut invocations = world.stack.functions().invocations();
        let run = world
            .start_queued(section(&key, json!({}), json!({})))
            .await;
        run.ended().await.output();
        let lease_id = run.lease().await["lease_id"].as_str().unwrap().to_owned();
        let (mut token, mut seen) = (None, 0);
        while seen < 2 {
            let invocation = invocations.recv().await.unwrap();
            if !invocation.payload.contains(&key) {
                continue;
            }
            if invocation.verb == "acquire" {
                let payload: Value = serde_json::from_str(&invocation.payload).unwrap();
                token = payload["task_token"].as_str().map(str::to_owned);
            } else if invocation.verb == "step" {
                assert!(!invocation.payload.contains(&lease_id));
                assert!(!invocation.payload.contains(token.as_deref().unwrap()));
                seen += 1;
            }
        }
    });
}
