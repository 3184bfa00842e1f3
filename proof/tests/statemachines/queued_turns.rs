//! Whose turn it is: the order of the line, attempts that are repeated, turns that are missed.

use leasehold_local::Fault;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::queued_section::{DEFINITION, PATH, machine_with, section};
use crate::world::{World, fresh_key, with_world};

async fn join(world: &World, machine: &str, key: &str, place: usize) -> Execution {
    let work = json!({"seconds": 0.1});
    let run = world.start(machine, section(key, work.clone(), work)).await;
    world.is_waited_for_by(key, place).await;
    run
}

#[test]
fn four_in_line_go_in_the_order_in_which_they_came() {
    with_world(async |world| {
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let machine = world.machine("QueuedSectionStateMachine");
        let mut runs = Vec::new();
        for place in 1..=4 {
            runs.push(join(world, machine, &key, place).await);
        }
        world.take_away(&lease, None).await;
        for run in &runs {
            run.ended().await.output();
            assert_eq!(run.path().await, PATH);
            assert_eq!(run.history().await.len(), 33);
        }
        let came: Vec<_> = runs.iter().map(|run| run.arn.clone()).collect();
        assert_eq!(world.workers(&key).await, came);
        assert_eq!(world.audit(&key).await, 4 * 4);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_new_attempt_keeps_its_place_and_is_woken_by_its_own_token() {
    with_world(async |world| {
        let arn = world.own_function("AcquireFunction", "MortalAcquire", &[]);
        let machine = machine_with(world, "retried-in-line", "AcquireFunction", &arn).await;
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let host = world.stack.functions();
        host.kill_before_answer("MortalAcquire", 1).unwrap();
        let first = join(world, &machine, &key, 1).await;
        let sound = world.machine("QueuedSectionStateMachine");
        let second = join(world, sound, &key, 2).await;
        first.waits_in("Acquire", 2).await;
        assert_eq!(world.waiting(&key).await, 2);
        world.take_away(&lease, None).await;
        first.ended().await.output();
        second.ended().await.output();
        assert_eq!(first.path().await, PATH);
        assert_eq!(
            world.workers(&key).await,
            [first.arn.clone(), second.arn.clone()]
        );
    });
}

#[test]
fn a_grant_whose_answer_was_lost_is_told_to_the_next_attempt() {
    with_world(async |world| {
        let key = fresh_key();
        // The function tells twice, and then fails.
        let sfn = world.stack.sfn_proxy().unwrap();
        sfn.inject_matching(Fault::ServerError, "SendTaskSuccess", &key, 2);
        let run = world
            .start_queued(section(&key, json!({}), json!({})))
            .await;
        run.ended().await.output();
        assert_eq!(run.grant().await["grant"], "replayed");
        assert_eq!(run.path().await, PATH);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn one_who_is_never_told_ends_as_timed_out_and_its_place_does_not_block() {
    with_world(async |world| {
        let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
        definition["States"]["Acquire"]["TimeoutSeconds"] = 2.into();
        let machine = world.create("gives-up", &definition.to_string()).await;
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let first = join(world, &machine, &key, 1).await;
        let patient = world.machine("QueuedSectionStateMachine");
        let second = join(world, patient, &key, 2).await;
        let cause = first.ended().await.failed_with("Lease.QueueTimeout");
        assert!(cause.contains("wait_seconds"), "{cause}");
        assert_eq!(first.path().await, ["Acquire", "Failed"]);
        world.take_away(&lease, None).await;
        second.ended().await.output();
        assert_eq!(world.workers(&key).await, std::slice::from_ref(&second.arn));
        assert_eq!(world.waiting(&key).await, 0);
    });
}

/// A machine whose first extend can be held up, by freezing the function of this name.
async fn tardy(world: &World, function: &str) -> String {
    let arn = world.own_function("ExtendFunction", function, &[]);
    let machine = machine_with(world, function, "ExtendFunction", &arn).await;
    // One answered call first, so that there is a process to freeze.
    let run = world
        .start(&machine, section(&fresh_key(), json!({}), json!({})))
        .await;
    run.ended().await.output();
    machine
}

/// Ends `lease`; `run`, which is woken for the `nth` time, comes to `confirm` too late, and finds somebody else in: that one's lease.
pub async fn miss_a_turn(
    world: &World,
    function: &str,
    lease: &Value,
    run: &Execution,
    (confirm, nth): (&str, usize),
) -> Value {
    let host = world.stack.functions();
    host.freeze(function).unwrap();
    world.take_away(lease, None).await;
    run.in_task(confirm, nth).await;
    let promised = run.lease().await;
    world.take_away(&promised, None).await;
    let other = world.occupy(promised["key"].as_str().unwrap(), "somebody else");
    let other = other.await;
    host.thaw(function).unwrap();
    other
}

#[test]
fn one_who_misses_its_turn_waits_for_another_before_anything_is_done() {
    with_world(async |world| {
        let machine = tardy(world, "TardyExtend").await;
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let run = join(world, &machine, &key, 1).await;
        let other = miss_a_turn(world, "TardyExtend", &lease, &run, ("Confirm", 1)).await;
        world.is_waited_for_by(&key, 1).await;
        assert!(world.workers(&key).await.is_empty());
        world.take_away(&other, None).await;
        run.ended().await.output();
        let mut path = vec!["Acquire", "Confirm", "TurnMissed"];
        path.extend(PATH);
        assert_eq!(run.path().await, path);
        assert_eq!(world.audit(&key).await, 4);
    });
}

#[test]
fn one_who_misses_three_turns_gives_up() {
    with_world(async |world| {
        let machine = tardy(world, "TooTardyExtend").await;
        let key = fresh_key();
        let mut lease = world.occupy(&key, "somebody else").await;
        let run = join(world, &machine, &key, 1).await;
        for nth in 1..=3 {
            world.is_waited_for_by(&key, 1).await;
            lease = miss_a_turn(world, "TooTardyExtend", &lease, &run, ("Confirm", nth)).await;
        }
        let cause = run.ended().await.failed_with("Lease.Lost");
        assert!(cause.contains(&key), "{cause}");
        let path = run.path().await;
        assert_eq!(path.len(), 10);
        assert_eq!(path[8..], ["TurnMissed", "LeaseLost"]);
        assert_eq!(world.waiting(&key).await, 0);
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
    });
}
