//! A function that does what its event says: what the tests of the Lambda host run.

use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handle)).await
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let (payload, context) = event.into_parts();
    println!("event {}", context.request_id);
    match payload["do"].as_str() {
        Some("sleep") => {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Ok(Value::Null)
        }
        Some("environment") => {
            let all: serde_json::Map<String, Value> = std::env::vars()
                .map(|(name, value)| (name, Value::String(value)))
                .collect();
            Ok(Value::Object(all))
        }
        _ => Ok(json!({"echo": payload, "pid": std::process::id()})),
    }
}
