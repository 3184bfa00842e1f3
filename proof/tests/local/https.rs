//! How a function reaches AWS: by the SDK's own HTTPS client, within the library's time limits. Everything else here speaks plain
//! HTTP to functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_local::{Outcome, Stack};
use leasehold_proof::fixture::scanned;
use serde_json::Value;
use tokio::net::TcpListener;

/// A stack whose functions have these variables too.
async fn stack(variables: &[(&str, &str)]) -> Stack {
    let mut options = scanned();
    for (name, value) in variables {
        let everywhere = options.environment.entry("*".to_owned()).or_default();
        everywhere.insert((*name).to_owned(), Some((*value).to_owned()));
    }
    Stack::start(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_handshake_is_not_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tried = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&tried);
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            silent.push(stream);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let stack = stack(&[("AWS_ENDPOINT_URL_DYNAMODB", &url)]).await;
    let event = r#"{"key": "k", "holder": "a", "ttl_seconds": 300}"#;
    let invocation = stack.functions().invoke("acquire", event).await.unwrap();
    // Long before the function's own time is up, and not before it has asked again.
    let Outcome::FunctionError(error) = invocation.outcome else {
        panic!("{:?}", invocation.outcome);
    };
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["errorType"], "Lease.Unavailable");
    assert_eq!(tried.load(Ordering::Relaxed), 3);
}
