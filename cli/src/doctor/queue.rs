//! The check of the queue, with executions of the stack's own machine with-lease. Each is to start a state machine that does not
//! exist. So its start gets the lease in turn, Step Functions refuses it, and the execution receives that error.

use std::time::Duration;

use leasehold::LeaseState;
use leasehold_asl::plain;
use serde_json::json;

use super::account::CallError;
use super::answers::Handle;
use super::exercise::Actor;
use super::report::{Outcome, Step};
use crate::durations::render;

/// Time beyond the guard of the lease that both executions wait for.
const HELD: Duration = Duration::from_mins(5);

/// The error of a start that the stack refuses.
const INVALID: &str = "Lease.Invalid";
/// The error of a start that Step Functions refuses, and what its cause then says.
const NOT_STARTED: [&str; 2] = ["Lease.NotStarted", "StateMachineDoesNotExist"];

/// The state of an execution.
struct Described {
    status: String,
    error: String,
    cause: String,
    redriven: i32,
}

impl Actor<'_> {
    /// Holds a key, lets two executions wait for it, stops and redrives the second, and releases the key to both in turn.
    pub(super) async fn queue(&mut self) {
        let Some(machine) = self.seen.machine.clone() else {
            let why = Outcome::not_checked("the machine with-lease cannot be started");
            self.report.record("queue", why.clone());
            return self.report.record("redrive", why);
        };
        let key = self.key("queue");
        let (held, first, second) = match self.queued_executions(&machine, &key).await {
            Ok(started) => started,
            Err(outcome) => {
                self.report.record("queue", outcome.clone());
                return self.report.record("redrive", unless_failed(outcome));
            }
        };
        let redriven = self.redrive(&second).await;
        let is_redriven = redriven.is_ok();
        if let Err(outcome) = redriven {
            self.report.record("redrive", outcome);
        }
        let turns = self
            .turns(&key, &held, &first, is_redriven.then_some(&*second))
            .await;
        if is_redriven {
            let outcome = turns.clone().err().map(unless_failed);
            self.report
                .record("redrive", outcome.unwrap_or(Outcome::Pass));
        }
        self.record("queue", turns);
    }

    /// Holds the key, and lets two executions wait for it. Returns the lease and both executions.
    async fn queued_executions(
        &mut self,
        machine: &str,
        key: &str,
    ) -> Step<(Handle, String, String)> {
        let request = self.request(key, "first", HELD);
        let held = self.acquire(&request).await?;
        let first = self.start(machine, key, 1).await?;
        let second = self.start(machine, key, 2).await?;
        Ok((held.lease, first, second))
    }

    /// Starts an execution, and returns when `waiting` executions are in the queue.
    async fn start(&mut self, machine: &str, key: &str, waiting: u64) -> Step<String> {
        let (beginning, _) = machine.rsplit_once(':').unwrap_or_default();
        let stack = &self.report.stack;
        let child = format!("{beginning}:{stack}_started_leasehold-doctor");
        let input = json!({
            "key": key, "wait_seconds": 600, "state_machine_arn": child, "input": {},
        });
        let start = self
            .account
            .sfn
            .start_execution()
            .state_machine_arn(machine);
        let started = start.input(input.to_string()).send().await;
        let started = started.map_err(|error| {
            CallError::of("states:StartExecution", &error).outcome("the state machine with-lease")
        })?;
        let execution = started.execution_arn().to_owned();
        self.executions.push(execution.clone());
        self.until_waiting(key, waiting, &execution).await?;
        Ok(execution)
    }

    async fn until_waiting(&mut self, key: &str, waiting: u64, execution: &str) -> Step<()> {
        let patience = render(self.patience);
        self.eventually(async |actor| {
            if actor.inspect(key).await?.waiting() >= waiting {
                return Ok(Ok(()));
            }
            let Described { status, error, .. } = actor.describe(execution).await?;
            if error == INVALID {
                return Err(Outcome::not_checked(
                    "StartKeys lets no key of the doctor start a machine",
                ));
            }
            if status != "RUNNING" {
                let found = format!("{execution} does not wait: {status} {error}");
                return Err(Outcome::fail(found));
            }
            let found = format!("{execution} does not wait in the queue after {patience}");
            Ok(Err(Outcome::fail(found)))
        })
        .await
    }

    async fn describe(&self, execution: &str) -> Step<Described> {
        let describe = self.account.sfn.describe_execution();
        let described = describe.execution_arn(execution).send().await;
        let described = described.map_err(|error| {
            CallError::of("states:DescribeExecution", &error).outcome(execution)
        })?;
        Ok(Described {
            status: described.status().as_str().to_owned(),
            error: plain(described.error().unwrap_or_default()),
            cause: plain(described.cause().unwrap_or_default()),
            redriven: described.redrive_count().unwrap_or_default(),
        })
    }

    /// Stops an execution, redrives it, and returns when it runs again.
    async fn redrive(&mut self, execution: &str) -> Step<()> {
        let stop = self.account.sfn.stop_execution().execution_arn(execution);
        stop.send()
            .await
            .map_err(|error| CallError::of("states:StopExecution", &error).outcome(execution))?;
        self.until(execution, |described| described.status == "ABORTED")
            .await?;
        let redrive = self
            .account
            .sfn
            .redrive_execution()
            .execution_arn(execution);
        redrive
            .send()
            .await
            .map_err(|error| CallError::of("states:RedriveExecution", &error).outcome(execution))?;
        let again = self
            .until(execution, |described| described.redriven > 0)
            .await?;
        if again.status == "RUNNING" {
            return Ok(());
        }
        let Described { status, error, .. } = again;
        Err(Outcome::fail(format!(
            "{execution} was redriven and is {status} {error}"
        )))
    }

    async fn until(&mut self, execution: &str, is: impl Fn(&Described) -> bool) -> Step<Described> {
        let patience = render(self.patience);
        self.eventually(async |actor| {
            let described = actor.describe(execution).await?;
            if is(&described) {
                return Ok(Ok(described));
            }
            let found = format!("{execution} is still {} after {patience}", described.status);
            Ok(Err(Outcome::fail(found)))
        })
        .await
    }

    /// Releases the key, and checks that each execution was granted it. Not in which order: both end within moments, each by the response
    /// of the process that served it.
    async fn turns(
        &mut self,
        key: &str,
        held: &Handle,
        first: &str,
        second: Option<&str>,
    ) -> Step<()> {
        self.release(held).await?;
        for execution in std::iter::once(first).chain(second) {
            let described = self
                .until(execution, |described| described.status != "RUNNING")
                .await?;
            // A turn ends with the error that the state machine to start does not exist.
            let [name, why] = NOT_STARTED;
            if described.error != name || !described.cause.contains(why) {
                let Described { status, error, .. } = described;
                return Err(Outcome::fail(format!(
                    "{execution} did not get the lease: {status} {error}"
                )));
            }
            self.executions.retain(|one| one != execution);
        }
        let view = self.inspect(key).await?;
        if view
            .first()
            .is_some_and(|first| first.state == LeaseState::Free)
        {
            return Ok(());
        }
        Err(Outcome::fail("the key is not free after the last turn"))
    }
}

/// A failure of the queue says nothing about a redrive.
fn unless_failed(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Fail(_) => Outcome::not_checked("the queue failed"),
        other => other,
    }
}
