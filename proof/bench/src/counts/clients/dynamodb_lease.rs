//! The crate `dynamodb-lease`.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use dynamodb_lease::Lease;
use leasehold_local::Proxy;

use super::{Lock, Setting, Who};
use crate::site::Site;
use crate::waiting::contestants::lease_table;

pub(super) const SETTINGS: &str = "0.22.1: asks every 1 s, as by default; a lease is as long as a scene tells; extends in the background, \
     every 200 ms where extends are counted, every 1.2 s where one goes wrong, and else not before the scene is over; release() awaited";

/// How often it is looked whether it has extended.
const LOOK: Duration = Duration::from_millis(1);
/// How long the answer may take to it.
const ANSWER: Duration = Duration::from_millis(20);

/// A client, and the door that it goes through.
pub struct DynamodbLease {
    client: dynamodb_lease::Client,
    door: Arc<Proxy>,
}

impl DynamodbLease {
    /// A client at the door that `config` leads to.
    pub async fn at(
        config: &SdkConfig,
        door: &Arc<Proxy>,
        setting: &Setting,
    ) -> Result<Self, String> {
        let client = aws_sdk_dynamodb::Client::new(config);
        lease_table(&client).await?;
        let length = u32::try_from(setting.lease.as_secs()).unwrap_or(u32::MAX);
        let hardly_ever = || setting.lease.saturating_sub(LOOK);
        let period = setting.extends_every.unwrap_or_else(hardly_ever);
        let builder = dynamodb_lease::Client::builder();
        let builder = builder.lease_ttl_seconds(length).extend_every(period);
        let built = builder.build_and_check_db(client).await;
        Ok(Self {
            client: built.map_err(|error| format!("told: {}", error.root_cause()))?,
            door: Arc::clone(door),
        })
    }

    /// How many requests to extend no fault has met.
    fn sent(&self) -> usize {
        let requests = self.door.counts().of("UpdateItem");
        let requests = usize::try_from(requests).unwrap_or(usize::MAX);
        requests.saturating_sub(self.door.happened().len())
    }
}

impl Lock for DynamodbLease {
    const WHO: Who = Who::DynamodbLease;
    const EXTENDS_BY_ITSELF: bool = true;
    type Held = Lease;

    async fn enter(site: &Site, setting: &Setting) -> Result<Self, String> {
        Self::at(&site.config().await, site.door(), setting).await
    }

    async fn acquire(&mut self, key: &str) -> Result<Lease, String> {
        let acquired = self.client.acquire(key).await;
        acquired.map_err(|error| format!("told: {}", error.root_cause()))
    }

    async fn extend(&mut self, held: &mut Lease) -> Result<(), String> {
        let before = self.sent();
        while self.sent() <= before && held.is_healthy() {
            tokio::time::sleep(LOOK).await;
        }
        // It was sent; what becomes of it is known when it was answered.
        tokio::time::sleep(ANSWER).await;
        let stopped = || "it has stopped to extend, and will lose the key".to_owned();
        held.is_healthy().then_some(()).ok_or_else(stopped)
    }

    async fn release(&mut self, held: Lease) -> Result<(), String> {
        held.release()
            .await
            .map_err(|error| format!("told: {}", error.root_cause()))
    }
}
