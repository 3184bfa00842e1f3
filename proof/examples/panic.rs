//! A handler with a bug, on the library's own `serve`: for the tests that a panic has a name, and undoes nothing.

use std::time::Duration;

use leasehold::{Acquire, Error, Holder, Key, Leases, Released, RequestId, Ttl, store::Store};
use leasehold_lambda::{Fatal, Function, Names};
use serde::Deserialize;

/// Whatever it is given, and the key in it.
#[derive(Deserialize)]
#[serde(from = "serde_json::Value")]
struct Request {
    key: Option<Key>,
    event: serde_json::Value,
}

impl From<serde_json::Value> for Request {
    fn from(event: serde_json::Value) -> Self {
        let key = event["key"].as_str().and_then(|key| Key::new(key).ok());
        Self { key, event }
    }
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        Names::default().key(&self.key)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new("panic").serve(handle).await
}

/// Grants what is asked for, if that is a request, before it panics.
async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Released, Error> {
    let request = request.event;
    if let Some(wanted) = wanted(&request) {
        leases.acquire(wanted).await?.granted()?;
    }
    panic!("this handler panics, whatever it is given: {request}")
}

fn wanted(request: &serde_json::Value) -> Option<Acquire> {
    let text = |field: &str| request[field].as_str();
    let ttl = Duration::from_secs(request["ttl_seconds"].as_u64()?);
    let (key, holder) = (Key::new(text("key")?), Holder::new(text("holder")?));
    let acquire = Acquire::new(key.ok()?, holder.ok()?, Ttl::new(ttl).ok()?);
    Some(acquire.request_id(RequestId::new(text("request_id")?).ok()?))
}
