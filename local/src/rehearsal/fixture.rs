//! The created stack, and the acts of a person on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_sdk_sfn::error::DisplayErrorContext;
use leasehold_local::{Error, Outcome, Stack};
use serde_json::{Value, json};

pub(super) const ACCOUNTS: &str = "ResourceTable";
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long any awaited event may take. It is generous, because it only matters if something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of a check, or why it failed.
pub(super) type CheckResult = Result<(), String>;

/// How an execution has ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: String,
    pub(super) error: String,
    pub(super) cause: String,
    pub(super) output: Value,
}

pub(super) struct Fixture<'a> {
    pub(super) stack: &'a Stack,
    machines: BTreeMap<String, String>,
}

impl<'a> Fixture<'a> {
    /// Creates the state machines of the template and of a user.
    pub(super) async fn open(stack: &'a Stack) -> Result<Self, Error> {
        let arns = stack.deploy().await?.into_values();
        // Keyed by name, which is the last part of an ARN.
        let named = arns.map(|arn| (arn.rsplit(':').next().unwrap_or_default().to_owned(), arn));
        let mut machines: BTreeMap<_, _> = named.collect();
        let functions = stack.functions();
        for (name, definition) in super::queue::own_machines(functions)? {
            let create = stack.sfn().create_state_machine().name(&name);
            let create = create.definition(definition.to_string());
            // A role of the user's own, which is not in the template.
            let created = create.role_arn(format!("arn:aws:iam::123456789012:role/{name}"));
            let created = created.send().await.map_err(|error| Error::Call {
                what: format!("CreateStateMachine {name}"),
                message: DisplayErrorContext(&error).to_string(),
            })?;
            stack.roles().machine(&name, created.state_machine_arn());
            machines.insert(name, created.state_machine_arn().to_owned());
        }
        let mut fixture = Self::functions(stack).await?;
        fixture.machines = machines;
        Ok(fixture)
    }

    /// The same without state machines. The library must accept the table.
    pub(super) async fn functions(stack: &'a Stack) -> Result<Self, Error> {
        for table in stack.tables() {
            let checked = leasehold::table::check(&stack.dynamodb(), table).await;
            checked.map_err(|error| Error::Call {
                what: format!("the library checks the table {table}"),
                message: error.to_string(),
            })?;
        }
        Ok(Self {
            stack,
            machines: BTreeMap::new(),
        })
    }

    /// The ARN of a state machine.
    pub(super) fn machine(&self, name: &str) -> Result<&str, String> {
        let found = self.machines.get(name).map(String::as_str);
        found.ok_or_else(|| format!("there is no state machine {name}"))
    }

    /// Invokes a function as a person. A function error is an error. If a response of DynamoDB is late on a busy machine, the call
    /// is repeated.
    pub(super) async fn call(&self, verb: &str, event: Value) -> Result<Value, String> {
        for _ in 0..4 {
            match self.call_once(verb, &event).await {
                Err(error) if error.contains("Lease.Unavailable") => {}
                ended => return ended,
            }
        }
        self.call_once(verb, &event).await
    }

    async fn call_once(&self, verb: &str, event: &Value) -> Result<Value, String> {
        let text = event.to_string();
        let invoked = self.stack.functions().invoke(verb, &text).await;
        let invoked = invoked.map_err(|error| error.to_string())?;
        match invoked.outcome {
            Outcome::Answer(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Outcome::FunctionError(text) => Err(format!("{verb} {event}: {text}")),
            Outcome::Throttled => Err(format!("{verb} {event}: throttled")),
        }
    }

    /// Lets a person hold a key. Returns the handle.
    pub(super) async fn occupy(&self, key: &str, ttl: f64) -> Result<Value, String> {
        let event =
            json!({"key": key, "holder": "a person", "request_id": key, "ttl_seconds": ttl});
        Ok(self.call("acquire", event).await?["lease"].clone())
    }

    /// Starts an execution. Returns its ARN.
    pub(super) async fn start(&self, machine: &str, input: Value) -> Result<String, String> {
        let start = self.stack.sfn().start_execution();
        let start = start.state_machine_arn(self.machine(machine)?);
        let started = start.input(input.to_string()).send().await;
        let started = started.map_err(|error| DisplayErrorContext(&error).to_string())?;
        Ok(started.execution_arn().to_owned())
    }

    pub(super) async fn stop(&self, execution: &str) -> CheckResult {
        let stop = self.stack.sfn().stop_execution().execution_arn(execution);
        let stopped = stop.send().await;
        stopped
            .map(|_| ())
            .map_err(|error| DisplayErrorContext(&error).to_string())
    }

    /// Waits for the end of an execution.
    pub(super) async fn end(&self, execution: &str) -> Result<End, String> {
        let began = Instant::now();
        loop {
            let describe = self.stack.sfn().describe_execution();
            let described = describe.execution_arn(execution).send().await;
            let described = described.map_err(|error| DisplayErrorContext(&error).to_string())?;
            if described.status().as_str() != "RUNNING" {
                let output = described.output().unwrap_or("null");
                return Ok(End {
                    status: described.status().as_str().to_owned(),
                    error: described.error().unwrap_or_default().to_owned(),
                    cause: described.cause().unwrap_or_default().to_owned(),
                    output: serde_json::from_str(output).unwrap_or_default(),
                });
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{execution} does not end"));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Waits for the end of an execution that must succeed. Returns its output.
    pub(super) async fn success(&self, execution: &str) -> Result<Value, String> {
        let end = self.end(execution).await?;
        if end.status == "SUCCEEDED" {
            return Ok(end.output);
        }
        let End {
            status,
            error,
            cause,
            ..
        } = end;
        Err(format!("{execution}: {status} {error}: {cause}"))
    }

    /// Runs an execution that must succeed. Returns its output.
    pub(super) async fn run(&self, machine: &str, input: Value) -> Result<Value, String> {
        let execution = self.start(machine, input).await?;
        self.success(&execution).await
    }

    /// Waits until inspect shows the wanted state of the key.
    pub(super) async fn until(
        &self,
        key: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> CheckResult {
        let began = Instant::now();
        loop {
            let shown = self.call("inspect", json!({"key": key})).await?;
            if is(&shown) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{key} does not become {what}: {shown}"));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Waits until one waiter is in the queue for the key.
    pub(super) async fn until_waited_for(&self, key: &str) -> CheckResult {
        self.until(key, "waited for", |shown| shown["waiting"] == 1)
            .await
    }

    pub(super) async fn until_free(&self, key: &str) -> CheckResult {
        self.until(key, "free", |shown| shown["state"] == "free")
            .await
    }

    /// Whether a role has answered a task of the machine.
    pub(super) fn has_answered(&self, role: &str, machine: &str) -> bool {
        let asked = self.stack.roles().asked();
        asked.iter().any(|asked| {
            let machine = asked
                .resource
                .as_ref()
                .is_some_and(|arn| arn.ends_with(machine));
            asked.role.contains(role) && asked.action == "states:SendTaskSuccess" && machine
        })
    }

    /// Waits until an execution has entered a state.
    pub(super) async fn until_entered(&self, execution: &str, state: &str) -> CheckResult {
        let began = Instant::now();
        loop {
            let history = self.stack.sfn().get_execution_history();
            let described = history.execution_arn(execution).send().await;
            let described = described.map_err(|error| DisplayErrorContext(&error).to_string())?;
            let mut entered = described.events().iter();
            if entered.any(|event| {
                let details = event.state_entered_event_details();
                details.is_some_and(|details| details.name() == state)
            }) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{execution} does not reach {state}"));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Waits until a role has needed a permission.
    pub(super) async fn until_asked(&self, role: &str, action: &str) -> CheckResult {
        let began = Instant::now();
        loop {
            let asked = self.stack.roles().asked();
            if asked
                .iter()
                .any(|asked| asked.role.contains(role) && asked.action == action)
            {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{role} never needs {action}"));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}
