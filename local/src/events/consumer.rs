//! Delivers messages from a queue to a function, as an event source mapping does.

use std::sync::Arc;

use serde_json::{Value, json};

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

/// The items that a partial batch response names. No list means no items. `None` is a response that cannot be read, which
/// fails the batch.
fn failed_items(answer: &Value) -> Option<Vec<&str>> {
    match answer.get("batchItemFailures") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| {
                let name = item["itemIdentifier"].as_str();
                name.filter(|name| !name.is_empty())
            })
            .collect(),
        Some(_) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_answer_names_only_failures() {
        let failed = |answer: Value| {
            failed_items(&answer).map(|items| items.iter().map(ToString::to_string).collect())
        };
        let none: Option<Vec<String>> = Some(Vec::new());
        for all_done in [
            json!(null),
            json!({}),
            json!({"batchItemFailures": null}),
            json!({"batchItemFailures": []}),
        ] {
            assert_eq!(failed(all_done.clone()), none, "{all_done}");
        }
        let two = json!({"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "2"}]});
        assert_eq!(failed(two), Some(vec!["1".to_owned(), "2".to_owned()]));
        for all_failed in [
            json!({"batchItemFailures": "1"}),
            json!({"batchItemFailures": [{"itemIdentifier": ""}]}),
            json!({"batchItemFailures": [{"identifier": "1"}]}),
        ] {
            assert_eq!(failed(all_failed.clone()), None, "{all_failed}");
        }
    }
}
