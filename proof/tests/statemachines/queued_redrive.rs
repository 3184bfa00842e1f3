//! A redriven section resumes at the state it ended in, past its place in line: nothing may work under a lease that
//! was not proven again.

use serde_json::{Value, json};

use crate::execution::Execution;
use crate::queued_section::{PATH, machine_with, section};
use crate::world::{World, fresh_key, with_world};

/// An execution that was stopped while `state` was at work.
async fn stopped_in(world: &World, key: &str, state: &str) -> Execution {
    let work = json!({"seconds": 1});
    let run = world.start_queued(section(key, work.clone(), work)).await;
    run.in_task(state, 1).await;
    run.stop().await;
    run
}

/// The shipped machine with a function of its own, which does not answer: an execution stays in its state.
async fn stuck(world: &World, function: &str, name: &str) -> String {
    let arn = world.own_function(function, name, &[]);
    let machine = machine_with(world, name, function, &arn).await;
    // One answered call first, so that there is a process to freeze.
    let warm = section(&fresh_key(), json!({}), json!({}));
    world.start(&machine, warm).await.ended().await.output();
    world.stack.functions().freeze(name).unwrap();
    machine
}

#[test]
fn a_redriven_step_proves_its_lease_before_it_starts() {
    with_world(async |world| {
        for (state, expected) in [
            (
                "First",
                ["First", "Confirm", "First", "Extend", "Second", "Release"].as_slice(),
            ),
            ("Second", &["Second", "Extend", "Second", "Release"]),
        ] {
            let key = fresh_key();
            let run = stopped_in(world, &key, state).await;
            run.redrive().await;
            run.ended().await.output();
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
            // What has begun is for its author to repair: it does not wait in line to begin again.
            let path = run.since_redrive().await;
            assert!(!path.contains(&"Acquire".to_owned()), "{path:?}");
            assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
            assert_eq!(world.waiting(&key).await, 0);
        }
    });
}

#[test]
fn a_redriven_extend_whose_lease_is_lost_starts_nothing() {
    with_world(async |world| {
        // Of the two extends, the second is the one that does not answer.
        let definition: Value = serde_json::from_str(crate::queued_section::DEFINITION).unwrap();
        let mut definition = definition;
        let arn = world.own_function("ExtendFunction", "LateExtend", &[]);
        definition["States"]["Extend"]["Arguments"]["FunctionName"] = arn.into();
        let machine = world.create("late-extend", &definition.to_string()).await;
        let warm = section(&fresh_key(), json!({}), json!({}));
        world.start(&machine, warm).await.ended().await.output();
        world.stack.functions().freeze("LateExtend").unwrap();

        let key = fresh_key();
        let run = world
            .start(&machine, section(&key, json!({}), json!({})))
            .await;
        run.in_task("Extend", 1).await;
        run.stop().await;
        world.stack.functions().thaw("LateExtend").unwrap();
        world
            .take_away(&run.lease().await, Some("somebody else"))
            .await;
        run.redrive().await;
        run.ended().await.failed_with("Lease.Lost");
        assert_eq!(run.since_redrive().await, ["Extend", "LeaseLost"]);
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
    });
}

#[test]
fn a_redriven_wait_is_a_new_place_at_the_end_of_the_line() {
    with_world(async |world| {
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let mut runs = Vec::new();
        for place in 1..=2 {
            let input = section(&key, json!({}), json!({}));
            runs.push(world.start_queued(input).await);
            world.is_waited_for_by(&key, place).await;
        }
        runs[0].stop().await;
        let before = world.waiting(&key).await;
        runs[0].redrive().await;
        // The place that it had may have been given up by now.
        while world.waiting(&key).await <= before.min(1) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        runs[0].in_task("Acquire", 2).await;
        world.take_away(&lease, None).await;
        for run in &runs {
            run.ended().await.output();
        }
        assert_eq!(runs[0].since_redrive().await, PATH);
        assert_eq!(
            world.workers(&key).await,
            [runs[1].arn.clone(), runs[0].arn.clone()]
        );
        assert_eq!(world.audit(&key).await, 8);
    });
}

#[test]
fn a_redriven_confirmation_that_comes_too_late_waits_for_another_turn() {
    with_world(async |world| {
        let machine = stuck(world, "ExtendFunction", "StuckConfirm").await;
        let key = fresh_key();
        let run = world
            .start(&machine, section(&key, json!({}), json!({})))
            .await;
        run.in_task("Confirm", 1).await;
        run.stop().await;
        world.stack.functions().thaw("StuckConfirm").unwrap();
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(&key, "somebody else").await;
        run.redrive().await;
        world.is_waited_for_by(&key, 1).await;
        assert_eq!(run.steps_since_redrive().await, 0);
        world.take_away(&other, None).await;
        run.ended().await.output();
        let mut path = vec!["Confirm", "TurnMissed"];
        path.extend(PATH);
        assert_eq!(run.since_redrive().await, path);
        assert_eq!(world.audit(&key).await, 4);
    });
}

#[test]
fn a_redriven_release_frees_nobody_else_and_still_succeeds() {
    with_world(async |world| {
        let machine = stuck(world, "ReleaseFunction", "StuckQueuedRelease").await;
        let key = fresh_key();
        let run = world
            .start(
                &machine,
                section(&key, json!({}), json!({"output_bytes": 1})),
            )
            .await;
        run.in_task("Release", 1).await;
        run.stop().await;
        world.stack.functions().thaw("StuckQueuedRelease").unwrap();
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
