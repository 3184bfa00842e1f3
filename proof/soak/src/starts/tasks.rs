//! Tasks that wait for the results of starts: each is of an execution that waits for nothing else, and ends when it is told, or before.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use leasehold_proof::fake_step_functions::StepFunctionsCall;
use serde_json::{Value, json};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::name_of;
use crate::context::Context;
use crate::history::{Micros, StartAsked};
use crate::late_waiters::SWEEPS_TO_TELL;
use crate::watch::sleep_ms;

/// A task as it is drawn: in every so many of the starts that may have one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    /// Its execution ends after so many milliseconds, whatever has become of the start.
    pub(super) ends_after: Option<u64>,
}

impl Drawn {
    /// An execution that proves its lease is not stopped before its proof.
    pub(super) fn draw(rng: &mut Rng, may_be_stopped: bool) -> Option<Self> {
        let ends_after = (may_be_stopped && rng.u64(..5) == 0).then(|| rng.u64(200..=3000));
        (rng.u64(..3) == 0).then_some(Self { ends_after })
    }
}

/// The task of a start.
#[derive(Debug)]
pub struct Task {
    /// The execution that it waits for.
    pub start: String,
    /// Its own execution.
    pub caller: String,
    /// When that ends, if not with the answer.
    pub ends_at: Option<Micros>,
    /// When that has ended so.
    pub left: Option<Micros>,
    /// The answer, and by when it had come.
    pub told: Option<(Told, Micros)>,
    /// The other end of its task token.
    pub waiting: Receiver<StepFunctionsCall>,
}

/// What a task was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The start is skipped.
    Skipped,
    /// The execution has succeeded.
    Output,
    /// This error.
    Error(String),
}

impl Told {
    fn of(call: &StepFunctionsCall) -> Self {
        if call.operation != "SendTaskSuccess" {
            let error = call.body["error"].as_str().unwrap_or_default();
            return Self::Error(error.to_owned());
        }
        let output: Value = serde_json::from_str(call.output()).unwrap_or_default();
        if output["leasehold"]["outcome"] == "skipped" {
            Self::Skipped
        } else {
            Self::Output
        }
    }
}

/// The task of this start waits from here on, and the start's request says so.
pub(super) fn wait(context: &Context, asked: &mut StartAsked, drawn: Drawn) {
    let name = name_of(&asked.execution);
    let caller = asked
        .execution
        .replacen(":started:", ":waits-for-a-result:", 1);
    let token = format!("the task that waits for {name}");
    asked.request["task_token"] = json!(token);
    asked.request["stop_with_caller"] = true.into();
    asked.request["caller"] = json!(caller);
    asked.leaves = drawn.ends_after.is_some();
    asked.is_certain &= !asked.leaves;
    let waiting = context.fixture.step_functions.wait(&caller, &token);
    let now = context.watch.now();
    let mut history = context.history();
    history.secrets.insert(token);
    history.tasks.push(Task {
        start: asked.execution.clone(),
        caller,
        ends_at: drawn.ends_after.map(|after| now + after * 1000),
        left: None,
        told: None,
        waiting,
    });
}

/// Ends the executions whose time has come, and hears who was told; whether anybody waits still.
pub(super) fn hear(context: &Context) -> bool {
    let service = &context.fixture.step_functions;
    let mut anybody = false;
    let mut history = context.history();
    let waiting = history.tasks.iter_mut();
    for task in waiting.filter(|task| task.told.is_none() && task.left.is_none()) {
        let heard = task.waiting.try_recv();
        let now = context.watch.now();
        match heard {
            Ok(call) => {
                task.told = Some((Told::of(&call), now));
                service.end(&task.caller, "SUCCEEDED");
            }
            Err(TryRecvError::Empty) if task.ends_at.is_some_and(|at| at <= now) => {
                task.left = Some(now);
                task.waiting.close();
                service.end(&task.caller, "FAILED");
            }
            Err(_) => anybody = true,
        }
    }
    anybody
}

/// Until everybody was told, or as many sweeps have come to their end as tell, and as much time has passed as an execution takes.
pub async fn are_told(context: &Context) {
    const ENDS_WITHIN: Duration = Duration::from_secs(20);
    let enough = context.swept.load(Ordering::Acquire) + SWEEPS_TO_TELL;
    let since = Instant::now();
    while hear(context)
        && (since.elapsed() < ENDS_WITHIN || context.swept.load(Ordering::Acquire) < enough)
    {
        sleep_ms(100).await;
    }
}
