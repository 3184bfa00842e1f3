//! Ours through the functions, as Lambda calls them: their processes on a stack, with the site's database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_local::{Options, Outcome, Stack};
use serde_json::{Value, json};

use super::leasehold::{TABLE, holder};
use super::{Calling, Client};
use crate::Error;
use crate::site::Site;

const EVERY: Duration = Duration::from_secs(1);

/// The functions, whose requests go through the site's door.
pub(super) async fn start(site: &Site) -> Result<Arc<Stack>, Error> {
    let settings = [
        ("AWS_ENDPOINT_URL_DYNAMODB", site.door().url()),
        ("LEASE_TABLE", TABLE.to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), Some(value)));
    let environment = BTreeMap::from([("*".to_owned(), BTreeMap::from(settings))]);
    let options = Options {
        canary: false,
        environment,
        ..Options::default()
    };
    Ok(Arc::new(Stack::start(options).await?))
}

pub(super) struct Caller {
    stack: Arc<Stack>,
    number: usize,
    ttl: Duration,
    lease: Value,
}

impl Caller {
    pub(super) fn new(stack: &Arc<Stack>, number: usize, ttl: Duration) -> Self {
        Self {
            stack: Arc::clone(stack),
            number,
            ttl,
            lease: Value::Null,
        }
    }

    /// The answer of a function, or the name of its error.
    async fn call(&self, function: &str, event: Value) -> Result<Value, String> {
        let invoked = self
            .stack
            .functions()
            .invoke(function, &event.to_string())
            .await;
        match invoked.map_err(|error| error.to_string())?.outcome {
            Outcome::Answer(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Outcome::FunctionError(text) => {
                let error: Value = serde_json::from_str(&text).unwrap_or_default();
                Err(error["errorType"].as_str().unwrap_or(&text).to_owned())
            }
            Outcome::Throttled => Err(format!("{function} was throttled")),
        }
    }
}

impl Client for Caller {
    fn acquire<'a>(&'a mut self, key: &'a str) -> Calling<'a, bool> {
        Box::pin(async move {
            let holder =
                holder(&format!("order-{}", self.number)).map_err(|error| error.to_string())?;
            let event =
                json!({"key": key, "holder": holder.as_str(), "ttl_seconds": self.ttl.as_secs()});
            match self.call("AcquireFunction", event).await {
                Ok(answer) => self.lease = answer["lease"].clone(),
                Err(error) if error == "Lease.Held" => return Ok(false),
                Err(error) => return Err(error),
            }
            Ok(true)
        })
    }

    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            while !self.acquire(key).await? {
                tokio::time::sleep(EVERY).await;
            }
            Ok(())
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(async move {
            let answer = self
                .call("ExtendFunction", json!({"lease": self.lease}))
                .await?;
            self.lease = answer["lease"].clone();
            Ok(())
        })
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(async move {
            self.call("ReleaseFunction", json!({"lease": self.lease}))
                .await
                .map(drop)
        })
    }
}
