//! Our side: the real function binaries on a stack, called as Lambda calls them.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{Clock as _, SystemClock, Timestamp};
use leasehold_local::{Options, Outcome, Stack};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The margin on this stack: seconds are long here.
pub const MARGIN: Duration = Duration::from_millis(300);

/// A stack of its own for one test: what is counted there, it has caused.
pub struct Ours {
    pub stack: Stack,
}

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What waits for something that may never come fails instead of hanging.
pub async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    timeout(PATIENCE, waiting).await.expect("in time")
}

/// An answer, or an error's name.
pub type Answer = Result<Value, String>;

/// A stack's options with a short margin, so that leases may be short.
pub fn options() -> Options {
    let short = [("LEASE_CLOCK_MARGIN_MS", "300"), ("LEASE_GUARD_MS", "200")];
    let short = short.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    Options {
        environment: BTreeMap::from([("*".to_owned(), BTreeMap::from(short))]),
        ..Options::default()
    }
}

/// Tells what happened on both sides.
pub fn found(there: impl std::fmt::Display, here: impl std::fmt::Display) {
    println!("  there  {there}\n  here   {here}");
}

impl Ours {
    pub async fn start() -> Self {
        let stack = Stack::start(options()).await.unwrap();
        Self { stack }
    }

    pub async fn call(&self, function: &str, event: &Value) -> Answer {
        call(&self.stack, function, event).await
    }

    pub async fn acquire(&self, key: &str, holder: &str, ttl_seconds: u32) -> Answer {
        let event = json!({"key": key, "holder": holder, "ttl_seconds": ttl_seconds});
        self.call("AcquireFunction", &event).await
    }

    pub async fn extend(&self, lease: &Value) -> Answer {
        self.call("ExtendFunction", &json!({"lease": lease})).await
    }

    pub async fn release(&self, lease: &Value) -> Answer {
        self.call("ReleaseFunction", &json!({"lease": lease})).await
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
        let get = get.key(key.0, AttributeValue::S(key.1.to_owned()));
        let item = get.consistent_read(true).send().await.unwrap().item?;
        item.get(name).cloned()
    }
}

pub async fn call(stack: &Stack, function: &str, event: &Value) -> Answer {
    let invoked = stack.functions().invoke(function, &event.to_string()).await;
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
