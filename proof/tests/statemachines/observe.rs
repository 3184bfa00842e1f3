//! The section that compares no clock: what stands still for its own ttl is taken, and nothing else.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::execution::Execution;
use crate::world::{World, fresh_key, with_world};

const DEFINITION: &str = include_str!("../../../statemachines/observe.asl.json");
const HOUR: u64 = 3_600_000;
/// What a holder with a ttl of one second is watched for: rounded up, and one more.
const WATCHED: Duration = Duration::from_secs(2);

async fn start(world: &World, input: Value) -> Execution {
    world
        .start(world.machine("ObserveStateMachine"), input)
        .await
}

/// Leases the key to a holder who may stay silent.
async fn leased(world: &World, key: &str, holder: &str) -> Value {
    let event = json!({"key": key, "holder": holder, "ttl_seconds": 1});
    world.call("AcquireFunction", &event).await["lease"].clone()
}

/// Moves the stored deadline, as a clock that is wrong by an hour would have written it.
async fn move_deadline(world: &World, key: &str, moved: impl Fn(u64) -> u64) {
    let row = world.item("LeaseTable", key, "LEASE#0000").await.unwrap();
    let expires_at = row["expires_at"].as_n().unwrap().parse().unwrap();
    let moved = AttributeValue::N(moved(expires_at).to_string());
    world
        .tamper("LeaseTable", key, "LEASE#0000", "expires_at", moved)
        .await;
}

/// Extends twice a second until it is aborted, by a clock that is an hour late if `late`.
fn keep_extending(world: &'static World, lease: Value, late: bool) -> JoinHandle<()> {
    tokio::spawn(async move {
        let key = lease["key"].as_str().unwrap();
        loop {
            if late {
                move_deadline(world, key, |expires_at| expires_at - HOUR).await;
            }
            sleep(Duration::from_millis(500)).await;
            let extended = world.call("ExtendFunction", &json!({"lease": lease})).await;
            assert!(extended["outcome"].is_string(), "{extended}");
        }
    })
}

/// The shipped machine, with functions whose clock is wrong by so many milliseconds: only the instants in their
/// handles show it.
async fn with_wrong_clocks(world: &World, name: &str, wrong_by: i64) -> String {
    let handle = format!(
        "($l := $states.result.Payload.lease; $merge([$l, {{\
         'expires_at': $fromMillis($toMillis($l.expires_at) + {wrong_by}), \
         'safe_until': $fromMillis($toMillis($l.safe_until) + {wrong_by})}}]))"
    );
    let definition = DEFINITION.replace("$states.result.Payload.lease", &handle);
    world.create(name, &definition).await
}

#[test]
fn a_free_key_costs_three_transitions_and_17_events() {
    with_world(async |world| {
        let key = fresh_key();
        let run = start(
            world,
            json!({"key": key, "ttl_seconds": 30, "work": {"output_bytes": 3}}),
        )
        .await;
        assert_eq!(run.ended().await.output()["output"], "xxx");
        assert_eq!(run.path().await, ["Acquire", "Work", "Release"]);
        let history = run.history().await;
        assert_eq!(history.len(), 17);
        let lease_id = run.lease().await["lease_id"].as_str().unwrap().to_owned();
        for event in history {
            if let Some(scheduled) = event.task_scheduled_event_details() {
                let parameters = scheduled.parameters();
                assert!(!parameters.contains("StepFunction") || !parameters.contains(&lease_id));
            }
        }
        assert_eq!(world.holder(&key).await, None);
        assert_eq!(world.audit(&key).await, 2);
    });
}

#[test]
fn a_dead_holder_is_taken_after_one_ttl_of_silence_for_two_more_transitions_and_7_events() {
    with_world(async |world| {
        let key = fresh_key();
        let dead = leased(world, &key, "dead").await;
        let started = Instant::now();
        let run = start(world, json!({"key": key, "ttl_seconds": 30})).await;
        run.ended().await.output();
        assert!(started.elapsed() >= WATCHED);
        assert_eq!(
            run.path().await,
            ["Acquire", "Watch", "TakeOver", "Work", "Release"]
        );
        assert_eq!(run.history().await.len(), 17 + 7);
        let previous = run.grant().await["previous"].clone();
        assert_eq!(
            (&previous["holder"], &previous["ended"]),
            (&json!("dead"), &json!("expired"))
        );
        assert_eq!(previous["fencing_token"], dead["fencing_token"]);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_deadline_written_by_a_wrong_clock_decides_nothing() {
    with_world(async |world| {
        // Long past by our clock, and yet the holder has only just begun; or far ahead, and the holder is dead.
        let wrong: [fn(u64) -> u64; 2] = [|at| at - HOUR, |at| at + HOUR];
        for moved in wrong {
            let key = fresh_key();
            leased(world, &key, "wrong clock").await;
            move_deadline(world, &key, moved).await;
            let started = Instant::now();
            let run = start(world, json!({"key": key, "ttl_seconds": 30})).await;
            run.reaches("Watch", 1).await;
            assert_eq!(world.holder(&key).await.as_deref(), Some("wrong clock"));
            run.ended().await.output();
            assert!(started.elapsed() >= WATCHED);
            assert_eq!(
                run.path().await,
                ["Acquire", "Watch", "TakeOver", "Work", "Release"]
            );
        }
        // Who goes by the clock would have been let in at once.
        let key = fresh_key();
        leased(world, &key, "wrong clock").await;
        move_deadline(world, &key, |at| at - HOUR).await;
        world.occupy(&key, "by the clock").await;
    });
}

#[test]
fn a_holder_that_keeps_extending_is_never_taken_and_named_in_the_end() {
    with_world(async |world| {
        for late in [false, true] {
            let key = fresh_key();
            let lease = leased(world, &key, "the night shift").await;
            let extending = keep_extending(world, lease, late);
            let input = json!({"key": key, "ttl_seconds": 30, "max_rounds": 2});
            let run = start(world, input).await;
            let cause = run.ended().await.failed_with("Lease.Held");
            assert!(!extending.is_finished());
            extending.abort();
            let cause: Value = serde_json::from_str(&cause).unwrap();
            let message: Value =
                serde_json::from_str(cause["errorMessage"].as_str().unwrap()).unwrap();
            assert_eq!(message["holder"], "the night shift");
            // Two rounds, and a third Watch without waiting, whose TakeOver asks nothing.
            let path = run.path().await;
            assert_eq!(path[..2], ["Acquire", "Watch"]);
            assert_eq!(path[5..], ["Watch", "TakeOver", "StillHeld"]);
            assert_eq!(path.len(), 8);
            let holder = world.holder(&key).await;
            assert_eq!(holder.as_deref(), Some("the night shift"));
        }
    });
}

#[test]
fn max_rounds_none_asks_once_and_nonsense_is_refused() {
    with_world(async |world| {
        let key = fresh_key();
        world.occupy(&key, "somebody").await;
        let once = json!({"key": key, "ttl_seconds": 30, "max_rounds": 0});
        let run = start(world, once).await;
        run.ended().await.failed_with("Lease.Held");
        assert_eq!(
            run.path().await,
            ["Acquire", "Watch", "TakeOver", "StillHeld"]
        );
        for nonsense in [json!(-1), json!(1001), json!("many")] {
            let input = json!({"key": fresh_key(), "ttl_seconds": 30, "max_rounds": nonsense});
            let run = start(world, input).await;
            let cause = run.ended().await.failed_with("States.QueryEvaluationError");
            assert!(cause.contains("max_rounds from 0 to 1000"), "{cause}");
        }
    });
}

#[test]
fn observers_pass_one_after_the_other() {
    with_world(async |world| {
        let key = fresh_key();
        let mut runs = Vec::new();
        for _ in 0..3 {
            let input = json!({"key": key, "ttl_seconds": 2, "work": {"seconds": 0.1}});
            runs.push(start(world, input).await);
        }
        for run in &runs {
            run.ended().await.output();
        }
        assert_eq!(world.audit(&key).await, 3 * 2);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn the_holders_own_time_is_counted_by_the_state_machine_whatever_the_functions_clock_says() {
    with_world(async |world| {
        let hour = i64::try_from(HOUR).unwrap();
        for (name, wrong_by) in [("functions-late", -hour), ("functions-early", hour)] {
            let machine = with_wrong_clocks(world, name, wrong_by).await;
            let key = fresh_key();
            let run = world
                .start(&machine, json!({"key": key, "ttl_seconds": 30}))
                .await;
            run.ended().await.output();
            assert_eq!(run.path().await, ["Acquire", "Work", "Release"], "{name}");

            let key = fresh_key();
            let started = Instant::now();
            let slow = json!({"key": key, "ttl_seconds": 3, "work": {"seconds": 30}});
            let run = world.start(&machine, slow).await;
            run.ended().await.failed_with("Lease.StepTimeout");
            assert!(
                started.elapsed() < Duration::from_secs(3),
                "cut off with the lease"
            );
            assert_eq!(run.path().await, ["Acquire", "Work", "StepMayRun"]);
            assert!(
                world.holder(&key).await.is_some(),
                "its Lambda may still be at work"
            );
        }
    });
}

#[test]
fn an_extend_that_cannot_move_the_deadline_still_gives_new_time() {
    with_world(async |world| {
        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 4, "work": {"seconds": 1}});
        let run = start(world, input).await;
        run.in_task("Work", 1).await;
        run.stop().await;
        // As if a function whose clock is ahead had granted it: the extend leaves this deadline alone and moves
        // the version, from which those who watch begin to count anew.
        move_deadline(world, &key, |at| at + HOUR).await;
        let watched = run.lease().await["version"].as_u64();
        sleep(Duration::from_secs(3)).await;
        run.redrive().await;
        run.ended().await.output();
        assert_eq!(run.steps_since_redrive().await, 1);
        assert!(run.lease().await["version"].as_u64() > watched);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_step_that_fails_releases_and_keeps_its_name() {
    with_world(async |world| {
        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 30, "work": {"fail": "Payment.Declined"}});
        let run = start(world, input).await;
        let cause = run.ended().await.failed_with("Payment.Declined");
        assert!(cause.contains("asked to fail"), "{cause}");
        assert_eq!(
            run.path().await,
            ["Acquire", "Work", "ReleaseAfterFailure", "Failed"]
        );
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_lost_lease_is_noticed_by_release_and_nobody_elses_is_freed() {
    with_world(async |world| {
        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 30, "work": {"seconds": 1}});
        let run = start(world, input).await;
        run.in_task("Work", 1).await;
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(&key, "another").await;
        world.take_away(&other, Some("somebody else")).await;
        run.ended().await.failed_with("Lease.Lost");
        assert_eq!(
            run.path().await,
            ["Acquire", "Work", "Release", "LeaseLost"]
        );
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
    });
}

#[test]
fn a_takeover_whose_answer_is_lost_is_replayed() {
    with_world(async |world| {
        let key = fresh_key();
        leased(world, &key, "dead").await;
        let run = start(world, json!({"key": key, "ttl_seconds": 30})).await;
        run.reaches("Watch", 1).await;
        // All attempts of one call: the function answers Lease.Unavailable, the Retry repeats the request.
        let proxy = world.stack.proxy();
        proxy.inject_matching(Fault::FailAnswer, "UpdateItem", &key, 3);
        run.ended().await.output();
        let grant = run.grant().await;
        assert_eq!(
            (&grant["grant"], &grant["previous"]["ended"]),
            (&json!("replayed"), &json!("expired"))
        );
        assert_eq!(
            run.path().await,
            ["Acquire", "Watch", "TakeOver", "Work", "Release"]
        );
        assert_eq!(world.audit(&key).await, 2);
    });
}

#[test]
fn a_ttl_too_short_to_work_in_fails_instead_of_going_round_for_ever() {
    with_world(async |world| {
        let key = fresh_key();
        let run = start(world, json!({"key": key, "ttl_seconds": 1})).await;
        run.ended().await.failed_with("Step.QueryEvaluationError");
        assert!(run.path().await.len() < 12);
        assert_eq!(world.holder(&key).await, None);
    });
}

#[test]
fn a_redriven_step_proves_its_lease_before_it_starts() {
    with_world(async |world| {
        for lost in [false, true] {
            let key = fresh_key();
            let input = json!({"key": key, "ttl_seconds": 30, "work": {"seconds": 1}});
            let run = start(world, input).await;
            run.in_task("Work", 1).await;
            run.stop().await;
            if lost {
                world
                    .take_away(&run.lease().await, Some("somebody else"))
                    .await;
            }
            run.redrive().await;
            let ended = run.ended().await;
            let path = run.since_redrive().await;
            if lost {
                ended.failed_with("Lease.Lost");
                assert_eq!(path, ["Work", "Prove", "LeaseLost"]);
                assert_eq!(run.steps_since_redrive().await, 0);
                assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
            } else {
                ended.output();
                assert_eq!(path, ["Work", "Prove", "Work", "Release"]);
                assert_eq!(world.overlaps(&key).await, 0);
                assert_eq!(world.holder(&key).await, None);
            }
        }
    });
}

#[test]
fn a_redriven_wait_starts_over() {
    with_world(async |world| {
        let key = fresh_key();
        let lease = leased(world, &key, "alive").await;
        let run = start(world, json!({"key": key, "ttl_seconds": 30})).await;
        run.reaches("Watch", 1).await;
        run.stop().await;
        // Extended meanwhile: what was observed before does not count.
        world.call("ExtendFunction", &json!({"lease": lease})).await;
        run.redrive().await;
        run.ended().await.output();
        assert_eq!(
            run.since_redrive().await,
            ["Watch", "TakeOver", "Watch", "TakeOver", "Work", "Release"]
        );
    });
}
