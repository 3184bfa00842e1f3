//! A callback by somebody who has the task token, and a lease of another key.

use serde_json::{Value, json};

use crate::execution::Execution;
use crate::queued_section::section;
use crate::with_lease::WAITS;
use crate::world::{World, fresh_key, with_world};

/// Wakes the first in line of `key`, as nobody but the library should: with the handle of a lease that the forger holds.
async fn forge(world: &World, key: &str) {
    let theirs = world.occupy(&fresh_key(), "a forger").await;
    let row = world.item("LeaseTable", key, "LEASE#0000").await.unwrap();
    let digest = row["line"].as_l().unwrap()[0].as_s().unwrap().clone();
    let waiter = world
        .item("LeaseTable", key, &format!("WAIT#{digest}"))
        .await;
    let token = waiter.unwrap()["task_token"].as_s().unwrap().clone();
    let told = json!({"outcome": "acquired", "lease": theirs, "grant": "new", "previous": null});
    let call = world.stack.sfn().send_task_success().task_token(token);
    call.output(told.to_string()).send().await.unwrap();
}

/// Nobody comes in: whoever was woken finds its lease lost, and goes to the end of the line.
async fn is_not_believed(world: &World, key: &str, lease: &Value, run: &Execution) {
    world.is_waited_for_by(key, 1).await;
    forge(world, key).await;
    // The one that the forger has answered for is passed over in its turn.
    world.is_waited_for_by(key, 2).await;
    assert_eq!(world.holder(key).await.as_deref(), Some("somebody else"));
    world.take_away(lease, None).await;
    run.ended().await.output();
    assert_eq!(world.holder(key).await, None);
}

#[test]
fn a_section_takes_no_other_keys_lease_for_its_own() {
    with_world(async |world| {
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let work = json!({"seconds": 0.1});
        let machine = world.machine("QueuedSectionStateMachine");
        let run = world
            .start(machine, section(&key, work.clone(), work))
            .await;
        is_not_believed(world, &key, &lease, &run).await;
        assert_eq!(world.workers(&key).await, [run.arn.as_str()]);
        assert_eq!(world.audit(&key).await, 4);
    });
}

#[test]
fn a_wrapper_takes_no_other_keys_lease_for_its_own() {
    with_world(async |world| {
        let machine = world.create("not-forged", WAITS).await;
        let key = fresh_key();
        let lease = world.occupy(&key, "somebody else").await;
        let input = json!({
            "key": key, "ttl_seconds": 30, "wait_seconds": 120, "state_machine_arn": machine, "input": {"seconds": 0},
        });
        let run = world.start_with_lease(input).await;
        is_not_believed(world, &key, &lease, &run).await;
    });
}
