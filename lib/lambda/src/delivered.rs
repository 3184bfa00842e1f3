//! Requests as they are delivered: one, or a batch of messages from a queue, each of which has one in its body.

use std::{collections::BTreeSet, future::Future};

use aws_lambda_events::event::sqs::SqsBatchResponse;
use leasehold::Error;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Event, FromEvent, Names, Request,
    json::{self, text},
};

/// One request, or a batch of them from a queue.
#[derive(Debug)]
pub enum Delivered<T> {
    /// One request.
    One(T),
    /// The messages of a batch.
    Batch(Vec<Message<T>>),
}

/// A message of a batch.
#[derive(Debug)]
pub struct Message<T> {
    id: Option<String>,
    /// The group within which its queue has an order, if it has one.
    group: Option<String>,
    /// Whether it was not delivered before, as far as the queue says.
    is_new: bool,
    request: Result<T, Error>,
}

/// The response: what was done for one request, or which messages of a batch are to be delivered again.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Handled<T> {
    /// What was done.
    Done(T),
    /// Messages that failed.
    Batch(SqsBatchResponse),
}

/// How often a message was received, by now.
const RECEIVED: &str = "/attributes/ApproximateReceiveCount";

impl<T: FromEvent> FromEvent for Delivered<T> {
    const WHOLE_TABLE: bool = T::WHOLE_TABLE;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        let Some(messages) = event.0.get("Records").and_then(Value::as_array) else {
            return T::from_event(event).map(Self::One);
        };
        let messages = messages.iter().map(|message| {
            let body = text(message, "/body")
                .ok_or_else(|| Error::invalid("body", "is required: the text of a request"));
            let body = body.and_then(json::parse);
            Message {
                id: text(message, "/messageId").map(str::to_owned),
                group: text(message, "/attributes/MessageGroupId").map(str::to_owned),
                is_new: text(message, RECEIVED).is_none_or(|count| count == "1"),
                request: body.and_then(|body| T::from_event(&Event(&body))),
            }
        });
        Ok(Self::Batch(messages.collect()))
    }
}

/// Of a batch the keys of all requests, and the key of none.
impl<T: Request> Request for Delivered<T> {
    fn names(&self) -> Names<'_> {
        match self {
            Self::One(request) => request.names(),
            Self::Batch(messages) => {
                let mut all = Names::default();
                for message in messages {
                    if let Ok(request) = &message.request {
                        let names = request.names();
                        all.keys.extend(names.keys);
                        all.pools.extend(names.pools);
                        all.holders.extend(names.holders);
                    }
                }
                all
            }
        }
    }
}

impl<T> Delivered<T> {
    /// Does `work` for each request, one after the other; it gets the id of the message too. A failure in a batch is logged and
    /// reported by its message's id, and does not stop the rest, unless the queue has an order: then everything after it in its own
    /// group is delivered again too, and other groups go on. A start that has failed is done, because the table keeps its request.
    ///
    /// # Errors
    /// Those of `work`, if there was one request and no batch.
    pub async fn each<A, F>(
        self,
        work: impl Fn(T, Option<String>) -> F,
    ) -> Result<Handled<A>, Error>
    where
        F: Future<Output = Result<A, Error>>,
    {
        self.each_unless(|_| false, work).await
    }

    /// As [`Delivered::each`]. A message of whose answer `is_open` is true goes back to its queue, which delivers it once more after
    /// its visibility timeout; then it is done, whatever the response.
    ///
    /// # Errors
    /// As [`Delivered::each`].
    pub async fn each_unless<A, F>(
        self,
        is_open: impl Fn(&A) -> bool,
        work: impl Fn(T, Option<String>) -> F,
    ) -> Result<Handled<A>, Error>
    where
        F: Future<Output = Result<A, Error>>,
    {
        let messages = match self {
            Self::One(request) => return work(request, None).await.map(Handled::Done),
            Self::Batch(messages) => messages,
        };
        let (mut failed, mut stopped) = (SqsBatchResponse::default(), BTreeSet::new());
        for Message {
            id,
            group,
            is_new,
            request,
        } in messages
        {
            if group.as_ref().is_none_or(|group| !stopped.contains(group)) {
                let done = match request {
                    Ok(request) => work(request, id.clone()).await,
                    Err(error) => Err(error),
                };
                match done {
                    Ok(answer) if is_new && is_open(&answer) => {
                        tracing::info!(message = id, "a message of the queue goes back");
                    }
                    Ok(_) => continue,
                    Err(error) => {
                        error.count();
                        let problem = error.in_full();
                        if matches!(error, Error::NotStarted { .. }) {
                            // The table keeps the request: to deliver it again would not help.
                            tracing::warn!(message = id, problem, "a message of the queue is done");
                            continue;
                        }
                        tracing::error!(message = id, problem, "a message of the queue failed");
                    }
                }
                stopped.extend(group);
            }
            if let Some(id) = id {
                failed.add_failure(id);
            }
        }
        Ok(Handled::Batch(failed))
    }
}

#[cfg(test)]
mod tests {
    use leasehold::Holder;
    use serde_json::json;

    use super::*;
    use crate::ExecutionEvent;

    fn batch(messages: &[Value]) -> Delivered<ExecutionEvent> {
        let text = json!({ "Records": messages }).to_string();
        let parsed = json::parse(&text).expect("JSON");
        Delivered::from_event(&Event(&parsed)).expect("a batch")
    }

    fn message(id: &str, attributes: &Value) -> Value {
        let body = json!({"detail": {"executionArn": id, "status": "FAILED"}}).to_string();
        json!({"messageId": id, "body": body, "attributes": attributes})
    }

    /// Which messages come again, if what is told of `bad` fails.
    async fn failed(messages: &[Value], bad: &str, is_open: bool) -> Vec<String> {
        let work = |event: ExecutionEvent, _| async move {
            match event.ended() {
                Some(holder) if holder == Holder::new(bad).expect("valid") => {
                    Err(Error::invalid("key", "is bad"))
                }
                _ => Ok(()),
            }
        };
        let handled = batch(messages).each_unless(|()| is_open, work).await;
        let Ok(Handled::Batch(batch)) = handled else {
            panic!("no batch");
        };
        let failures = batch.batch_item_failures.into_iter();
        failures.map(|failure| failure.item_identifier).collect()
    }

    #[tokio::test]
    async fn failure_holds_back_own_group() {
        let of = |id: &str, group: &str| message(id, &json!({"MessageGroupId": group}));
        let mixed = [
            of("a1", "a"),
            of("b1", "b"),
            of("a2", "a"),
            message("loose", &json!({})),
            of("b2", "b"),
        ];
        assert_eq!(failed(&mixed, "a1", false).await, ["a1", "a2"]);
        assert_eq!(failed(&mixed, "b2", false).await, ["b2"]);
        assert_eq!(failed(&mixed, "loose", false).await, ["loose"]);
    }

    #[tokio::test]
    async fn an_undecided_message_goes_back_once() {
        let received =
            |id: &str, count: &str| message(id, &json!({"ApproximateReceiveCount": count}));
        let both = [received("first", "1"), received("again", "2")];
        assert_eq!(failed(&both, "nobody", true).await, ["first"]);
        assert!(failed(&both, "nobody", false).await.is_empty());
    }
}
