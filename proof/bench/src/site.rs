//! Where one run takes place: an empty database, and a proxy that counts for each kind of request.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use leasehold::{Execution, Timestamp};
use leasehold_local::{Counts, DynamoDb, Proxy};

use crate::Error;

/// An execution that is over and left nothing at work, whenever its leases were written.
pub const ENDED: Execution = Execution::Ended {
    stopped_at: Timestamp::MAX,
    redrivable: false,
    all_answered: true,
};

/// A database that only one run uses.
///
/// It has two doors, and what goes through each is counted by itself. Which door a client takes says what a request
/// is for; what it looks like does not matter, so that a contestant may change its expressions freely.
pub struct Site {
    cycle: Arc<Proxy>,
    aside: Proxy,
    // Closed last.
    database: DynamoDb,
}

/// What has gone through the doors so far.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// What a cycle is made of: to ask, to wait, to hand over.
    pub cycle: Counts,
    /// What is reported apart: to confirm a grant, and to clean up.
    pub aside: Counts,
}

impl Site {
    /// An empty database with its doors.
    ///
    /// # Errors
    /// [`Error::Local`] when the database cannot be made or no port can be bound.
    pub async fn start() -> Result<Self, Error> {
        let database = DynamoDb::start().await?;
        let site = Self {
            cycle: Arc::new(Proxy::start(database.address(), 0).await?),
            aside: Proxy::start(database.address(), 0).await?,
            database,
        };
        site.cycle.count_units();
        site.aside.count_units();
        Ok(site)
    }

    /// Adds this much to the way of each request.
    pub fn set_latency(&self, latency: std::time::Duration) {
        self.cycle.set_latency(latency);
        self.aside.set_latency(latency);
    }

    /// The door for everything that belongs to a cycle, for who wants something to happen there.
    #[must_use]
    pub fn door(&self) -> &Arc<Proxy> {
        &self.cycle
    }

    /// The endpoint for everything that belongs to a cycle.
    #[must_use]
    pub fn url(&self) -> String {
        self.cycle.url()
    }

    /// The database behind the doors: past it nothing is counted.
    #[must_use]
    pub const fn database(&self) -> &DynamoDb {
        &self.database
    }

    /// How a Rust client reaches the door for what belongs to a cycle.
    pub async fn config(&self) -> SdkConfig {
        config(self.cycle.url()).await
    }

    /// The endpoint for what is reported apart.
    #[must_use]
    pub fn url_aside(&self) -> String {
        self.aside.url()
    }

    /// How a Rust client reaches the door for what is reported apart.
    pub async fn config_aside(&self) -> SdkConfig {
        config(self.aside.url()).await
    }

    /// Everything counted so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        Spent {
            cycle: self.cycle.counts(),
            aside: self.aside.counts(),
        }
    }
}

impl Spent {
    /// What was added after `earlier` was taken.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cycle: self.cycle.since(&earlier.cycle),
            aside: self.aside.since(&earlier.aside),
        }
    }
}

/// How a Rust client of this or another process reaches `url`.
pub(crate) async fn config(url: String) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(url)
        .load()
        .await
}
