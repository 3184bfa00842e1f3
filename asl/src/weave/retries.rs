//! The clauses of a Retry that are written.

use crate::read::error_names::{HELD, RETRYABLE, THROTTLED};
use crate::weave::authored::comment;
use crate::weave::render::{JsonValue, object};

/// The Retry while the outcome is unknown.
pub(crate) fn again(after_timeout: bool) -> JsonValue {
    let names = if after_timeout {
        &RETRYABLE[..]
    } else {
        &RETRYABLE[..RETRYABLE.len() - 1]
    };
    asked_again(JsonValue::texts(names))
}

fn asked_again(names: JsonValue) -> JsonValue {
    object! {
        "ErrorEquals" => names,
        "IntervalSeconds" => 1.0,
        "BackoffRate" => 2.0,
        "MaxDelaySeconds" => 8.0,
        "MaxAttempts" => 6.0,
        "JitterStrategy" => "FULL",
    }
}

/// The Retry of a step that Lambda did not start, because its concurrency limit is reached.
pub(crate) fn not_begun(section: &str) -> JsonValue {
    let mut clause = asked_again(JsonValue::texts(&[THROTTLED]));
    let reason = "Lambda did not start the step, and the lease is long enough for a retry.";
    clause.set("Comment", comment(section, reason).into());
    clause
}

/// The Retry while somebody else holds the key.
pub(crate) fn held() -> JsonValue {
    object! {
        "ErrorEquals" => JsonValue::texts(&[HELD]),
        "IntervalSeconds" => 1.0,
        "BackoffRate" => 1.5,
        "MaxDelaySeconds" => 10.0,
        "MaxAttempts" => 60.0,
        "JitterStrategy" => "FULL",
    }
}

/// The Retry of a section in a branch or an item that waits in the queue, while another branch or item of its execution has the key: it
/// would wait for its own execution, so acquire refuses it. As long as it would have waited.
pub(crate) fn held_beside(section: &str, wait: f64) -> JsonValue {
    const LONGEST: f64 = 60.0;
    let mut clause = held();
    let reason = "Another branch or item of this execution has the key, so there is no place in the queue for this one yet.";
    clause.set("Comment", comment(section, reason).into());
    clause.set("MaxDelaySeconds", LONGEST.into());
    // With full jitter a pause takes half as long.
    clause.set(
        "MaxAttempts",
        (wait / (LONGEST / 2.0)).ceil().clamp(10.0, 300.0).into(),
    );
    clause
}
