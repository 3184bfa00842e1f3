//! A redriven execution resumes at the state it ended in, past its acquire: nothing may work under a lease that
//! was not proven again.

use aws_sdk_sfn::types::ExecutionStatus;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::world::{World, fresh_key, with_world};

const SLOW: f64 = 1.0;

/// An execution of the critical section, stopped while `state` is at work.
async fn stopped_in(world: &World, key: &str, state: &str) -> Execution {
    let input = json!({"key": key, "ttl_seconds": 30, "first": {"seconds": SLOW}, "second": {"seconds": SLOW}});
    let run = world.start_section(input).await;
    run.in_task(state, 1).await;
    run.stop().await;
    run
}

#[test]
fn a_redriven_step_proves_its_lease_before_it_starts() {
    with_world(async |world| {
        for (state, expected) in [
            (
                "First",
                ["First", "Prove", "First", "Extend", "Second", "Release"].as_slice(),
            ),
            ("Second", &["Second", "Extend", "Second", "Release"]),
        ] {
            let key = fresh_key();
            let run = stopped_in(world, &key, state).await;
            run.redrive().await;
            let ended = run.ended().await;
            assert_eq!(ended.redrives, 1);
            ended.output();
            assert_eq!(run.since_redrive().await, expected);
            assert_eq!(world.holder(&key).await, None);
            assert_eq!(world.overlaps(&key).await, 0);
        }
    });
}

#[test]
fn a_redriven_step_whose_lease_is_lost_does_not_start() {
    with_world(async |world| {
        for state in ["First", "Second"] {
            let key = fresh_key();
            let run = stopped_in(world, &key, state).await;
            world
                .take_away(&run.lease().await, Some("somebody else"))
                .await;
            run.redrive().await;
            run.ended().await.failed_with("Lease.Lost");
            assert_eq!(run.steps_since_redrive().await, 0);
            assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
        }
    });
}

#[test]
fn a_redriven_release_frees_nobody_else_and_still_succeeds() {
    with_world(async |world| {
        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 30, "second": {"output_bytes": 1}});
        // Frozen, the release function cannot answer: the execution stays in that state.
        let host = world.stack.functions();
        let mut function = host.function("ReleaseFunction").unwrap();
        function.logical_id = "StuckReleaseFunction".to_owned();
        host.register(function);
        let definition = include_str!("../../../statemachines/critical-section.asl.json").replace(
            "${ReleaseFunction}",
            "arn:aws:lambda:us-east-1:123456789012:function:StuckReleaseFunction",
        );
        let machine = world.create("stuck-release", &definition).await;
        // One answered call first, so that there is a process to freeze.
        world
            .start(&machine, json!({"key": fresh_key(), "ttl_seconds": 30}))
            .await
            .ended()
            .await
            .output();
        host.freeze("StuckReleaseFunction").unwrap();
        let run = world.start(&machine, input).await;
        run.in_task("Release", 1).await;
        run.stop().await;
        host.thaw("StuckReleaseFunction").unwrap();
        // By now, or soon, that release has been applied. Others come and go.
        let lease = run.lease().await;
        world
            .call("ReleaseFunction", &json!({"lease": lease}))
            .await;
        for holder in ["a", "b"] {
            let lease = world.occupy(&key, holder).await;
            world.take_away(&lease, None).await;
        }
        world.occupy(&key, "c").await;
        run.redrive().await;
        let output = run.ended().await.output();
        assert_eq!(output["output"], "x");
        assert_eq!(world.holder(&key).await.as_deref(), Some("c"));
    });
}

fn wrapped(key: &str, machine: &str, seconds: u32) -> Value {
    json!({"key": key, "ttl_seconds": 30, "state_machine_arn": machine, "input": {"seconds": seconds}})
}

#[test]
fn a_redriven_wrapper_proves_its_lease_and_starts_a_new_child() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world
            .create("child-of-redriven", crate::with_lease::WAITS)
            .await;
        let run = world.start_with_lease(wrapped(&key, &machine, 1)).await;
        let child = run.child(&machine, 1).await;
        run.stop().await;
        assert_eq!(child.ended().await.status, ExecutionStatus::Aborted);
        let lease = run.lease().await;
        run.redrive().await;
        run.ended().await.output();
        assert_eq!(run.children(&machine).await.len(), 2);
        assert_eq!(
            run.lease().await["lease_id"],
            lease["lease_id"],
            "the same grant, proven"
        );
        let path = run.since_redrive().await;
        assert!(
            path.contains(&"Prove".to_owned()) && !path.contains(&"Acquire".to_owned()),
            "{path:?}"
        );
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_redriven_wrapper_whose_lease_is_lost_waits_for_a_new_one() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world
            .create("child-of-lost", crate::with_lease::WAITS)
            .await;
        let run = world.start_with_lease(wrapped(&key, &machine, 1)).await;
        run.child(&machine, 1).await;
        run.stop().await;
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(&key, "somebody else").await;
        run.redrive().await;
        run.in_task("Acquire", 2).await;
        assert_eq!(
            run.children(&machine).await.len(),
            1,
            "nothing starts while another holds the key"
        );
        world.take_away(&other, None).await;
        run.ended().await.output();
        assert_eq!(run.children(&machine).await.len(), 2);
    });
}
