//! The names of errors that matter to a lease, and which errors a clause with given names catches.

pub(crate) const TIMEOUT: &str = "States.Timeout";
/// A task sent no heartbeat for its `HeartbeatSeconds`.
pub(crate) const HEARTBEAT: &str = "States.HeartbeatTimeout";
/// Matches every error except `States.Runtime`, and perhaps [`TOO_LARGE`].
pub(crate) const ALL: &str = "States.ALL";
/// Matches every error of a task except a timeout.
pub(crate) const TASK_FAILED: &str = "States.TaskFailed";
/// An expression has no value.
pub(crate) const NO_VALUE: &str = "States.QueryEvaluationError";
/// AWS documents that `States.ALL` does not match it, and was recorded to match it if it is of a task's result. So nothing relies on
/// either.
pub(crate) const TOO_LARGE: &str = "States.DataLimitExceeded";
/// The same of a path in JSONPath's Parameters.
pub(crate) const NO_PARAMETER: &str = "States.ParameterPathFailure";
pub(crate) const READER_FAILED: &str = "States.ItemReaderFailed";
pub(crate) const WRITER_FAILED: &str = "States.ResultWriterFailed";
/// More items of a Map have failed than it tolerates.
pub(crate) const TOO_MANY_FAILED: &str = "States.ExceedToleratedFailureThreshold";
pub(crate) const RUNTIME: &str = "States.Runtime";

/// Errors after which the work may still be running: the timeout first, then those of Lambda.
pub(crate) const MAY_STILL_RUN: [&str; 6] = [
    TIMEOUT,
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
];

/// Errors of an acquire that may have been granted nevertheless.
pub const OUTCOME_UNKNOWN: [&str; 4] = [
    "Lease.Throttled",
    "Lease.Unavailable",
    TIMEOUT,
    "Lambda.ServiceException",
];

/// Errors of Leasehold's functions and of Lambda after which a retry helps, because the outcome is unknown or the cause passes.
/// The timeout is last.
pub const RETRYABLE: [&str; 11] = [
    "Lease.Throttled",
    "Lease.Unavailable",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.TooManyRequestsException",
    "Lambda.Unknown",
    "Runtime.ExitError",
    "Sandbox.Timedout",
    TIMEOUT,
];

/// Lambda did not start the function, because its concurrency limit is reached.
pub(crate) const THROTTLED: &str = "Lambda.TooManyRequestsException";

pub(crate) const HELD: &str = "Lease.Held";
/// Another came later, and waits instead.
pub(crate) const SUPERSEDED: &str = "Lease.Superseded";
/// The lease has ended.
pub const LOST: [&str; 2] = ["Lease.Lost", "Lease.Expired"];

/// The errors of the functions and of the shipped machines. This crate does not depend on the library, so a test of the command
/// line, which depends on both, compares the two.
pub const KNOWN: [&str; 16] = [
    HELD,
    "Lease.Consumed",
    "Lease.Lost",
    "Lease.Expired",
    "Lease.QueueTimeout",
    SUPERSEDED,
    "Lease.QueueFull",
    "Lease.NotStarted",
    "Lease.Frozen",
    "Lease.Invalid",
    "Lease.Corrupt",
    "Lease.Denied",
    "Lease.Misconfigured",
    "Lease.Throttled",
    "Lease.Unavailable",
    "Lease.StepTimeout",
];

/// Names that are never raised because they are missing from the model of Step Functions, and the names raised instead: by the
/// SDK integration, and by the optimised one.
pub(crate) const NEVER_RAISED: [(&str, &str); 2] = [
    ("Sfn.ThrottlingException", "Sfn.SfnException"),
    (
        "StepFunctions.ThrottlingException",
        "StepFunctions.AWSStepFunctionsException",
    ),
];

/// Whether the names of a clause match this error. The empty name stands for an unexpected error.
pub(crate) fn matches<T: AsRef<str>>(names: &[T], error: &str) -> bool {
    names.iter().map(AsRef::as_ref).any(|name| {
        (name == error && !error.is_empty())
            || name == ALL
            || (name == TASK_FAILED && error != TIMEOUT)
    })
}

pub(crate) fn is_lost(name: &str) -> bool {
    LOST.contains(&name)
}

/// The name that was probably meant: the one with the longest common prefix, if that is long enough.
pub(crate) fn nearest<'a>(
    names: impl Iterator<Item = &'a str>,
    name: &str,
    least: usize,
) -> Option<&'a str> {
    let alike = |other: &&str| {
        let pairs = other.chars().zip(name.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    names
        .max_by_key(alike)
        .filter(|other| alike(other) >= least)
}
