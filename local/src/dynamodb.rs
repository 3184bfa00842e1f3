//! An in-memory DynamoDB inside this process, on a port of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use dynoxide::Database;
use dynoxide::storage_backend::{Clock, ManualClock};
use leasehold_net::Listener;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::error::{Error, io};

/// An in-memory DynamoDB behind its HTTP API on 127.0.0.1.
///
/// Nothing expires by itself. [`sweep_ttl`](Self::sweep_ttl) deletes items whose DynamoDB TTL has passed, so that tests
/// control it. Dropping this value stops the server.
pub struct DynamoDb {
    address: SocketAddr,
    database: Database,
    // The server stops when this end of the channel goes.
    _stop: oneshot::Sender<()>,
}

impl DynamoDb {
    /// Starts an empty database that reads the machine's clock.
    ///
    /// # Errors
    /// [`Error::DynamoDb`] when the database cannot be made, [`Error::Io`] when no port can be bound.
    pub async fn start() -> Result<Self, Error> {
        let database = Database::memory().map_err(|e| refused(&e))?;
        Self::serve(database).await
    }

    /// Starts an empty database that reads the time from `clock`, so that a test decides when items reach
    /// their DynamoDB TTL. Leases use another clock.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with_clock(clock: &ManualClock) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = clock.arc();
        let database = Database::memory_with_clock(clock).map_err(|e| refused(&e))?;
        Self::serve(database).await
    }

    async fn serve(database: Database) -> Result<Self, Error> {
        let listener = Listener::bind_at((hidden(), 0).into()).await;
        let listener = listener.map_err(io("bind a port for DynamoDB"))?;
        let address = listener.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = database.clone();
        tokio::spawn(async move {
            let until = async {
                // Either the sender is dropped or, never here, it sends: both mean stop.
                let _ = stopped.await;
            };
            let socket = listener.into_socket();
            if let Err(error) = dynoxide::server::serve_with_shutdown(socket, served, until).await {
                tracing::error!(%error, "the embedded DynamoDB ended");
            }
        });
        Ok(Self {
            address,
            database,
            _stop: stop,
        })
    }

    /// Where the server listens. Clients go through the proxy instead, so that requests are counted.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a table from its `CloudFormation` properties. It bypasses the server, so nothing is counted.
    pub(crate) fn create_table(&self, name: &str, properties: &Value) -> Result<(), Error> {
        let failed = |why: &dyn ToString| {
            Error::DynamoDb(format!("create the table {name}: {}", why.to_string()))
        };
        let mut table = properties.clone();
        // Encryption exists only on AWS.
        table["TableName"] = name.into();
        table["SSESpecification"] = Value::Null;
        let ttl = table["TimeToLiveSpecification"].take();
        let create = serde_json::from_value(table).map_err(|error| failed(&error))?;
        let created = self.database.create_table(create);
        created.map_err(|error| failed(&error))?;
        if ttl["Enabled"] == true {
            let set = json!({"TableName": name, "TimeToLiveSpecification": ttl});
            let set = serde_json::from_value(set).map_err(|error| failed(&error))?;
            let set = self.database.update_time_to_live(set);
            set.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Deletes the items whose DynamoDB TTL has passed, as the service does at some time. Returns how many it deleted.
    ///
    /// # Errors
    /// [`Error::DynamoDb`] with the engine's message.
    pub fn sweep_ttl(&self) -> Result<usize, Error> {
        self.database.sweep_ttl().map_err(|e| refused(&e))
    }
}

/// A random loopback address. The server has no guard, and its crate takes no other listener, so nobody who is not told where it
/// listens finds it: there are 2³⁸ places. Only the users of this machine can list its sockets.
fn hidden() -> Ipv4Addr {
    let [_, b, c, d] = fastrand::u32(..).to_be_bytes();
    // Neither the network's address nor its broadcast, at which nothing can listen.
    Ipv4Addr::new(127, b, c, d.clamp(1, 254))
}

fn refused(error: &impl ToString) -> Error {
    Error::DynamoDb(error.to_string())
}
