//! Functions that are servers: each event is one POST.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::outcome::Outcome;

/// Sends an event, and waits for the response. It is an error by a status of failure, by the header with which Lambda marks a function's
/// error, or by its form: the runtimes in Lambda's container images mark nothing.
pub(super) async fn invoke(
    url: &Uri,
    request_id: &str,
    payload: String,
    limit: Duration,
) -> Outcome {
    match tokio::time::timeout(limit, post(url, payload)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed("Function.Unreachable", &format!("{url}: {error}")),
        Err(_) => Outcome::timed_out(request_id, limit),
    }
}

async fn post(
    url: &Uri,
    payload: String,
) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(url).header("content-type", "application/json");
    let response = client
        .request(request.body(Full::<Bytes>::from(payload))?)
        .await?;
    let status = response.status();
    let marked = response.headers().contains_key("x-amz-function-error");
    let body = response.into_body().collect().await?.to_bytes();
    let text = String::from_utf8(body.to_vec())?;
    let json = serde_json::from_str::<Value>(&text).ok();
    let is_error = |json: &Value| {
        ["errorType", "errorMessage"]
            .iter()
            .all(|field| json[field].is_string())
    };
    let marked = marked || json.as_ref().is_some_and(is_error);
    Ok(match (status.is_success(), marked, json.is_some()) {
        (true, false, true) => Outcome::Answer(text),
        (_, true, true) => Outcome::FunctionError(text),
        (true, ..) => failed(
            "Function.Malformed",
            &format!("{url} did not answer with JSON: {text}"),
        ),
        (false, ..) => failed(
            "Function.Failed",
            &format!("{url} answered {status}: {text}"),
        ),
    })
}

fn failed(kind: &str, message: &str) -> Outcome {
    Outcome::FunctionError(json!({"errorType": kind, "errorMessage": message}).to_string())
}
