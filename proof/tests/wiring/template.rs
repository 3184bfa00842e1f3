//! The repository's own template: what reaches reap.

use std::time::Duration;

use leasehold_local::{Options, Stack};
use serde_json::{Value, json};

use leasehold_proof::fixture::{event, scanned};

use crate::fixture::next;

async fn stack() -> Stack {
    // `make test` has built the functions; the error says so otherwise.
    Stack::start(Options {
        queue_delay: Some(Duration::from_millis(30)),
        ..scanned()
    })
    .await
    .unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn the_end_of_a_leasing_execution_reaches_reap_twice() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    stack.put_event(&event("reap-running-again"));
    stack.put_event(&event("reap-succeeded"));
    let mut stranger = event("reap-aborted");
    stranger["detail"]["stateMachineArn"] =
        json!("arn:aws:states:us-east-1:123456789012:stateMachine:somebody-elses");
    stack.put_event(&stranger);
    let mut of_a_user = event("reap-aborted");
    of_a_user["detail"]["stateMachineArn"] =
        json!("arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_leasing_orders");
    for whole in [event("reap-aborted"), of_a_user] {
        assert!(whole["detail"]["input"].is_string(), "{whole}");
        stack.put_event(&whole);
        // No input, no output: nothing that the execution worked on rests in a queue.
        let (execution, status) = (&whole["detail"]["executionArn"], &whole["detail"]["status"]);
        let passed = json!({"detail": {"executionArn": execution, "status": status}});
        let (mut at_once, mut later) = (false, false);
        // What reap makes of it is not the matter here: a message that it fails at comes back.
        while !(at_once && later) {
            let (invocation, payload) = next(&mut invocations).await;
            assert_eq!(invocation.function, "ReapFunction");
            for record in payload["Records"].as_array().unwrap() {
                let names = |record: &Value| record.as_object().unwrap().keys().cloned().collect();
                let sample: Vec<_> = names(&event("reap-later")["Records"][0]);
                assert_eq!(names(record), sample);
                let body = record["body"].as_str().unwrap();
                let told = serde_json::from_str::<Value>(body).unwrap() == passed;
                let from = record["eventSourceARN"].as_str().unwrap();
                at_once |= told && from.ends_with(":ReapQueue");
                later |= told && from.ends_with(":ReapLaterQueue");
            }
        }
    }
    stack.stop().await;
}
