//! Ours by the library: asking again and again, or in the queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{
    Acquire, AcquireOutcome, Acquired, BadValue, Call, Connection, Delivery, DynamoDb, Execution,
    ExtendOptions, Holder, Key, Lease, Leases, Queue, RequestId, RetryPolicy, Settings,
    SweepBounds, TaskToken, Ttl, WaitTime, Workflows,
};
use leasehold_local::Proxy;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Calling, Client};
use crate::fixture::{Fixture, config};
use crate::{Error, failed, message};

/// The table of ours.
pub const TABLE: &str = "leases";
/// It outlasts everything that is measured.
const BUDGET: Duration = Duration::from_hours(1);
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A holder as long as an execution's name is, since that counts in bytes and units.
///
/// # Errors
/// [`BadValue`] for what is no holder.
pub fn holder(name: &str) -> Result<Holder, BadValue> {
    Holder::new(format!(
        "arn:aws:states:us-east-1:123456789012:execution:leasehold-critical-section:{name:->36}"
    ))
}

/// Our table behind an endpoint.
#[derive(Clone)]
pub struct Library {
    /// The leases in it.
    pub leases: Leases<DynamoDb>,
    /// The table's client, with the library's own limits.
    pub client: aws_sdk_dynamodb::Client,
}

impl Library {
    /// Makes the table if there is none.
    ///
    /// # Errors
    /// [`Error::Failed`] when the database refuses.
    pub async fn at(endpoint: &Proxy) -> Result<Self, Error> {
        let client = Connection::client(&config(endpoint).await);
        if client
            .describe_table()
            .table_name(TABLE)
            .send()
            .await
            .is_err()
        {
            let created = leasehold::table::create(&client, TABLE).await;
            created.map_err(failed("create our table"))?;
        }
        let leases = Leases::new(DynamoDb::new(client.clone(), TABLE), Settings::default());
        Ok(Self { leases, client })
    }

    pub(super) fn client(&self, number: usize, ttl: Duration) -> Polling {
        Polling {
            leases: self.leases.clone(),
            number,
            ttl,
            held: None,
        }
    }
}

fn ask(key: &str, number: usize, ttl: Duration) -> Result<Acquire, String> {
    let request = || {
        Ok(Acquire::new(
            Key::new(key)?,
            holder(&format!("order-{number}"))?,
            Ttl::new(ttl)?,
        ))
    };
    request().map_err(|error: BadValue| message(&error))
}

fn taken(held: &mut Option<Lease>) -> Result<Lease, String> {
    held.take().ok_or_else(|| "nothing is held".to_owned())
}

async fn extend(leases: &Leases<DynamoDb>, held: &mut Option<Lease>) -> Result<(), String> {
    let lease = held.as_ref().ok_or("nothing is held")?;
    let extended = leases.extend(lease, ExtendOptions::default()).await;
    *held = Some(extended.map_err(|error| message(&error))?.into_lease());
    Ok(())
}

async fn release(leases: &Leases<DynamoDb>, held: &mut Option<Lease>) -> Result<(), String> {
    let released = leases.release_strictly(&taken(held)?).await;
    released.map(drop).map_err(|error| message(&error))
}

async fn acquire(
    leases: &Leases<DynamoDb>,
    request: Acquire,
    held: &mut Option<Lease>,
) -> Result<bool, String> {
    match leases
        .acquire(request)
        .await
        .map_err(|error| message(&error))?
    {
        Acquired::Granted(granted) => *held = Some(granted.lease),
        Acquired::Held(_) => return Ok(false),
    }
    Ok(true)
}

/// Asks again after random pauses: `acquire_within`.
pub(super) struct Polling {
    leases: Leases<DynamoDb>,
    number: usize,
    ttl: Duration,
    held: Option<Lease>,
}

impl Client for Polling {
    fn acquire<'a>(&'a mut self, key: &'a str) -> Calling<'a, bool> {
        Box::pin(async move {
            acquire(
                &self.leases,
                ask(key, self.number, self.ttl)?,
                &mut self.held,
            )
            .await
        })
    }

    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            let request = ask(key, self.number, self.ttl)?;
            match self
                .leases
                .acquire_within(request, RetryPolicy::with_budget(BUDGET))
                .await
            {
                Ok(AcquireOutcome::Granted(granted)) => self.held = Some(granted.lease),
                Ok(AcquireOutcome::TimedOut(_)) => return Err("held by another".to_owned()),
                Err(error) => return Err(message(&error)),
            }
            Ok(())
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(extend(&self.leases, &mut self.held))
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(release(&self.leases, &mut self.held))
    }
}

/// The waiters in the queue, by task token. A client here gets through a channel what a workflow gets from Step Functions.
#[derive(Default)]
struct Tokens(Mutex<HashMap<String, oneshot::Sender<Result<Lease, String>>>>);

impl Tokens {
    fn all(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Result<Lease, String>>>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, token: &TaskToken, answer: Result<Lease, String>) -> Call<'_, Delivery> {
        let sender = self.all().remove(token.expose());
        let delivered = sender.is_some_and(|sender| sender.send(answer).is_ok());
        let delivery = if delivered {
            Delivery::Delivered
        } else {
            Delivery::Refused
        };
        Box::pin(std::future::ready(Ok(delivery)))
    }
}

impl Workflows for Tokens {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        let output: Result<Value, _> = serde_json::from_str(&output);
        let lease = output.and_then(|output| serde_json::from_value(output["lease"].clone()));
        self.answer(token, lease.map_err(|error| error.to_string()))
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        _: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        self.answer(token, Err(error.to_owned()))
    }

    fn describe_execution<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(std::future::ready(Ok(Execution::Running)))
    }
}

/// A queue at a fixture. To confirm, and the sweep of every second, go through the background endpoint.
pub struct QueueFixture {
    tokens: Arc<Tokens>,
    leases: Leases<DynamoDb>,
    background: Leases<DynamoDb>,
    sweeping: Arc<Sweeping>,
}

/// Ends with the last of the clients.
struct Sweeping(JoinHandle<()>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl QueueFixture {
    /// # Errors
    /// [`Error::Failed`] when the database refuses.
    pub async fn start(fixture: &Fixture) -> Result<Self, Error> {
        let tokens = Arc::new(Tokens::default());
        let with = |library: Library| library.leases.with_workflows(tokens.clone());
        let background = with(Library::at(fixture.background_endpoint()).await?);
        let leases = with(Library::at(fixture.measured_endpoint()).await?);
        let sweeper = background.clone();
        let sweeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                // What fails is done the next time.
                let _ = sweeper.sweep(SweepBounds::Schedule).await;
            }
        });
        Ok(Self {
            tokens,
            leases,
            background,
            sweeping: Arc::new(Sweeping(sweeping)),
        })
    }

    pub(super) fn waiter(&self, number: usize, ttl: Duration) -> Waiter {
        Waiter {
            tokens: Arc::clone(&self.tokens),
            leases: self.leases.clone(),
            background: self.background.clone(),
            number,
            turn: 0,
            ttl,
            held: None,
            _sweeping: Arc::clone(&self.sweeping),
        }
    }
}

pub(super) struct Waiter {
    tokens: Arc<Tokens>,
    leases: Leases<DynamoDb>,
    background: Leases<DynamoDb>,
    number: usize,
    turn: u32,
    ttl: Duration,
    held: Option<Lease>,
    _sweeping: Arc<Sweeping>,
}

impl Client for Waiter {
    fn acquire<'a>(&'a mut self, key: &'a str) -> Calling<'a, bool> {
        Box::pin(async move {
            acquire(
                &self.leases,
                ask(key, self.number, self.ttl)?,
                &mut self.held,
            )
            .await
        })
    }

    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            self.turn += 1;
            // As long as a token of Step Functions is.
            let name = format!(
                "{:->600}",
                format!("client {}, turn {}", self.number, self.turn)
            );
            let queue = || {
                Ok(Queue {
                    task_token: TaskToken::new(&name)?,
                    wait: WaitTime::new(BUDGET)?,
                })
            };
            let queue = queue().map_err(|error: BadValue| message(&error))?;
            let id =
                RequestId::new(format!("turn {}", self.turn)).map_err(|error| message(&error))?;
            let request = ask(key, self.number, self.ttl)?.request_id(id);
            let (sender, answer) = oneshot::channel();
            self.tokens.all().insert(name, sender);
            let joined = self.leases.acquire_queued(request, queue).await;
            joined.map_err(|error| message(&error))?;
            let mut lease = Some(answer.await.map_err(|error| message(&error))??);
            extend(&self.background, &mut lease).await?;
            self.held = lease;
            Ok(())
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(extend(&self.leases, &mut self.held))
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(release(&self.leases, &mut self.held))
    }
}
