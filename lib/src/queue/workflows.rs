//! The workflow engine: it notifies a waiter that was granted the key, and knows whether an execution is still running.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    start::{ExecutionName, StateMachineArn},
    values::{Holder, LeaseId, TaskToken},
};

/// The future of a call to [`Workflows`].
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The outcome of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The waiter received it and continues.
    Delivered,
    /// Nobody waits with this token: the task has ended or timed out, or the token was never valid.
    Refused,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// It runs, or is about to run again.
    Running,
    /// It has ended, in success or failure.
    Ended {
        /// When it ended, by the service's clock.
        stopped_at: Timestamp,
        /// Whether it may have been redriven since, which the response may not show yet. An execution that succeeded
        /// cannot be redriven.
        redrivable: bool,
        /// Whether its history shows that nothing it started can still be at work: every task has answered. False if
        /// that is not certain.
        all_answered: bool,
    },
    /// No such execution is known, or the holder is not an execution.
    Unknown,
}

/// How an execution stands whose result somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No such execution is known.
    Unknown,
    /// It runs, or is about to run again.
    Runs,
    /// It has ended, and the service does not show yet with what.
    Incomplete,
    /// It has ended, with this output or this failure; none if they may not be read.
    Ended(Option<Result<String, Failure>>),
}

/// How an execution failed, was stopped, or timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the error.
    pub error: String,
    /// Its cause.
    pub cause: String,
}

/// Whether an execution received a lease through a task token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Its history shows the lease in what a task was answered.
    Shown,
    /// It does not.
    Missing {
        /// Whether a task waits with a token.
        waits: bool,
    },
    /// Its history cannot be read.
    Unreadable,
}

/// How an execution stands as to redrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It runs, or is about to run again.
    Runs,
    /// It has ended, and may be redriven.
    Redrivable,
    /// It has ended, and cannot be redriven any more.
    Final,
}

/// What the engine says of an execution's redrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redrives {
    /// How it stands.
    pub stands: Stands,
    /// How often it was redriven.
    pub count: u32,
    /// When that was last.
    pub at: Option<Timestamp>,
}

impl Redrives {
    /// Of an engine that redrives nothing.
    pub const NEVER: Self = Self {
        stands: Stands::Final,
        count: 0,
        at: None,
    };
}

/// The response to a call that starts an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It runs: this call began it, or an earlier one with the same name and input.
    Began,
    /// There is, or was, an execution of this name that cannot be known to be the same.
    NameInUse,
    /// Nothing was started, and the same call would be refused again: for this reason.
    Refused(String),
}

/// Who waits, and the token by which it is notified.
pub type WaiterOf<'a> = (&'a Holder, &'a TaskToken);

/// A grant: its holder, its lease id, and when it was granted.
pub type GrantOf<'a> = (&'a Holder, &'a LeaseId, Timestamp);

/// The workflow engine. Step Functions is one; a program whose waiters are threads or tasks can implement its own.
///
/// An error leaves open whether the call arrived. The library then repeats the call sooner or later, and the second
/// one must return [`Delivery::Refused`] if the first arrived. An implementation must not repeat a call by itself:
/// after a single call, a refusal shows that nobody waits.
pub trait Workflows: Send + Sync {
    /// Ends the wait of an execution, successfully: `output` is the JSON of what it waited for.
    fn succeed<'a>(
        &'a self,
        to: WaiterOf<'a>,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery>;

    /// Ends the wait of an execution, with this error.
    fn fail<'a>(
        &'a self,
        to: WaiterOf<'a>,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery>;

    /// Whether somebody waits with this token, as far as the engine knows now: one that has been answered, or whose attempt has ended, nobody
    /// waits with. An engine that cannot say so need not implement it: then of two calls of a request that comes later counts.
    fn waits<'a>(&'a self, who: WaiterOf<'a>, limit: Duration) -> Call<'a, bool> {
        let _ = (who, limit);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// The state of an execution. The response may be some seconds old.
    fn describe_execution<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Execution>;

    /// Which executions of this machine run, as far as one answer shows them: one that it lacks may run all the same. The response may be
    /// half a minute old. An engine that cannot list them need not implement it: then each is looked up.
    fn running<'a>(
        &'a self,
        machine: &'a StateMachineArn,
        limit: Duration,
    ) -> Call<'a, Vec<Holder>> {
        let _ = (machine, limit);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Whether the holder of a grant received it through a task token. The response may be half a minute old. An engine
    /// that cannot say so need not implement it: then a lease of which its holder never learned ends with the execution.
    fn received<'a>(&'a self, grant: GrantOf<'a>, limit: Duration) -> Call<'a, Receipt> {
        let _ = (grant, limit);
        Box::pin(std::future::ready(Ok(Receipt::Unreadable)))
    }

    /// Starts an execution of this machine under this name, once for each name. An engine that starts nothing need not
    /// implement it.
    fn start_execution<'a>(
        &'a self,
        what: (&'a StateMachineArn, &'a ExecutionName),
        input: String,
        limit: Duration,
    ) -> Call<'a, Begun> {
        let _ = (what, input, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }

    /// Stops an execution, for this reason; one that has ended stays as it is. False if no such execution is known, which may be
    /// half a minute old. An engine that starts nothing need not implement it.
    fn stop_execution<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        let _ = (execution, cause, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }

    /// How an execution stands as to redrives; none if no such execution is known. The response may be half a minute old. An engine
    /// that redrives nothing need not implement it.
    fn redrives<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Option<Redrives>> {
        let _ = (execution, limit);
        Box::pin(std::future::ready(Ok(Some(Redrives::NEVER))))
    }

    /// As [`Workflows::stop_execution`], for an execution that was redriven without its key. An engine that redrives nothing need not
    /// implement it.
    fn stop_redriven<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        let _ = (execution, cause, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }

    /// As [`Workflows::stop_execution`], for an execution that was to stop with its caller. An engine that starts nothing need not
    /// implement it.
    fn stop_called<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        let _ = (execution, cause, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }

    /// How an execution stands, and what it came to. The response may be half a minute old. An engine that starts nothing need not
    /// implement it.
    fn outcome<'a>(&'a self, execution: &'a Holder, limit: Duration) -> Call<'a, Outcome> {
        let _ = (execution, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }

    /// The input of an execution, or none if no such execution is known. The response may be half a minute old.
    fn execution_input<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Option<String>> {
        let _ = (execution, limit);
        Box::pin(std::future::ready(Err(starts_nothing())))
    }
}

fn starts_nothing() -> Error {
    Error::Misconfigured {
        problem: "this workflow engine starts no executions".to_owned(),
        source: None,
    }
}

impl std::fmt::Debug for dyn Workflows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workflows")
    }
}
