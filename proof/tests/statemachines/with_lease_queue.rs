//! The wrapper, waiting in line.

use serde_json::{Value, json};

use crate::execution::Execution;
use crate::with_lease::WAITS;
use crate::world::{World, fresh_key, with_swept_world, with_world};

const DEFINITION: &str = include_str!("../../../statemachines/with-lease.asl.json");

/// Runs `machine`, which waits `seconds`, once it is its turn.
fn in_line(key: &str, machine: &str, seconds: u32) -> Value {
    json!({"key": key, "ttl_seconds": 30, "wait_seconds": 120, "state_machine_arn": machine, "input": {"seconds": seconds}})
}

/// A wrapper in line for a key that somebody else holds, that one's lease, and the machine that it is to run.
async fn waiting(world: &World, wrapper: &str, name: &str) -> (Execution, Value, String) {
    let key = fresh_key();
    let machine = world.create(name, WAITS).await;
    let lease = world.occupy(&key, "somebody else").await;
    let run = world.start(wrapper, in_line(&key, &machine, 1)).await;
    world.is_waited_for_by(&key, 1).await;
    (run, lease, machine)
}

fn key_of(lease: &Value) -> &str {
    lease["key"].as_str().unwrap()
}

#[test]
fn a_wait_in_line_costs_two_transitions_more_however_long_it_is() {
    with_world(async |world| {
        let machine = world.create("in-line", WAITS).await;
        for waits in [false, true] {
            let key = fresh_key();
            let input = in_line(&key, &machine, 0);
            let run = if waits {
                let lease = world.occupy(&key, "somebody else").await;
                let run = world.start_with_lease(input).await;
                world.is_waited_for_by(&key, 1).await;
                // Asked again and again, it would by now have asked more than once.
                tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                world.take_away(&lease, None).await;
                run
            } else {
                world.start_with_lease(input).await
            };
            assert_eq!(run.ended().await.output(), json!({"seconds": 0}));
            let path = run.path().await;
            assert_eq!(
                path[..4],
                ["Acquire", "AcquireInLine", "Confirm", "Guarded"]
            );
            // Seven without a wait in line.
            assert_eq!(path.len(), 7 + 2, "{path:?}");
            assert_eq!(world.holder(&key).await, None);
        }
    });
}

#[test]
fn wrapped_children_run_in_the_order_in_which_their_wrappers_came() {
    with_world(async |world| {
        let (first, lease, machine) = waiting(
            world,
            world.machine("WithLeaseStateMachine"),
            "first-come-first-served",
        )
        .await;
        let key = key_of(&lease);
        let mut runs = vec![first];
        for place in 2..=3 {
            runs.push(world.start_with_lease(in_line(key, &machine, 1)).await);
            world.is_waited_for_by(key, place).await;
        }
        world.take_away(&lease, None).await;
        let mut children = Vec::new();
        for run in &runs {
            run.ended().await.output();
            let [child] = &run.children(&machine).await[..] else {
                panic!("one child each");
            };
            let describe = child.sfn.describe_execution().execution_arn(&child.arn);
            let described = describe.send().await.unwrap();
            children.push((*described.start_date(), *described.stop_date().unwrap()));
        }
        assert!(
            children.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{children:?}"
        );
    });
}

#[test]
fn an_attempt_that_failed_is_repeated_and_the_child_runs_once() {
    with_world(async |world| {
        let arn = world.own_function("AcquireFunction", "MortalInLine", &[]);
        world
            .stack
            .functions()
            .kill_before_answer("MortalInLine", 1)
            .unwrap();
        let definition = DEFINITION.replace("${AcquireFunction}", &arn);
        let wrapper = world.create("mortal-in-line", &definition).await;
        let (run, lease, machine) = waiting(world, &wrapper, "waited-for-twice").await;
        run.waits_in("AcquireInLine", 2).await;
        assert_eq!(world.waiting(key_of(&lease)).await, 1);
        world.take_away(&lease, None).await;
        run.ended().await.output();
        assert_eq!(run.children(&machine).await.len(), 1);
    });
}

#[test]
fn a_refusal_ends_under_its_own_name_before_any_child_starts() {
    with_world(async |world| {
        let machine = world.create("refused", WAITS).await;
        let key = fresh_key();
        let mut hurried = in_line(&key, &machine, 0);
        hurried["ttl_seconds"] = 5.into();
        let run = world.start_with_lease(hurried).await;
        let cause = run.ended().await.failed_with("States.QueryEvaluationError");
        assert!(cause.contains("ttl_seconds of 6 or more"), "{cause}");
        assert_eq!(world.holder(&key).await, None);

        let freeze =
            json!({"operation": "freeze", "key": key, "who": "day shift", "why": "stocktaking"});
        world.call("OperateFunction", &freeze).await;
        let run = world.start_with_lease(in_line(&key, &machine, 0)).await;
        let cause = run.ended().await.failed_with("Lease.Frozen");
        assert!(cause.contains("stocktaking"), "{cause}");
        assert!(run.children(&machine).await.is_empty());
    });
}

#[test]
fn one_who_is_never_told_ends_as_timed_out() {
    with_world(async |world| {
        let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
        definition["States"]["AcquireInLine"]["TimeoutSeconds"] = 1.into();
        let wrapper = world.create("is-not-told", &definition.to_string()).await;
        let (run, _, machine) = waiting(world, &wrapper, "never-run").await;
        let cause = run.ended().await.failed_with("Lease.QueueTimeout");
        assert!(cause.contains("wait_seconds"), "{cause}");
        assert!(run.children(&machine).await.is_empty());
    });
}

#[test]
fn one_who_has_waited_long_enough_is_sent_away() {
    with_swept_world(async |world| {
        let key = fresh_key();
        world.occupy(&key, "somebody else").await;
        let machine = world.create("sent-away", WAITS).await;
        let mut input = in_line(&key, &machine, 0);
        input["wait_seconds"] = 1.into();
        let run = world.start_with_lease(input).await;
        let cause = run.ended().await.failed_with("Lease.QueueTimeout");
        assert!(cause.contains(&key), "{cause}");
        assert_eq!(run.path().await, ["Acquire", "AcquireInLine"]);
        assert_eq!(world.waiting(&key).await, 0);
    });
}

#[test]
fn one_who_misses_its_turn_waits_for_another_before_the_child_starts() {
    with_world(async |world| {
        let host = world.stack.functions();
        let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
        let arn = world.own_function("ExtendFunction", "TardyProof", &[]);
        definition["States"]["Confirm"]["Arguments"]["FunctionName"] = arn.into();
        let wrapper = world.create("tardy-proof", &definition.to_string()).await;
        // One answered call first, so that there is a process to freeze.
        let warm = waiting(world, &wrapper, "warms-up").await;
        world.take_away(&warm.1, None).await;
        warm.0.ended().await.output();
        host.freeze("TardyProof").unwrap();

        let (run, lease, machine) = waiting(world, &wrapper, "late-child").await;
        let key = key_of(&lease);
        world.take_away(&lease, None).await;
        run.in_task("Confirm", 1).await;
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(key, "another").await;
        host.thaw("TardyProof").unwrap();
        world.is_waited_for_by(key, 1).await;
        assert!(run.children(&machine).await.is_empty());
        world.take_away(&other, None).await;
        run.ended().await.output();
        assert_eq!(run.children(&machine).await.len(), 1);
        let path = run.path().await;
        let waits = path.iter().filter(|state| *state == "AcquireInLine");
        assert_eq!(waits.count(), 2, "{path:?}");
    });
}

#[test]
fn a_redriven_wrapper_whose_lease_is_lost_waits_in_line_for_a_new_one() {
    with_world(async |world| {
        let key = fresh_key();
        let machine = world.create("child-in-line", WAITS).await;
        let run = world.start_with_lease(in_line(&key, &machine, 1)).await;
        run.child(&machine, 1).await;
        run.stop().await;
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(&key, "somebody else").await;
        run.redrive().await;
        world.is_waited_for_by(&key, 1).await;
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

#[test]
fn a_redriven_wait_starts_no_child_before_it_is_its_turn() {
    with_world(async |world| {
        let wrapper = world.machine("WithLeaseStateMachine");
        let (run, lease, machine) = waiting(world, wrapper, "redriven-in-line").await;
        run.stop().await;
        run.redrive().await;
        run.in_task("AcquireInLine", 2).await;
        // The place that it had is given up by whoever wakes it, or was before.
        assert!(run.children(&machine).await.is_empty());
        world.take_away(&lease, None).await;
        run.ended().await.output();
        assert_eq!(run.children(&machine).await.len(), 1);
        assert_eq!(world.holder(key_of(&lease)).await, None);
    });
}
