//! Durable functions: AWS's local runner runs their executions, and what the API of Lambda has for them goes to it.
//!
//! The runner's executions have no ARNs, but a name and an id. The clients of `clients/` make an ARN of them for Leasehold; here it is
//! undone.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode};
use axum::routing::any;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;

use crate::arn;

use super::invoke_api::refuse;
use super::state::HostState;

/// How long the runner may take to answer a call.
const LIMIT: Duration = Duration::from_secs(60);

/// One for all calls, which keeps its connections.
static CLIENT: LazyLock<Client<HttpConnector, Full<Bytes>>> =
    LazyLock::new(|| Client::builder(TokioExecutor::new()).build_http());

/// More than the service takes.
const LARGEST: usize = 8 * 1024 * 1024;

/// The function to which the runner's executions belong, for Leasehold.
pub(crate) fn function() -> String {
    arn::function("local")
}

pub(super) fn routes() -> Router<Arc<HostState>> {
    Router::new().route("/2025-12-01/{*rest}", any(forward))
}

async fn forward(State(host): State<Arc<HostState>>, request: Request) -> Response<Body> {
    let Some(runner) = &host.options.durable_runner else {
        let why = "no runner of durable functions: start the stack with --durable-runner URL";
        return refuse(StatusCode::NOT_FOUND, "ResourceNotFoundException", why);
    };
    let (head, body) = request.into_parts();
    let call = Call::of(&head.method, head.uri.path());
    if let Some(roles) = &host.options.oversight.roles
        && let Some((action, named)) = call.need()
        && let Err(why) = roles.judge_durable(&head.headers, action, &named)
    {
        return refuse(StatusCode::FORBIDDEN, "AccessDeniedException", &why);
    }
    let query = head.uri.query().map(|query| format!("?{query}"));
    let target = format!("{runner}{}{}", call.path(), query.unwrap_or_default());
    let failed = |why: String| refuse(StatusCode::BAD_GATEWAY, "ServiceException", &why);
    let body = match to_bytes(body, LARGEST).await {
        Ok(body) => body,
        Err(error) => return failed(error.to_string()),
    };
    let mut onward = axum::http::Request::builder()
        .method(head.method)
        .uri(&target);
    for name in ["content-type", "accept"] {
        if let Some(value) = head.headers.get(name) {
            onward = onward.header(name, value);
        }
    }
    let onward = match onward.body(Full::new(body)) {
        Ok(onward) => onward,
        Err(error) => return failed(error.to_string()),
    };
    let answered = tokio::time::timeout(LIMIT, async {
        let answered = CLIENT
            .request(onward)
            .await
            .map_err(|error| error.to_string())?;
        let (head, body) = answered.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((head, body.to_bytes()))
    });
    let (head, body) = match answered.await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => return failed(format!("{runner}: {error}")),
        Err(_) => return failed(format!("{runner} did not answer within {LIMIT:?}")),
    };
    if !head.status.is_success() {
        // Where SDKs look for the name of an error, the runner has none.
        let error: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = error["Type"].as_str().unwrap_or("ServiceException");
        let message = error["Message"].as_str().unwrap_or_default();
        return refuse(head.status, name, message);
    }
    let mut response = Response::builder().status(head.status);
    if let Some(kind) = head.headers.get("content-type") {
        response = response.header("content-type", kind);
    }
    response.body(Body::from(body)).unwrap_or_default()
}

/// A path of the API, in decoded parts after the date.
struct Call {
    reads: bool,
    parts: Vec<String>,
}

impl Call {
    fn of(method: &Method, path: &str) -> Self {
        let parts = path.split('/').skip(2);
        let decoded = |part| percent_decode_str(part).decode_utf8_lossy().into_owned();
        Self {
            reads: method == Method::GET,
            parts: parts.map(decoded).collect(),
        }
    }

    /// The action of those that a role of the stack may need, and the callback or the execution that the call names.
    fn need(&self) -> Option<(&'static str, String)> {
        let parts: Vec<_> = self.parts.iter().map(String::as_str).collect();
        let (action, named) = match parts[..] {
            ["durable-execution-callbacks", id, "succeed"] => {
                ("lambda:SendDurableExecutionCallbackSuccess", id)
            }
            ["durable-execution-callbacks", id, "fail"] => {
                ("lambda:SendDurableExecutionCallbackFailure", id)
            }
            ["durable-executions", arn] if self.reads => ("lambda:GetDurableExecution", arn),
            _ => return None,
        };
        Some((action, named.to_owned()))
    }

    /// The path for the runner.
    fn path(&self) -> String {
        let ours = format!("{}:$LATEST/durable-execution/", function());
        let parts = self.parts.iter().map(|part| {
            let part = part.strip_prefix(&ours).unwrap_or(part);
            utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()
        });
        let parts: Vec<_> = parts.map(|part| part.replace("%2D", "-")).collect();
        format!("/2025-12-01/{}", parts.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_arn_becomes_runners_name() {
        for (path, expected) in [
            (
                "/2025-12-01/durable-executions/arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3Alocal%3A%24LATEST%2Fdurable-execution%2Fa-1%2Fb",
                "/2025-12-01/durable-executions/a-1%2Fb",
            ),
            (
                "/2025-12-01/durable-executions/a-1%2Fb/checkpoint",
                "/2025-12-01/durable-executions/a-1%2Fb/checkpoint",
            ),
            (
                "/2025-12-01/durable-execution-callbacks/Ab%2B%2F9w%3D%3D/succeed",
                "/2025-12-01/durable-execution-callbacks/Ab%2B%2F9w%3D%3D/succeed",
            ),
        ] {
            assert_eq!(Call::of(&Method::POST, path).path(), expected);
        }
    }

    #[test]
    fn path_shows_needed_permission() {
        let need = |method, path: &str| Call::of(method, path).need();
        let callbacks = "/2025-12-01/durable-execution-callbacks/Ab%2B";
        for (end, action) in [
            ("succeed", "lambda:SendDurableExecutionCallbackSuccess"),
            ("fail", "lambda:SendDurableExecutionCallbackFailure"),
        ] {
            let expected = Some((action, "Ab+".to_owned()));
            let path = format!("{callbacks}/{end}");
            assert_eq!(need(&Method::POST, &path), expected);
        }
        let execution = "/2025-12-01/durable-executions/arn%3Ax";
        let expected = Some(("lambda:GetDurableExecution", "arn:x".to_owned()));
        assert_eq!(need(&Method::GET, execution), expected);
        assert_eq!(
            need(&Method::POST, &format!("{execution}/checkpoint")),
            None
        );
    }
}
