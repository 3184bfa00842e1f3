//! Delivers messages from a queue to a function, as an event source mapping does.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::batch::failed_items;
use super::deliveries::{Deliveries, Source};
use super::queues::{Message, Queues};
use crate::arn::{self, REGION};
use crate::lambda::{Invoker, Outcome};
use crate::task::OwnedTask;
use crate::template::QueueSource;

/// Starts the delivery of a queue's messages to a function. Failed messages come back until the queue gives them up.
pub(super) fn start(
    source: QueueSource,
    invoker: Invoker,
    queues: Arc<Queues>,
    deliveries: Deliveries,
) -> OwnedTask {
    OwnedTask::spawn(async move {
        loop {
            let messages = queues.receive(&source.queue, source.batch_size).await;
            let bodies = messages.iter().map(|message| json!(message.body)).collect();
            for bodies in deliveries.planned_batches(Source::Queue, bodies) {
                let batch = in_place_of(&messages, &bodies);
                if batch.is_empty() {
                    continue;
                }
                let event = json!({"Records": batch.iter().map(|message| record(&source, message)).collect::<Vec<_>>()});
                let Some(invocation) = invoker.invoke(event.to_string()).await else {
                    return;
                };
                let failed = batch
                    .into_iter()
                    .filter(|message| is_failed(&source, &invocation.outcome, &message.id));
                queues.give_back(&source.queue, failed.collect());
            }
        }
    })
}

/// The messages with these texts. A message that was received once may be delivered several times.
fn in_place_of(messages: &[Message], bodies: &[Value]) -> Vec<Message> {
    let with = |body: &Value| {
        let same = |message: &&Message| body.as_str() == Some(&message.body);
        messages.iter().find(same).cloned()
    };
    bodies.iter().filter_map(with).collect()
}

fn is_failed(source: &QueueSource, outcome: &Outcome, id: &str) -> bool {
    let Outcome::Answer(answer) = outcome else {
        return true;
    };
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    source.partial && failed_items(&answer).is_none_or(|failed| failed.contains(&id))
}

fn record(source: &QueueSource, message: &Message) -> Value {
    let attributes = Map::from_iter([(
        "ApproximateReceiveCount".to_owned(),
        json!(message.receive_count.to_string()),
    )]);
    json!({
        "messageId": message.id,
        "receiptHandle": format!("{}-{}", message.id, message.receive_count),
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {},
        // Nothing here computes or checks it.
        "md5OfBody": "00000000000000000000000000000000",
        "eventSource": "aws:sqs",
        "eventSourceARN": arn::queue(&source.queue),
        "awsRegion": REGION,
    })
}
