//! The names of errors that matter to a lease, each set once, and what a clause with given names catches.

pub(crate) const TIMEOUT: &str = "States.Timeout";
/// Everything but `States.DataLimitExceeded` and `States.Runtime`.
pub(crate) const ALL: &str = "States.ALL";
/// Everything but a timeout.
pub(crate) const TASK_FAILED: &str = "States.TaskFailed";
/// An expression has no value.
pub(crate) const NO_VALUE: &str = "States.QueryEvaluationError";
/// Not caught by `States.ALL`.
pub(crate) const TOO_LARGE: &str = "States.DataLimitExceeded";
pub(crate) const RUNTIME: &str = "States.Runtime";

/// After these nobody knows whether what was begun is over: the timeout first, then those by Lambda.
pub(crate) const MAY_RUN: [&str; 6] = [
    TIMEOUT,
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
];

/// Raised by an acquire that may have been granted all the same.
pub(crate) const OUTCOME_UNKNOWN: [&str; 3] =
    ["Lease.Unavailable", TIMEOUT, "Lambda.ServiceException"];

/// Raised by our functions and by Lambda where asking again helps: the outcome is open, or what is in the way is over soon.
/// The timeout last.
pub(crate) const ASKED_AGAIN: [&str; 11] = [
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

/// Lambda has not begun a step: as many run as may.
pub(crate) const NOT_BEGUN: &str = "Lambda.TooManyRequestsException";

pub(crate) const HELD: &str = "Lease.Held";
pub(crate) const LOST: [&str; 2] = ["Lease.Lost", "Lease.Expired"];

/// What the functions raise, and what shipped machines end with. This crate does without the library; a test of the command
/// line, which has both, keeps the two in step.
pub const KNOWN: [&str; 14] = [
    HELD,
    "Lease.Consumed",
    "Lease.Lost",
    "Lease.Expired",
    "Lease.QueueTimeout",
    "Lease.QueueFull",
    "Lease.Frozen",
    "Lease.Invalid",
    "Lease.Corrupt",
    "Lease.Denied",
    "Lease.Misconfigured",
    "Lease.Throttled",
    "Lease.Unavailable",
    "Lease.StepTimeout",
];

/// Not in the model of Step Functions: what it raises instead, as an SDK integration and as the optimised one.
pub(crate) const NOT_RAISED: [(&str, &str); 2] = [
    ("Sfn.ThrottlingException", "Sfn.SfnException"),
    (
        "StepFunctions.ThrottlingException",
        "StepFunctions.AWSStepFunctionsException",
    ),
];

/// Whether the names of a clause hold this error. The empty name is one that nobody thought of.
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

/// The name that was meant: the one with the longest beginning in common, if that has so many letters.
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
