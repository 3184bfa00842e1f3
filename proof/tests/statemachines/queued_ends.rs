//! Executions that end while they wait or hold, on a stack where sweep runs.

use std::time::Duration;

use leasehold::Timestamp;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::queued_section::{PATH, section};
use crate::world::{World, fresh_key, with_swept_world};

/// Somebody at work with the key, and one in line behind.
async fn at_work_and_waiting(world: &World, key: &str, ttl: u32) -> (Execution, Execution) {
    let mut input = section(key, json!({"seconds": 1}), json!({}));
    input["ttl_seconds"] = ttl.into();
    let holder = world.start_queued(input).await;
    holder.in_task("First", 1).await;
    let next = world.start_queued(section(key, json!({}), json!({}))).await;
    world.is_waited_for_by(key, 1).await;
    (holder, next)
}

#[test]
fn one_who_is_stopped_while_it_waits_does_not_block_those_behind() {
    with_swept_world(async |world| {
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let mut runs = Vec::new();
        for place in 1..=3 {
            let input = section(&key, json!({}), json!({}));
            runs.push(world.start_queued(input).await);
            world.is_waited_for_by(&key, place).await;
        }
        runs[0].stop().await;
        runs[1].stop().await;
        world.take_away(&lease, None).await;
        runs[2].ended().await.output();
        assert_eq!(runs[2].path().await, PATH);
        assert_eq!(world.workers(&key).await, [runs[2].arn.clone()]);
        assert_eq!(world.waiting(&key).await, 0);
    });
}

#[test]
fn one_who_is_stopped_between_waking_and_confirming_is_passed_over() {
    with_swept_world(async |world| {
        let reap = reap_with_grace(world, 900);
        let claim = [("LEASE_CLAIM_SECONDS", "2")];
        world.own_function("ReleaseFunction", "HastyRelease", &claim);
        let stuck = world.own_function("ExtendFunction", "StuckExtend", &[]);
        let machine =
            crate::queued_section::machine_with(world, "stuck", "ExtendFunction", &stuck).await;
        let warm = section(&fresh_key(), json!({}), json!({}));
        world.start(&machine, warm).await.ended().await.output();
        world.stack.functions().freeze("StuckExtend").unwrap();

        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let late = world
            .start(&machine, section(&key, json!({}), json!({})))
            .await;
        world.is_waited_for_by(&key, 1).await;
        let next = world
            .start_queued(section(&key, json!({}), json!({})))
            .await;
        world.is_waited_for_by(&key, 2).await;
        let release = json!({"lease": lease});
        let released = world.call("HastyRelease", &release).await;
        assert_eq!(released["outcome"], "released", "{released}");
        late.in_task("Confirm", 1).await;
        late.stop().await;
        // It is not told again, only given its time.
        world.call(&reap, &aborted(&late)).await;
        next.ended().await.output();
        assert_eq!(world.workers(&key).await, std::slice::from_ref(&next.arn));
    });
}

#[test]
fn one_who_is_stopped_at_work_keeps_the_key_until_its_lease_is_over() {
    with_swept_world(async |world| {
        let key = fresh_key();
        let (holder, next) = at_work_and_waiting(world, &key, 3).await;
        let lease = holder.lease().await;
        holder.stop().await;
        next.ended().await.output();
        assert_eq!(next.path().await, PATH);
        assert_eq!(next.grant().await["previous"]["ended"], "expired");
        let granted = instant(&next.grant().await["lease"]["acquired_at"]);
        assert!(granted > instant(&lease["expires_at"]));
        assert_eq!(world.overlaps(&key).await, 0);
    });
}

#[test]
fn the_end_of_an_execution_at_work_cuts_its_lease_to_the_grace() {
    with_swept_world(async |world| {
        let reap = reap_with_grace(world, 1);
        let key = fresh_key();
        let (holder, next) = at_work_and_waiting(world, &key, 3600).await;
        let lease = holder.lease().await;
        holder.stop().await;
        let cut = world.call(&reap, &aborted(&holder)).await;
        assert_eq!(cut["outcome"], "reaped", "{cut}");
        next.ended().await.output();
        assert_eq!(next.path().await, PATH);
        assert_eq!(next.grant().await["previous"]["ended"], "expired");
        let granted = instant(&next.grant().await["lease"]["acquired_at"]);
        assert!(granted < instant(&lease["expires_at"]));
        assert!(
            granted > holder.stopped_at().await.plus(Duration::from_secs(1)),
            "its Lambda was let finish"
        );
    });
}

#[test]
fn one_who_has_waited_long_enough_is_sent_away_and_a_redrive_asks_again() {
    with_swept_world(async |world| {
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let mut input = section(&key, json!({}), json!({}));
        input["wait_seconds"] = 1.into();
        let run = world.start_queued(input).await;
        let cause = run.ended().await.failed_with("Lease.QueueTimeout");
        assert!(cause.contains(&key), "{cause}");
        assert_eq!(run.path().await, ["Acquire"]);
        assert_eq!(world.waiting(&key).await, 0);
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));

        world.take_away(&lease, None).await;
        run.redrive().await;
        run.ended().await.output();
        assert_eq!(run.since_redrive().await, PATH);
    });
}

fn instant(value: &Value) -> Timestamp {
    serde_json::from_value(value.clone()).unwrap()
}

/// Registers reap, with a grace of the test's own; its name.
fn reap_with_grace(world: &World, seconds: u32) -> String {
    let host = world.stack.functions();
    let mut function = host.function("ReapFunction").unwrap();
    function.logical_id = format!("ReapAfter{seconds}");
    function.verb.clone_from(&function.logical_id);
    let grace = ("LEASE_REAP_GRACE_SECONDS".to_owned(), seconds.to_string());
    function.environment.extend([grace]);
    host.register(function);
    format!("ReapAfter{seconds}")
}

/// What the service tells of an execution that was stopped.
fn aborted(execution: &Execution) -> Value {
    json!({
        "source": "aws.states",
        "detail-type": "Step Functions Execution Status Change",
        "detail": {"executionArn": execution.arn, "status": "ABORTED"},
    })
}
