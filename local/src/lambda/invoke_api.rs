//! The Invoke API for SDKs, the AWS CLI and state machines, and the calls that return a function's configuration.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arn;

use super::outcome::Outcome;
use super::state::{HostState, request_id};

/// The largest event of a synchronous invocation.
const LARGEST_EVENT: usize = 6 * 1024 * 1024;

pub(super) fn routes() -> Router<Arc<HostState>> {
    Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .route(
            "/2015-03-31/functions/{name}/configuration",
            get(configuration),
        )
        .route("/2015-03-31/event-source-mappings/{id}", get(event_source))
        .layer(DefaultBodyLimit::disable())
}

async fn invoke(
    State(host): State<Arc<HostState>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let request_id = request_id();
    let Ok(hosted) = host.hosted(&name) else {
        return unknown(&format!("Function not found: {name}"));
    };
    if body.len() > LARGEST_EVENT {
        let message = format!(
            "Request must be smaller than {LARGEST_EVENT} bytes for the InvokeFunction operation"
        );
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return refuse(status, "RequestTooLargeException", &message);
    }
    let payload = match event(&body) {
        Ok(payload) => payload,
        Err(error) => {
            let message = format!("Could not parse request body into json: {error}");
            let status = StatusCode::BAD_REQUEST;
            return refuse(status, "InvalidRequestContentException", &message);
        }
    };
    if let Some(roles) = &host.options.oversight.roles
        && let Err(message) = roles.judge_invocation(&headers, &hosted.function.arn(), &payload)
    {
        return refuse(StatusCode::FORBIDDEN, "AccessDeniedException", &message);
    }
    let kind = headers.get("x-amz-invocation-type");
    // A task of its own, so that the function runs to its end even if the caller disconnects.
    let running = tokio::spawn(Arc::clone(&host).invoke(hosted, request_id.clone(), payload));
    if kind.is_some_and(|kind| kind == "Event") {
        return respond(StatusCode::ACCEPTED, &request_id, None, Body::empty());
    }
    match running.await {
        Ok(invocation) => ended(invocation.outcome, &request_id),
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let why = format!("the host failed: {error}");
            refuse(status, "ServiceException", &why)
        }
    }
}

/// The response to an invocation that has ended.
fn ended(outcome: Outcome, request_id: &str) -> Response<Body> {
    let (status, header, body) = match outcome {
        Outcome::Answer(text) => (StatusCode::OK, None, text),
        Outcome::FunctionError(text) => {
            let header = Some(("x-amz-function-error", "Unhandled"));
            (StatusCode::OK, header, text)
        }
        Outcome::Throttled => {
            let body = json!({"Type": "User", "message": "Rate Exceeded.", "Reason": "ConcurrentInvocationLimitExceeded"});
            let header = Some(("x-amzn-errortype", "TooManyRequestsException"));
            (StatusCode::TOO_MANY_REQUESTS, header, body.to_string())
        }
    };
    respond(status, request_id, header, Body::from(body))
}

/// The configuration of a function. Its instruction set is this machine's.
async fn configuration(
    State(host): State<Arc<HostState>>,
    Path(name): Path<String>,
) -> Response<Body> {
    let Ok(hosted) = host.hosted(&name) else {
        return unknown(&format!("Function not found: {name}"));
    };
    let function = &hosted.function;
    let mut variables = function.environment.clone();
    // The access key id is the role's name here. Lambda does not return it.
    let role = variables
        .remove("AWS_ACCESS_KEY_ID")
        .map(|role| arn::role(&role));
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    };
    describe(&json!({
        "FunctionName": function.logical_id,
        "FunctionArn": function.arn(),
        "Runtime": "provided.al2023",
        "Role": role,
        "Handler": "bootstrap",
        "Timeout": function.timeout.as_secs(),
        "MemorySize": function.memory_mb,
        "Version": "$LATEST",
        "Environment": {"Variables": variables},
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "PackageType": "Zip",
        "Architectures": [architecture],
    }))
}

async fn event_source(
    State(host): State<Arc<HostState>>,
    Path(id): Path<String>,
) -> Response<Body> {
    match host.options.event_sources.get(&id) {
        Some(described) => describe(described),
        None => unknown(&format!("The resource you requested does not exist: {id}")),
    }
}

fn describe(described: &Value) -> Response<Body> {
    let body = Body::from(described.to_string());
    respond(StatusCode::OK, &request_id(), None, body)
}

fn unknown(message: &str) -> Response<Body> {
    refuse(StatusCode::NOT_FOUND, "ResourceNotFoundException", message)
}

pub(super) fn refuse(status: StatusCode, name: &str, message: &str) -> Response<Body> {
    let body = json!({"Type": "User", "Message": message}).to_string();
    let header = Some(("x-amzn-errortype", name));
    respond(status, &request_id(), header, Body::from(body))
}

/// The event as JSON text. An empty body is an empty object, as in the service. The text is validated without
/// building a tree, so that a deeply nested one reaches the function.
fn event(body: &[u8]) -> Result<String, serde_json::Error> {
    if body.is_empty() {
        return Ok("{}".to_owned());
    }
    Ok(serde_json::from_slice::<&RawValue>(body)?.get().to_owned())
}

fn respond(
    status: StatusCode,
    request_id: &str,
    header: Option<(&str, &str)>,
    body: Body,
) -> Response<Body> {
    let mut response = Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .header("x-amzn-requestid", request_id)
        .header("x-amz-executed-version", "$LATEST");
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    response.body(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::event;

    #[test]
    fn event_is_json_of_any_depth() {
        assert_eq!(event(b"").unwrap(), "{}");
        assert_eq!(
            event(b" {\"a\": 1, \"a\": 2} ").unwrap(),
            "{\"a\": 1, \"a\": 2}"
        );
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert_eq!(event(deep.as_bytes()).unwrap(), deep);
        assert!(event(b"{\"a\": NaN}").is_err());
        assert!(event(b"\xff").is_err());
    }
}
