//! Events, rules and queues.

use leasehold_local::{Invocation, Options, Stack};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

use leasehold_proof::fixture::{event, eventually};

use crate::fixture::{dead_letters, next, options, stack};

fn ended(wish: &str) -> Value {
    let mut event = event("reap-succeeded");
    event["do"] = json!(wish);
    event
}

/// The next invocation with an event itself, and the next with one from the queue; on a busy machine the first may
/// end after the second.
async fn both(invocations: &mut Receiver<Invocation>) -> [(Invocation, Value); 2] {
    let (mut at_once, mut later) = (None, None);
    loop {
        let (invocation, payload) = next(invocations).await;
        let place = if payload.get("Records").is_some() {
            &mut later
        } else {
            &mut at_once
        };
        assert!(place.is_none(), "twice: {payload}");
        *place = Some((invocation, payload));
        if let (Some(_), Some(_)) = (&at_once, &later) {
            return [at_once.unwrap(), later.unwrap()];
        }
    }
}

fn body(payload: &Value) -> Value {
    let record = &payload["Records"][0];
    assert_eq!(record["eventSource"], "aws:sqs");
    let arn = "arn:aws:sqs:us-east-1:123456789012:LaterQueue";
    assert_eq!(record["eventSourceARN"], arn);
    serde_json::from_str(record["body"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn an_event_that_the_rule_wants_arrives_at_once_and_once_more_from_the_queue() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    stack.put_event(&event("reap-running-again"));
    let ended = event("reap-aborted");
    stack.put_event(&ended);
    let [(at_once, seen), (_, payload)] = both(&mut invocations).await;
    assert_eq!((&*at_once.function, &seen), ("PickyFunction", &ended));
    assert_eq!(body(&payload), ended);
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let sample = &event("reap-later")["Records"][0];
    assert_eq!(names(&payload["Records"][0]), names(sample));
    stack.stop().await;
}

#[tokio::test]
async fn the_delay_is_the_templates_if_nobody_says_otherwise() {
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
async fn a_message_that_fails_comes_back_until_it_is_a_dead_letter() {
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
