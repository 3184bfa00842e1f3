//! Ours and the others, each in its own way behind the same calls.

mod direct;
mod dynamodb_lease;
mod leasehold;
mod python_lock;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_local::Proxy;
use tokio::runtime::Builder;

use crate::fixture::{self, Fixture};
use crate::python::Python;

use self::leasehold::{Ours, QueueFixture};
pub use self::leasehold::{TABLE, leases};

/// The result of a call: a failure is text, which is reported and not handled.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A client that wants a key, and holds one at a time.
pub trait Client: Send {
    /// Asks, in whatever manner, until the key is its own, or it knows that it will not get it.
    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a>;

    /// Keeps the key for another length of a lease. A client that extends in the background has done so when this returns.
    fn extend(&mut self) -> Calling<'_>;

    /// Gives the key back.
    fn release(&mut self) -> Calling<'_>;
}

/// The ways to have a lease from a program.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ClientKind {
    /// Ours in the queue: notified when its turn has come. A sweep comes every second.
    Queued,
    /// Ours, asking again after random pauses.
    Polling,
    /// Conditional writes by the SDK, as one writes them oneself: neither a token nor a memory of requests.
    Direct,
    /// The Rust crate of that name: asks again every second, extends in the background.
    DynamodbLease,
    /// The Python package of that name: asks again every heartbeat, five seconds.
    PythonLock,
}

/// What differs from a client's own defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The length of a lease; a minute for ours and for direct calls, and their own for the others, if nothing is said.
    pub lease: Option<Duration>,
    /// How often those extend who do so in the background; hardly ever if a lease is set and this is not.
    pub extends_every: Option<Duration>,
}

/// A minute, or what was set.
fn length(settings: &Settings) -> Duration {
    settings.lease.unwrap_or(Duration::from_mins(1))
}

impl ClientKind {
    /// Its name in the report. Ours is a column of its own; its other ways are among the others.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "in the queue",
            Self::Polling => "polling",
            Self::Direct => "direct calls",
            Self::DynamodbLease => "dynamodb-lease",
            Self::PythonLock => "python_dynamodb_lock",
        }
    }

    /// The operations by which it acquires, extends and releases.
    #[must_use]
    pub const fn writes(self) -> [&'static str; 3] {
        match self {
            Self::Queued | Self::Polling => ["UpdateItem"; 3],
            Self::Direct | Self::DynamodbLease | Self::PythonLock => {
                ["PutItem", "UpdateItem", "DeleteItem"]
            }
        }
    }

    /// This number of clients at the fixture, each as in its own process.
    pub async fn clients(
        self,
        fixture: &Fixture,
        settings: &Settings,
        many: usize,
    ) -> Vec<Box<dyn Client>> {
        let mut clients: Vec<Box<dyn Client>> = Vec::with_capacity(many);
        let endpoint = fixture.measured_endpoint();
        let ttl = length(settings);
        match self {
            Self::Queued => {
                let queue = QueueFixture::start(fixture).await;
                clients.extend((0..many).map(|n| Box::new(queue.waiter(n, ttl)) as Box<_>));
            }
            Self::Polling => {
                let leases = leases(endpoint).await;
                let client = |n| Box::new(Ours::new(leases.clone(), n, ttl)) as Box<_>;
                clients.extend((0..many).map(client));
            }
            Self::Direct => {
                for number in 0..many {
                    clients.push(Box::new(direct::Direct::at(endpoint, number, ttl).await));
                }
            }
            Self::DynamodbLease => {
                for _ in 0..many {
                    let config = fixture::config(endpoint).await;
                    let client = dynamodb_lease::Leaser::at(&config, endpoint, settings).await;
                    clients.push(Box::new(client));
                }
            }
            Self::PythonLock => {
                let process = locks(endpoint).await;
                for number in 0..many {
                    let client = python_lock::Locker::new(&process, number, settings).await;
                    clients.push(Box::new(client));
                }
            }
        }
        clients
    }

    /// Somebody has the key, by the background endpoint, and vanishes without a word.
    pub async fn crash(self, fixture: &Fixture, settings: &Settings, key: &str) {
        const NUMBER: usize = 999;
        let endpoint = fixture.background_endpoint();
        let got = match self {
            Self::Queued | Self::Polling => {
                let mut holder = Ours::new(leases(endpoint).await, NUMBER, length(settings));
                holder.wait(key).await
            }
            Self::Direct => {
                let mut holder = direct::Direct::at(endpoint, NUMBER, length(settings)).await;
                holder.wait(key).await
            }
            Self::DynamodbLease => {
                // In a runtime of its own, since it extends as long as that does.
                let config = fixture::config(endpoint).await;
                let (settings, key) = (*settings, key.to_owned());
                let endpoint = Arc::clone(endpoint);
                let gone = tokio::task::spawn_blocking(move || {
                    let runtime = Builder::new_multi_thread()
                        .worker_threads(1)
                        .enable_all()
                        .build();
                    let runtime = runtime.unwrap();
                    let got = runtime.block_on(async {
                        let mut holder =
                            dynamodb_lease::Leaser::at(&config, &endpoint, &settings).await;
                        let got = holder.wait(&key).await;
                        // It releases when it is dropped, which a crashed process does not do.
                        std::mem::forget(holder);
                        got
                    });
                    runtime.shutdown_background();
                    got
                });
                gone.await.unwrap()
            }
            Self::PythonLock => {
                let process = locks(endpoint).await;
                let mut holder = python_lock::Locker::new(&process, NUMBER, settings).await;
                // Killed as it is dropped.
                holder.wait(key).await
            }
        };
        got.unwrap();
    }
}

async fn locks(endpoint: &Proxy) -> Arc<Python> {
    Arc::new(Python::start("locks.py", &["--endpoint", &endpoint.url()]).await)
}
