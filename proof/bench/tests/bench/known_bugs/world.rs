//! One stack with an engine for all entries about state machines, and what they do to executions on it.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_sfn::types::{ExecutionStatus, HistoryEventType};
use leasehold_local::Stack;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock};
use tokio::time::{Instant, sleep};

use leasehold_bench::site::create_table;

use super::ours::{self, Answer, in_time};
use super::sample;

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The stack outlives the tests that share it, so its tasks need a runtime that does, too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static WORLD: OnceCell<World> = OnceCell::const_new();
/// Who meddles with all that is sent has to be alone.
static MEDDLING: RwLock<()> = RwLock::const_new(());

/// Runs a test on the shared stack.
pub fn with_world<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    RUNTIME.block_on(async {
        let _shared = MEDDLING.read().await;
        in_time(test(WORLD.get_or_init(World::build).await)).await;
    });
}

/// Runs a test on the shared stack, and no other one meanwhile.
pub fn alone_with_world<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    RUNTIME.block_on(async {
        let _alone = MEDDLING.write().await;
        in_time(test(WORLD.get_or_init(World::build).await)).await;
    });
}

/// A key that no other test has.
pub fn fresh_key() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("orders/{}", LAST.fetch_add(1, Ordering::Relaxed))
}

pub struct World {
    pub stack: Stack,
    machines: BTreeMap<String, String>,
}

impl World {
    async fn build() -> Self {
        let mut options = ours::options();
        options.engine = true;
        let everywhere = options.environment.get_mut("*").unwrap();
        let grace = ("LEASE_REAP_GRACE_SECONDS".to_owned(), Some("4".to_owned()));
        everywhere.extend([grace]);
        options.queue_delay = Some(Duration::from_millis(200));
        let stack = Stack::start(options).await.unwrap();
        let machines = stack.deploy().await.unwrap();
        create_table(&stack.dynamodb(), sample::TABLE, "name", None)
            .await
            .unwrap();
        Self { stack, machines }
    }

    /// The shipped critical section.
    pub fn section(&self) -> &str {
        &self.machines["CriticalSectionStateMachine"]
    }

    /// Creates a state machine of the test's own, its `${…}` replaced by these and by our functions.
    pub async fn create(&self, definition: &str, names: &[(&str, &str)]) -> String {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let mut definition = definition.to_owned();
        for (name, value) in names {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        for function in ["Acquire", "Release", "Step"] {
            let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:{function}Function");
            definition = definition.replace(&format!("${{{function}Function}}"), &arn);
        }
        let name = format!("record-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let create = self.stack.sfn().create_state_machine().name(name);
        let created = create
            .definition(definition)
            .role_arn("arn:aws:iam::123456789012:role/test");
        created.send().await.unwrap().state_machine_arn
    }

    pub async fn start(&self, machine: &str, input: Value) -> Execution {
        let start = self.stack.sfn().start_execution();
        let start = start.state_machine_arn(machine).input(input.to_string());
        Execution {
            arn: start.send().await.unwrap().execution_arn,
            sfn: self.stack.sfn(),
        }
    }

    pub async fn call(&self, function: &str, event: &Value) -> Answer {
        ours::call(&self.stack, function, event).await
    }
}

pub struct Execution {
    pub arn: String,
    sfn: aws_sdk_sfn::Client,
}

/// How an execution ended: its status and its error's name.
pub type Ended = (ExecutionStatus, Option<String>);

impl Execution {
    pub fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap()
    }

    pub async fn ended(&self) -> Ended {
        let start = Instant::now();
        loop {
            let describe = self.sfn.describe_execution().execution_arn(&self.arn);
            let described = describe.send().await.unwrap();
            if described.status != ExecutionStatus::Running {
                return (described.status, described.error);
            }
            self.be_patient(start).await;
        }
    }

    /// The names of the states entered so far, in order.
    pub async fn path(&self) -> Vec<String> {
        let entered = self.states().await.into_iter();
        entered.map(|(name, _)| name).collect()
    }

    /// Waits until a state has been entered for the `nth` time.
    pub async fn reaches(&self, state: &str, nth: usize) {
        let start = Instant::now();
        while self.path().await.iter().filter(|s| *s == state).count() < nth {
            self.be_patient(start).await;
        }
    }

    /// Waits until the task of a state has been started in its `nth` entry.
    pub async fn in_task(&self, state: &str, nth: usize) {
        let start = Instant::now();
        let started = |states: &[(String, bool)]| {
            let mut entries = states.iter().filter(|(name, _)| name == state);
            entries.nth(nth - 1).is_some_and(|(_, started)| *started)
        };
        while !started(&self.states().await) {
            self.be_patient(start).await;
        }
    }

    pub async fn stop(&self) {
        let stop = self.sfn.stop_execution().execution_arn(&self.arn);
        stop.error("Test.Stop").send().await.unwrap();
        assert_eq!(self.ended().await.0, ExecutionStatus::Aborted);
    }

    pub async fn redrive(&self) {
        let redrive = self.sfn.redrive_execution().execution_arn(&self.arn);
        redrive.send().await.unwrap();
    }

    /// The states entered so far, and whether the task of each was started.
    async fn states(&self) -> Vec<(String, bool)> {
        let pages = self.sfn.get_execution_history().execution_arn(&self.arn);
        let events = pages.into_paginator().items().send();
        let events: Vec<_> = events.collect::<Result<_, _>>().await.unwrap();
        let mut states: Vec<(String, bool)> = Vec::new();
        for event in events {
            if let Some(entered) = event.state_entered_event_details() {
                states.push((entered.name().to_owned(), false));
            } else if *event.r#type() == HistoryEventType::TaskStarted
                && let Some((_, started)) = states.last_mut()
            {
                *started = true;
            }
        }
        states
    }

    async fn be_patient(&self, since: Instant) {
        assert!(since.elapsed() < PATIENCE, "{} takes too long", self.arn);
        sleep(LOOK_EVERY).await;
    }
}
