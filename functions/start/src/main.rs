//! Starts an execution as soon as it can have a key: now, or when those before it have ended. Takes one request, or a batch of
//! messages from a queue with a request each. It fails with `Lease.NotStarted` for a start that Step Functions refuses, and
//! with `if_held` "fail" with `Lease.Held`.

use leasehold::{
    AtLeast, Error, ExecutionInput, ExecutionName, Holder, IfHeld, KeepTime, Key, Metadata,
    PassLease, Permits, Pool, Queue, RequestDigest, RequestId, ResultTo, Start, Started,
    StateMachineArn, TaskToken, WaitTime, store::Store,
};
use leasehold_lambda::{Delivered, Fatal, Function, Handled, Names};
use serde::Deserialize;
use serde_json::Value;

/// Names a state machine, its input, and the key that its execution has while it runs.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::start))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The key.
    key: Key,
    /// The state machine, which the stack has to allow for this key.
    state_machine_arn: StateMachineArn,
    /// The input of the execution; {} if left out.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    input: Option<String>,
    /// The execution's name, and the idempotency key: the same name starts once. If left out, that of the message in the queue,
    /// otherwise random.
    name: Option<ExecutionName>,
    /// What to do while somebody else has the key; "wait" if left out.
    #[serde(default)]
    if_held: IfHeldWord,
    /// How long to wait, in seconds; 86400 if left out.
    wait_seconds: Option<WaitTime>,
    /// How many executions may have the key at once; if left out, one at a time with others that leave it out.
    permits: Option<Permits>,
    /// A permit of this pool besides the key, which many keys share: the start takes its key first, and waits in the pool.
    pool: Option<Pool>,
    /// Cooldown: for how long after the grant the key is not granted again, even if the execution ends before, in seconds; 0 if left out.
    #[serde(default)]
    at_least_seconds: AtLeast,
    /// How long the key stays with the execution after a failure, stop or timeout, in seconds; 0 if left out.
    #[serde(default)]
    keep_seconds: KeepTime,
    /// Add `leasehold` to the input: with key and fencing token, or with "handle" also the `lease`.
    #[serde(default)]
    pass_lease: PassLease,
    /// What others may see of the lease.
    #[serde(default)]
    metadata: Metadata,
    /// The token of the task that waits for the result: it is answered with the output of the execution, or with its error, once.
    task_token: Option<TaskToken>,
    /// Stop the execution if that of the task ends before.
    #[serde(default)]
    stop_with_caller: bool,
    /// The execution of the task, as $$.Execution.Id has it, of a machine that the stack may answer.
    caller: Option<Holder>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename = "IfHeld", rename_all = "snake_case")]
enum IfHeldWord {
    /// Wait in the queue.
    #[default]
    Wait,
    /// Fail with Lease.Held.
    Fail,
    /// Answer "skipped".
    Skip,
    /// Wait in the queue, and only the newest does: it supersedes everybody who waits already.
    Latest,
    /// As "latest", and stop the execution that was started under the key and has it.
    Replace,
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            key,
            state_machine_arn: _,
            input: _,
            name: _,
            if_held: _,
            wait_seconds: _,
            permits: _,
            pool,
            at_least_seconds: _,
            keep_seconds: _,
            pass_lease: _,
            metadata: _,
            task_token: _,
            stop_with_caller: _,
            caller: _,
        } = self;
        Names::default().key(key).pool(pool)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_notifies()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(
    queue: Queue<S>,
    requests: Delivered<Request>,
) -> Result<Handled<Started>, Error> {
    let queue = &queue;
    let start = |request: Request, message: Option<String>| async move {
        Box::pin(queue.start(request.start(message)?)).await
    };
    requests.each(start).await
}

impl Request {
    fn start(self, message: Option<String>) -> Result<Start, Error> {
        let if_held = match (self.if_held, self.wait_seconds) {
            (IfHeldWord::Wait, wait) => IfHeld::Wait(wait.unwrap_or(WaitTime::DAY)),
            (IfHeldWord::Latest, wait) => IfHeld::Latest(wait.unwrap_or(WaitTime::DAY)),
            (IfHeldWord::Replace, wait) => IfHeld::Replace(wait.unwrap_or(WaitTime::DAY)),
            (_, Some(_)) => {
                let problem = "goes with if_held \"wait\", \"latest\" or \"replace\"";
                return Err(Error::invalid("wait_seconds", problem));
            }
            (IfHeldWord::Fail, None) => IfHeld::Fail,
            (IfHeldWord::Skip, None) => IfHeld::Skip,
        };
        let result_to = match (self.task_token, self.caller) {
            (Some(task_token), Some(caller)) => Some(ResultTo {
                task_token,
                caller,
                stop_with_caller: self.stop_with_caller,
            }),
            (None, None) if !self.stop_with_caller => None,
            (None, None) => {
                return Err(Error::invalid("stop_with_caller", "goes with a task_token"));
            }
            (Some(_), None) => {
                let problem =
                    "is missing: with a task_token it is $$.Execution.Id, the execution that waits";
                return Err(Error::invalid("caller", problem));
            }
            (None, Some(_)) => {
                return Err(Error::invalid("caller", "goes with a task_token"));
            }
        };
        let name = match self.name {
            Some(name) => name,
            None => name_of(&self.key, message)?,
        };
        let input = match self.input {
            Some(json) if is_json_as_text(&json) => {
                let problem = "is a text with JSON in it: send the JSON itself";
                return Err(Error::invalid("input", problem));
            }
            Some(json) => {
                ExecutionInput::new(json).map_err(|problem| Error::invalid("input", problem))?
            }
            None => ExecutionInput::default(),
        };
        let mut start = Start::new(self.key, self.state_machine_arn, name);
        start.input = input;
        start.if_held = if_held;
        start.permits = self.permits;
        start.pool = self.pool;
        start.at_least = self.at_least_seconds;
        start.keep = self.keep_seconds;
        start.pass_lease = self.pass_lease;
        start.metadata = self.metadata;
        start.result_to = result_to;
        Ok(start)
    }
}

/// As `StartExecution` takes its input: its execution would get a text.
fn is_json_as_text(json: &str) -> bool {
    let text = serde_json::from_str::<String>(json);
    let read = text.and_then(|text| serde_json::from_str::<Value>(&text));
    read.is_ok_and(|value| value.is_object() || value.is_array())
}

/// A message is delivered more than once, and may have one request for each of several keys elsewhere: names belong to a
/// machine, whatever the key.
fn name_of(key: &Key, message: Option<String>) -> Result<ExecutionName, Error> {
    let id = match message {
        Some(id) => {
            let bad = |problem| Error::invalid("name", problem);
            let (id, key) = (
                RequestId::new(id).map_err(bad)?,
                Holder::new(key.as_str()).map_err(bad)?,
            );
            RequestDigest::of(&key, &id).to_string()
        }
        None => RequestId::random().as_str().to_owned(),
    };
    ExecutionName::new(id).map_err(|problem| Error::invalid("name", problem))
}
