//! A function that fails as its records say: what the tests of streams and queues run.
//!
//! A record says `do` in its new image, a message in its body: `poison` is reported as failed, `once` only the first
//! time, `bomb` fails the whole call, `dawdle` takes four seconds. A call without records says it itself. Everything
//! else succeeds.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

static SEEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);

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
            "once" if is_first(record, &name) => failed.push(name),
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
    if let Some(body) = record["body"].as_str() {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        return (text(&record["messageId"]), text(&body["do"]));
    }
    let change = &record["dynamodb"];
    (
        text(&change["SequenceNumber"]),
        text(&change["NewImage"]["do"]["S"]),
    )
}

/// A message says how often it was received. Each sandbox has its own memory, and the next receive may come to another one.
fn is_first(record: &Value, name: &str) -> bool {
    let received = record["attributes"]["ApproximateReceiveCount"].as_str();
    received.map_or_else(|| is_new(name), |times| times == "1")
}

fn is_new(name: &str) -> bool {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.get_or_insert_default().insert(name.to_owned())
}
