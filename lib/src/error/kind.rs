//! What all errors of one name have in common, in one table.

use tracing::Level;

use super::Error;
use crate::metrics::Metric;

/// What all errors of one name have in common: [`Error::kind`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ErrorKind {
    /// The name for workflows, which is the whole `errorType`.
    pub name: &'static str,
    /// What has happened, in a sentence.
    pub fact: &'static str,
    /// What the caller should do, in a sentence.
    pub cure: &'static str,
    /// Whether the same request helps when it is sent again, after a pause with backoff.
    pub retry: Retriable,
    /// The exit code of the command `leasehold`.
    pub exit_code: u8,
    /// The level of the line in a function's log.
    pub level: Level,
    /// The metric that counts it; none if the error concerns only the caller.
    pub metric: Option<Metric>,
    /// Of several errors that of the largest number is the worst: what the caller has to know first is that it must stop.
    pub(crate) severity: u8,
}

/// Whether to send the same request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retriable {
    /// It would be refused again.
    No,
    /// It may be granted when something else has changed: a lease has ended, a queue is shorter.
    Later,
    /// The cause passes by itself, and the request may have been granted: only the same request finds that out.
    OutcomeUnknown,
}

/// A row: variant and name; level, metric, severity, exit code, whether to retry; fact and cure.
macro_rules! kinds {
    ($($error:ident $name:literal, $level:ident, $metric:expr, $severity:literal, $exit_code:literal, $retry:ident,
        $fact:literal, $cure:literal;)+) => {
        $(#[expect(non_upper_case_globals, reason = "named as the variant")]
        const $error: ErrorKind = ErrorKind {
            name: $name,
            fact: $fact,
            cure: $cure,
            retry: Retriable::$retry,
            exit_code: $exit_code,
            level: Level::$level,
            metric: $metric,
            severity: $severity,
        };)+

        impl ErrorKind {
            /// One for each name.
            pub const ALL: [Self; [$($name),+].len()] = [$($error),+];
        }

        impl Error {
            /// The names, as Retry and Catch match them.
            pub const NAMES: [&str; ErrorKind::ALL.len()] = [$($name),+];

            /// What it has in common with all errors of its name. [`Error::Multiple`] has the kind of its worst error.
            #[must_use]
            pub const fn kind(&self) -> ErrorKind {
                match self {
                    Self::Multiple { worst, .. } => worst.kind(),
                    $(Self::$error { .. } => $error,)+
                }
            }
        }
    };
}

kinds! {
    Held "Lease.Held", INFO, Some(Metric::Refusals), 0, 75, Later,
        "Another holder has the key.",
        "Retry with backoff and full jitter, or wait in the queue.";
    Consumed "Lease.Consumed", INFO, None, 0, 1, No,
        "This request had its lease, and that lease has ended.",
        "A late duplicate: stop.";
    Lost "Lease.Lost", WARN, Some(Metric::Lost), 6, 79, No,
        "Your grant has ended.",
        "Stop the work, then repair or acquire again; never retry.";
    Expired "Lease.Expired", WARN, Some(Metric::Lost), 4, 79, No,
        "The lease expired and no one took it, but you required an unexpired one.",
        "As after Lease.Lost.";
    Frozen "Lease.Frozen", INFO, Some(Metric::Refusals), 3, 75, Later,
        "An operator froze the key, limited it to none, or stopped the grants of the whole table (Grants).",
        "Wait for the operator, who unfreezes the key or deploys with Grants=open.";
    Invalid "Lease.Invalid", WARN, None, 0, 2, No,
        "The request is malformed; field says where.",
        "Fix the definition.";
    Corrupt "Lease.Corrupt", ERROR, Some(Metric::Corrupt), 5, 1, No,
        "The stored item is not a lease.",
        "An operator must look.";
    Denied "Lease.Denied", ERROR, Some(Metric::Denied), 2, 3, No,
        "IAM or the credentials refused; the message names action and table.",
        "An operator must act.";
    Misconfigured "Lease.Misconfigured", ERROR, Some(Metric::Denied), 2, 3, No,
        "There is no such table, or it has other keys, or the environment is wrong.",
        "An operator must act.";
    Throttled "Lease.Throttled", ERROR, Some(Metric::Throttles), 0, 75, OutcomeUnknown,
        "The table throttled the request; an attempt before, whose response was lost, may have been applied.",
        "Retry with the same request, with backoff.";
    Unavailable "Lease.Unavailable", ERROR, Some(Metric::Unavailable), 1, 3, OutcomeUnknown,
        "The outcome is unknown: timeout, connection, server error, a panic of the function.",
        "Retry with the same request.";
    QueueTimeout "Lease.QueueTimeout", ERROR, None, 0, 1, No,
        "The request waited in the queue for its wait_seconds.",
        "Give up.";
    Superseded "Lease.Superseded", INFO, None, 0, 0, No,
        "A later request or start took this one's place in the queue.",
        "Nothing to do: the later one does the work.";
    QueueFull "Lease.QueueFull", INFO, Some(Metric::Refusals), 0, 75, Later,
        "The queue is full (LEASE_QUEUE_CAP).",
        "Try again later.";
    NotStarted "Lease.NotStarted", ERROR, None, 0, 1, No,
        "The start has failed, and its execution will not begin.",
        "Mend the cause, then repeat the start.";
}
