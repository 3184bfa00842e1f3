//! The tables of a stack.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value, json};

use super::{clients, work};
use crate::dynamodb::DynamoDb;
use crate::error::Error;
use crate::lambda::REGION;
use crate::template::Template;

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

/// Creates the tables of a template, as the library does or as they are described, and that of the sample work if it is wanted.
/// Past the proxy, so that a fresh stack has counted nothing.
pub(super) async fn create_all(
    template: &Template,
    dynamodb: &DynamoDb,
    with_work: bool,
) -> Result<(), Error> {
    let direct = clients::dynamodb(&format!("http://{}", dynamodb.address()));
    for name in &template.tables {
        if let Some(described) = template.described.get(name) {
            create(dynamodb.address(), described).await?;
            continue;
        }
        let created = leasehold::table::create(&direct, name).await;
        created.map_err(|error| Error::Call {
            what: format!("create the table {name}"),
            message: error.to_string(),
        })?;
    }
    if with_work {
        work::create_table(&direct).await?;
    }
    Ok(())
}

/// Creates a table by what `DescribeTable` has told of it, and sets its time to live.
async fn create(address: SocketAddr, described: &Value) -> Result<(), Error> {
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
