//! `leasehold start`, `repeat-start` and `dismiss-start`: executions that begin as soon as they can have a key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use leasehold::{
    AtLeast, BadValue, Error, ExecutionInput, ExecutionName, HeldLease, Holder, IfHeld, KeepTime,
    Key, Metadata, PassLease, Permits, Pool, Queue, RequestId, Started, StateMachineArn, WaitTime,
    store::DynamoDb,
};

use crate::acquire::{pair, permits};
use crate::connect::{TableArgs, TableClient};
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_error};
use crate::step_functions::{Everybody, OneStart};
use crate::{durations, lease_text, next, text_file};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold start orders/42 arn:aws:states:eu-west-1:123456789012:stateMachine:orders --input '{\"order\": 42}'
  leasehold start nightly arn:aws:states:eu-west-1:123456789012:stateMachine:report --if-held skip --name 2026-03-01
  leasehold start orders/42 arn:aws:states:eu-west-1:123456789012:stateMachine:orders --input-file - <order.json

The execution has the key while it runs. If nobody has the key, this command starts the execution, with the rights of the person
who runs it. Otherwise the start waits in the queue, and the stack starts it when it is granted the key: the machine has to be in the
stack's StartedStateMachine. The command does not wait for that.

The same name again, with the same input, starts nothing twice and says what became of the start. A start that failed stays in
`leasehold ls --failed` until it is repeated or dismissed. If LEASE_STARTS is set, only what it lists is started.
--json prints the response of the function start.

With --if-held latest or replace, the next sweep notifies tasks that wait with a task token that they were superseded.

Exit codes: 0 started, waits in the queue, skipped, or superseded; 1 the start has failed; 75 somebody else holds the key (with
--if-held fail, or replace and a holder that was not started under the key), it is frozen, or its queue is full.")]
pub(crate) struct Start {
    /// The key that the execution has while it runs
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// ARN of the state machine, also with a version or an alias
    #[arg(required_unless_present = "state_machine", value_parser = |text: &str| StateMachineArn::new(text))]
    machine: Option<StateMachineArn>,
    /// The same as MACHINE
    #[arg(long, value_name = "ARN", conflicts_with = "machine", value_parser = |text: &str| StateMachineArn::new(text))]
    state_machine: Option<StateMachineArn>,
    /// The execution's input [default: {}]
    #[arg(long, value_name = "JSON", value_parser = |text: &str| ExecutionInput::new(text))]
    input: Option<ExecutionInput>,
    /// File with the execution's input; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    input_file: Option<PathBuf>,
    /// The execution's name, and the idempotency key: the same name starts once [default: random]
    #[arg(long, value_parser = |text: &str| ExecutionName::new(text))]
    name: Option<ExecutionName>,
    /// What to do while somebody else has the key
    #[arg(long, value_enum, default_value = "wait")]
    if_held: IfHeldWord,
    /// How many executions may have the key at once; if left out, one at a time with others that leave it out
    #[arg(long, value_name = "N", value_parser = permits)]
    permits: Option<Permits>,
    /// The execution needs a permit of this pool besides the key, which many keys share
    #[arg(long, value_name = "NAME", requires = "pool_permits", value_parser = |text: &str| Key::new(text))]
    pool: Option<Key>,
    /// How many may have a permit of the pool at once
    #[arg(long, value_name = "N", requires = "pool", value_parser = permits)]
    pool_permits: Option<Permits>,
    /// Cooldown: for how long after the grant the key is not granted again, even if the execution ends before [default: 0]
    #[arg(long, value_name = "LENGTH", value_parser = durations::at_least)]
    at_least: Option<AtLeast>,
    /// How long to wait in the queue [default: 1d]
    #[arg(long, value_name = "LENGTH", value_parser = wait)]
    wait: Option<WaitTime>,
    /// How long the execution keeps the key after a failure, stop or timeout, for a redrive [default: 0]
    #[arg(long, value_name = "LENGTH", value_parser = keep)]
    keep: Option<KeepTime>,
    /// Add key and fencing token to the input, as `leasehold`; with `handle` also the lease, to release it early
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "token")]
    pass_lease: Option<Passed>,
    /// Metadata that is shown with the lease; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum IfHeldWord {
    /// Wait in the queue
    Wait,
    /// Start nothing, and exit with 75
    Fail,
    /// Start nothing, and exit with 0
    Skip,
    /// Wait in the queue, and only the newest does: it supersedes everybody who waits already
    Latest,
    /// As latest, and stop the execution that was started under the key
    Replace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Passed {
    /// Key and fencing token
    Token,
    /// Also the lease
    Handle,
}

impl From<Passed> for PassLease {
    fn from(passed: Passed) -> Self {
        match passed {
            Passed::Token => Self::Token,
            Passed::Handle => Self::Handle,
        }
    }
}

fn wait(text: &str) -> Result<WaitTime, String> {
    WaitTime::new(durations::parse(text)?).map_err(|error| error.to_string())
}

fn keep(text: &str) -> Result<KeepTime, String> {
    KeepTime::new(durations::parse(text)?).map_err(|error| error.to_string())
}

impl Start {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let start = self.start()?;
        let (execution, name) = (start.execution(), start.name.clone());
        let table_client = self.table_args.connect().await?;
        let replaces = matches!(start.if_held, IfHeld::Replace(_));
        let started = queue_of(&table_client, &execution)?.start(start).await;
        let started = started.map_err(|error| match error {
            Error::Held(_) if replaces => Failure::from(error)
                .advice("nothing was stopped, because the holder was not started through this key"),
            error => may_be_accepted(error, &name),
        })?;
        print_started(&table_client, &started, self.json)
    }

    fn start(&self) -> Result<leasehold::Start, Failure> {
        let name = self.name.clone().map_or_else(random_name, Ok);
        let name = name.map_err(Failure::usage)?;
        let machine = self.machine.as_ref().or(self.state_machine.as_ref());
        let machine = machine.ok_or_else(|| Failure::usage("no state machine is named"))?;
        let mut start = leasehold::Start::new(self.key.clone(), machine.clone(), name);
        start.input = self.input()?;
        start.if_held = self.if_held()?;
        start.permits = self.permits;
        let pool = self.pool.as_ref().zip(self.pool_permits);
        start.pool = pool.map(|(name, permits)| Pool::new(name, permits));
        start.at_least = self.at_least.unwrap_or_default();
        start.keep = self.keep.unwrap_or_default();
        start.pass_lease = self.pass_lease.map(Into::into).unwrap_or_default();
        let metadata = self.metadata.iter().cloned().collect::<BTreeMap<_, _>>();
        start.metadata = Metadata::new(metadata).map_err(Failure::usage)?;
        Ok(start)
    }

    fn input(&self) -> Result<ExecutionInput, Failure> {
        let Some(path) = &self.input_file else {
            return Ok(self.input.clone().unwrap_or_default());
        };
        let input = ExecutionInput::new(text_file::read(path)?);
        input.map_err(|problem| Failure::usage(format!("{}: {problem}", path.display())))
    }

    fn if_held(&self) -> Result<IfHeld, Failure> {
        match (self.if_held, self.wait) {
            (IfHeldWord::Wait, wait) => Ok(IfHeld::Wait(wait.unwrap_or(WaitTime::DAY))),
            (IfHeldWord::Latest, wait) => Ok(IfHeld::Latest(wait.unwrap_or(WaitTime::DAY))),
            (IfHeldWord::Replace, wait) => Ok(IfHeld::Replace(wait.unwrap_or(WaitTime::DAY))),
            (_, Some(_)) => Err(Failure::usage(
                "--wait: goes with --if-held wait, latest or replace",
            )),
            (IfHeldWord::Fail, None) => Ok(IfHeld::Fail),
            (IfHeldWord::Skip, None) => Ok(IfHeld::Skip),
        }
    }
}

fn random_name() -> Result<ExecutionName, BadValue> {
    ExecutionName::new(RequestId::random().as_str())
}

/// Without its name, a start whose outcome is unknown could not be asked for again.
fn may_be_accepted(error: Error, name: &ExecutionName) -> Failure {
    let is_unknown = matches!(error, Error::Unavailable { .. } | Error::Throttled { .. });
    let failure = Failure::from(error);
    if !is_unknown {
        return failure;
    }
    failure.advice(format!(
        "it may have been accepted: the same command with --name {name} says so, and starts nothing twice"
    ))
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold repeat-start orders/42 arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c

`leasehold ls --failed` lists the starts that have failed, each with the command that repeats it. The start has its machine, name
and input as before, takes its place anew, and waits for as long as it would have at first. One that has not failed is not
repeated: the command says what became of it. `leasehold dismiss-start` takes one that is not to be repeated off that list. --json
prints the response of the function start.

Exit codes: 0 started or waits in the queue; 1 the start has failed again; 2 there is no such start; 75 the key is frozen, or its
queue is full.")]
pub(crate) struct RepeatStart {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// ARN of the execution that was to be
    #[arg(value_parser = |text: &str| Holder::new(text))]
    execution: Holder,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl RepeatStart {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        let started = repeat(&table_client, &self.key, &self.execution).await?;
        print_started(&table_client, &started, self.json)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold dismiss-start orders/42 arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c

Takes a start that has failed off the list of `leasehold ls --failed`, or one that waits out of the queue. It starts and stops
nothing. The request is deleted 15 days later. Until then a call of the same name starts nothing and gets the reason, so that no late
copy of the call undoes this, and one that had failed can still be repeated: `leasehold repeat-start`. For other work take another
name.

Exit codes: 0 dismissed; 1 there is no such start, or it was granted the key already.")]
pub(crate) struct DismissStart {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// ARN of the execution that was to be
    #[arg(value_parser = |text: &str| Holder::new(text))]
    execution: Holder,
    #[command(flatten)]
    table_args: TableArgs,
}

impl DismissStart {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        print(&dismiss(&table_client, &self.key, &self.execution).await?)?;
        Ok(Code::DONE)
    }
}

/// Asks again for a start that has failed.
pub(crate) async fn repeat(
    table_client: &TableClient,
    key: &Key,
    execution: &Holder,
) -> Result<Started, Failure> {
    let queue = queue_of(table_client, execution)?;
    Ok(queue.repeat_start(key, execution).await?)
}

/// Dismisses a start that has failed or waits, and says so.
pub(crate) async fn dismiss(
    table_client: &TableClient,
    key: &Key,
    execution: &Holder,
) -> Result<String, Failure> {
    // With the rights of the caller the task that waits for it is answered, and the first waiter of its pool is served.
    let queue = match Everybody::of(table_client) {
        Some(everybody) => {
            let queue = table_client.leases.clone();
            let queue = queue.with_engine(Arc::new(everybody));
            queue.with_starts(table_client.starts.clone())
        }
        None => queue_of(table_client, execution)?,
    };
    if !queue.dismiss_start(key, execution).await? {
        let what = format!("no start of {execution} through {key} has failed or waits");
        let advice = "one that was granted the key is ended by `leasehold force-release --stop`";
        return Err(Failure::new(Code::FAILURE, what).advice(advice));
    }
    next::serve(table_client, key).await;
    Ok(format!("dismissed: {execution}"))
}

/// A queue that may begin this execution.
pub(crate) fn queue_of(
    table_client: &TableClient,
    execution: &Holder,
) -> Result<Queue<DynamoDb>, Failure> {
    let one = OneStart::new(table_client, execution.clone())?;
    let leases = table_client.leases.clone();
    let queue = leases.with_engine(Arc::new(one));
    Ok(queue.with_starts(table_client.starts.clone()))
}

/// Begins a start that was granted the key and may not have begun. Whether it has begun.
pub(crate) async fn begin(
    table_client: &TableClient,
    key: &Key,
    execution: &Holder,
) -> Result<bool, Failure> {
    let queue = queue_of(table_client, execution)?;
    Ok(queue.begin_start(key, execution).await?)
}

fn print_started(
    table_client: &TableClient,
    started: &Started,
    as_json: bool,
) -> Result<Code, Failure> {
    if as_json {
        print(&json(started)?)?;
        return Ok(Code::DONE);
    }
    let (words, held) = started_words(started);
    print_held(table_client, held);
    print(&words)?;
    Ok(Code::DONE)
}

/// What became of a start, and who has the key if that matters.
pub(crate) fn started_words(started: &Started) -> (String, Option<&HeldLease>) {
    match started {
        Started::Started { execution_arn } => (format!("started: {execution_arn}"), None),
        Started::Queued {
            execution_arn,
            held,
        } => (
            format!("in the queue: {execution_arn} begins when it is granted the key"),
            // Its own lease is nobody else's.
            held.as_deref().filter(|held| held.holder != *execution_arn),
        ),
        Started::Skipped {
            execution_arn,
            held,
        } => (format!("skipped: {execution_arn}"), held.as_deref()),
        Started::Superseded { execution_arn, by } => (
            format!("superseded: {execution_arn} waited, and {by} waits instead"),
            None,
        ),
    }
}

fn print_held(table_client: &TableClient, held: Option<&HeldLease>) {
    if let Some(held) = held {
        print_error(&lease_text::held(held, table_client.leases.now()));
    }
}
