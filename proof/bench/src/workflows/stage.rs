//! Where executions run: the whole stack, with the shipped machines on it and room for the others'.
//!
//! The database has three doors. What is counted at the stack's own is what leases, or the others' patterns, cost; reap and
//! sweep, which tidy up, have another that counts; and the caller's work and we ourselves take one where nothing is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold_local::{Counts, Options, Outcome, Proxy, Stack};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::history::{Event, History};
use super::spent::{Asked, Spent};
use crate::Error;

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long nothing may happen before everything is over that an execution's end sets off.
const QUIET: Duration = Duration::from_millis(600);
/// How long an event waits for its second reading by reap, instead of a minute.
const SECOND_READING: Duration = Duration::from_millis(200);
/// The margin here, so that a lease may be short.
pub(super) const MARGIN: Duration = Duration::from_millis(300);
/// What reap waits for a Lambda function that may still run, here; 900 s by default.
pub(super) const GRACE: Duration = Duration::from_secs(2);
const ACCOUNT: &str = "123456789012";

/// A stack, and who watches it.
pub(super) struct Stage {
    stack: Stack,
    machines: BTreeMap<String, String>,
    tidying: Proxy,
    aside: Proxy,
}

/// An execution that was started.
pub(super) struct Run {
    arn: String,
    sfn: aws_sdk_sfn::Client,
}

/// Where a scene began.
pub(super) struct Mark {
    sections: Counts,
    tidying: Counts,
    invocations: tokio::sync::broadcast::Receiver<leasehold_local::Invocation>,
    started: Instant,
}

impl Stage {
    pub(super) async fn open() -> Result<Self, Error> {
        let setting = |name: &str, value: String| (name.to_owned(), Some(value));
        let settings = [
            setting("LEASE_CLOCK_MARGIN_MS", MARGIN.as_millis().to_string()),
            setting("LEASE_GUARD_MS", "200".to_owned()),
            setting("LEASE_REAP_GRACE_SECONDS", GRACE.as_secs().to_string()),
        ];
        let stack = Stack::start(Options {
            engine: true,
            canary: false,
            queue_delay: Some(SECOND_READING),
            environment: BTreeMap::from([("*".to_owned(), BTreeMap::from(settings))]),
            ..Options::default()
        })
        .await?;
        stack.proxy().count_units();
        let machines = stack.deploy().await?;
        let aside = Proxy::start(stack.database().address(), 0).await?;
        let tidying = Proxy::start(stack.database().address(), 0).await?;
        tidying.hold_to(stack.roles());
        tidying.count_units();
        let host = stack.functions();
        for (name, door) in [
            ("StepFunction", &aside),
            ("ReapFunction", &tidying),
            ("SweepFunction", &tidying),
        ] {
            let mut function = host.function(name)?;
            let by = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), door.url());
            function.environment.extend([by]);
            host.register(function);
        }
        Ok(Self {
            stack,
            machines,
            tidying,
            aside,
        })
    }

    /// A machine of the template.
    pub(super) fn shipped(&self, logical_id: &str) -> Result<&str, Error> {
        let machine = self.machines.get(logical_id).map(String::as_str);
        machine.ok_or_else(|| failed(format!("the template has no {logical_id}")))
    }

    /// Creates a machine of somebody else's, its `${…}` replaced.
    pub(super) async fn create(
        &self,
        definition: &str,
        names: &[(&str, &str)],
    ) -> Result<String, Error> {
        let mut definition = definition.to_owned();
        for (name, value) in names {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        let step = format!("arn:aws:lambda:us-east-1:{ACCOUNT}:function:StepFunction");
        let definition = definition.replace("${StepFunction}", &step);
        self.create_named("bench", &definition).await
    }

    /// Creates a machine that with-lease may start.
    pub(super) async fn create_wrapped(&self, definition: &str) -> Result<String, Error> {
        self.create_named("leasehold-wrapped", definition).await
    }

    async fn create_named(&self, stem: &str, definition: &str) -> Result<String, Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let name = format!("{stem}-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let create = self.stack.sfn().create_state_machine().name(name);
        let role = format!("arn:aws:iam::{ACCOUNT}:role/bench");
        let created = create.definition(definition).role_arn(role).send().await;
        let created = created.map_err(|error| failed(told(&error)))?;
        Ok(created.state_machine_arn)
    }

    pub(super) async fn start(&self, machine: &str, input: &Value) -> Result<Run, Error> {
        let sfn = self.stack.sfn();
        let start = sfn.start_execution().state_machine_arn(machine);
        let started = start.input(input.to_string()).send().await;
        let arn = started.map_err(|error| failed(told(&error)))?.execution_arn;
        Ok(Run { arn, sfn })
    }

    /// Opens an account for the machine that transfers, by the door at which nothing is counted.
    pub(super) async fn open_account(&self, account: &str) -> Result<(), Error> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = self.database().await.put_item().table_name("ResourceTable");
        let put = put.item("pk", text(account)).item("sk", text("BALANCE"));
        let put = put.item("balance", AttributeValue::N("100".to_owned()));
        put.send().await.map_err(|error| failed(told(&error)))?;
        Ok(())
    }

    /// Calls a function, and answers what it answers; an error of its own is an error.
    pub(super) async fn call(&self, function: &str, event: &Value) -> Result<Value, Error> {
        let event = event.to_string();
        let invoked = self.stack.functions().invoke(function, &event);
        match invoked.await?.outcome {
            Outcome::Answer(text) => {
                serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
            }
            Outcome::FunctionError(text) => Err(failed(format!("{function}: {text}"))),
            Outcome::Throttled => Err(failed(format!("{function} was throttled"))),
        }
    }

    /// Ends every process and waits until it is gone.
    pub(super) async fn close(self) {
        self.stack.stop().await;
    }

    pub(super) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The database by the door at which nothing is counted.
    pub(super) async fn database(&self) -> aws_sdk_dynamodb::Client {
        client(self.aside.url()).await
    }

    /// The database by the door at which it is.
    pub(super) async fn counted_database(&self) -> aws_sdk_dynamodb::Client {
        client(self.stack.dynamodb_url()).await
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            sections: self.stack.proxy().counts(),
            tidying: self.tidying.counts(),
            invocations: self.stack.functions().invocations(),
            started: Instant::now(),
        }
    }

    /// What was spent since a mark, once everything is over that the ends of these executions set off.
    pub(super) async fn spent(&self, mut mark: Mark, runs: &[Run]) -> Result<Spent, Error> {
        let seconds = mark.started.elapsed().as_secs_f64();
        if runs.iter().any(Run::is_ours) {
            self.quiet().await;
        }
        let mut spent = Spent {
            sections: runs.len() as u64,
            sections_asked: Asked::of(&self.stack.proxy().counts().since(&mark.sections)),
            tidying_asked: Asked::of(&self.tidying.counts().since(&mark.tidying)),
            seconds,
            ..Spent::default()
        };
        while let Ok(invocation) = mark.invocations.try_recv() {
            if invocation.function != "StepFunction" {
                *spent.invocations.entry(invocation.function).or_default() += 1;
            }
        }
        for run in runs {
            spent.history.add(&run.history().await?);
        }
        Ok(spent)
    }

    /// Waits until nothing has gone to the database for a while.
    async fn quiet(&self) {
        let total = || self.stack.proxy().counts().total() + self.tidying.counts().total();
        let mut seen = total();
        loop {
            sleep(QUIET).await;
            let now = total();
            let to_read = self.stack.queue("ReapLaterQueue").unwrap_or_default();
            if now == seen && to_read.is_empty() {
                return;
            }
            seen = now;
        }
    }
}

impl Run {
    pub(super) fn arn(&self) -> &str {
        &self.arn
    }

    /// Whether its end is an event that reap hears of.
    fn is_ours(&self) -> bool {
        self.arn.contains(":leasehold-")
    }

    /// Waits for the end, which has to be a success.
    pub(super) async fn succeeds(&self) -> Result<(), Error> {
        match self.ended().await? {
            (ExecutionStatus::Succeeded, _) => Ok(()),
            (status, error) => {
                let (status, history) = (status.as_str(), self.history().await?);
                let path: Vec<_> = history.states.into_keys().collect();
                Err(failed(format!(
                    "{} ended {status}: {error}, after {path:?}",
                    self.arn
                )))
            }
        }
    }

    async fn ended(&self) -> Result<(ExecutionStatus, String), Error> {
        let since = Instant::now();
        loop {
            let describe = self.sfn.describe_execution().execution_arn(&self.arn);
            let described = describe.send().await.map_err(|e| failed(told(&e)))?;
            if described.status != ExecutionStatus::Running {
                return Ok((described.status, described.error.unwrap_or_default()));
            }
            self.patience(since)?;
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the state has been entered so often, its tries counted.
    pub(super) async fn reaches(&self, state: &str, times: u64) -> Result<(), Error> {
        let since = Instant::now();
        while self.history().await?.transitions_of(|name| name == state) < times {
            self.patience(since)?;
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Stops it in the middle.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        let stop = self.sfn.stop_execution().execution_arn(&self.arn);
        stop.send().await.map_err(|error| failed(told(&error)))?;
        self.ended().await?;
        Ok(())
    }

    pub(super) async fn history(&self) -> Result<History, Error> {
        let pages = self.sfn.get_execution_history().execution_arn(&self.arn);
        let events = pages.into_paginator().items().send();
        let events: Result<Vec<_>, _> = events.collect().await;
        let events = events.map_err(|error| failed(told(&error)))?;
        let events: Vec<Event> = events.iter().map(Event::from).collect();
        Ok(History::read(&events))
    }

    /// Fails if it takes too long.
    pub(super) fn patience(&self, since: Instant) -> Result<(), Error> {
        if since.elapsed() < PATIENCE {
            return Ok(());
        }
        Err(failed(format!("{} takes too long", self.arn)))
    }
}

async fn client(url: String) -> aws_sdk_dynamodb::Client {
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(url)
        .load()
        .await;
    aws_sdk_dynamodb::Client::new(&config)
}

/// Something that a scene needs did not happen.
pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::Contestant {
        contestant: "workflows",
        message: message.into(),
    }
}

/// An error with its causes, once each.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
