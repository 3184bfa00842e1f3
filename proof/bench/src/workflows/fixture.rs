//! Where executions run: the whole stack with the shipped machines on it, and room for the others'.
//!
//! What is counted at the stack's own endpoint is what leases, or the others' patterns, cost; reap and sweep, which tidy up, have
//! another that counts; the caller's work and whoever watches take one where nothing is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold_local::{Counts, Invocation, Options, Proxy, Stack, create_table};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep};

use super::{History, Spent, work};
use crate::fixture::{Cost, config};
use crate::{Error, failed};

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
const LOOP: &str = include_str!("../../peers/polling-loop.asl.json");

/// Whose machine it is, if it is not ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// AWS's semaphore sample as published, with one permit.
    Published,
    /// Its loop without its Retry, which is how it is often copied.
    Sample,
    /// What one writes without a library.
    Loop,
}

impl Peer {
    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "AWS's semaphore",
            Self::Sample => "AWS's semaphore, no retry",
            Self::Loop => "polling loop",
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
    async fn take(&self) -> Result<(), Error> {
        self.set(1).await
    }

    /// Somebody gives it back.
    async fn free(&self) -> Result<(), Error> {
        if self.is_counter {
            return self.set(0).await;
        }
        let delete = self
            .client
            .delete_item()
            .table_name(TABLE)
            .key("name", AttributeValue::S(self.name.clone()));
        delete.send().await.map(drop).map_err(failed("free a lock"))
    }

    async fn set(&self, count: u32) -> Result<(), Error> {
        let put = self
            .client
            .put_item()
            .table_name(TABLE)
            .item("name", AttributeValue::S(self.name.clone()));
        let put = put.item("currentlockcount", AttributeValue::N(count.to_string()));
        put.send().await.map(drop).map_err(failed("set a lock"))
    }
}

/// A stack, and who watches it.
pub struct WorkflowFixture {
    /// The stack itself.
    pub stack: Stack,
    machines: BTreeMap<String, String>,
    cleanup: Proxy,
    uncounted: Proxy,
}

/// An execution that was started.
pub struct Run {
    /// Its ARN.
    pub arn: String,
    sfn: aws_sdk_sfn::Client,
}

/// Where a scene began.
pub struct Checkpoint {
    sections: Counts,
    cleanup: Counts,
    /// What was invoked since.
    pub(super) invocations: Receiver<Invocation>,
}

impl WorkflowFixture {
    /// Starts the stack, and creates the machines of the template.
    ///
    /// # Errors
    /// [`Error::Local`] when the stack does not start.
    pub async fn open() -> Result<Self, Error> {
        let setting = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let settings = [
            setting("LEASE_CLOCK_MARGIN_MS", "300"),
            setting("LEASE_GUARD_MS", "200"),
            setting("LEASE_REAP_GRACE_SECONDS", &GRACE.as_secs().to_string()),
        ];
        let stack = Stack::start(Options {
            engine: true,
            secret_scanner: false,
            queue_delay: Some(SECOND_READING),
            environment: BTreeMap::from([("*".to_owned(), BTreeMap::from(settings))]),
            ..Options::default()
        })
        .await?;
        stack.proxy().count_units();
        let machines = stack.deploy().await?;
        let uncounted = Proxy::start(stack.database().address(), 0).await?;
        let cleanup = Proxy::start(stack.database().address(), 0).await?;
        cleanup.count_units();
        let host = stack.functions();
        for (name, endpoint) in [
            ("StepFunction", &uncounted),
            ("ReapFunction", &cleanup),
            ("SweepFunction", &cleanup),
        ] {
            let mut function = host.function(name)?;
            function
                .environment
                .extend([("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), endpoint.url())]);
            host.register(function);
        }
        let fixture = Self {
            stack,
            machines,
            cleanup,
            uncounted,
        };
        create_table(&fixture.database().await, TABLE, &["name"], None).await?;
        Ok(fixture)
    }

    /// Ends every process and waits until it is gone.
    pub async fn close(self) {
        self.stack.stop().await;
    }

    /// A machine of the template.
    ///
    /// # Errors
    /// [`Error::Failed`] when there is none of that name.
    pub fn shipped(&self, name: &str) -> Result<String, Error> {
        let machine = self.machines.get(&format!("{name}StateMachine")).cloned();
        machine.ok_or_else(|| Error::Failed(format!("the template has no {name}")))
    }

    /// Creates a machine of somebody else's, its `${…}` replaced.
    ///
    /// # Errors
    /// [`Error::Failed`] when the engine refuses it.
    pub async fn create(
        &self,
        stem: &str,
        definition: &str,
        names: &[(&str, &str)],
    ) -> Result<String, Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut definition = definition.to_owned();
        for function in ["AcquireFunction", "ReleaseFunction", "StepFunction"] {
            let arn = format!("arn:aws:lambda:us-east-1:{ACCOUNT}:function:{function}");
            definition = definition.replace(&format!("${{{function}}}"), &arn);
        }
        for (name, value) in names {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        let create = self.stack.sfn().create_state_machine();
        let create = create.name(format!("{stem}-{}", LAST.fetch_add(1, Ordering::Relaxed)));
        let create = create
            .definition(definition)
            .role_arn(format!("arn:aws:iam::{ACCOUNT}:role/bench"));
        Ok(create
            .send()
            .await
            .map_err(failed("create a state machine"))?
            .state_machine_arn)
    }

    /// A machine of somebody else's, with a lock of its own that is free. To the loop the lock's name is `permit`.
    async fn peer(&self, peer: Peer) -> Result<(String, Lock), Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let (definition, is_counter) = match peer {
            Peer::Published => (PUBLISHED, true),
            Peer::Sample => (SAMPLE, true),
            Peer::Loop => (LOOP, false),
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
        lock.free().await?;
        let machine = self
            .create(
                "bench",
                definition,
                &[("Table", TABLE), ("Name", &lock.name), ("Limit", "1")],
            )
            .await?;
        Ok((machine, lock))
    }

    /// One section of somebody else's, with nobody in the way.
    ///
    /// # Errors
    /// [`Error`] when it does not succeed.
    pub async fn once(&self, peer: Peer) -> Result<Spent, Error> {
        let (machine, _) = self.peer(peer).await?;
        let checkpoint = self.checkpoint();
        let run = self.start(&machine, &work("permit", 0.0)).await?;
        run.succeeds().await?;
        self.spent(checkpoint, &run).await
    }

    /// A machine of somebody else's whose lock is free, and the input of an execution that works so long.
    ///
    /// # Errors
    /// [`Error::Failed`] when the engine refuses it.
    pub async fn contended(&self, peer: Peer, seconds: f64) -> Result<(String, Value), Error> {
        let (machine, lock) = self.peer(peer).await?;
        Ok((machine, work(&lock.name, seconds)))
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
    ///
    /// # Errors
    /// [`Error::Failed`] when the database refuses.
    pub async fn items_to_sweep(&self) -> Result<usize, Error> {
        let scan = self.database().await.scan();
        let scan = scan.table_name("LeaseTable").index_name("held").send();
        let found = scan.await.map_err(failed("read the index"))?;
        Ok(usize::try_from(found.count()).unwrap_or_default())
    }

    /// Transitions of one round of a waiter.
    ///
    /// # Errors
    /// [`Error`] when it does not wait.
    pub async fn round(&self, peer: Peer) -> Result<u64, Error> {
        let (machine, lock) = self.peer(peer).await?;
        lock.take().await?;
        let run = self.start(&machine, &work("permit", 0.0)).await?;
        let mut at = [0; 2];
        for (pauses, transitions) in (1..).zip(&mut at) {
            run.reaches("Pause", pauses).await?;
            *transitions = run.history().await?.transitions(|_| true);
        }
        run.stop().await?;
        Ok(at[1] - at[0])
    }

    /// Starts an execution.
    ///
    /// # Errors
    /// [`Error::Failed`] when the engine refuses.
    pub async fn start(&self, machine: &str, input: &Value) -> Result<Run, Error> {
        let sfn = self.stack.sfn();
        let start = sfn
            .start_execution()
            .state_machine_arn(machine)
            .input(input.to_string());
        let arn = start
            .send()
            .await
            .map_err(failed("start an execution"))?
            .execution_arn;
        Ok(Run { arn, sfn })
    }

    /// Opens an account for the machine that transfers, where nothing is counted.
    ///
    /// # Errors
    /// [`Error::Failed`] when the database refuses.
    pub async fn open_account(&self, account: &str) -> Result<(), Error> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = self.database().await.put_item().table_name("ResourceTable");
        let put = put
            .item("pk", text(account))
            .item("sk", text("BALANCE"))
            .item("balance", AttributeValue::N("100".to_owned()));
        put.send()
            .await
            .map(drop)
            .map_err(failed("open an account"))
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
    ///
    /// # Errors
    /// [`Error::Failed`] when its history cannot be read.
    pub async fn spent(&self, mut checkpoint: Checkpoint, run: &Run) -> Result<Spent, Error> {
        if run.is_ours() {
            self.quiet().await;
        }
        let (sections, cleanup) = self.since(&checkpoint);
        let mut spent = Spent {
            history: run.history().await?,
            sections,
            cleanup,
            ..Spent::default()
        };
        while let Ok(invocation) = checkpoint.invocations.try_recv() {
            if invocation.function != "StepFunction" {
                *spent.invocations.entry(invocation.function).or_default() += 1;
            }
        }
        Ok(spent)
    }

    /// Waits until nothing has gone to the database for a while.
    pub(super) async fn quiet(&self) {
        let total = || self.stack.proxy().counts().total() + self.cleanup.counts().total();
        let mut seen = total();
        loop {
            sleep(QUIET).await;
            let now = total();
            if now == seen
                && self
                    .stack
                    .queue("ReapLaterQueue")
                    .unwrap_or_default()
                    .is_empty()
            {
                return;
            }
            seen = now;
        }
    }
}

impl Run {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or_default()
    }

    /// Whether its end is an event that reaches reap.
    fn is_ours(&self) -> bool {
        self.arn.contains(":leasehold-")
    }

    /// Waits for the end, which has to be a success.
    ///
    /// # Errors
    /// [`Error::Failed`] when it is none.
    pub async fn succeeds(&self) -> Result<(), Error> {
        match self.ended().await? {
            (ExecutionStatus::Succeeded, _) => Ok(()),
            (status, error) => {
                let path: Vec<_> = self.history().await?.states.into_keys().collect();
                Err(Error::Failed(format!(
                    "{} ended {}: {}, after {path:?}",
                    self.arn,
                    status.as_str(),
                    error.unwrap_or_default()
                )))
            }
        }
    }

    /// Waits for the end: its status and the name of its error.
    ///
    /// # Errors
    /// [`Error::Failed`] when that takes too long.
    pub async fn ended(&self) -> Result<(ExecutionStatus, Option<String>), Error> {
        let since = Instant::now();
        loop {
            let described = self
                .sfn
                .describe_execution()
                .execution_arn(&self.arn)
                .send()
                .await;
            let described = described.map_err(failed("describe an execution"))?;
            if described.status != ExecutionStatus::Running {
                return Ok((described.status, described.error));
            }
            self.patience(since).await?;
        }
    }

    /// Waits until the state has been entered so often, its tries counted.
    ///
    /// # Errors
    /// [`Error::Failed`] when that takes too long.
    pub async fn reaches(&self, state: &str, times: u64) -> Result<(), Error> {
        let since = Instant::now();
        while self.history().await?.transitions(|name| name == state) < times {
            self.patience(since).await?;
        }
        Ok(())
    }

    /// Waits until the work of this state's task has begun.
    ///
    /// # Errors
    /// [`Error::Failed`] when that takes too long.
    pub async fn works_in(&self, state: &str) -> Result<(), Error> {
        let since = Instant::now();
        let begun = |history: History| history.states.get(state).is_some_and(|at| at.begun > 0);
        while !begun(self.history().await?) {
            self.patience(since).await?;
        }
        Ok(())
    }

    /// Has it go on from where it failed or was stopped.
    ///
    /// # Errors
    /// [`Error::Failed`] when the engine refuses.
    pub async fn redrive(&self) -> Result<(), Error> {
        let redrive = self.sfn.redrive_execution().execution_arn(&self.arn);
        redrive
            .send()
            .await
            .map(drop)
            .map_err(failed("redrive an execution"))
    }

    /// Stops it in the middle.
    ///
    /// # Errors
    /// [`Error::Failed`] when the engine refuses.
    pub async fn stop(&self) -> Result<(), Error> {
        let stopped = self
            .sfn
            .stop_execution()
            .execution_arn(&self.arn)
            .send()
            .await;
        stopped.map_err(failed("stop an execution"))?;
        self.ended().await.map(drop)
    }

    /// What it has come to so far.
    ///
    /// # Errors
    /// [`Error::Failed`] when its history cannot be read.
    pub async fn history(&self) -> Result<History, Error> {
        let pages = self
            .sfn
            .get_execution_history()
            .execution_arn(&self.arn)
            .into_paginator()
            .items()
            .send();
        let events: Result<Vec<_>, _> = pages.collect().await;
        Ok(History::read(&events.map_err(failed("read a history"))?))
    }

    /// Pauses before the next look, and fails if it has taken too long.
    async fn patience(&self, since: Instant) -> Result<(), Error> {
        if since.elapsed() > PATIENCE {
            return Err(Error::Failed(format!("{} takes too long", self.arn)));
        }
        sleep(LOOK_EVERY).await;
        Ok(())
    }
}
