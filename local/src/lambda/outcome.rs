//! How an invocation ends, and the record of it.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The function returned this JSON text.
    Answer(String),
    /// The function, or its sandbox, failed with this JSON text: an object with `errorType` and `errorMessage`.
    FunctionError(String),
    /// The function had its maximum of sandboxes, and all were busy.
    Throttled,
}

impl Outcome {
    /// The response, or the error: an object with `errorType`.
    ///
    /// # Errors
    /// The function's or the sandbox's own error.
    pub fn json(&self) -> Result<Value, Value> {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
        match self {
            Self::Answer(text) => Ok(parsed(text)),
            Self::FunctionError(text) => Err(parsed(text)),
            Self::Throttled => Err(json!({"errorType": "Lambda.Throttled"})),
        }
    }

    pub(super) fn timed_out(request_id: &str, after: Duration) -> Self {
        Self::sandbox(
            "Sandbox.Timedout",
            &format!(
                "RequestId: {request_id} Error: Task timed out after {:.2} seconds",
                after.as_secs_f64()
            ),
        )
    }

    pub(super) fn exited(request_id: &str, how: &str) -> Self {
        Self::sandbox(
            "Runtime.ExitError",
            &format!("RequestId: {request_id} Error: Runtime exited with error: {how}"),
        )
    }

    pub(super) fn no_entrypoint(request_id: &str, why: &str) -> Self {
        Self::sandbox(
            "Runtime.InvalidEntrypoint",
            &format!("RequestId: {request_id} Error: {why}"),
        )
    }

    fn sandbox(error_type: &str, message: &str) -> Self {
        Self::FunctionError(json!({"errorType": error_type, "errorMessage": message}).to_string())
    }
}

/// One finished invocation, for the live view and the tests.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The function's logical id.
    pub function: String,
    /// The function's verb.
    pub verb: String,
    /// The id that the function saw.
    pub request_id: String,
    /// The event, as it was sent.
    pub payload: String,
    /// How it ended.
    pub outcome: Outcome,
    /// When the host accepted it.
    pub started_at: SystemTime,
    /// When it ended.
    pub ended_at: SystemTime,
}
