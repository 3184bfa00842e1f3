//! Events, rules and queues.

use leasehold_local::{Options, Source, Stack};
use serde_json::{Value, json};

use crate::bench::{dead_letters, event, eventually, next, options, stack};

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
async fn an_event_that_the_rule_wants_arrives_at_once_and_once_more_after_the_delay() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    stack.put_event(event("reap-running-again"));
    let ended = event("reap-aborted");
    stack.put_event(ended.clone());
    let (at_once, payload) = next(&mut invocations).await;
    assert_eq!((&*at_once.function, &payload), ("PickyFunction", &ended));
    let (later, payload) = next(&mut invocations).await;
    assert_eq!(body(&payload), ended);
    let apart = later.started_at.duration_since(at_once.started_at).unwrap();
    assert!(apart.as_millis() >= 25, "{apart:?}");
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
    stack.put_event(event("reap-aborted"));
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
        stack.put_event(ended(wish));
        next(&mut invocations).await;
        for receive in ["1", "2"] {
            let (_, payload) = next(&mut invocations).await;
            let count = &payload["Records"][0]["attributes"]["ApproximateReceiveCount"];
            assert_eq!((body(&payload), count), (ended(wish), &json!(receive)));
        }
    }
    let letters = dead_letters(&stack, 2).await;
    assert_eq!(letters, [ended("poison"), ended("bomb")]);

    // One that fails once is dealt with the second time.
    stack.put_event(ended("once"));
    for _ in 0..3 {
        next(&mut invocations).await;
    }
    let empty = async || stack.queue("LaterQueue").unwrap().is_empty().then_some(());
    eventually(empty).await;
    assert_eq!(dead_letters(&stack, 2).await.len(), 2);
    stack.stop().await;
}

#[tokio::test]
async fn a_test_may_lose_an_event_or_its_second_coming() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    stack.deliveries().lose(Source::Bus, 1);
    stack.put_event(ended("first"));
    stack.put_event(ended("second"));
    assert_eq!(next(&mut invocations).await.1, ended("second"));
    assert_eq!(body(&next(&mut invocations).await.1), ended("second"));

    stack.deliveries().lose(Source::Queue, u32::MAX);
    stack.put_event(ended("third"));
    assert_eq!(next(&mut invocations).await.1, ended("third"));
    let gone = async || stack.queue("LaterQueue").unwrap().is_empty().then_some(());
    eventually(gone).await;
    stack.deliveries().restore(Source::Queue);
    stack.put_event(ended("fourth"));
    assert_eq!(next(&mut invocations).await.1, ended("fourth"));
    stack.stop().await;
}
