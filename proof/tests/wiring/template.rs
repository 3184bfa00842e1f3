//! The repository's own template: what reaches reap.

use std::time::Duration;

use leasehold_local::{Invocation, Options, Stack};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

use leasehold_proof::fixture::{event, scanned};

use crate::fixture::next;

/// In an event that is not for reap.
const STRANGE: &str = "strange";

async fn stack(parameters: impl IntoIterator<Item = (String, String)>) -> Stack {
    // `make test` has built the functions; the error says so otherwise.
    Stack::start(Options {
        queue_delay: Some(Duration::from_millis(30)),
        parameters: parameters.into_iter().collect(),
        ..scanned()
    })
    .await
    .unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn the_end_of_a_leasing_execution_reaches_reap_twice() {
    let stack = stack([]).await;
    let mut invocations = stack.functions().invocations();
    stack.put_event(&event("reap-running-again"));
    stack.put_event(&event("reap-succeeded"));
    let of = |machine: &str, execution: &str| {
        let mut event = event("reap-aborted");
        for (name, kind) in [
            ("stateMachineArn", format!("stateMachine:{machine}")),
            ("executionArn", format!("execution:{machine}:{execution}")),
        ] {
            event["detail"][name] = json!(format!("arn:aws:states:us-east-1:123456789012:{kind}"));
        }
        event
    };
    // A machine of another stack, whose name begins with one of this stack's, and one that is not in the list.
    for machine in ["leasehold-with-lease-2", "somebody-elses"] {
        stack.put_event(&of(machine, STRANGE));
    }
    let of_a_user = of("leasehold_leasing_orders", "mine");
    for whole in [event("reap-aborted"), of_a_user] {
        assert!(whole["detail"]["input"].is_string(), "{whole}");
        stack.put_event(&whole);
        // No input, no output: nothing that the execution worked on rests in a queue.
        let (execution, status) = (&whole["detail"]["executionArn"], &whole["detail"]["status"]);
        let passed = json!({"detail": {"executionArn": execution, "status": status}});
        reaches_reap_twice(&mut invocations, &passed).await;
    }
    stack.stop().await;
}

#[tokio::test]
async fn the_failure_of_a_durable_execution_of_the_list_reaches_reap_twice() {
    let functions = ["orders-*", "bills"]
        .map(|name| format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"));
    let stack = stack([("DurableFunction".to_owned(), functions.join(","))]).await;
    let mut invocations = stack.functions().invocations();
    let of = |function: &str, execution: &str, status: &str| {
        let mut event = event("reap-durable");
        let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:{function}");
        event["detail"]["durableExecutionArn"] =
            json!(format!("{arn}/durable-execution/{execution}/1"));
        // Its qualifier is optional.
        event["detail"]["functionArn"] = json!(arn.rsplit_once(':').unwrap().0);
        event["detail"]["status"] = json!(status);
        event
    };
    for (function, status) in [
        ("orders:1", "FAILED"),
        ("orders-x:1", "SUCCEEDED"),
        ("orders-x:1", "RUNNING"),
    ] {
        stack.put_event(&of(function, STRANGE, status));
    }
    for whole in [
        of("orders-x:$LATEST", "a", "FAILED"),
        of("bills:12", "b", "TIMED_OUT"),
        of("bills:12", "c", "STOPPED"),
    ] {
        stack.put_event(&whole);
        let (execution, status) = (
            &whole["detail"]["durableExecutionArn"],
            &whole["detail"]["status"],
        );
        let passed = json!({"detail": {"durableExecutionArn": execution, "status": status}});
        reaches_reap_twice(&mut invocations, &passed).await;
    }
    stack.stop().await;
}

/// Waits until reap has had this of both queues.
async fn reaches_reap_twice(invocations: &mut Receiver<Invocation>, passed: &Value) {
    let (mut at_once, mut later) = (false, false);
    // What reap makes of it is not the matter here: a message that it fails at comes back.
    while !(at_once && later) {
        let (invocation, payload) = next(invocations).await;
        assert_eq!(invocation.function, "ReapFunction");
        for record in payload["Records"].as_array().unwrap() {
            let names = |record: &Value| record.as_object().unwrap().keys().cloned().collect();
            let sample: Vec<_> = names(&event("reap-later")["Records"][0]);
            assert_eq!(names(record), sample);
            let body = record["body"].as_str().unwrap();
            assert!(!body.contains(STRANGE), "{body}");
            let told = serde_json::from_str::<Value>(body).unwrap() == *passed;
            let from = record["eventSourceARN"].as_str().unwrap();
            at_once |= told && from.ends_with(":ReapQueue");
            later |= told && from.ends_with(":ReapLaterQueue");
        }
    }
}
