//! A function that fails as its messages say: what the tests of queues run.
//!
//! A message says `do` in its body: `poison` is reported as failed, `once` only the first
//! time, `bomb` fails the whole call, `dawdle` takes four seconds. A call without records says it itself. Everything
//! else succeeds.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handle)).await
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let event = event.payload;
    match event["do"].as_str() {
        Some("bomb") => return Err("as you wished".into()),
        Some("dawdle") => dawdle().await,
        _ => {}
    }
    let mut failed = Vec::new();
    for record in event["Records"].as_array().into_iter().flatten() {
        let (name, wish) = wish_of(record);
        match wish.as_str() {
            "bomb" => return Err("as you wished".into()),
            "poison" => failed.push(name),
            "dawdle" => dawdle().await,
            "once" if is_first(record) => failed.push(name),
            _ => {}
        }
    }
    let failed: Vec<_> = failed
        .iter()
        .map(|name| json!({"itemIdentifier": name}))
        .collect();
    Ok(json!({"batchItemFailures": failed}))
}

async fn dawdle() {
    tokio::time::sleep(Duration::from_secs(4)).await;
}

fn wish_of(record: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let body = record["body"].as_str().unwrap_or_default();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (text(&record["messageId"]), text(&body["do"]))
}

/// A message says how often it was received: each sandbox has its own memory, and the next receive may come to another one.
fn is_first(record: &Value) -> bool {
    record["attributes"]["ApproximateReceiveCount"] == "1"
}
