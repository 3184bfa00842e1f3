//! The fields that identify an invocation, and the line that logs its outcome.

use std::{sync::Arc, time::Duration};

use lambda_runtime::{Context, Diagnostic};
use serde_json::Value;

use crate::{error::Error, json, metrics, settings, values::Key};

/// The fields that identify an invocation, for its log lines and its error.
pub(super) struct About {
    operation: &'static str,
    /// Lambda's request id of the invocation.
    invocation: String,
    /// The trace of the invocation, if Lambda makes one.
    trace: Option<String>,
    /// The request id of the lease, which the caller chose.
    request_id: Option<String>,
    key: Option<Key>,
    /// The keys of a set, as many as fit in a line.
    keys: Option<String>,
    holder: Option<String>,
    fencing_token: Option<u64>,
}

/// The line of an invocation: the same fields whatever its level.
macro_rules! line {
    ($level:ident, $about:expr, $token:expr, $outcome:expr, $problem:expr, $latency:expr, $message:literal) => {{
        let about = $about;
        tracing::$level!(
            parent: None,
            operation = about.operation,
            key = about.key(),
            holder = about.holder,
            fencing_token = $token,
            request_id = about.request_id,
            outcome = $outcome,
            problem = $problem,
            latency_ms = $latency,
            invocation = about.invocation,
            xray_trace_id = about.trace,
            $message
        );
    }};
}

impl About {
    pub(super) fn of(event: Option<&Value>, context: &Context, operation: &'static str) -> Self {
        let text = |name: &str| {
            let own = json::text(event?, &format!("/{name}"));
            own.or_else(|| json::text(event?, &format!("/lease/{name}")))
        };
        Self {
            operation,
            invocation: context.request_id.clone(),
            trace: context.xray_trace_id.as_deref().map(root),
            request_id: event
                .and_then(|event| json::text(event, "/request_id"))
                .map(cut),
            key: text("key").and_then(|key| Key::new(key).ok()),
            keys: event.and_then(json::keys).map(|keys| cut(&keys.join(", "))),
            holder: text("holder").map(cut),
            fencing_token: event.and_then(|event| event.pointer("/lease/fencing_token")?.as_u64()),
        }
    }

    /// The fields that lines from inside the invocation get. At ERROR, so that they are there at every level.
    pub(super) fn span(&self) -> tracing::Span {
        tracing::error_span!(
            "invocation",
            key = self.key(),
            holder = self.holder,
            fencing_token = self.fencing_token,
            request_id = self.request_id,
            invocation = self.invocation,
        )
    }

    fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Key::as_str).or(self.keys.as_deref())
    }

    /// The line. Expected outcomes are INFO, those that the holder has to know are WARN, the rest ERROR.
    pub(super) fn log(&self, outcome: &Result<Value, Arc<Error>>, took: Duration) {
        let latency = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let none = None::<String>;
        match outcome {
            Ok(answer) => {
                let token = answer["lease"]["fencing_token"].as_u64();
                let token = token.or(self.fencing_token);
                line!(info, self, token, word(answer), none, latency, "answered");
            }
            Err(error) => {
                let (name, token) = (error.name(), self.fencing_token);
                match error.worst() {
                    Error::Held(_)
                    | Error::Consumed { .. }
                    | Error::QueueFull { .. }
                    | Error::Frozen { .. } => {
                        line!(
                            info,
                            self,
                            token,
                            name,
                            error.to_string(),
                            latency,
                            "refused"
                        );
                    }
                    Error::Lost { .. } | Error::Expired { .. } | Error::Invalid { .. } => {
                        line!(
                            warn,
                            self,
                            token,
                            name,
                            error.to_string(),
                            latency,
                            "refused"
                        );
                    }
                    Error::QueueTimeout { .. }
                    | Error::Multiple { .. }
                    | Error::Corrupt { .. }
                    | Error::Denied { .. }
                    | Error::Misconfigured { .. }
                    | Error::Throttled { .. }
                    | Error::Unavailable { .. } => {
                        line!(error, self, token, name, error.in_full(), latency, "failed");
                    }
                }
            }
        }
    }

    /// Name and message. The message is one JSON object, which contains the key whenever the event did.
    pub(super) fn diagnose(&self, error: &Error) -> Diagnostic {
        Diagnostic {
            error_type: error.name().to_owned(),
            error_message: error.as_message(self.key.as_ref()),
        }
    }
}

/// The outcome of a response in a word. Batches and listings have none.
fn word(answer: &Value) -> &str {
    match (&answer["outcome"], &answer["batchItemFailures"]) {
        (Value::String(outcome), _) => outcome,
        (_, Value::Array(failures)) if failures.is_empty() => "done",
        (_, Value::Array(_)) => "done_in_part",
        _ => "listed",
    }
}

/// The trace's own id from a trace header; X-Ray finds the trace by it.
fn root(header: &str) -> String {
    let root = header
        .split(';')
        .find_map(|part| part.trim().strip_prefix("Root="));
    cut(root.unwrap_or(header))
}

fn cut(text: &str) -> String {
    text.chars().take(1024).collect()
}

/// Writes one line of JSON per event. The SDK and the layers below it stay at WARN, whatever the level: at TRACE they
/// would show requests, and with them lease ids. The metrics of the rules are counted without a subscriber, and not logged.
pub(super) fn listen() {
    use tracing_subscriber::{
        filter::{LevelFilter, Targets},
        fmt,
        prelude::*,
    };
    let level = settings::log_level();
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("leasehold", level)
        .with_target(metrics::TARGET, LevelFilter::OFF)
        // It would report every refusal a second time, as an error.
        .with_target("lambda_runtime::layers::panic", LevelFilter::OFF);
    let lines = fmt::layer()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_filter(filter);
    let _ = tracing_subscriber::registry().with(lines).try_init();
}
