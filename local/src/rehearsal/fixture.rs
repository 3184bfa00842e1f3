//! The created stack, and the acts of a person on it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use leasehold_local::{Error, Stack};
use serde_json::{Value, json};

pub(super) const ACCOUNTS: &str = "ResourceTable";
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long any awaited event may take. It is generous, because it only matters if something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of a check, or why it failed.
pub(super) type CheckResult = Result<(), Error>;

pub(super) struct Fixture<'a> {
    pub(super) stack: &'a Stack,
    machines: BTreeMap<String, String>,
}

impl<'a> Fixture<'a> {
    /// Creates the state machines of the template and of a user.
    pub(super) async fn open(stack: &'a Stack) -> Result<Self, Error> {
        let mut fixture = Self::functions(stack).await?;
        for arn in stack.deploy().await?.into_values() {
            // Keyed by name, which is the last part of an ARN.
            let name = arn.rsplit(':').next().unwrap_or_default();
            fixture.machines.insert(name.to_owned(), arn);
        }
        for (name, definition) in super::queue::own_machines(stack.functions())? {
            let create = stack.sfn().create_state_machine().name(name);
            let create = create.definition(definition.to_string());
            // A role of the user's own, which is not in the template.
            let created = create.role_arn(format!("arn:aws:iam::123456789012:role/{name}"));
            let arn = created.send().await?.state_machine_arn;
            stack.roles().machine(name, &arn);
            fixture.machines.insert(name.to_owned(), arn);
        }
        Ok(fixture)
    }

    /// The same without state machines. The library must accept the table.
    pub(super) async fn functions(stack: &'a Stack) -> Result<Self, Error> {
        for table in stack.tables() {
            let checked = leasehold::table::check(&stack.dynamodb(), table).await;
            let what = format_args!("the library checks the table {table}");
            checked.map_err(|error| Error::call(what, error))?;
        }
        Ok(Self {
            stack,
            machines: BTreeMap::new(),
        })
    }

    /// The ARN of a state machine.
    pub(super) fn machine(&self, name: &str) -> Result<&str, Error> {
        let found = self.machines.get(name).map(String::as_str);
        found.ok_or_else(|| Error::call(name, "there is no such state machine"))
    }

    /// Invokes a function as a person. A function error is an error. If a response of DynamoDB is late on a busy machine, the call
    /// is repeated.
    pub(super) async fn call(&self, verb: &str, event: Value) -> Result<Value, Error> {
        let functions = self.stack.functions();
        for _ in 0..4 {
            match functions.call(verb, &event).await {
                Err(error) if error.to_string().contains("Lease.Unavailable") => {}
                ended => return ended,
            }
        }
        functions.call(verb, &event).await
    }

    /// Lets a person hold a key. Returns the handle.
    pub(super) async fn occupy(&self, key: &str, ttl: f64) -> Result<Value, Error> {
        let event =
            json!({"key": key, "holder": "a person", "request_id": key, "ttl_seconds": ttl});
        Ok(self.call("acquire", event).await?["lease"].clone())
    }

    /// Lets an execution hold a key while it runs.
    pub(super) async fn occupy_while_it_runs(&self, key: &str, execution: &str) -> CheckResult {
        let event =
            json!({"key": key, "holder": execution, "request_id": key, "lifetime": "execution"});
        self.call("acquire", event).await.map(|_| ())
    }

    /// Lets an execution that has ended hold a key, until sweep has looked at it. No event of its end comes any more by then.
    pub(super) async fn until_looked_at(&self, key: &str, execution: &str) -> CheckResult {
        tokio::time::sleep(2 * super::QUEUE_DELAY).await;
        self.occupy_while_it_runs(key, execution).await?;
        let looked_at = |shown: &Value| shown["lease"]["looked_at"].is_string();
        self.until(key, "looked at", looked_at).await
    }

    /// Releases a key that a person holds.
    pub(super) async fn release(&self, lease: &Value) -> CheckResult {
        let released = self.call("release", json!({"lease": lease})).await;
        released.map(|_| ())
    }

    /// Evicts the holder of a key.
    pub(super) async fn force(&self, key: &str) -> CheckResult {
        let force = json!({"operation": "force_release", "key": key, "who": "a person", "why": "a rehearsal"});
        self.call("operate", force).await.map(|_| ())
    }

    /// Starts an execution. Returns its ARN.
    pub(super) async fn start(&self, machine: &str, input: Value) -> Result<String, Error> {
        let start = self.stack.sfn().start_execution();
        let start = start.state_machine_arn(self.machine(machine)?);
        Ok(start.input(input.to_string()).send().await?.execution_arn)
    }

    pub(super) async fn stop(&self, execution: &str) -> CheckResult {
        let stop = self.stack.sfn().stop_execution().execution_arn(execution);
        stop.send().await?;
        Ok(())
    }

    /// What the service says of an execution.
    pub(super) async fn describe(&self, execution: &str) -> Result<DescribeExecutionOutput, Error> {
        let describe = self.stack.sfn().describe_execution();
        Ok(describe.execution_arn(execution).send().await?)
    }

    /// Waits for the end of an execution, which must have this status and error.
    pub(super) async fn end(
        &self,
        execution: &str,
        status: &str,
        error: Option<&str>,
    ) -> Result<Value, Error> {
        let end = eventually(execution, "ended", async || {
            let described = self.describe(execution).await?;
            Ok((described.status().as_str() != "RUNNING").then_some(described))
        })
        .await?;
        if end.status().as_str() != status || error.is_some() && end.error() != error {
            return Err(Error::call(execution, format_args!("{end:?}")));
        }
        Ok(serde_json::from_str(end.output().unwrap_or("null")).unwrap_or_default())
    }

    /// Waits for the end of an execution that must succeed. Returns its output.
    pub(super) async fn success(&self, execution: &str) -> Result<Value, Error> {
        self.end(execution, "SUCCEEDED", None).await
    }

    /// Runs an execution that must succeed. Returns its output.
    pub(super) async fn run(&self, machine: &str, input: Value) -> Result<Value, Error> {
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
        let is = &is;
        eventually(key, what, async || {
            let shown = self.call("inspect", json!({"key": key})).await?;
            Ok(is(&shown).then_some(()))
        })
        .await
    }

    pub(super) async fn until_held(&self, key: &str) -> CheckResult {
        self.until(key, "held", |shown| shown["state"] == "held")
            .await
    }

    pub(super) async fn until_free(&self, key: &str) -> CheckResult {
        self.until(key, "free", |shown| shown["state"] == "free")
            .await
    }

    /// Whether a role has needed a permission on a resource whose ARN ends so.
    pub(super) fn has_asked(&self, role: &str, action: &str, resource: &str) -> bool {
        let asked = self.stack.roles().asked();
        asked.iter().any(|asked| {
            let on = asked.resource.as_deref().unwrap_or_default();
            asked.role.contains(role) && asked.action == action && on.ends_with(resource)
        })
    }

    /// Waits until an execution has entered a state.
    pub(super) async fn until_entered(&self, execution: &str, state: &str) -> CheckResult {
        eventually(execution, state, async || {
            let history = self.stack.sfn().get_execution_history();
            let history = history.execution_arn(execution).send().await?;
            let entered = history.events().iter().any(|event| {
                let details = event.state_entered_event_details();
                details.is_some_and(|details| details.name() == state)
            });
            Ok(entered.then_some(()))
        })
        .await
    }
}

/// Looks until there is something to be seen.
pub(super) async fn eventually<T>(
    what: impl Display,
    becomes: &str,
    look: impl AsyncFn() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let began = Instant::now();
    loop {
        match look().await? {
            Some(found) => return Ok(found),
            None if began.elapsed() < PATIENCE => tokio::time::sleep(ASK_EVERY).await,
            None => return Err(Error::call(what, format_args!("not {becomes} in time"))),
        }
    }
}
