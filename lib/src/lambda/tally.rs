//! What one invocation counts: what its answer or error says, and what the rules tell beside it.

use std::{cell::RefCell, time::Duration};

use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Layer};

use crate::{
    error::Error,
    metrics::{METRICS, Metric},
};

tokio::task_local! {
    /// Of the invocation that is under way.
    pub(super) static TALLY: RefCell<Tally>;
}

/// The values of one invocation, one for each metric that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally([Option<u64>; METRICS.len()]);

impl Tally {
    /// Counts add up; of lengths, depths and differences the largest stays.
    pub(super) fn add(&mut self, metric: Metric, value: u64) {
        let stands = &mut self.0[metric as usize];
        *stands = Some(match *stands {
            None => value,
            Some(before) if metric.adds_up() => before.saturating_add(value),
            Some(before) => before.max(value),
        });
    }

    /// As [`Tally::add`], of a length of time.
    pub(super) fn add_length(&mut self, metric: Metric, length: Duration) {
        self.add(
            metric,
            u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
        );
    }

    /// What an answer says.
    pub(super) fn add_answer(&mut self, answer: &Value) {
        let number = |name: &str| answer[name].as_u64().unwrap_or(0);
        match answer["outcome"].as_str() {
            // Of one in line the rules tell: the answer went to its task token.
            Some("acquired") => match answer["grant"].as_str() {
                Some("new") => self.add(Metric::Grants, 1),
                Some("replayed") => self.add(Metric::Replays, 1),
                Some("takeover") => self.add(Metric::TakeOvers, 1),
                _ => {}
            },
            Some("held") => self.add(Metric::Refusals, 1),
            Some("lost") => self.add(Metric::Lost, 1),
            Some("revived") => self.add(Metric::Revived, 1),
            Some("swept") => {
                self.add(Metric::Sweeps, 1);
                self.add(Metric::SweepExamined, number("examined"));
                self.add(Metric::SweepFreed, number("freed"));
                if number("skipped_corrupt") > 0 {
                    self.add(Metric::Corrupt, number("skipped_corrupt"));
                }
            }
            _ => {}
        }
    }

    /// What an error says.
    pub(super) fn add_error(&mut self, error: &Error) {
        if let Some(metric) = Metric::of_error(error) {
            self.add(metric, 1);
        }
        if let Error::QueueFull { waiting, .. } = error.worst() {
            self.add(Metric::QueueDepth, *waiting as u64);
        }
    }

    /// The values, in the list's order.
    pub(super) fn values(&self) -> impl Iterator<Item = (Metric, u64)> {
        let told = Metric::ALL.into_iter().zip(self.0);
        told.filter_map(|(metric, value)| Some((metric, value?)))
    }
}

/// Adds what the rules tell to the tally of the invocation that is under way.
pub(super) struct Collect;

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        if let (Some(metric), Some(value)) = (said.metric, said.value) {
            // Outside an invocation nobody counts.
            let _ = TALLY.try_with(|tally| tally.borrow_mut().add(metric, value));
        }
    }
}

#[derive(Default)]
struct Said {
    metric: Option<Metric>,
    value: Option<u64>,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, text: &str) {
        if field.name() == "metric" {
            self.metric = Metric::ALL.into_iter().find(|metric| metric.name() == text);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "value" {
            self.value = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
