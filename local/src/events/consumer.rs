//! Delivers messages from a queue to a function, as an event source mapping does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::batch::failed_items;
use super::queues::{Message, Queues};
use crate::arn::{self, REGION};
use crate::lambda::{Invoker, Outcome};
use crate::task::OwnedTask;
use crate::template::QueueSource;

/// Starts the delivery of a queue's messages to a function. Failed messages come back until the queue gives them up.
pub(super) fn start(source: QueueSource, invoker: Invoker, queues: Arc<Queues>) -> OwnedTask {
    OwnedTask::spawn(async move {
        loop {
            let messages = queues.receive(&source.queue, source.batch_size).await;
            let records: Vec<_> = messages.iter().map(|one| record(&source, one)).collect();
            let event = json!({"Records": records});
            let Some(invocation) = invoker.invoke(event.to_string()).await else {
                return;
            };
            let failed = messages
                .into_iter()
                .filter(|message| is_failed(&source, &invocation.outcome, &message.id));
            queues.give_back(&source.queue, failed.collect());
        }
    })
}

fn is_failed(source: &QueueSource, outcome: &Outcome, id: &str) -> bool {
    let Outcome::Answer(answer) = outcome else {
        return true;
    };
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    source.partial && failed_items(&answer).is_none_or(|failed| failed.contains(&id))
}

fn record(source: &QueueSource, message: &Message) -> Value {
    json!({
        "messageId": message.id,
        "receiptHandle": format!("{}-{}", message.id, message.receive_count),
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": message.receive_count.to_string()},
        "messageAttributes": {},
        // Nothing here computes or checks it.
        "md5OfBody": "00000000000000000000000000000000",
        "eventSource": "aws:sqs",
        "eventSourceARN": arn::queue(&source.queue),
        "awsRegion": REGION,
    })
}
