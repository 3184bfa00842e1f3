//! The fields that identify an invocation, and the line that logs its outcome.

use std::{sync::Arc, time::Duration};

use lambda_runtime::{Context, Diagnostic};
use leasehold::{Counter, Error, Key, Timestamp, metrics};
use serde_json::{Map, Value};
use tracing::Level;

use crate::{Event, Names, environment, response::Summary};

/// The fields that identify an invocation, for its log lines and its error.
pub(crate) struct About {
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
    fencing_token: Option<Counter>,
    /// Of a release: when its lease was granted, and of several keys the token of each, a JSON object.
    acquired_at: Option<Timestamp>,
    tokens: Option<String>,
}

/// The line of an invocation: the same fields whatever its level.
macro_rules! line {
    ($level:ident, $about:expr, $token:expr, $outcome:expr, $problem:expr, $latency:expr, $message:literal $(, $($more:tt)+)?) => {{
        let about = $about;
        tracing::$level!(
            parent: None,
            operation = about.operation,
            key = about.key(),
            holder = about.holder,
            fencing_token = $token.map(Counter::get),
            request_id = about.request_id,
            outcome = $outcome,
            problem = $problem,
            latency_ms = $latency,
            invocation = about.invocation,
            xray_trace_id = about.trace,
            $($($more)+,)?
            $message
        );
    }};
}

impl About {
    pub(crate) fn of(names: &Names<'_>, context: &Context, operation: &'static str) -> Self {
        let keys = names.keys.iter().map(|(_, key)| key.as_str());
        let keys: Vec<_> = keys.collect();
        Self {
            request_id: names.request_id.map(|id| cut(id.as_str())),
            key: names.key.clone(),
            keys: (names.key.is_none() && !keys.is_empty()).then(|| cut(&keys.join(", "))),
            holder: names
                .holders
                .first()
                .map(|(_, holder)| cut(holder.as_str())),
            fencing_token: names.fencing_token,
            acquired_at: names.acquired_at.filter(|_| operation == "release"),
            tokens: (operation == "release" && !names.tokens.is_empty()).then(|| {
                let each = names.tokens.iter();
                let each = each.map(|(key, token)| (key.as_str().to_owned(), token.get().into()));
                Value::Object(each.collect::<Map<_, _>>()).to_string()
            }),
            ..Self::unreadable(None, context, operation)
        }
    }

    /// Of an event that is no request: the key, if that can be read.
    pub(crate) fn unreadable(
        event: Option<&Value>,
        context: &Context,
        operation: &'static str,
    ) -> Self {
        Self {
            operation,
            invocation: context.request_id.clone(),
            trace: context.xray_trace_id.as_deref().map(root),
            request_id: None,
            key: event.and_then(|event| Event(event).key()),
            keys: None,
            holder: None,
            fencing_token: None,
            acquired_at: None,
            tokens: None,
        }
    }

    /// The fields that lines from inside the invocation get. At ERROR, so that they are there at every level.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::error_span!(
            "invocation",
            key = self.key(),
            holder = self.holder,
            fencing_token = self.fencing_token.map(Counter::get),
            request_id = self.request_id,
            invocation = self.invocation,
        )
    }

    fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Key::as_str).or(self.keys.as_deref())
    }

    /// The line. Expected outcomes are INFO, those that the holder has to know are WARN, the rest ERROR.
    pub(crate) fn log(&self, outcome: Result<&Summary, &Arc<Error>>, took: Duration) {
        let latency = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let none = None::<String>;
        match outcome {
            Ok(summary) => {
                let token = summary.fencing_token.or(self.fencing_token);
                let grant = summary.grant.as_ref();
                let after = grant.and_then(|grant| grant.after.as_ref());
                let held_since = self.acquired_at.map(|at| at.to_string());
                let granted_at = grant.and_then(|grant| grant.acquired_at.as_ref());
                let tokens = grant.and_then(|grant| grant.tokens.as_ref());
                line!(
                    info,
                    self,
                    token,
                    summary.outcome.as_str(),
                    none,
                    latency,
                    "answered",
                    grant = grant.map(|grant| &grant.kind),
                    acquired_at = granted_at.or(held_since.as_ref()),
                    tokens = tokens.or(self.tokens.as_ref()),
                    previous_holder = after.map(|after| &after.holder),
                    previous_token = after.and_then(|after| after.fencing_token),
                    previous_ended = after.map(|after| &after.ended)
                );
            }
            Err(error) => {
                let (name, token) = (error.name(), self.fencing_token);
                match error.kind().level {
                    Level::INFO => {
                        let problem = error.to_string();
                        line!(info, self, token, name, problem, latency, "refused");
                    }
                    Level::WARN => {
                        let problem = error.to_string();
                        line!(warn, self, token, name, problem, latency, "refused");
                    }
                    _ => line!(error, self, token, name, error.in_full(), latency, "failed"),
                }
            }
        }
    }

    /// Name and message. The message is one JSON object, which contains the key whenever the event did.
    pub(crate) fn diagnose(&self, error: &Error) -> Diagnostic {
        Diagnostic {
            error_type: error.name().to_owned(),
            error_message: error.as_message(self.key.as_ref()),
        }
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
pub(crate) fn listen() {
    use tracing_subscriber::{
        filter::{LevelFilter, Targets},
        fmt,
        prelude::*,
    };
    let level = environment::log_level(environment::variable);
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
