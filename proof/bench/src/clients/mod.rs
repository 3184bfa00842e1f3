//! Ours and the others, each in its own way behind the same calls.

mod direct;
mod dynamodb_lease;
pub(crate) mod leasehold;
mod python_lock;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::fixture::{self, Fixture};
use crate::python::Python;
use crate::{Error, failed};

pub use self::leasehold::{Library, QueueFixture, TABLE, holder};

/// The result of a call: a failure is text, which is reported and not handled.
pub type Calling<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// A client that wants a key, and holds one at a time.
pub trait Client: Send {
    /// Asks once; whether the key is its own.
    fn acquire<'a>(&'a mut self, key: &'a str) -> Calling<'a, bool>;

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
            Self::Queued => "in line",
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
    ///
    /// # Errors
    /// [`Error`] when one cannot be set up.
    pub async fn clients(
        self,
        fixture: &Fixture,
        settings: &Settings,
        many: usize,
    ) -> Result<Vec<Box<dyn Client>>, Error> {
        let mut clients: Vec<Box<dyn Client>> = Vec::with_capacity(many);
        match self {
            Self::Queued => {
                let line = QueueFixture::start(fixture).await?;
                for number in 0..many {
                    clients.push(Box::new(line.waiter(number, length(settings))));
                }
            }
            Self::Polling => {
                let library = Library::at(fixture.measured_endpoint()).await?;
                for number in 0..many {
                    clients.push(Box::new(library.client(number, length(settings))));
                }
            }
            Self::Direct => {
                for number in 0..many {
                    clients.push(Box::new(
                        direct::Direct::at(fixture.measured_endpoint(), number, length(settings))
                            .await?,
                    ));
                }
            }
            Self::DynamodbLease => {
                for _ in 0..many {
                    let config = fixture::config(fixture.measured_endpoint()).await;
                    clients.push(Box::new(
                        dynamodb_lease::Leaser::at(&config, fixture.measured_endpoint(), settings)
                            .await?,
                    ));
                }
            }
            Self::PythonLock => {
                let process = Arc::new(
                    Python::start(
                        "locks.py",
                        &["--endpoint", &fixture.measured_endpoint().url()],
                    )
                    .await?,
                );
                for number in 0..many {
                    clients.push(Box::new(
                        python_lock::Locker::new(&process, number, settings).await?,
                    ));
                }
            }
        }
        Ok(clients)
    }

    /// Somebody has the key, by the background endpoint, and vanishes without a word.
    ///
    /// # Errors
    /// [`Error`] when it does not get the key.
    pub async fn crash(
        self,
        fixture: &Fixture,
        settings: &Settings,
        key: &str,
    ) -> Result<(), Error> {
        const NUMBER: usize = 999;
        match self {
            Self::Queued | Self::Polling => {
                let library = Library::at(fixture.background_endpoint()).await?;
                library.client(NUMBER, length(settings)).wait(key).await?;
            }
            Self::Direct => {
                let mut holder =
                    direct::Direct::at(fixture.background_endpoint(), NUMBER, length(settings))
                        .await?;
                holder.wait(key).await?;
            }
            Self::DynamodbLease => {
                // In a runtime of its own, since it extends as long as that does.
                let (config, endpoint) = (
                    fixture::config(fixture.background_endpoint()).await,
                    Arc::clone(fixture.background_endpoint()),
                );
                let (settings, key) = (*settings, key.to_owned());
                let gone = tokio::task::spawn_blocking(move || {
                    let runtime = Builder::new_multi_thread()
                        .worker_threads(1)
                        .enable_all()
                        .build();
                    let runtime = runtime.map_err(failed("start a runtime"))?;
                    let holder = runtime.block_on(async {
                        let mut holder =
                            dynamodb_lease::Leaser::at(&config, &endpoint, &settings).await?;
                        holder.wait(&key).await?;
                        Ok::<_, Error>(holder)
                    })?;
                    // It releases when it is dropped, which a crashed process does not do.
                    std::mem::forget(holder);
                    runtime.shutdown_background();
                    Ok(())
                });
                return gone.await.map_err(failed("crash"))?;
            }
            Self::PythonLock => {
                let process = Arc::new(
                    Python::start(
                        "locks.py",
                        &["--endpoint", &fixture.background_endpoint().url()],
                    )
                    .await?,
                );
                let mut holder = python_lock::Locker::new(&process, NUMBER, settings).await?;
                // Killed as it is dropped.
                holder.wait(key).await?;
            }
        }
        Ok(())
    }
}
