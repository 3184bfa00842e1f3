//! What a test or the demo may do to sandboxes, in Rust and over HTTP under `/.local/`.
//!
//! ```text
//! GET  /.local/invocations                                  one JSON object per line, as invocations end
//! GET  /.local/functions/{name}/log                         what the function has written
//! POST /.local/functions/{name}/kill-before-answer/{times}
//! POST /.local/functions/{name}/kill-after-start/{times}
//! POST /.local/functions/{name}/freeze
//! POST /.local/functions/{name}/thaw
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::channel::Channel;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::host::{Inner, LambdaHost};
use super::outcome::{Invocation, Outcome};
use super::sandbox::Order;
use crate::error::Error;

/// Deaths that wait for their invocations.
#[derive(Debug, Default)]
pub(super) struct PlannedDeaths {
    before_answer: AtomicU32,
    after_start: AtomicU32,
}

impl PlannedDeaths {
    pub(super) fn take_before_answer(&self) -> bool {
        take(&self.before_answer)
    }

    pub(super) fn take_after_start(&self) -> bool {
        take(&self.after_start)
    }
}

fn take(planned: &AtomicU32) -> bool {
    planned
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(1)
        })
        .is_ok()
}

impl LambdaHost {
    /// The next `times` invocations finish their work and post their answer, but the process is killed instead
    /// of being heard: the invocation ends in `Runtime.ExitError`. The kill -9 between request and answer.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn kill_before_answer(&self, name: &str, times: u32) -> Result<(), Error> {
        self.inner
            .hosted(name)?
            .deaths
            .before_answer
            .store(times, Ordering::Release);
        Ok(())
    }

    /// The next `times` invocations start a process, or take an idle one, which is killed when it asks for the
    /// event: nothing of the handler runs, and the invocation ends in `Runtime.ExitError`.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn kill_after_start(&self, name: &str, times: u32) -> Result<(), Error> {
        self.inner
            .hosted(name)?
            .deaths
            .after_start
            .store(times, Ordering::Release);
        Ok(())
    }

    /// Stops all processes of a function where they are (SIGSTOP), as a paused machine would; tells how many.
    /// The time limit of an invocation goes on, and ends a frozen process too.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn freeze(&self, name: &str) -> Result<usize, Error> {
        let hosted = self.inner.hosted(name)?;
        Ok(self.inner.order(&hosted.function.logical_id, Order::Freeze))
    }

    /// Lets the frozen processes of a function go on; tells how many processes it has.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn thaw(&self, name: &str) -> Result<usize, Error> {
        let hosted = self.inner.hosted(name)?;
        Ok(self.inner.order(&hosted.function.logical_id, Order::Thaw))
    }
}

pub(super) fn routes() -> Router<Arc<Inner>> {
    Router::new()
        .route("/.local/invocations", get(invocations))
        .route("/.local/functions/{name}/log", get(log))
        .route("/.local/functions/{name}/{verb}", post(order))
        .route("/.local/functions/{name}/{verb}/{times}", post(plan))
}

async fn invocations(State(host): State<Arc<Inner>>) -> Response<Body> {
    let mut ended = host.invocations.subscribe();
    let (mut lines, body) = Channel::<Bytes>::new(16);
    tokio::spawn(async move {
        loop {
            let line = match ended.recv().await {
                Ok(invocation) => format!("{}\n", described(&invocation)),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            if lines.send_data(Bytes::from(line)).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(
        "content-type",
        axum::http::HeaderValue::from_static("application/x-ndjson"),
    );
    response
}

fn described(invocation: &Invocation) -> Value {
    let millis = |at: SystemTime| {
        u64::try_from(
            at.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_millis(),
        )
        .unwrap_or(u64::MAX)
    };
    // A function may answer anything; what is not JSON is shown as text.
    let parsed =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let (answer, error) = match &invocation.outcome {
        Outcome::Answer(text) => (parsed(text), Value::Null),
        Outcome::FunctionError(text) => (Value::Null, parsed(text)),
        Outcome::Throttled => (
            Value::Null,
            json!({"errorType": "TooManyRequestsException"}),
        ),
    };
    json!({
        "function": invocation.function,
        "verb": invocation.verb,
        "request_id": invocation.request_id,
        "payload": parsed(&invocation.payload),
        "answer": answer,
        "error": error,
        "started_at_ms": millis(invocation.started_at),
        "ended_at_ms": millis(invocation.ended_at),
    })
}

async fn log(State(host): State<Arc<Inner>>, Path(name): Path<String>) -> Response<Body> {
    match host.log(&name) {
        Ok(text) => Response::new(Body::from(text)),
        Err(error) => told(StatusCode::NOT_FOUND, &error.to_string()),
    }
}

async fn order(
    State(host): State<Arc<Inner>>,
    Path((name, verb)): Path<(String, String)>,
) -> Response<Body> {
    let hosted = match host.hosted(&name) {
        Ok(hosted) => hosted,
        Err(error) => return told(StatusCode::NOT_FOUND, &error.to_string()),
    };
    let order = match verb.as_str() {
        "freeze" => Order::Freeze,
        "thaw" => Order::Thaw,
        _ => return told(StatusCode::NOT_FOUND, "freeze or thaw"),
    };
    let sandboxes = host.order(&hosted.function.logical_id, order);
    told(StatusCode::OK, &format!("{verb}: {sandboxes} sandboxes"))
}

async fn plan(
    State(host): State<Arc<Inner>>,
    Path((name, verb, times)): Path<(String, String, u32)>,
) -> Response<Body> {
    let hosted = match host.hosted(&name) {
        Ok(hosted) => hosted,
        Err(error) => return told(StatusCode::NOT_FOUND, &error.to_string()),
    };
    let planned = match verb.as_str() {
        "kill-before-answer" => &hosted.deaths.before_answer,
        "kill-after-start" => &hosted.deaths.after_start,
        _ => {
            return told(
                StatusCode::NOT_FOUND,
                "kill-before-answer or kill-after-start",
            );
        }
    };
    planned.store(times, Ordering::Release);
    told(
        StatusCode::OK,
        &format!("{verb}: the next {times} invocations"),
    )
}

fn told(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response
}
