//! Events, rules and queues.

use leasehold_local::{Options, Stack};
use serde_json::{Value, json};

use leasehold_proof::fixture::{event, eventually};

use crate::fixture::{dead_letters, next, options, stack};

fn ended(wish: &str) -> Value {
    let mut event = event("reap-succeeded");
    event["do"] = json!(wish);
    event
}

fn body(payload: &Value) -> Value {
    let record = &payload["Records"][0];
    assert_eq!(record["eventSource"], "aws:sqs");
    let arn = "arn:aws:sqs:us-east-1:123456789012:LaterQueue";
    assert_eq!(record["eventSourceARN"], arn);
    serde_json::from_str(record["body"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn default_delay_comes_from_template() {
    let stack = Stack::start(Options {
        queue_delay: None,
        ..options()
    })
    .await
    .unwrap();
    let mut invocations = stack.functions().invocations();
    stack.put_event(&event("reap-aborted"));
    next(&mut invocations).await;
    // A minute from now.
    assert_eq!(stack.queue("LaterQueue").unwrap().len(), 1);
    stack.stop().await;
}

#[tokio::test]
async fn failing_message_becomes_dead_letter() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    for wish in ["poison", "bomb"] {
        stack.put_event(&ended(wish));
        let mut received = 0;
        // At once, and twice from the queue.
        for _ in 0..3 {
            let (_, payload) = next(&mut invocations).await;
            if payload.get("Records").is_none() {
                continue;
            }
            received += 1;
            let count = &payload["Records"][0]["attributes"]["ApproximateReceiveCount"];
            let receive = json!(received.to_string());
            assert_eq!((body(&payload), count), (ended(wish), &receive));
        }
        assert_eq!(received, 2);
    }
    let letters = dead_letters(&stack, 2).await;
    assert_eq!(letters, [ended("poison"), ended("bomb")]);

    // One that fails once is dealt with the second time.
    stack.put_event(&ended("once"));
    for _ in 0..3 {
        next(&mut invocations).await;
    }
    let empty = async || stack.queue("LaterQueue").unwrap().is_empty().then_some(());
    eventually("an empty queue", empty).await;
    assert_eq!(dead_letters(&stack, 2).await.len(), 2);
    stack.stop().await;
}
