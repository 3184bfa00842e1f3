//! The metrics of leases, and how the rules report values that no response contains.
//!
//! The rules report them as `tracing` events at [`TARGET`], at INFO, with the fields `metric` (a name of [`METRICS`])
//! and `value`, for any subscriber of a program that uses the crate. A function counts them itself (`leasehold::lambda`).

#[cfg(feature = "lambda")]
use std::cell::RefCell;
use std::time::Duration;

use crate::outcomes::GrantKind;

/// The target of the events.
pub const TARGET: &str = "leasehold::metrics";

/// Every metric, with its unit as `CloudWatch` knows it. docs/reference/logs-and-metrics.md says what each means, and
/// which function writes it.
pub const METRICS: [(&str, &str); 18] = [
    ("Grants", "Count"),
    ("Replays", "Count"),
    ("TakeOvers", "Count"),
    ("Refusals", "Count"),
    ("HeldTime", "Milliseconds"),
    ("WaitTime", "Milliseconds"),
    ("QueueDepth", "Count"),
    ("Lost", "Count"),
    ("Revived", "Count"),
    ("Corrupt", "Count"),
    ("Unavailable", "Count"),
    ("Throttles", "Count"),
    ("Denied", "Count"),
    ("Sweeps", "Count"),
    ("SweepExamined", "Count"),
    ("SweepFreed", "Count"),
    ("ClockDifference", "Milliseconds"),
    ("Latency", "Milliseconds"),
];

/// One of [`METRICS`], in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "lambda"),
    expect(dead_code, reason = "only functions count what a response contains")
)]
pub(crate) enum Metric {
    Grants,
    Replays,
    TakeOvers,
    Refusals,
    HeldTime,
    WaitTime,
    QueueDepth,
    Lost,
    Revived,
    Corrupt,
    Unavailable,
    Throttles,
    Denied,
    Sweeps,
    SweepExamined,
    SweepFreed,
    ClockDifference,
    Latency,
}

impl Metric {
    #[cfg(feature = "lambda")]
    pub(crate) const ALL: [Self; METRICS.len()] = [
        Self::Grants,
        Self::Replays,
        Self::TakeOvers,
        Self::Refusals,
        Self::HeldTime,
        Self::WaitTime,
        Self::QueueDepth,
        Self::Lost,
        Self::Revived,
        Self::Corrupt,
        Self::Unavailable,
        Self::Throttles,
        Self::Denied,
        Self::Sweeps,
        Self::SweepExamined,
        Self::SweepFreed,
        Self::ClockDifference,
        Self::Latency,
    ];

    pub(crate) const fn name(self) -> &'static str {
        METRICS[self as usize].0
    }

    /// Whether several values of one call add up. Of the others the largest counts.
    #[cfg(feature = "lambda")]
    pub(crate) const fn is_counter(self) -> bool {
        !matches!(
            self,
            Self::HeldTime
                | Self::WaitTime
                | Self::QueueDepth
                | Self::ClockDifference
                | Self::Latency
        )
    }

    /// The metric of a grant of this kind.
    pub(crate) const fn of_grant(kind: GrantKind) -> Self {
        match kind {
            GrantKind::New => Self::Grants,
            GrantKind::Replayed => Self::Replays,
            GrantKind::Takeover => Self::TakeOvers,
        }
    }
}

#[cfg(feature = "lambda")]
tokio::task_local! {
    /// Those of the current invocation. Outside an invocation nothing is counted.
    pub(crate) static INVOCATION_METRICS: RefCell<InvocationMetrics>;
}

/// The values of one invocation, one for each metric that it has.
#[cfg(feature = "lambda")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InvocationMetrics([Option<u64>; METRICS.len()]);

#[cfg(feature = "lambda")]
impl InvocationMetrics {
    /// Counts add up; of lengths, depths and differences the largest is kept.
    pub(crate) fn add(&mut self, metric: Metric, value: u64) {
        let recorded = &mut self.0[metric as usize];
        *recorded = Some(match *recorded {
            None => value,
            Some(before) if metric.is_counter() => before.saturating_add(value),
            Some(before) => before.max(value),
        });
    }

    /// The values, in the list's order.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Metric, u64)> {
        let recorded = Metric::ALL.into_iter().zip(self.0);
        recorded.filter_map(|(metric, value)| Some((metric, value?)))
    }
}

/// Reports a value that no response contains. A function counts it here and not by a subscriber: `tracing` may remember for
/// good that nobody wants an event, if a thread without a subscriber reports it first.
pub(crate) fn record(metric: Metric, value: u64) {
    #[cfg(feature = "lambda")]
    let _ = INVOCATION_METRICS.try_with(|tally| tally.borrow_mut().add(metric, value));
    tracing::info!(target: TARGET, metric = metric.name(), value);
}

/// Reports a length of time.
pub(crate) fn record_duration(metric: Metric, length: Duration) {
    record(
        metric,
        u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
    );
}

#[cfg(all(test, feature = "lambda"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_its_names() {
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at);
            assert_eq!(METRICS[at].0, format!("{metric:?}"));
        }
    }
}
