//! The Runtime API that `lambda_runtime` polls, one base path per sandbox: `/.rt/<session token>/<sandbox>/2018-06-01/…`.
//! Its clients sign nothing, so the token, which the guard checks, is in the path.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};

use super::outcome::Outcome;
use super::sandbox::Order;
use super::state::{HostState, happens};

pub(super) fn routes() -> Router<Arc<HostState>> {
    Router::new()
        .route(
            "/.rt/{token}/{sandbox}/2018-06-01/runtime/invocation/next",
            get(next),
        )
        .route(
            "/.rt/{token}/{sandbox}/2018-06-01/runtime/invocation/{request}/response",
            post(response),
        )
        .route(
            "/.rt/{token}/{sandbox}/2018-06-01/runtime/invocation/{request}/error",
            post(error),
        )
        .route(
            "/.rt/{token}/{sandbox}/2018-06-01/runtime/init/error",
            post(init_error),
        )
        // Responses may have 6 MB, far more than the framework's default.
        .layer(DefaultBodyLimit::disable())
}

/// Waits until there is an event for the sandbox.
async fn next(
    State(host): State<Arc<HostState>>,
    Path((_, sandbox)): Path<(String, String)>,
) -> Response<Body> {
    let Some(sandbox) = host.sandbox(&sandbox) else {
        return respond(StatusCode::GONE, "this sandbox has ended");
    };
    let Some((event, deadline)) = sandbox.next_event().await else {
        return respond(StatusCode::GONE, "this sandbox has ended");
    };
    let Ok(hosted) = host.hosted(&sandbox.function) else {
        return respond(StatusCode::GONE, "this function is gone");
    };
    if happens(&hosted.deaths_after_start) {
        sandbox.order(Order::Kill);
        // The process dies in this poll: nothing of the handler has run.
        return std::future::pending().await;
    }
    let (request_id, payload) = event.delivered();
    let deadline = deadline
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    Response::builder()
        .header("content-type", "application/json")
        .header("lambda-runtime-aws-request-id", request_id)
        .header("lambda-runtime-deadline-ms", deadline.to_string())
        .header("lambda-runtime-invoked-function-arn", hosted.function.arn())
        .header(
            "lambda-runtime-trace-id",
            "Root=1-00000000-000000000000000000000000;Sampled=0",
        )
        .body(Body::from(payload))
        .unwrap_or_else(|_| {
            respond(
                StatusCode::INTERNAL_SERVER_ERROR,
                "a header is not a header",
            )
        })
}

async fn response(
    State(host): State<Arc<HostState>>,
    Path((_, sandbox, request)): Path<(String, String, String)>,
    body: String,
) -> Response<Body> {
    answer(&host, &sandbox, &request, Outcome::Answer(body)).await
}

async fn error(
    State(host): State<Arc<HostState>>,
    Path((_, sandbox, request)): Path<(String, String, String)>,
    body: String,
) -> Response<Body> {
    answer(&host, &sandbox, &request, Outcome::FunctionError(body)).await
}

async fn answer(
    host: &HostState,
    sandbox: &str,
    request: &str,
    outcome: Outcome,
) -> Response<Body> {
    let Some(sandbox) = host.sandbox(sandbox) else {
        return respond(StatusCode::GONE, "this sandbox has ended");
    };
    let hosted = host.hosted(&sandbox.function);
    if hosted.is_ok_and(|hosted| happens(&hosted.deaths_before_answer)) {
        // All work is done, but the response is dropped. The invoker sees the process end.
        sandbox.order(Order::Kill);
        return std::future::pending().await;
    }
    if sandbox.answer(request, outcome) {
        respond(StatusCode::ACCEPTED, "OK")
    } else {
        respond(
            StatusCode::BAD_REQUEST,
            "this is not the event of this sandbox",
        )
    }
}

async fn init_error(
    State(host): State<Arc<HostState>>,
    Path((_, sandbox)): Path<(String, String)>,
    body: String,
) -> Response<Body> {
    if let Some(sandbox) = host.sandbox(&sandbox) {
        sandbox.fail_init(body);
    }
    respond(StatusCode::ACCEPTED, "OK")
}

fn respond(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{{\"status\":\"{text}\"}}")));
    *response.status_mut() = status;
    response
}
