//! Where clients meet: an embedded DynamoDB behind counting proxies.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use leasehold_local::{Counts, DynamoDb, Proxy, session_token};

/// A database of one run with two endpoints, counted apart: which one a client takes says what a request is for.
pub struct Fixture {
    measured_endpoint: Arc<Proxy>,
    background_endpoint: Arc<Proxy>,
    // Closed last.
    _database: DynamoDb,
}

/// What went through an endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Requests, by operation.
    pub by_operation: BTreeMap<String, u64>,
    /// Bytes of bodies, both ways.
    pub bytes: u64,
    /// Write units, of the table and its index, refused conditions included.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
}

impl Cost {
    /// Requests of all operations.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_operation.values().sum()
    }

    /// The operations in one line, as in `GetItem, 2 UpdateItem`.
    #[must_use]
    pub fn operations(&self) -> String {
        let each = self.by_operation.iter().map(|(name, times)| match times {
            1 => name.clone(),
            times => format!("{times} {name}"),
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl From<&Counts> for Cost {
    fn from(counts: &Counts) -> Self {
        let units = counts.units();
        Self {
            by_operation: counts
                .iter()
                .map(|(name, tally)| (name.to_owned(), tally.requests))
                .collect(),
            bytes: counts
                .iter()
                .map(|(_, tally)| tally.request_bytes + tally.answer_bytes)
                .sum(),
            write_units: units.writing(),
            read_units: units.read,
        }
    }
}

impl Fixture {
    /// An empty database with its endpoints.
    pub async fn start() -> Self {
        let database = DynamoDb::start().await.unwrap();
        let endpoint = async || {
            let proxy = Proxy::start(database.address(), 0).await.unwrap();
            proxy.count_units();
            Arc::new(proxy)
        };
        Self {
            measured_endpoint: endpoint().await,
            background_endpoint: endpoint().await,
            _database: database,
        }
    }

    /// The endpoint for what is measured.
    #[must_use]
    pub fn measured_endpoint(&self) -> &Arc<Proxy> {
        &self.measured_endpoint
    }

    /// The endpoint for what is counted apart.
    #[must_use]
    pub fn background_endpoint(&self) -> &Arc<Proxy> {
        &self.background_endpoint
    }

    /// What `doing` sends through the endpoint, with its answer.
    pub async fn cost<T>(&self, doing: impl Future<Output = T>) -> (T, Cost) {
        let before = self.measured_endpoint.counts();
        // What the SDK does is large.
        let done = Box::pin(doing).await;
        let counts = self.measured_endpoint.counts();
        (done, Cost::from(&counts.since(&before)))
    }
}

/// How a client of the SDK reaches an endpoint.
pub async fn config(endpoint: &Proxy) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(
            "local",
            "local",
            Some(session_token().to_owned()),
            None,
            "bench",
        ))
        .endpoint_url(endpoint.url())
        .load()
        .await
}
