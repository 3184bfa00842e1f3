//! The faults that can be injected between a client and a service: DynamoDB, or Step Functions.

use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

/// What happens to a request. The first five are *applied*, but the client receives no response. The others never
/// reach the database, except the one that reaches it late.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Applied. Then the connection is closed (FIN) without a byte of response.
    LoseAnswer,
    /// Applied; then the connection is reset (RST).
    ResetAnswer,
    /// Applied; the head and half of the body are sent, then the connection is closed.
    HalfAnswer,
    /// Applied; the answer is 500 `InternalServerError`.
    FailAnswer,
    /// Applied. The response never comes, and the connection stays open.
    HangAnswer,
    /// The connection is closed before the request reaches the database.
    LoseRequest,
    /// The connection is closed at once, but the request still reaches the database [`LATE`](Self::LATE)
    /// after that, when the client has long retried or given up.
    LateRequest,
    /// 400 `ProvisionedThroughputExceededException`; from Step Functions `ThrottlingException`.
    Throttle,
    /// 400 `TransactionConflictException`; for a transaction, a cancellation with the reason `TransactionConflict`
    /// on its first item.
    Conflict,
    /// 500 `InternalServerError`, nothing applied.
    ServerError,
    /// The server accepts the request and stays silent; nothing applied.
    Hang,
    /// 400 `AccessDeniedException`.
    Denied,
}

impl Fault {
    /// Every way in which the response to an applied write can be lost: closed, reset, cut in half, 500, silence.
    pub const LOST_ANSWERS: [Self; 5] = [
        Self::LoseAnswer,
        Self::ResetAnswer,
        Self::HalfAnswer,
        Self::FailAnswer,
        Self::HangAnswer,
    ];

    /// The delay of a late request.
    pub const LATE: Duration = Duration::from_millis(1500);

    /// The service's error for this fault, if it has one. `target` is the request's header with the names of the
    /// service and the operation.
    pub(super) fn refusal(self, target: &str, body: &[u8]) -> Option<(StatusCode, Value)> {
        const DYNAMODB: &str = "com.amazonaws.dynamodb.v20120810#";
        let operation = target.rsplit('.').next().unwrap_or_default();
        let to_states = target.starts_with("AWSStepFunctions.");
        let bad = StatusCode::BAD_REQUEST;
        let (status, name, message) = match self {
            Self::Throttle if to_states => (bad, "ThrottlingException", "Rate exceeded (injected)"),
            Self::Throttle => (
                bad,
                "ProvisionedThroughputExceededException",
                "The level of configured provisioned throughput for the table was exceeded (injected)",
            ),
            Self::Conflict if !to_states && operation.starts_with("Transact") => {
                return Some((bad, cancelled(body)));
            }
            Self::Conflict if !to_states => (
                bad,
                "TransactionConflictException",
                "Transaction is ongoing for the item (injected)",
            ),
            Self::Denied => {
                let service = if to_states { "states" } else { "dynamodb" };
                let said = format!("not authorized to perform: {service}:{operation} (injected)");
                let error = if to_states {
                    json!({"__type": "AccessDeniedException", "message": said})
                } else {
                    json!({"__type": "com.amazon.coral.service#AccessDeniedException", "Message": said})
                };
                return Some((bad, error));
            }
            Self::ServerError | Self::FailAnswer => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalServerError",
                "The request processing has failed because of an unknown error (injected)",
            ),
            _ => return None,
        };
        let space = if to_states { "" } else { DYNAMODB };
        let error = json!({"__type": format!("{space}{name}"), "message": message});
        Some((status, error))
    }
}

/// The reasons of a cancelled transaction: one per item, in the order of the request.
fn cancelled(body: &[u8]) -> Value {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let items = request["TransactItems"]
        .as_array()
        .map_or(1, Vec::len)
        .max(1);
    let reasons: Vec<Value> = (0..items)
        .map(|index| match index {
            0 => json!({"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item (injected)"}),
            _ => json!({"Code": "None"}),
        })
        .collect();
    json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons (injected)",
        "CancellationReasons": reasons,
    })
}

/// An injected fault that waits for its requests.
#[derive(Debug)]
pub(super) struct Injection {
    pub(super) fault: Fault,
    pub(super) operation: String,
    pub(super) body_contains: Option<String>,
    pub(super) left: u32,
}

impl Injection {
    pub(super) fn matches(&self, operation: &str, body: &[u8]) -> bool {
        let needle = self.body_contains.as_deref().unwrap_or("").as_bytes();
        (self.operation == "*" || self.operation == operation)
            && (needle.is_empty() || body.windows(needle.len()).any(|part| part == needle))
    }
}
