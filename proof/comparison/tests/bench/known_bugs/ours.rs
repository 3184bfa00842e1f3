//! Our side: the real function binaries on a stack, called as Lambda calls them.

use std::ops::Deref;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{Clock as _, SystemClock, Timestamp};
use leasehold_bench::workflows::fixture::short;
use leasehold_local::{Options, Outcome};
use leasehold_proof::fixture::{Fixture, TIMEOUT, s, scanned};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The margin on this stack: seconds are long here.
pub const MARGIN: Duration = Duration::from_millis(300);

/// A stack of its own for one test: what is counted there, it has caused.
pub struct Ours(Fixture);

impl Deref for Ours {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

/// What waits for something that may never come fails instead of hanging.
pub async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, waiting).await.expect("in time")
}

/// An answer, or an error's name.
pub type Answer = Result<Value, String>;

/// Tells what happened on both sides.
pub fn found(there: impl std::fmt::Display, here: impl std::fmt::Display) {
    println!("  there  {there}\n  here   {here}");
}

impl Ours {
    pub async fn start() -> Self {
        let options = Options {
            environment: short(),
            ..scanned()
        };
        Self(Fixture::with(options).await)
    }

    pub async fn acquire(&self, key: &str, holder: &str, ttl_seconds: u32) -> Answer {
        let event = json!({"key": key, "holder": holder, "ttl_seconds": ttl_seconds});
        call(self, "AcquireFunction", &event).await
    }

    pub async fn extend(&self, lease: &Value) -> Answer {
        call(self, "ExtendFunction", &json!({"lease": lease})).await
    }

    pub async fn release(&self, lease: &Value) -> Answer {
        call(self, "ReleaseFunction", &json!({"lease": lease})).await
    }

    /// Our writes that have arrived at the socket, and starts counting anew; every fault has to have happened.
    pub fn requests(&self) -> u64 {
        let proxy = self.stack.proxy();
        assert_eq!(proxy.pending_faults(), 0, "a fault has not happened");
        let requests = proxy.counts().of("UpdateItem");
        proxy.reset();
        requests
    }

    /// An attribute of a peer's item, if both are there.
    pub async fn attribute(
        &self,
        table: &str,
        key: (&str, &str),
        name: &str,
    ) -> Option<AttributeValue> {
        let get = self.stack.dynamodb().get_item().table_name(table);
        let get = get.key(key.0, s(key.1));
        let item = get.consistent_read(true).send().await.unwrap().item?;
        item.get(name).cloned()
    }
}

/// The step of the samples has messages that are no JSON, as ours are.
pub async fn call(fixture: &Fixture, function: &str, event: &Value) -> Answer {
    let functions = fixture.stack.functions();
    let invoked = functions.invoke(function, &event.to_string()).await;
    match invoked.unwrap().outcome {
        Outcome::Answer(text) => Ok(serde_json::from_str(&text).unwrap()),
        Outcome::FunctionError(text) => {
            let error: Value = serde_json::from_str(&text).unwrap();
            Err(error["errorType"].as_str().unwrap().to_owned())
        }
        Outcome::Throttled => panic!("{function} was throttled"),
    }
}

/// Waits until a lease may be taken over by the clock.
pub async fn outwait(lease: &Value) {
    let expires_at: Timestamp = serde_json::from_value(lease["expires_at"].clone()).unwrap();
    until(expires_at.plus(MARGIN)).await;
}

/// Waits until an instant has passed.
pub async fn until(instant: Timestamp) {
    while SystemClock.now() <= instant {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
