//! Where executions run: the whole stack with the shipped machines on it, and room for the others'.
//!
//! What is counted at the stack's own endpoint is what leases, or the others' patterns, cost; reap and sweep, which tidy up, have
//! another that counts; the caller's work and whoever watches take one where nothing is counted.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sfn::types::ExecutionStatus;
use leasehold_local::{Counts, Invocation, Options, Proxy, create_table};
use leasehold_proof::execution::Execution;
use leasehold_proof::fixture::{Fixture, n, s};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::{sleep, timeout};

use super::{History, Spent, work};
use crate::fixture::{Cost, config};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long nothing may happen before everything is over that an execution's end sets off.
const QUIET: Duration = Duration::from_millis(600);
/// How long an event waits for its second reading by reap, instead of a minute.
const SECOND_READING: Duration = Duration::from_millis(200);
/// How long reap lets what an ended execution started go on.
pub const GRACE: Duration = Duration::from_secs(4);
const ACCOUNT: &str = "123456789012";
/// Where the items of the others' machines are, by name.
pub const TABLE: &str = "PeerTable";

/// AWS's sample in our own words: its loop alone, and in the frame and with the Retry that it has as published.
const SAMPLE: &str = include_str!("../../peers/semaphore.asl.json");
const PUBLISHED: &str = include_str!("../../peers/semaphore-published.asl.json");
const RETRY: &str = include_str!("../../peers/retry.asl.json");

/// Whose machine it is, if it is not ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// AWS's semaphore sample as published, with one permit.
    Published,
    /// Its loop without its Retry, which is how it is often copied.
    Sample,
    /// What one writes without a library.
    Retry,
}

impl Peer {
    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "AWS's semaphore",
            Self::Sample => "AWS's semaphore, no retry",
            Self::Retry => "plain Retry",
        }
    }
}

/// The item that a machine of somebody else's asks for: a counter, or an item that is there while it is held.
struct Lock {
    client: aws_sdk_dynamodb::Client,
    name: String,
    is_counter: bool,
}

impl Lock {
    /// Somebody takes it.
    async fn take(&self) {
        self.set(1).await;
    }

    /// Somebody gives it back.
    async fn free(&self) {
        if self.is_counter {
            return self.set(0).await;
        }
        let delete = self.client.delete_item().table_name(TABLE);
        delete.key("name", s(&self.name)).send().await.unwrap();
    }

    async fn set(&self, count: u32) {
        let put = self.client.put_item().table_name(TABLE);
        let put = put.item("name", s(&self.name));
        put.item("currentlockcount", n(count)).send().await.unwrap();
    }
}

/// A stack, and who watches it.
pub struct WorkflowFixture {
    fixture: Fixture,
    machines: BTreeMap<String, String>,
    cleanup: Proxy,
    uncounted: Proxy,
}

impl Deref for WorkflowFixture {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

/// Where a scene began.
pub struct Checkpoint {
    sections: Counts,
    cleanup: Counts,
    /// What was invoked since.
    pub(super) invocations: Receiver<Invocation>,
}

/// Changes to the environment of every function: a short margin, so that leases may be short.
#[must_use]
pub fn short() -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    leasehold_proof::fixture::environment([
        ("LEASE_CLOCK_MARGIN_MS", "300"),
        ("LEASE_GUARD_MS", "200"),
        ("LEASE_REAP_GRACE_SECONDS", &GRACE.as_secs().to_string()),
        ("LEASE_QUEUE_CAP", "512"),
    ])
}

impl WorkflowFixture {
    /// Starts the stack, and creates the machines of the template.
    pub async fn open() -> Self {
        let fixture = Fixture::with(Options {
            engine: true,
            queue_delay: Some(SECOND_READING),
            environment: short(),
            ..Options::default()
        });
        let fixture = fixture.await;
        let stack = &fixture.stack;
        stack.proxy().count_units();
        let machines = stack.deploy().await.unwrap();
        let beside = async || Proxy::start(stack.database().address(), 0).await.unwrap();
        let (uncounted, cleanup) = (beside().await, beside().await);
        cleanup.count_units();
        let host = stack.functions();
        for (name, endpoint) in [
            ("StepFunction", &uncounted),
            ("ReapFunction", &cleanup),
            ("SweepFunction", &cleanup),
        ] {
            let mut function = host.function(name).unwrap();
            function
                .environment
                .extend([("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), endpoint.url())]);
            host.register(function);
        }
        let fixture = Self {
            fixture,
            machines,
            cleanup,
            uncounted,
        };
        let database = fixture.database().await;
        let created = create_table(&database, TABLE, &["name"], None).await;
        created.unwrap();
        fixture
    }

    /// Ends every process and waits until it is gone.
    pub async fn close(self) {
        self.fixture.stack.stop().await;
    }

    /// A machine of the template.
    #[must_use]
    pub fn shipped(&self, name: &str) -> &str {
        &self.machines[&format!("{name}StateMachine")]
    }

    /// Creates a machine of somebody else's, its `${…}` replaced.
    pub async fn create(&self, stem: &str, definition: &str, names: &[(&str, &str)]) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut definition = definition.to_owned();
        for verb in ["Acquire", "Extend", "Release", "Step"] {
            let arn = format!("arn:aws:lambda:us-east-1:{ACCOUNT}:function:{verb}Function");
            definition = definition.replace(&format!("${{{verb}Function}}"), &arn);
        }
        for (name, value) in names {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        let create = self.stack.sfn().create_state_machine();
        let create = create.name(format!("{stem}-{}", LAST.fetch_add(1, Ordering::Relaxed)));
        let create = create
            .definition(definition)
            .role_arn(format!("arn:aws:iam::{ACCOUNT}:role/bench"));
        create.send().await.unwrap().state_machine_arn
    }

    /// A machine of somebody else's, with a lock of its own that is free. To the Retry the lock's name is `permit`.
    async fn peer(&self, peer: Peer, limit: u16) -> (String, Lock) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let (definition, is_counter) = match peer {
            Peer::Published => (PUBLISHED, true),
            Peer::Sample => (SAMPLE, true),
            Peer::Retry => (RETRY, false),
        };
        let name = if is_counter {
            format!("permit-{}", LAST.fetch_add(1, Ordering::Relaxed))
        } else {
            "permit".to_owned()
        };
        let lock = Lock {
            client: self.database().await,
            name,
            is_counter,
        };
        lock.free().await;
        let limit = limit.to_string();
        let names = [("Table", TABLE), ("Name", &lock.name), ("Limit", &limit)];
        (self.create("bench", definition, &names).await, lock)
    }

    /// One section of somebody else's, with nobody in the way.
    pub async fn once(&self, peer: Peer) -> Spent {
        let (machine, _) = self.peer(peer, 1).await;
        let checkpoint = self.checkpoint();
        let run = self.start(&machine, &work("permit", 0.0)).await;
        succeeds(&run).await;
        self.spent(checkpoint, &run).await
    }

    /// A machine of somebody else's whose lock is free, for so many at once, and the input of an execution that works so long.
    pub async fn contended(&self, peer: Peer, limit: u16, seconds: f64) -> (String, Value) {
        let (machine, lock) = self.peer(peer, limit).await;
        (machine, work(&lock.name, seconds))
    }

    /// What went through the endpoints since a checkpoint: what sections sent, and what reap and sweep did.
    #[must_use]
    pub fn since(&self, checkpoint: &Checkpoint) -> (Cost, Cost) {
        (
            Cost::from(&self.stack.proxy().counts().since(&checkpoint.sections)),
            Cost::from(&self.cleanup.counts().since(&checkpoint.cleanup)),
        )
    }

    /// Items in the index of what is held or waits.
    pub async fn items_to_sweep(&self) -> usize {
        let scan = self.database().await.scan();
        let scan = scan.table_name(self.table()).index_name("held").send();
        usize::try_from(scan.await.unwrap().count()).unwrap()
    }

    /// Transitions of one round of a waiter.
    pub async fn round(&self, peer: Peer) -> u64 {
        let (machine, lock) = self.peer(peer, 1).await;
        lock.take().await;
        let run = self.start(&machine, &work("permit", 0.0)).await;
        let mut at = [0; 2];
        for (pauses, transitions) in (1..).zip(&mut at) {
            run.reaches("Pause", pauses).await;
            *transitions = History::of(&run).await.transitions(|_| true);
        }
        run.stop().await;
        at[1] - at[0]
    }

    /// Starts an execution.
    pub async fn start(&self, machine: &str, input: &Value) -> Execution {
        Execution::start(&self.stack.sfn(), machine, input).await
    }

    /// Starts an execution through a key. It may begin later.
    pub async fn start_through(&self, request: &Value) -> Execution {
        let functions = self.stack.functions();
        let started = functions.call("start", request).await.unwrap();
        let arn = started["execution_arn"].as_str().unwrap();
        Execution::of(&self.stack.sfn(), arn)
    }

    /// A sweep each second, for ever: in the place of the minute's, where a key opens every few seconds.
    pub async fn sweeps(&self) {
        loop {
            sleep(Duration::from_secs(1)).await;
            let swept = self.stack.functions().call("sweep", &json!({})).await;
            swept.unwrap();
        }
    }

    /// Opens an account for the machine that transfers, where nothing is counted.
    pub async fn open_account(&self, account: &str) {
        let put = self.database().await.put_item().table_name("ResourceTable");
        let put = put.item("pk", s(account)).item("sk", s("BALANCE"));
        put.item("balance", n(100)).send().await.unwrap();
    }

    /// The database by the endpoint at which nothing is counted.
    async fn database(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&config(&self.uncounted).await)
    }

    /// Where a scene begins.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            sections: self.stack.proxy().counts(),
            cleanup: self.cleanup.counts(),
            invocations: self.stack.functions().invocations(),
        }
    }

    /// What was spent since a checkpoint, once everything is over that the end of this execution set off.
    pub async fn spent(&self, mut checkpoint: Checkpoint, run: &Execution) -> Spent {
        self.quiet().await;
        let (sections, cleanup) = self.since(&checkpoint);
        let mut spent = Spent {
            history: History::of(run).await,
            sections,
            cleanup,
            ..Spent::default()
        };
        while let Ok(invocation) = checkpoint.invocations.try_recv() {
            if invocation.function != "StepFunction" {
                *spent.invocations.entry(invocation.function).or_default() += 1;
            }
        }
        spent
    }

    /// Waits until nothing has gone to the database for a while.
    pub(super) async fn quiet(&self) {
        let total = || self.stack.proxy().counts().total() + self.cleanup.counts().total();
        let mut seen = total();
        loop {
            sleep(QUIET).await;
            let now = total();
            let later = self.stack.queue("ReapQueue").unwrap_or_default();
            if now == seen && later.is_empty() {
                return;
            }
            seen = now;
        }
    }
}

/// Waits for the end, which has to be a success: of a crowd, for longer than a test waits.
pub async fn succeeds(run: &Execution) {
    let over = async {
        while !run.is_known().await || *run.describe().await.status() == ExecutionStatus::Running {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, over).await.expect(&run.arn);
    let ended = run.ended().await;
    let path = run.history().await.path();
    assert_eq!(ended.status, "SUCCEEDED", "{}: {ended:?} {path:?}", run.arn);
}
