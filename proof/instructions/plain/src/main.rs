//! A lock as anybody would write it for Lambda: the runtime, the SDK's own configuration and client, one `UpdateItem`.

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let config = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
    let client = &Client::new(&config);
    let table = &std::env::var("LEASE_TABLE")?;
    run(service_fn(move |event: LambdaEvent<Value>| async move {
        lock(client, table, &event.payload).await
    }))
    .await
}

async fn lock(client: &Client, table: &str, event: &Value) -> Result<Value, Error> {
    let text = |name: &str| AttributeValue::S(event[name].as_str().unwrap_or_default().to_owned());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_millis();
    let ttl = u128::from(event["ttl_seconds"].as_u64().unwrap_or(60)) * 1000;
    client
        .update_item()
        .table_name(table)
        .key("pk", text("key"))
        .key("sk", AttributeValue::S("LOCK".to_owned()))
        .update_expression("SET #owner = :owner, #until = :until")
        .condition_expression("attribute_not_exists(#owner) OR #until < :now")
        .expression_attribute_names("#owner", "owner")
        .expression_attribute_names("#until", "until")
        .expression_attribute_values(":owner", text("holder"))
        .expression_attribute_values(":now", AttributeValue::N(now.to_string()))
        .expression_attribute_values(":until", AttributeValue::N((now + ttl).to_string()))
        .send()
        .await?;
    Ok(json!({"until": (now + ttl).to_string()}))
}
