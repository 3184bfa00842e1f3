//! A function that does what its event says: what the tests of the Lambda host run.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Error> {
    if std::env::var_os("ECHO_EXITS_AT_ONCE").is_some() {
        std::process::exit(3);
    }
    lambda_runtime::run(service_fn(handle)).await
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let (payload, context) = event.into_parts();
    println!("event {}", context.request_id);
    match payload["do"].as_str() {
        Some("fail") => Err("as you wished".into()),
        Some("exit") => std::process::exit(7),
        Some("sleep") => {
            let millis = payload["ms"].as_u64().unwrap_or(60_000);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(json!({"pid": std::process::id()}))
        }
        Some("environment") => {
            let all: serde_json::Map<String, Value> = std::env::vars()
                .map(|(name, value)| (name, Value::String(value)))
                .collect();
            Ok(Value::Object(all))
        }
        _ => Ok(json!({
            "echo": payload,
            "pid": std::process::id(),
            "request_id": context.request_id,
            "arn": context.invoked_function_arn,
            "deadline": context.deadline,
        })),
    }
}
