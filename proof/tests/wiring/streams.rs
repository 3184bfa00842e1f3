//! From a table's stream to a function.

use leasehold_local::Outcome;
use serde_json::{Value, json};

use leasehold_proof::fixture::event;

use crate::fixture::{dead_letters, keys, next, stack, write};

fn failed(payload: &Value, index: usize) -> Value {
    let number = &payload["Records"][index]["dynamodb"]["SequenceNumber"];
    json!({"batchItemFailures": [{"itemIdentifier": number}]})
}

#[tokio::test]
async fn a_record_that_the_filter_wants_arrives_in_the_services_shape_and_counts_nothing() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    write(&stack, &[("unwanted", "nobody", "")]).await;
    write(&stack, &[("wanted", "picky", "")]).await;
    let (invocation, payload) = next(&mut invocations).await;
    assert_eq!(invocation.function, "PickyFunction");
    assert_eq!(keys(&payload), ["wanted"]);

    let (record, sample) = (&payload["Records"][0], &event("grant")["Records"][0]);
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(names(record), names(sample));
    assert_eq!(names(&record["dynamodb"]), names(&sample["dynamodb"]));
    assert_eq!(record["eventName"], "INSERT");
    let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/Rows/stream/";
    assert!(record["eventSourceARN"].as_str().unwrap().starts_with(arn));
    assert_eq!(record["dynamodb"]["NewImage"]["picky"], json!({"S": "yes"}));

    let counts = stack.proxy().counts();
    assert_eq!((counts.total(), counts.of("TransactWriteItems")), (2, 2));
    stack.stop().await;
}

#[tokio::test]
async fn from_the_first_record_that_failed_on_the_batch_is_sent_again() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    let items = [
        ("a", "picky", ""),
        ("b", "picky", "once"),
        ("c", "picky", ""),
    ];
    write(&stack, &items).await;
    let (first, payload) = next(&mut invocations).await;
    assert_eq!(keys(&payload), ["a", "b", "c"]);
    assert_eq!(
        first.outcome,
        Outcome::Answer(failed(&payload, 1).to_string())
    );
    let (_, payload) = next(&mut invocations).await;
    assert_eq!(keys(&payload), ["b", "c"]);
    // It is behind: what comes next comes alone.
    write(&stack, &[("d", "picky", "")]).await;
    assert_eq!(keys(&next(&mut invocations).await.1), ["d"]);
    assert_eq!(stack.queue("DeadQueue").unwrap(), [""; 0]);
    stack.stop().await;
}

#[tokio::test]
async fn what_is_named_as_failed_too_often_is_a_dead_letter_and_the_stream_goes_on() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    let items = [
        ("a", "picky", ""),
        ("b", "picky", "poison"),
        ("c", "picky", ""),
    ];
    write(&stack, &items).await;
    let (_, payload) = next(&mut invocations).await;
    let (second, third) = (&payload["Records"][1], &payload["Records"][2]);
    let number = |record: &Value| record["dynamodb"]["SequenceNumber"].clone();
    // Once more, and the two retries.
    for _ in 0..3 {
        assert_eq!(keys(&next(&mut invocations).await.1), ["b", "c"]);
    }
    let letters = dead_letters(&stack, 1).await;
    let info = &letters[0]["DDBStreamBatchInfo"];
    assert_eq!(
        letters[0]["requestContext"]["condition"],
        "RetryAttemptsExhausted"
    );
    assert_eq!(info["batchSize"], 2);
    assert_eq!(info["startSequenceNumber"], number(second));
    assert_eq!(info["endSequenceNumber"], number(third));
    write(&stack, &[("d", "picky", "")]).await;
    assert_eq!(keys(&next(&mut invocations).await.1), ["d"]);
    stack.stop().await;
}

#[tokio::test]
async fn a_batch_that_fails_the_function_is_halved_until_only_the_culprit_is_left() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    let wishes = [("a", ""), ("b", ""), ("c", "bomb"), ("d", "")];
    write(&stack, &wishes.map(|(key, wish)| (key, "picky", wish))).await;
    let mut batches = Vec::new();
    while batches.last().is_none_or(|last| *last != ["d"]) {
        let (_, payload) = next(&mut invocations).await;
        batches.push(
            keys(&payload)
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        );
    }
    let all: Vec<Vec<&str>> = vec![
        vec!["a", "b", "c", "d"],
        vec!["a", "b"],
        vec!["c", "d"],
        vec!["c"],
        vec!["c"],
        vec!["c"],
        vec!["d"],
    ];
    assert_eq!(batches, all);
    let letters = dead_letters(&stack, 1).await;
    assert_eq!(letters[0]["DDBStreamBatchInfo"]["batchSize"], 1);
    assert_eq!(letters[0]["requestContext"]["approximateInvokeCount"], 3);
    stack.stop().await;
}

#[tokio::test]
async fn without_partial_answers_only_an_error_is_a_failure() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    // Its answer has no meaning to this mapping, which did not ask for one.
    write(&stack, &[("a", "blunt", "poison")]).await;
    assert_eq!(keys(&next(&mut invocations).await.1), ["a"]);
    write(&stack, &[("b", "blunt", "bomb")]).await;
    assert_eq!(keys(&next(&mut invocations).await.1), ["b"]);
    assert_eq!(keys(&next(&mut invocations).await.1), ["b"]);
    let letters = dead_letters(&stack, 1).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["requestContext"]["approximateInvokeCount"], 2);
    stack.stop().await;
}

#[tokio::test]
async fn a_key_that_takes_long_does_not_keep_all_others_waiting() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    write(&stack, &[("slow", "blunt", "dawdle")]).await;
    // Eight lanes, nine keys: they cannot all be behind it.
    let others = ["a", "b", "c", "d", "e", "f", "g", "h"];
    write(&stack, &others.map(|key| (key, "blunt", ""))).await;
    assert_ne!(keys(&next(&mut invocations).await.1), ["slow"]);
    stack.stop().await;
}

#[tokio::test]
async fn more_than_a_batch_comes_in_batches() {
    let stack = stack().await;
    let mut invocations = stack.functions().invocations();
    let keys_of_all = ["a", "b", "c", "d", "e", "f"];
    write(&stack, &keys_of_all.map(|key| (key, "picky", ""))).await;
    assert_eq!(keys(&next(&mut invocations).await.1), ["a", "b", "c", "d"]);
    assert_eq!(keys(&next(&mut invocations).await.1), ["e", "f"]);
    stack.stop().await;
}
