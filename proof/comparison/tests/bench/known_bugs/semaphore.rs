//! The entries about the semaphore of AWS's sample, and the same with our semaphore and our critical section.

use std::time::Duration;

use leasehold::{Clock as _, SystemClock, Timestamp};
use leasehold_bench::workflows::History;
use leasehold_bench::workflows::fixture::{GRACE, succeeds};
use leasehold_proof::execution::Execution;
use serde_json::{Value, json};

use super::fixture::{alone_with_fixture, fresh_key, with_fixture};
use super::ours::{MARGIN, call, found, outwait};
use super::sample::{LONG, SEMAPHORE, Sample, first_to_end, name, steps};

#[test]
fn a_lowered_limit_is_no_limit() {
    with_fixture(async |fixture| {
        let sample = Sample::new(fixture, 3).await;
        // Three are in, and the limit is lowered to two.
        let lowered = sample.machine(SEMAPHORE, 2).await;
        for _ in 0..2 {
            let run = fixture.start(&lowered, &json!({"seconds": 0})).await;
            succeeds(&run).await;
            let states = History::of(&run).await.states;
            assert!(
                states.keys().eq(["Done", "GiveBack", "Take", "Work"]),
                "kept waiting: {states:?}"
            );
        }

        let key = fresh_key();
        let acquire = async |holder: String, permits: u32| {
            let event =
                json!({"key": key, "holder": holder, "permits": permits, "ttl_seconds": 60});
            call(fixture, "AcquireFunction", &event).await
        };
        for n in 0..3 {
            acquire(format!("holder-{n}"), 3).await.unwrap();
        }
        for n in 3..5 {
            let refused = acquire(format!("holder-{n}"), 2).await;
            assert_eq!(refused.unwrap_err(), "Lease.Held");
        }
        found(
            "with 3 in and the limit lowered to 2, both newcomers went straight to work",
            "with 3 in and the limit lowered to 2, both newcomers got Lease.Held",
        );
    });
}

/// Two branches of one execution, each a copy of this machine under names of its own.
fn twice(definition: &str, names: &[&str]) -> String {
    let branches = ["A", "B"].map(|suffix| {
        let mut text = definition.to_owned();
        for name in names {
            text = text.replace(&format!("\"{name}\""), &format!("\"{name}{suffix}\""));
        }
        let mut branch: Value = serde_json::from_str(&text).unwrap();
        branch.as_object_mut().unwrap().remove("QueryLanguage");
        branch
    });
    let both = json!({"Type": "Parallel", "Branches": branches, "End": true});
    json!({"QueryLanguage": "JSONata", "StartAt": "Both", "States": {"Both": both}}).to_string()
}

#[test]
fn two_branches_hold_one_permit() {
    with_fixture(async |fixture| {
        let sample = Sample::new(fixture, 0).await;
        let names = [
            "Take", "Look", "IsItMine", "Pause", "Work", "GiveBack", "Done",
        ];
        let machine = sample.machine(&twice(SEMAPHORE, &names), 1).await;
        let mut ended = fixture.stack.functions().invocations();
        let run = fixture.start(&machine, &json!({"seconds": LONG})).await;
        run.reaches("WorkA", 1).await;
        run.reaches("WorkB", 1).await;
        assert_eq!(sample.state().await, (1, vec![run.arn.clone()]));
        // Neither has been left.
        let states = History::of(&run).await.states;
        assert!(!states.keys().any(|state| state.starts_with("GiveBack")));
        run.stop().await;

        let key = fresh_key();
        let twice = twice(BRANCH, &["Acquire", "Work", "Release"]);
        let machine = fixture.create("record", &twice, &[]).await;
        let run = fixture.start(&machine, &json!({"key": key})).await;
        let inside = steps(&mut ended, &key, 2).await;
        assert!(inside[0].ended_at < inside[1].started_at, "both at once");
        succeeds(&run).await;
        found(
            "with a limit of 1 both branches worked at the same time",
            "with 1 permit the second branch worked after the first one",
        );
    });
}

/// Ours, for one branch: the state's name is in the request, and tells branches apart.
const BRANCH: &str = r#"{
  "StartAt": "Acquire",
  "States": {
    "Acquire": {
      "Type": "Task",
      "Resource": "arn:aws:states:::lambda:invoke",
      "Arguments": {"FunctionName": "${AcquireFunction}", "Payload": {
        "key": "{% $states.input.key %}",
        "holder": "{% $states.context.Execution.Id %}",
        "request_id": "{% $states.context.State.Name & '/' & $states.context.State.EnteredTime %}",
        "ttl_seconds": 30
      }},
      "Retry": [{"ErrorEquals": ["Lease.Held"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 20}],
      "Assign": {"lease": "{% $states.result.Payload.lease %}"},
      "Output": "{% $states.input %}",
      "Next": "Work"
    },
    "Work": {
      "Type": "Task",
      "Resource": "arn:aws:states:::lambda:invoke",
      "Arguments": {"FunctionName": "${StepFunction}", "Payload": {"step": "{% $states.input.key %}", "work": {"seconds": 0.5}}},
      "Next": "Release"
    },
    "Release": {
      "Type": "Task",
      "Resource": "arn:aws:states:::lambda:invoke",
      "Arguments": {"FunctionName": "${ReleaseFunction}", "Payload": {"lease": "{% $lease %}"}},
      "End": true
    }
  }
}"#;

#[test]
fn a_late_acquire_leaks() {
    alone_with_fixture(async |fixture| {
        let sample = Sample::new(fixture, 0).await;
        let machine = sample.machine(SEMAPHORE, 1).await;
        let proxy = fixture.stack.proxy();
        proxy.reset();
        // Its write is on the way for longer than the execution lives.
        proxy.set_latency(Duration::from_secs(4));
        let run = fixture.start(&machine, &json!({"seconds": 0})).await;
        while proxy.counts().of("UpdateItem") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        proxy.set_latency(Duration::ZERO);
        run.stop().await;
        sample.clean_up_after(&run).await;
        assert_eq!(sample.state().await, (0, Vec::new()));
        while sample.state().await.0 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let leaked = (1, vec![run.arn.clone()]);
        let next = fixture.start(&machine, &json!({"seconds": 0})).await;
        next.reaches("Pause", 4).await;
        assert_eq!(sample.state().await, leaked);
        next.stop().await;

        let key = fresh_key();
        let event = json!({"key": key, "holder": run.arn, "ttl_seconds": 2});
        let late = call(fixture, "AcquireFunction", &event).await.unwrap();
        let event = json!({"key": key, "holder": "next", "ttl_seconds": 2});
        let refused = call(fixture, "AcquireFunction", &event).await;
        assert_eq!(refused.unwrap_err(), "Lease.Held");
        outwait(&late["lease"]).await;
        let next = call(fixture, "AcquireFunction", &event).await.unwrap();
        assert_eq!(next["grant"], "takeover");
        found(
            "counted 1 by an execution that is cleaned up after; the next one was refused 4 times and nothing will change that",
            "held by an execution that is over, and taken over after its 2 s and the margin",
        );
    });
}

#[test]
fn a_lost_event_leaks() {
    with_fixture(async |fixture| {
        let section = fixture.shipped("CriticalSection");
        let sample = Sample::new(fixture, 0).await;
        let machine = sample.machine(SEMAPHORE, 1).await;
        let run = fixture.start(&machine, &json!({"seconds": LONG})).await;
        run.in_task("Work", 1).await;
        run.stop().await;
        // No clean-up: its event is lost.
        let next = fixture.start(&machine, &json!({"seconds": 0})).await;

        let key = fresh_key();
        fixture.stack.lose_events(Some(&key));
        let input = json!({"key": key, "ttl_seconds": 5, "first": {"seconds": LONG}});
        let run = fixture.start(section, &input).await;
        run.in_task("First", 1).await;
        run.stop().await;
        let event = json!({"key": key, "holder": "next", "ttl_seconds": 2, "if_held": "skip"});
        let held = call(fixture, "AcquireFunction", &event).await.unwrap();
        assert_eq!(held["outcome"], "held", "{held}");
        outwait(&held["held"]).await;
        let taken = call(fixture, "AcquireFunction", &event).await.unwrap();
        assert_eq!(taken["grant"], "takeover", "{taken}");
        fixture.stack.lose_events(None);

        next.reaches("Pause", 4).await;
        assert_eq!(sample.state().await.0, 1);
        next.stop().await;
        found(
            "counted 1 by an execution that is over; the next one was refused 4 times and nothing will change that",
            "taken over after the 5 s of the lease and the margin",
        );
    });
}

/// Stops our section in its first step, and later after its grant than clocks may be apart: of an execution that ends
/// sooner, reap leaves the lease alone. When it was stopped.
async fn stop_later(run: &Execution) -> Timestamp {
    run.in_task("First", 1).await;
    tokio::time::sleep(2 * MARGIN).await;
    let stopped_at = SystemClock.now();
    run.stop().await;
    stopped_at
}

/// When this lease was granted, which has to be after the grace and long before the 60 s of the stopped execution's lease.
fn granted_after_the_grace(lease: &Value, stopped_at: Timestamp) -> Timestamp {
    let granted: Timestamp = serde_json::from_value(lease["acquired_at"].clone()).unwrap();
    let after = granted.since(stopped_at);
    assert!(
        after >= GRACE && after < Duration::from_secs(30),
        "{after:?}"
    );
    granted
}

#[test]
fn clean_up_while_step_runs() {
    with_fixture(async |fixture| {
        let section = fixture.shipped("CriticalSection");
        let mut ended = fixture.stack.functions().invocations();
        let sample = Sample::new(fixture, 0).await;
        let machine = sample.machine(SEMAPHORE, 1).await;
        let run = fixture.start(&machine, &json!({"seconds": LONG})).await;
        run.in_task("Work", 1).await;
        run.stop().await;
        sample.clean_up_after(&run).await;
        let next = fixture.start(&machine, &json!({"seconds": 0})).await;
        let first = first_to_end(&mut ended, [&run, &next]).await;
        assert_eq!(first, next.arn, "one after the other");

        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 60, "first": {"seconds": 2}});
        let run = fixture.start(section, &input).await;
        let stopped_at = stop_later(&run).await;
        let event = json!({"key": key, "holder": "next", "ttl_seconds": 60, "if_held": "skip"});
        let mut refusals = 0;
        let next = loop {
            let answer = call(fixture, "AcquireFunction", &event).await.unwrap();
            if answer["outcome"] == "acquired" {
                break answer;
            }
            refusals += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let stopped = steps(&mut ended, &key, 1).await;
        let granted = granted_after_the_grace(&next["lease"], stopped_at);
        let over = stopped[0]
            .ended_at
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(
            u128::from(granted.as_millis()) > over.as_millis(),
            "both at once"
        );
        found(
            "the next one's step began and ended while the stopped one's function still worked",
            format!(
                "refused {refusals} times, and granted when the stopped one's function had ended and the grace was over"
            ),
        );
    });
}

#[test]
fn a_redriven_step_is_unprotected() {
    with_fixture(async |fixture| {
        let section = fixture.shipped("CriticalSection");
        let mut ended = fixture.stack.functions().invocations();
        let sample = Sample::new(fixture, 0).await;
        let machine = sample.machine(SEMAPHORE, 1).await;
        let run = fixture.start(&machine, &json!({"seconds": 3})).await;
        run.in_task("Work", 1).await;
        run.stop().await;
        sample.clean_up_after(&run).await;
        steps(&mut ended, name(&run), 1).await;
        let next = fixture.start(&machine, &json!({"seconds": LONG})).await;
        next.in_task("Work", 1).await;
        run.redrive().await;
        let first = first_to_end(&mut ended, [&run, &next]).await;
        assert_eq!(first, run.arn, "one after the other");
        assert_eq!(sample.state().await, (1, vec![next.arn.clone()]));
        next.stop().await;

        let key = fresh_key();
        let input = json!({"key": key, "ttl_seconds": 60, "first": {"seconds": 2}});
        let run = fixture.start(section, &input).await;
        let stopped_at = stop_later(&run).await;
        steps(&mut ended, &key, 1).await;
        let event = json!({"key": key, "holder": "next", "ttl_seconds": 60});
        let next = loop {
            if let Ok(next) = call(fixture, "AcquireFunction", &event).await {
                break next;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        granted_after_the_grace(&next["lease"], stopped_at);
        run.redrive().await;
        assert_eq!(run.ended().await.error, "Lease.Lost");
        while let Ok(invocation) = ended.try_recv() {
            let again = invocation.function == "StepFunction" && invocation.payload.contains(&key);
            assert!(!again, "the step has run again");
        }
        found(
            "the redriven step worked while the next execution held the only permit",
            "the redriven execution ended as Lease.Lost before its step began",
        );
    });
}
