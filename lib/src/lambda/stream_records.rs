//! A batch of records of the table's stream.

use std::{collections::BTreeSet, future::Future};

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use serde_json::Value;

use super::{Event, FromEvent};
use crate::{
    error::Error,
    json::text,
    metrics,
    store::{What, what},
    values::Key,
};

/// Records that failed, and are to be delivered again.
pub type Failed = DynamoDbEventResponse;

/// The changes of a table in a batch of its stream.
#[derive(Debug)]
pub struct StreamRecords(Vec<Record>);

#[derive(Debug)]
struct Record {
    /// Its place in the stream.
    number: Option<String>,
    about: About,
}

#[derive(Debug)]
enum About {
    Lease(Key),
    /// A waiter, or an item that is not ours.
    Other,
    Unreadable,
}

impl FromEvent for StreamRecords {
    const SEES_TO_ALL: bool = true;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        let records = event
            .0
            .get("Records")
            .and_then(Value::as_array)
            .ok_or_else(|| {
                Error::invalid("Records", "is required: a batch of a DynamoDB stream")
            })?;
        Ok(Self(records.iter().map(record).collect()))
    }
}

/// An unreadable record does not stop the others.
fn record(record: &Value) -> Record {
    let place = |name: &str| text(record, &format!("/dynamodb/Keys/{name}/S"));
    let about = match (place("pk"), place("sk")) {
        (Some(pk), Some(sk)) => match what(pk, sk) {
            What::Lease(address) => About::Lease(address.key),
            What::Waiter(..) | What::Foreign => About::Other,
        },
        _ => About::Unreadable,
    };
    let number = text(record, "/dynamodb/SequenceNumber");
    Record {
        number: number.map(str::to_owned),
        about,
    }
}

impl StreamRecords {
    /// Does `work` for each lease's key, once however often the batch names it. A failure is logged and reported by
    /// its sequence number, and does not stop the rest.
    pub async fn each<F>(self, work: impl Fn(Key) -> F) -> Failed
    where
        F: Future<Output = Result<(), Error>>,
    {
        let mut failed = Failed::default();
        let mut done = BTreeSet::new();
        for Record { number, about } in self.0 {
            let problem = match about {
                About::Other => continue,
                About::Lease(key) if done.contains(&key) => continue,
                About::Lease(key) => match work(key.clone()).await {
                    Ok(()) => {
                        done.insert(key);
                        continue;
                    }
                    Err(error) => {
                        metrics::record_error(&error);
                        error.in_full()
                    }
                },
                About::Unreadable => "it does not name the item that changed".to_owned(),
            };
            tracing::error!(record = number, problem, "a record of the stream failed");
            if number.is_some() {
                let mut failure = DynamoDbBatchItemFailure::default();
                failure.item_identifier = number;
                failed.batch_item_failures.push(failure);
            }
        }
        failed
    }
}
