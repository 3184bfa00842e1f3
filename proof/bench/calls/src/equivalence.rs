//! What is compared is the same: both send the same request, but for ids and instants.

use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::{
    client::{
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings,
            SharedHttpConnector,
        },
        orchestrator::{HttpRequest, HttpResponse},
        runtime_components::RuntimeComponents,
    },
    http::StatusCode,
    shared::IntoShared,
};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

use super::*;

/// Keeps what it is given, and answers that the condition was not met.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Value>>>);

const REFUSED: &str =
    r#"{"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}"#;

impl HttpConnector for Kept {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(serde_json::from_slice(body).unwrap());
        let status = StatusCode::try_from(400).unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(REFUSED))))
    }
}

impl HttpClient for Kept {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.clone().into_shared()
    }
}

fn lease() -> Lease {
    let lease = json!({
        "key": "orders/0001", "holder": HOLDER, "lease_id": "5d0c2a9be1f34768a2b7c45d9e8f1032",
        "fencing_token": 1_795_230_000_125_u64, "version": 1_795_230_000_124_u64, "ttl_seconds": 300,
        "acquired_at": "2026-11-21T03:00:00.123Z", "expires_at": "2026-11-21T03:05:00.123Z",
        "safe_until": "2026-11-21T03:04:59.123Z", "permit": 0, "metadata": {},
    });
    serde_json::from_value(lease).unwrap()
}

/// The first request that one of the two sends for `operation`, with what differs from call to call left out.
async fn sent(by: &str, operation: &str) -> Value {
    let kept = Kept::default();
    let ambient = wire::config(
        "http://127.0.0.1:9".to_owned(),
        Some(kept.clone().into_shared()),
    );
    // It fails, since the condition was not met.
    let outcome = call(by, operation, &ambient, &[lease()]).await;
    assert!(operation == "release" || outcome.is_err());
    let mut request = kept.0.lock().unwrap_or_else(PoisonError::into_inner)[0].take();
    let values = &mut request["ExpressionAttributeValues"];
    for instance in [
        "now",
        "seed",
        "over",
        "expires_at",
        "sweep_after",
        "purge_at",
    ] {
        if let Some(value) = values.get_mut(format!(":{instance}")) {
            let digits = value["N"].as_str().unwrap().len();
            *value = json!({ "digits": digits });
        }
    }
    for made_up in ["request", "lease_id"] {
        if let Some(value) = values.get_mut(format!(":{made_up}"))
            && operation == "acquire"
        {
            let text = value.get("S").or_else(|| value.get("B"));
            let characters = text.and_then(Value::as_str).unwrap().len();
            *value = json!({ "characters": characters });
        }
    }
    request
}

#[tokio::test]
async fn both_send_the_same_request() {
    for operation in ["acquire", "extend", "release"] {
        let library = sent("library", operation).await;
        assert!(library["ConditionExpression"].is_string(), "{library}");
        assert_eq!(sent("sdk", operation).await, library, "{operation}");
    }
}
