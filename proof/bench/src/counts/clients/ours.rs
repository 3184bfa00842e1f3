//! Ours: `acquire_within`, `extend`, `release_strictly`.

use std::time::Duration;

use aws_config::SdkConfig;
use leasehold::{
    Acquire, AcquireOutcome, BadValue, Connection, DynamoDb, ExtendOptions, Holder, Key, Lease,
    Leases, RetryPolicy, Settings, Ttl,
};

use super::{Lock, Setting, TABLE, Who, told};
use crate::site::Site;

pub(super) const SETTINGS: &str = "Leases::acquire_within with RetryPolicy::of, extend, release_strictly; Settings::default; a client \
     of Connection, which waits at most 25 ms before the second try and 50 ms before the third";

/// It outlasts every lease here.
const BUDGET: Duration = Duration::from_mins(5);

/// As it is in a workflow.
pub(in crate::counts) const HOLDER: &str =
    "arn:aws:states:us-east-1:123456789012:execution:orders:order-42";

/// A client of ours.
pub struct Ours {
    /// The leases in its table.
    pub leases: Leases<DynamoDb>,
    /// The table's client.
    pub client: aws_sdk_dynamodb::Client,
    lease: Duration,
}

impl Ours {
    /// The table and its client, at the door that `config` leads to.
    pub async fn at(config: &SdkConfig, lease: Duration) -> Result<Self, String> {
        let client = Connection::client(config);
        let described = client.describe_table().table_name(TABLE).send().await;
        if described.is_err() {
            let created = leasehold::table::create(&client, TABLE).await;
            created.map_err(|error| told(&error))?;
        }
        Ok(Self {
            leases: Leases::new(DynamoDb::new(client.clone(), TABLE), Settings::default()),
            client,
            lease,
        })
    }

    /// A request of `holder` for `key`.
    pub fn request(&self, key: &str, holder: &str) -> Result<Acquire, String> {
        let request = || {
            let (key, holder) = (Key::new(key)?, Holder::new(holder)?);
            Ok(Acquire::new(key, holder, Ttl::new(self.lease)?))
        };
        request().map_err(|error: BadValue| told(&error))
    }
}

impl Lock for Ours {
    const WHO: Who = Who::Leasehold;
    type Held = Lease;

    async fn enter(site: &Site, setting: &Setting) -> Result<Self, String> {
        Self::at(&site.config().await, setting.lease).await
    }

    async fn acquire(&mut self, key: &str) -> Result<Lease, String> {
        let request = self.request(key, HOLDER)?;
        let waited = self.leases.acquire_within(request, RetryPolicy::of(BUDGET));
        match waited.await {
            Ok(AcquireOutcome::Granted(granted)) => Ok(granted.lease),
            Ok(AcquireOutcome::TimedOut(_)) => Err("held by another".to_owned()),
            Err(error) => Err(told(&error)),
        }
    }

    async fn extend(&mut self, held: &mut Lease) -> Result<(), String> {
        let extended = self.leases.extend(held, ExtendOptions::default()).await;
        *held = extended.map_err(|error| told(&error))?.into_lease();
        Ok(())
    }

    async fn release(&mut self, held: Lease) -> Result<(), String> {
        let released = self.leases.release_strictly(&held).await;
        released.map(|_| ()).map_err(|error| told(&error))
    }
}
