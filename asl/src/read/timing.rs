//! The longest time that a state can take according to its definition.

use crate::expr::Expr;
use crate::read::error_names::THROTTLED;
use crate::read::node::{Node, Span};

/// Longer than any time that matters. Sums are capped here. It is half of the largest number, so that adding two cannot overflow.
pub(crate) const FOREVER: u64 = u64::MAX / 4;

/// One clause of a Retry.
#[derive(Debug, Clone)]
pub(crate) struct Retrier {
    pub errors: Vec<String>,
    pub attempts: u64,
    /// The sum of its longest waits, in ms. Jitter only shortens them.
    pub waits: u64,
    pub at: Span,
}

/// The time of an attempt that Lambda does not start.
const REFUSED: u64 = 1000;

impl Retrier {
    /// Whether each of its attempts follows one that did not start.
    fn follows_refusals(&self) -> bool {
        !self.errors.is_empty() && self.errors.iter().all(|error| error == THROTTLED)
    }

    pub(crate) fn read(node: &Node, errors: Vec<String>) -> Self {
        let number = |key: &str| node.number_of(key);
        let attempts = match node.get("MaxAttempts") {
            None => 3,
            // A template's substitution may be any number.
            Some(attempts) => attempts.number().map_or(FOREVER, whole),
        };
        let interval = millis(number("IntervalSeconds").unwrap_or(1.0));
        let rate = number("BackoffRate").unwrap_or(2.0).max(1.0);
        let longest = number("MaxDelaySeconds").map_or(FOREVER, millis);
        Self {
            errors,
            attempts,
            waits: waits(attempts, interval, rate, longest),
            at: node.span,
        }
    }
}

/// The timeout of one attempt of a Task, or of a Wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit<'a> {
    /// In ms.
    Fixed(u64),
    /// By an expression or a path. None if a template substitutes it.
    Computed(Option<&'a Expr>),
    /// There is none.
    Absent,
}

/// The timeout of one attempt of a Task. A heartbeat is no limit, because work that sends heartbeats goes on.
pub(crate) fn limit(task: &Node) -> Limit<'_> {
    of(task, "TimeoutSeconds", "TimeoutSecondsPath")
}

/// Whether a task waits for its token, and no heartbeat ends that.
pub(crate) fn waits_without_heartbeat(task: &Node) -> bool {
    let resource = task.text_of("Resource").unwrap_or_default();
    let ends = ["HeartbeatSeconds", "HeartbeatSecondsPath"];
    resource.ends_with(".waitForTaskToken") && ends.iter().all(|field| task.get(field).is_none())
}

/// How long a Wait waits.
pub(crate) fn pause(wait: &Node) -> Limit<'_> {
    match of(wait, "Seconds", "SecondsPath") {
        Limit::Absent => of(wait, "Timestamp", "TimestampPath"),
        limit => limit,
    }
}

/// Whether a Task or a Wait has no literal limit.
pub(crate) fn is_open(state: &Node) -> bool {
    let written = |limit| matches!(limit, Limit::Fixed(_));
    !written(limit(state)) && !written(pause(state))
}

fn of<'a>(node: &'a Node, literal: &str, path: &str) -> Limit<'a> {
    let seconds = node
        .get(literal)
        .map(|field| (field, field.literal_number()));
    match (seconds, node.get(path)) {
        (Some((_, Some(seconds))), _) => Limit::Fixed(millis(seconds)),
        (Some((field, None)), _) | (None, Some(field)) => Limit::Computed(field.expr()),
        (None, None) => Limit::Absent,
    }
}

/// The time of all attempts and the waits between them. Each attempt that starts takes `attempt`.
pub(crate) fn retried<'a>(attempt: u64, retry: impl IntoIterator<Item = &'a Retrier>) -> u64 {
    let (attempts, waits) = retry
        .into_iter()
        .fold((1, 0), |(attempts, waits), retrier| {
            let waits = sum(waits, retrier.waits);
            if retrier.follows_refusals() {
                let refused = retrier.attempts.saturating_mul(attempt.min(REFUSED));
                return (attempts, sum(waits, refused.min(FOREVER)));
            }
            (sum(attempts, retrier.attempts), waits)
        });
    sum(attempt.saturating_mul(attempts).min(FOREVER), waits)
}

/// The sum, at most [`FOREVER`].
pub(crate) fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(FOREVER)
}

/// Seconds as ms, rounded up.
pub(crate) fn millis(seconds: f64) -> u64 {
    whole((seconds * 1000.0).ceil())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a cast of a float saturates, as intended"
)]
fn whole(number: f64) -> u64 {
    (number.min(FOREVER as f64) as u64).min(FOREVER)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a bound of years may be off by a millisecond"
)]
fn waits(attempts: u64, interval: u64, rate: f64, longest: u64) -> u64 {
    let mut total = 0;
    let mut wait = interval.min(longest) as f64;
    for nth in 0..attempts {
        let now = whole(wait.ceil()).min(longest);
        // From here on all waits are equal.
        if now == longest || rate <= 1.0 {
            return sum(total, now.saturating_mul(attempts - nth).min(FOREVER));
        }
        total = sum(total, now);
        // The rate is so small that this many steps do not reach the longest wait. The bound is of no use.
        if total >= FOREVER || nth > 100_000 {
            return FOREVER;
        }
        wait *= rate;
    }
    total
}

/// A time as text: 90 s, 2 min 30 s, 16 h.
pub(crate) fn words(ms: u64) -> String {
    if ms >= FOREVER {
        return "any time".to_owned();
    }
    let seconds = ms.div_ceil(1000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) if !ms.is_multiple_of(1000) => format!("{}.{:03} s", ms / 1000, ms % 1000),
        (0, 0..=1, _) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_longest() {
        assert_eq!(waits(3, 1000, 2.0, FOREVER), 7000);
        assert_eq!(waits(6, 1000, 2.0, 8000), 31_000);
        assert_eq!(waits(5, 2000, 1.0, FOREVER), 10_000);
        assert_eq!(waits(0, 1000, 2.0, 8000), 0);
        assert_eq!(waits(99_999_999, 1000, 2.0, FOREVER), FOREVER);
        assert_eq!(waits(99_999_999, 1000, 2.0, 1000), 99_999_999_000);
        assert_eq!(waits(60, 1000, 1.5, 10_000), 560_782);
    }

    #[test]
    fn throttled_attempt_takes_second_and_wait() {
        let retrier = |errors: &[&str]| Retrier {
            errors: errors.iter().map(ToString::to_string).collect(),
            attempts: 6,
            waits: 31_000,
            at: Span::new(0, 0),
        };
        let refused = retrier(&[THROTTLED]);
        let other = retrier(&[THROTTLED, "Lambda.Unknown"]);
        assert_eq!(retried(60_000, [&refused]), 97_000);
        assert_eq!(retried(60_000, [&other]), 451_000);
        assert_eq!(retried(60_000, [&refused, &other]), 488_000);
    }

    #[test]
    fn lengths_are_told_as_people_do() {
        assert_eq!(words(1500), "1.500 s");
        assert_eq!(words(119_000), "119 s");
        assert_eq!(words(150_000), "2 min 30 s");
        assert_eq!(words(7_200_000), "2 h");
    }
}
