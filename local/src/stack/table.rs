//! The lease table, made from the template's own properties.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::error::Error;

/// Creates a table as the template describes it. It asks the database itself, past the proxy, so that a fresh
/// stack has counted nothing.
pub(super) async fn create(
    database: SocketAddr,
    name: &str,
    properties: &Value,
) -> Result<(), Error> {
    // CloudFormation's properties of a table are spelled as CreateTable's fields.
    let mut request = json!({"TableName": name, "BillingMode": "PAY_PER_REQUEST"});
    for field in [
        "AttributeDefinitions",
        "KeySchema",
        "GlobalSecondaryIndexes",
    ] {
        if let Some(value) = properties.get(field) {
            request[field] = value.clone();
        }
    }
    if let Some(view) = properties.pointer("/StreamSpecification/StreamViewType") {
        request["StreamSpecification"] = json!({"StreamEnabled": true, "StreamViewType": view});
    }
    call(database, "CreateTable", &request).await?;
    if let Some(ttl) = properties.get("TimeToLiveSpecification") {
        call(
            database,
            "UpdateTimeToLive",
            &json!({"TableName": name, "TimeToLiveSpecification": ttl}),
        )
        .await?;
    }
    Ok(())
}

async fn call(database: SocketAddr, operation: &str, body: &Value) -> Result<(), Error> {
    let failed = |message: String| Error::Call {
        what: operation.to_owned(),
        message,
    };
    let request = Request::post(format!("http://{database}/"))
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        // The embedded DynamoDB wants a signature to be there, and does not check it.
        .header("authorization", "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
        .header("x-amz-date", "20260101T000000Z")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| failed(error.to_string()))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client
        .request(request)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if answer.status().is_success() {
        return Ok(());
    }
    let text = answer
        .into_body()
        .collect()
        .await
        .map_err(|error| failed(error.to_string()))?
        .to_bytes();
    Err(failed(String::from_utf8_lossy(&text).into_owned()))
}
