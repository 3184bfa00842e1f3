//! The counts of one invocation: from its response or error, and from the metrics that the rules report.

use std::{sync::Arc, time::Duration};

use super::Summary;
use crate::{
    error::Error,
    metrics::{InvocationMetrics, Metric},
};

impl InvocationMetrics {
    /// Counts what an invocation came to, and its length.
    pub(super) fn add_outcome(&mut self, outcome: Result<&Summary, &Arc<Error>>, took: Duration) {
        match outcome {
            Ok(summary) => {
                for (metric, value) in &summary.counts {
                    self.add(*metric, *value);
                }
            }
            Err(error) => self.add_error(error),
        }
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.add(Metric::Latency, took);
    }

    /// Counts an error.
    fn add_error(&mut self, error: &Error) {
        if let Some(metric) = error.kind().metric {
            self.add(metric, 1);
        }
        if let Error::QueueFull { waiting, .. } = error.worst() {
            self.add(Metric::QueueDepth, *waiting as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::Arc};

    use serde_json::json;

    use super::{
        super::{ExecutionEvents, FromEvent as _},
        *,
    };
    use crate::{
        Acquire, Execution, Leases, Memory, Settings, Timestamp, conformance::FakeStepFunctions,
        conformance::make, error::Cause, json, metrics, metrics::INVOCATION_METRICS,
    };

    fn values(tally: &InvocationMetrics) -> Vec<(&'static str, u64)> {
        let values = tally.values();
        values.map(|(metric, n)| (metric.name(), n)).collect()
    }

    #[test]
    fn each_error_counts_as_what_it_is() {
        let key = || make::key("k");
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
            (Error::QueueTimeout { key: key() }, vec![]),
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
                Error::Unavailable {
                    problem: String::new(),
                    source: None,
                },
                vec![("Unavailable", 1)],
            ),
        ] {
            let mut tally = InvocationMetrics::default();
            tally.add_error(&error);
            assert_eq!(values(&tally), expected, "{error:?}");
        }
    }

    #[test]
    fn counts_add_up_and_of_the_rest_the_largest_stays() {
        let mut tally = InvocationMetrics::default();
        for (metric, value) in [
            (Metric::Unavailable, 1),
            (Metric::Unavailable, 2),
            (Metric::QueueDepth, 3),
            (Metric::QueueDepth, 1),
            (Metric::WaitTime, 5),
            (Metric::WaitTime, 9),
        ] {
            tally.add(metric, value);
        }
        let expected = [("WaitTime", 9), ("QueueDepth", 3), ("Unavailable", 3)];
        assert_eq!(values(&tally), expected);
    }

    #[tokio::test]
    async fn what_the_rules_tell_is_counted_where_it_happens() {
        metrics::record(Metric::QueueDepth, 5);
        let tally = INVOCATION_METRICS.scope(RefCell::default(), async {
            metrics::record(Metric::QueueDepth, 7);
            metrics::record_duration(Metric::HeldTime, Duration::from_secs(2));
            let unheard = Error::Unavailable {
                problem: String::new(),
                source: None,
            };
            unheard.count();
            INVOCATION_METRICS.with(RefCell::take)
        });
        let expected = [("HeldTime", 2000), ("QueueDepth", 7), ("Unavailable", 1)];
        assert_eq!(values(&tally.await), expected);
    }

    #[tokio::test]
    async fn release_and_reap_tell_how_long_the_lease_was_held() {
        let clock = make::clock();
        let calls = Arc::new(FakeStepFunctions::default());
        let ended = Execution::Ended {
            stopped_at: Timestamp::MAX,
            redrivable: false,
            all_answered: true,
        };
        calls.set_execution("h", ended);
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::clone(&clock) as _)
            .with_workflows(calls);
        for by_reap in [false, true] {
            let tally = INVOCATION_METRICS.scope(RefCell::default(), async {
                let (key, holder) = (make::key("k"), make::holder("h"));
                let ttl = make::ttl(Duration::from_mins(1));
                let wanted = Acquire::new(key, holder.clone(), ttl);
                let granted = leases.acquire(wanted).await.expect("an answer");
                let lease = granted.granted().expect("a grant").lease;
                clock.advance(Duration::from_secs(7));
                for _ in 0..2 {
                    if by_reap {
                        leases.reap(&holder).await.expect("an answer");
                    } else {
                        let _ = leases.release(&lease).await.expect("an answer");
                    }
                }
                INVOCATION_METRICS.with(RefCell::take)
            });
            assert_eq!(values(&tally.await), [("HeldTime", 7000)], "{by_reap}");
        }
    }

    #[tokio::test]
    async fn failures_within_a_batch_are_counted() {
        let denied = || Error::Denied {
            action: "dynamodb:UpdateItem",
            resource: "table t".to_owned(),
            source: Cause::said("no"),
        };
        let tally = INVOCATION_METRICS.scope(RefCell::default(), async {
            let status =
                json!({"detail": {"executionArn": "e", "status": "SUCCEEDED"}}).to_string();
            let message = |id: &str| json!({"messageId": id, "body": status});
            let batch = json!({"Records": [message("1"), message("2")]}).to_string();
            let batch = json::parse(&batch).expect("JSON");
            let ends = ExecutionEvents::from_event(&super::super::Event(&batch)).expect("a batch");
            let reap = |_| async { Err::<(), _>(denied()) };
            drop(ends.each(reap).await.expect("an answer"));
            INVOCATION_METRICS.with(RefCell::take)
        });
        assert_eq!(values(&tally.await), [("Denied", 2)]);
    }
}
