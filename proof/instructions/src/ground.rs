//! The lease table that everything counted here works on: the embedded DynamoDB in this process, not counted, behind the
//! proxy that counts requests.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Credentials;
use leasehold::{
    Acquire, Connection, DynamoDb, Holder, Key, Lease, Leases, RequestId, Settings, Ttl,
};

use leasehold_local::Proxy;

use crate::Error;

/// The name of the table.
pub(crate) const TABLE: &str = "leases";

/// A table of its own.
pub(crate) struct Ground {
    proxy: Proxy,
    leases: Leases<DynamoDb>,
    // Closed last.
    _database: leasehold_local::DynamoDb,
}

impl Ground {
    pub(crate) async fn start() -> Result<Self, Error> {
        let database = leasehold_local::DynamoDb::start().await?;
        let proxy = Proxy::start(database.address(), 0).await?;
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "counted"))
            // Past the proxy: what is made ready is not counted.
            .endpoint_url(format!("http://{}", database.address()))
            .load()
            .await;
        let client = Connection::client(&config);
        leasehold::table::create(&client, TABLE).await?;
        let leases = Leases::new(DynamoDb::new(client, TABLE), Settings::default());
        Ok(Self {
            proxy,
            leases,
            _database: database,
        })
    }

    /// Where the table is for those who are counted.
    pub(crate) fn url(&self) -> String {
        self.proxy.url()
    }

    /// How many requests have come from them.
    pub(crate) fn requests(&self) -> u64 {
        self.proxy.counts().total()
    }

    /// Grants so many leases of keys of their own, as a workflow would hold them.
    pub(crate) async fn leases(&self, many: usize) -> Result<Vec<Lease>, Error> {
        let mut held = Vec::new();
        for n in 0..many {
            let key = Key::new(format!("orders/{n:04}")).map_err(|e| invalid(&e))?;
            let holder = Holder::new(HOLDER).map_err(|e| invalid(&e))?;
            let ttl = Ttl::new(Duration::from_mins(5)).map_err(|e| invalid(&e))?;
            let id = RequestId::new(format!("Acquire 2026-11-21T03:00:00.{n:03}Z"))
                .map_err(|e| invalid(&e))?;
            let acquire = Acquire::new(key, holder, ttl).request_id(id);
            held.push(self.leases.acquire(acquire).await?.granted()?.lease);
        }
        Ok(held)
    }

    /// Gives them back.
    pub(crate) async fn release(&self, leases: &[Lease]) -> Result<(), Error> {
        for lease in leases {
            let _ = self.leases.release(lease).await?;
        }
        Ok(())
    }
}

const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";

fn invalid(value: &leasehold::BadValue) -> Error {
    Error::Counting(format!("{value:?}"))
}
