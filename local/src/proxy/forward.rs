//! One request at the proxy: it is read, counted and forwarded, and answered or not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::http::{request, response};
use hyper::{StatusCode, Uri};
use leasehold_net::Connection;
use serde_json::{Value, json};

use super::Wire;
use super::fault::Fault;
use super::units::{self, Units};

/// How long the first half of a response has to be sent before the connection breaks.
const FLUSH: Duration = Duration::from_millis(10);

/// A request whose body has been read.
struct Call {
    head: request::Parts,
    /// The service and the operation, as the request's header names them.
    target: String,
    body: Bytes,
}

impl Call {
    fn operation(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or("")
    }
}

pub(super) async fn handle(
    State(wire): State<Arc<Wire>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return connection.close().await;
    };
    let target = head.headers.get("x-amz-target");
    let target = target.and_then(|value| value.to_str().ok()).unwrap_or("");
    let call = Call {
        target: target.to_owned(),
        head,
        body: body.to_bytes(),
    };
    wire.oversight.show(&call.body);
    if let Some(roles) = &wire.oversight.roles
        && let Err(message) = roles.judge(&call.head.headers, &call.target, &call.body)
    {
        return denied(&message);
    }
    let (fault, latency) = wire.state().receive(call.operation(), &call.body);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    match fault {
        Some(Fault::LoseRequest) => connection.close().await,
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::LateRequest) => {
            tokio::spawn(async move {
                tokio::time::sleep(Fault::LATE).await;
                // Nobody waits for its outcome.
                let _ = forward(call.head, call.body, &wire).await;
            });
            connection.close().await
        }
        Some(fault @ (Fault::Throttle | Fault::Conflict | Fault::ServerError | Fault::Denied)) => {
            refuse(fault, &call.target, &call.body)
        }
        fault => applied(call, fault, &wire, &connection).await,
    }
}

/// The response to a request that reaches the service, as a fault leaves it.
async fn applied(
    call: Call,
    fault: Option<Fault>,
    wire: &Wire,
    connection: &Connection,
) -> Response {
    let (target, body) = (call.target.clone(), call.body.clone());
    let (head, answered) = match exchange(call, wire).await {
        Ok(answered) => answered,
        Err((status, text)) => return plain(status, text),
    };
    match fault {
        Some(Fault::LoseAnswer) => connection.close().await,
        Some(Fault::ResetAnswer) => connection.reset().await,
        Some(Fault::HangAnswer) => std::future::pending().await,
        Some(fault @ Fault::FailAnswer) => refuse(fault, &target, &body),
        Some(Fault::HalfAnswer) => {
            let mut half = Response::from_parts(head, half(&answered));
            // The header has the whole length, so that the client sees that a part is missing.
            half.headers_mut()
                .insert(CONTENT_LENGTH, answered.len().into());
            half
        }
        _ => Response::from_parts(head, answered.into()),
    }
}

/// Sends a request to the service, perhaps changed, and reads and counts the response.
async fn exchange(
    call: Call,
    wire: &Wire,
) -> Result<(response::Parts, Bytes), (StatusCode, String)> {
    let operation = call.operation().to_owned();
    let Call { mut head, body, .. } = call;
    // Outside the lock, because the rewriting function may be slow or panic.
    let rewriting = wire.state().rewriting.clone();
    let other = rewriting.and_then(|rewrite| rewrite(&operation, &body));
    let meant = other.map_or_else(|| body.clone(), Bytes::from);
    let counts_units = wire.counts_units.load(Ordering::Relaxed);
    let asking = counts_units
        .then(|| units::ask(&operation, &meant))
        .flatten();
    let asked = asking.is_some();
    let sent = asking.unwrap_or(meant);
    if sent != body {
        head.headers.remove(CONTENT_LENGTH);
    }
    let (head, answered) = forward(head, sent, wire).await?;
    let (bytes, units) = if counts_units {
        let added = if asked { units::added(&answered) } else { 0 };
        (answered.len() - added, Units::of(&operation, &answered))
    } else {
        (answered.len(), Units::default())
    };
    wire.state().counts.answer(&operation, bytes, units);
    wire.oversight.show(&answered);
    Ok((head, answered))
}

/// The first half of a body, after which the connection breaks.
fn half(whole: &Bytes) -> Body {
    let (mut sender, body) = Channel::new(1);
    let first = whole.slice(..whole.len() / 2);
    tokio::spawn(async move {
        let _ = sender.send_data(first).await;
        tokio::time::sleep(FLUSH).await;
        let cut = "injected: the answer was cut in half";
        sender.abort(std::io::Error::other(cut));
    });
    Body::new(body)
}

/// Forwards a request to the upstream, and returns the response.
async fn forward(
    mut head: request::Parts,
    body: Bytes,
    wire: &Wire,
) -> Result<(response::Parts, Bytes), (StatusCode, String)> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = format!("http://{}{path}", wire.upstream).parse::<Uri>();
    head.uri = uri.map_err(|_| {
        let text = "the request's path is not a path".to_owned();
        (StatusCode::BAD_REQUEST, text)
    })?;
    let failed = |error: &dyn std::error::Error| {
        let text = format!("the upstream of the proxy: {error}");
        (StatusCode::BAD_GATEWAY, text)
    };
    let request = Request::from_parts(head, Full::new(body));
    let answer = wire.client.request(request).await;
    let (head, body) = answer.map_err(|error| failed(&error))?.into_parts();
    let body = body.collect().await.map_err(|error| failed(&error))?;
    Ok((head, body.to_bytes()))
}

fn refuse(fault: Fault, target: &str, body: &[u8]) -> Response {
    match fault.refusal(target, body) {
        Some((status, error)) => error_response(status, &error),
        None => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{fault:?}")),
    }
}

fn denied(message: &str) -> Response {
    let name = "com.amazon.coral.service#AccessDeniedException";
    let error = json!({"__type": name, "Message": message, "message": message});
    error_response(StatusCode::BAD_REQUEST, &error)
}

/// An error in the form of both services.
fn error_response(status: StatusCode, error: &Value) -> Response {
    let mut response = plain(status, error.to_string());
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/x-amz-json-1.0");
    headers.insert(CONTENT_TYPE, kind);
    // The service always sends one, and some clients depend on it.
    headers.insert("x-amzn-requestid", HeaderValue::from_static("INJECTED"));
    response
}

fn plain(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
}
