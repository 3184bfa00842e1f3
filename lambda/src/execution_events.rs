//! Status events of executions: directly from `EventBridge`, or later from a queue.

use std::future::Future;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use leasehold::{Error, Holder};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Event, FromEvent, Names, Request,
    json::{self, text},
};

/// The executions that status events name: one, or a batch of them from a queue.
#[derive(Debug)]
pub struct ExecutionEvents(Ended);

#[derive(Debug)]
enum Ended {
    One(Status),
    Batch(Vec<(Option<String>, Result<Status, Error>)>),
}

#[derive(Debug)]
struct Status {
    execution: Holder,
    /// According to the event, which is a hint.
    has_ended: bool,
}

/// The response: what was done for one event, or which messages of a batch are to be delivered again.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FailedExecutions<T> {
    /// What was done.
    Done(T),
    /// Messages that failed.
    Batch(SqsBatchResponse),
}

impl FromEvent for ExecutionEvents {
    const WHOLE_TABLE: bool = true;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        let Some(messages) = event.0.get("Records").and_then(Value::as_array) else {
            return status(event.0).map(|status| Self(Ended::One(status)));
        };
        let messages = messages.iter().map(|message| {
            let id = text(message, "/messageId").map(str::to_owned);
            let body = text(message, "/body")
                .ok_or_else(|| Error::invalid("body", "is required: the text of a status event"));
            (
                id,
                body.and_then(json::parse).and_then(|event| status(&event)),
            )
        });
        Ok(Self(Ended::Batch(messages.collect())))
    }
}

/// The function handles the whole table, so it has no boundary.
impl Request for ExecutionEvents {
    fn names(&self) -> Names<'_> {
        Names::default()
    }
}

fn status(event: &Value) -> Result<Status, Error> {
    let detail = |name: &str| {
        let required = || {
            let field = format!("detail.{name}");
            Error::invalid(
                &field,
                "is required: a Step Functions Execution Status Change",
            )
        };
        text(event, &format!("/detail/{name}")).ok_or_else(required)
    };
    let execution = Holder::new(detail("executionArn")?)
        .map_err(|problem| Error::invalid("detail.executionArn", problem))?;
    let has_ended = match detail("status")? {
        "RUNNING" | "PENDING_REDRIVE" => false,
        "SUCCEEDED" | "FAILED" | "ABORTED" | "TIMED_OUT" => true,
        _ => return Err(Error::invalid("detail.status", "is not a known status")),
    };
    Ok(Status {
        execution,
        has_ended,
    })
}

impl ExecutionEvents {
    /// Does `work` for each execution that has ended according to the events, and nothing for one that runs. A
    /// failure in a batch is logged and reported by its message's id, and does not stop the rest.
    ///
    /// # Errors
    /// Those of `work`, if there was one event and no batch.
    pub async fn each<T: Default, F>(
        self,
        work: impl Fn(Holder) -> F,
    ) -> Result<FailedExecutions<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let messages = match self.0 {
            Ended::Batch(messages) => messages,
            Ended::One(status) => {
                return Ok(FailedExecutions::Done(if status.has_ended {
                    work(status.execution).await?
                } else {
                    T::default()
                }));
            }
        };
        let mut failed = SqsBatchResponse::default();
        for (id, status) in messages {
            let done = match status {
                Ok(status) if !status.has_ended => continue,
                Ok(status) => work(status.execution).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                error.count();
                let problem = error.in_full();
                tracing::error!(message = id, problem, "a message of the queue failed");
                if let Some(id) = id {
                    failed.add_failure(id);
                }
            }
        }
        Ok(FailedExecutions::Batch(failed))
    }
}
