//! Ours by the library: asking again and again, or in the queue.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{
    Acquire, AcquireOutcome, Connection, DynamoDb, ExtendOptions, Holder, KeepTime, Key, Lease,
    Leases, Lifetime, Queue, RequestId, RetryPolicy, Settings, SweepBounds, TaskToken, Ttl, Wait,
    WaitTime,
};
use leasehold_lambda::StepFunctions;
use leasehold_local::Proxy;
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{Calling, Client};
use crate::fixture::{Fixture, config};
use crate::message;

/// The table of ours.
pub const TABLE: &str = "leases";
/// It outlasts everything that is measured.
const BUDGET: Duration = Duration::from_hours(1);
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A request of a holder whose name is as long as an execution's is, since that counts in bytes and units.
fn ask(key: &str, number: usize, lifetime: impl Into<Lifetime>) -> Acquire {
    let name = format!("order-{number}");
    let holder = format!(
        "arn:aws:states:us-east-1:123456789012:execution:leasehold-critical-section:{name:->36}"
    );
    Acquire::new(
        Key::new(key).unwrap(),
        Holder::new(holder).unwrap(),
        lifetime,
    )
}

/// The leases of our table behind an endpoint; makes the table if there is none.
pub async fn leases(endpoint: &Proxy) -> Leases<DynamoDb> {
    let client = Connection::client(&config(endpoint).await);
    let described = client.describe_table().table_name(TABLE).send().await;
    if described.is_err() {
        leasehold::table::create(&client, TABLE).await.unwrap();
    }
    Leases::new(DynamoDb::new(client, TABLE), Settings::default())
}

/// A queue at a fixture, whose clients are told by callbacks. The sweep of every second goes through the background
/// endpoint.
pub(super) struct QueueFixture {
    waiting: Arc<Waiting>,
}

struct Waiting {
    queue: Queue<DynamoDb>,
    step_functions: FakeStepFunctionsServer,
    sweeping: JoinHandle<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.sweeping.abort();
    }
}

impl QueueFixture {
    pub(super) async fn start(fixture: &Fixture) -> Self {
        let step_functions = FakeStepFunctionsServer::open().await.unwrap();
        let config = config(fixture.background_endpoint()).await.to_builder();
        let config = config.endpoint_url(format!("http://{}", step_functions.address()));
        let workflows = Arc::new(StepFunctions::new(&config.build()));
        let at = async |endpoint| leases(endpoint).await.with_engine(workflows.clone());
        let sweeper = at(fixture.background_endpoint()).await;
        let queue = at(fixture.measured_endpoint()).await;
        let sweeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                // What fails is done the next time.
                let _ = sweeper.sweep(SweepBounds::Schedule).await;
            }
        });
        Self {
            waiting: Arc::new(Waiting {
                queue,
                step_functions,
                sweeping,
            }),
        }
    }

    pub(super) fn waiter(&self, number: usize, ttl: Duration) -> Ours {
        Ours {
            queue: Some(Arc::clone(&self.waiting)),
            ..Ours::new(self.waiting.queue.clone().into(), number, ttl)
        }
    }
}

pub(super) struct Ours {
    leases: Leases<DynamoDb>,
    number: usize,
    ttl: Duration,
    held: Option<Lease>,
    queue: Option<Arc<Waiting>>,
    turn: u32,
}

impl Ours {
    /// A client that asks again after random pauses.
    pub(super) fn new(leases: Leases<DynamoDb>, number: usize, ttl: Duration) -> Self {
        Self {
            leases,
            number,
            ttl,
            held: None,
            queue: None,
            turn: 0,
        }
    }

    /// Joins the queue, as an execution that runs, and is told when the key is its own.
    async fn wait_in(&mut self, key: &str, waiting: &Waiting) -> Result<Lease, String> {
        self.turn += 1;
        let turn = format!("client {}, turn {}", self.number, self.turn);
        // As long as a token of Step Functions is.
        let token = format!("{turn:->600}");
        let wait = Wait {
            task_token: TaskToken::new(&token).unwrap(),
            wait: WaitTime::new(BUDGET).unwrap(),
            latest: false,
        };
        let keep = KeepTime::default();
        let request = ask(key, self.number, Lifetime::Execution { keep })
            .request_id(RequestId::new(turn.as_str()).unwrap());
        let answer = waiting.step_functions.wait(request.holder.as_str(), &token);
        let joined = waiting.queue.acquire_queued(request, wait).await;
        joined.map_err(|error| message(&error))?;
        let call = answer.await.map_err(|error| message(&error))?;
        if call.operation != "SendTaskSuccess" {
            return Err(call.body["error"].to_string());
        }
        let output: Value = serde_json::from_str(call.output()).unwrap();
        Ok(serde_json::from_value(output["lease"].clone()).unwrap())
    }
}

impl Client for Ours {
    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            if let Some(waiting) = self.queue.clone() {
                self.held = Some(self.wait_in(key, &waiting).await?);
                return Ok(());
            }
            let request = ask(key, self.number, Ttl::new(self.ttl).unwrap());
            let policy = RetryPolicy::with_budget(BUDGET);
            match self.leases.acquire_within(request, policy).await {
                Ok(AcquireOutcome::Granted(granted)) => self.held = Some(granted.lease),
                Ok(AcquireOutcome::TimedOut(_)) => return Err("held by another".to_owned()),
                Err(error) => return Err(message(&error)),
            }
            Ok(())
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(async {
            let lease = self.held.as_ref().ok_or("nothing is held")?;
            let extended = self.leases.extend(lease, ExtendOptions::default()).await;
            self.held = Some(extended.map_err(|error| message(&error))?.into_lease());
            Ok(())
        })
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(async {
            let lease = self.held.take().ok_or("nothing is held")?;
            let released = match &self.queue {
                Some(waiting) => waiting.queue.release_strictly(&lease).await,
                None => self.leases.release_strictly(&lease).await,
            };
            released.map(drop).map_err(|error| message(&error))
        })
    }
}
