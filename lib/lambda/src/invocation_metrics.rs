//! What an invocation came to, by its response or error, and its length, beside what the rules have reported.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Error,
    metrics::{Counts, Metric},
};

use crate::response::Summary;

/// Counts what an invocation came to, and its length.
pub(crate) fn add(counts: &mut Counts, outcome: Result<&Summary, &Arc<Error>>, took: Duration) {
    match outcome {
        Ok(summary) => {
            for (metric, value) in &summary.counts {
                counts.add(*metric, *value);
            }
        }
        Err(error) => add_error(counts, error),
    }
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    counts.add(Metric::Latency, took);
}

fn add_error(counts: &mut Counts, error: &Error) {
    if let Some(metric) = error.metric() {
        counts.add(metric, 1);
    }
    if let Error::QueueFull { waiting, .. } = error.worst() {
        counts.add(Metric::QueueDepth, *waiting as u64);
    }
}

#[cfg(test)]
mod tests {
    use leasehold::{Cause, Key, metrics::counted};
    use serde_json::json;

    use super::*;
    use crate::{Delivered, Event, ExecutionEvent, FromEvent as _, json};

    fn values(counts: &Counts) -> Vec<(&'static str, u64)> {
        let values = counts.values();
        values.map(|(metric, n)| (metric.name(), n)).collect()
    }

    #[test]
    fn errors_count_under_own_names() {
        let key = || Key::new("k").expect("valid");
        let (action, resource) = ("dynamodb:UpdateItem", || "table t".to_owned());
        let source = || Cause::said("no");
        let lost = || Error::Lost {
            key: key(),
            how: String::new(),
        };
        for (error, expected) in [
            (Error::Consumed { key: key() }, vec![]),
            (lost(), vec![("Lost", 1)]),
            (Error::Expired { key: key() }, vec![("Lost", 1)]),
            (
                Error::QueueTimeout {
                    key: key(),
                    held_by: None,
                },
                vec![],
            ),
            (
                Error::QueueFull {
                    key: key(),
                    waiting: 128,
                },
                vec![("Refusals", 1), ("QueueDepth", 128)],
            ),
            (
                Error::Frozen {
                    key: key(),
                    record: None,
                    whole_table: false,
                },
                vec![("Refusals", 1)],
            ),
            (Error::invalid("key", "is wrong"), vec![]),
            (
                Error::Multiple {
                    worst: Box::new(lost()),
                    outcomes: String::new(),
                },
                vec![("Lost", 1)],
            ),
            (
                Error::Corrupt {
                    key: key(),
                    reason: String::new(),
                },
                vec![("Corrupt", 1)],
            ),
            (
                Error::Denied {
                    action,
                    resource: resource(),
                    source: source(),
                },
                vec![("Denied", 1)],
            ),
            (
                Error::Misconfigured {
                    problem: String::new(),
                    source: None,
                },
                vec![("Denied", 1)],
            ),
            (
                Error::Throttled {
                    action,
                    resource: resource(),
                    source: source(),
                },
                vec![("Throttles", 1)],
            ),
            (
                Error::Throttled {
                    action: "states:StartExecution",
                    resource: resource(),
                    source: source(),
                },
                vec![("StepFunctionsThrottles", 1)],
            ),
            (
                Error::Unavailable {
                    problem: String::new(),
                    source: None,
                },
                vec![("Unavailable", 1)],
            ),
        ] {
            let mut counts = Counts::default();
            add_error(&mut counts, &error);
            assert_eq!(values(&counts), expected, "{error:?}");
        }
    }

    #[tokio::test]
    async fn failures_within_a_batch_are_counted() {
        let denied = || Error::Denied {
            action: "dynamodb:UpdateItem",
            resource: "table t".to_owned(),
            source: Cause::said("no"),
        };
        let work = async {
            let status =
                json!({"detail": {"executionArn": "e", "status": "SUCCEEDED"}}).to_string();
            let message = |id: &str| json!({"messageId": id, "body": status});
            let batch = json!({"Records": [message("1"), message("2")]}).to_string();
            let batch = json::parse(&batch).expect("JSON");
            let ends = Delivered::<ExecutionEvent>::from_event(&Event(&batch)).expect("a batch");
            let reap = |_, _| async { Err::<(), _>(denied()) };
            drop(ends.each(reap).await.expect("an answer"));
        };
        let ((), counts) = counted(work).await;
        assert_eq!(values(&counts), [("Denied", 2)]);
    }
}
