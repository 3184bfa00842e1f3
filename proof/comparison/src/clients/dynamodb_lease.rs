//! The crate `dynamodb-lease` 0.22: an item that exists while it is held.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use dynamodb_lease::Lease;
use leasehold_local::{Proxy, create_table};

use super::{Calling, Client, Settings};

/// Its default.
const TABLE: &str = "leases";
/// How often it is looked whether it has extended, and how long the answer to it may take.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const ANSWER: Duration = Duration::from_millis(20);

pub(super) struct Leaser {
    client: dynamodb_lease::Client,
    endpoint: Arc<Proxy>,
    held: Option<Lease>,
}

impl Leaser {
    /// Its own client: clones of one would wait for each other inside the process.
    pub(super) async fn at(config: &SdkConfig, endpoint: &Arc<Proxy>, settings: &Settings) -> Self {
        let client = aws_sdk_dynamodb::Client::new(config);
        let created = create_table(&client, TABLE, &["key"], Some("lease_expiry")).await;
        created.unwrap();
        let mut builder = dynamodb_lease::Client::builder();
        if let Some(lease) = settings.lease {
            let hardly_ever = lease.saturating_sub(LOOK_EVERY);
            builder = builder
                .lease_ttl_seconds(u32::try_from(lease.as_secs()).unwrap_or(u32::MAX))
                .extend_every(settings.extends_every.unwrap_or(hardly_ever));
        }
        Self {
            client: builder.build_and_check_db(client).await.unwrap(),
            endpoint: Arc::clone(endpoint),
            held: None,
        }
    }

    /// How many requests to extend no fault has met.
    fn sent(&self) -> u64 {
        let faults = u64::try_from(self.endpoint.happened().len()).unwrap_or(u64::MAX);
        self.endpoint
            .counts()
            .of("UpdateItem")
            .saturating_sub(faults)
    }
}

impl Client for Leaser {
    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            let acquired = self.client.acquire(key).await;
            self.held = Some(acquired.map_err(|error| format!("{error:#}"))?);
            Ok(())
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(async move {
            let held = self.held.as_ref().ok_or("nothing is held")?;
            let before = self.sent();
            while self.sent() <= before && held.is_healthy() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // It was sent; what becomes of it is known when it was answered.
            tokio::time::sleep(ANSWER).await;
            let stopped = || "it has stopped to extend, and will lose the key".to_owned();
            held.is_healthy().then_some(()).ok_or_else(stopped)
        })
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(async move {
            let held = self.held.take().ok_or("nothing is held")?;
            held.release()
                .await
                .map_err(|error| format!("{:#}", error.root_cause()))
        })
    }
}
