//! Requests as they are delivered: one, or a batch of messages from a queue, each of which has one in its body.

use std::future::Future;

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
    /// Whether its queue has an order.
    is_ordered: bool,
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
                is_ordered: text(message, "/attributes/MessageGroupId").is_some(),
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
    /// reported by its message's id, and does not stop the rest, unless the queue has an order: then everything after it is
    /// delivered again too. A start that has failed is done, because the table keeps its request.
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
        let messages = match self {
            Self::One(request) => return work(request, None).await.map(Handled::Done),
            Self::Batch(messages) => messages,
        };
        let (mut failed, mut stopped) = (SqsBatchResponse::default(), false);
        for Message {
            id,
            is_ordered,
            request,
        } in messages
        {
            if !stopped {
                let done = match request {
                    Ok(request) => work(request, id.clone()).await.map(drop),
                    Err(error) => Err(error),
                };
                let Err(error) = done else {
                    continue;
                };
                error.count();
                let problem = error.in_full();
                if matches!(error, Error::NotStarted { .. }) {
                    // The table keeps the request: to deliver it again would not help.
                    tracing::warn!(message = id, problem, "a message of the queue is done");
                    continue;
                }
                tracing::error!(message = id, problem, "a message of the queue failed");
                stopped = is_ordered;
            }
            if let Some(id) = id {
                failed.add_failure(id);
            }
        }
        Ok(Handled::Batch(failed))
    }
}
