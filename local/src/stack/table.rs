//! A table as `DescribeTable` has told of it, created by the same words.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::lambda::REGION;

/// What `CreateTable` takes; the rest of a description has operations of its own, or is AWS's alone.
const CREATED_WITH: [&str; 7] = [
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "BillingMode",
    "StreamSpecification",
    "DeletionProtectionEnabled",
];

/// Creates a table by its description, and sets its time to live.
pub(super) async fn create(address: SocketAddr, described: &Value) -> Result<(), Error> {
    let properties = described.as_object().into_iter().flatten();
    let with = properties.filter(|(name, _)| CREATED_WITH.contains(&name.as_str()));
    let with: Map<String, Value> = with.map(|(k, v)| (k.clone(), v.clone())).collect();
    call(address, "CreateTable", &Value::Object(with)).await?;
    let ttl = &described["TimeToLiveSpecification"];
    if ttl["Enabled"] == true {
        let set = json!({"TableName": described["TableName"], "TimeToLiveSpecification": ttl});
        call(address, "UpdateTimeToLive", &set).await?;
    }
    Ok(())
}

async fn call(address: SocketAddr, operation: &str, body: &Value) -> Result<(), Error> {
    let failed = |message: String| Error::Call {
        what: format!("{operation} {}", body["TableName"]),
        message,
    };
    let key = format!("local/20260101/{REGION}/dynamodb/aws4_request");
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={key}, SignedHeaders=host;x-amz-date, Signature=none");
    let request = Request::post(format!("http://{address}/"))
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", authorization)
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| failed(error.to_string()))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await;
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    let status = answer.status();
    let told = answer.into_body().collect().await;
    let told = told.map_err(|error| failed(error.to_string()))?.to_bytes();
    if status.is_success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&told).into_owned()))
}
