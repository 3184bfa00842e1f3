//! Status events of executions, from `EventBridge`.

use leasehold::{Error, Holder};

use crate::{Event, FromEvent, Names, Request, json::text};

const REQUIRED: &str =
    "is required: a Step Functions Execution Status Change, or a Durable Execution Status Change";

/// A status event of an execution, of Step Functions or of a durable function.
#[derive(Debug)]
pub struct ExecutionEvent {
    execution: Holder,
    /// According to the event, which is a hint.
    has_ended: bool,
    runs: bool,
}

impl ExecutionEvent {
    /// The execution, if it has ended according to the event.
    #[must_use]
    pub fn ended(self) -> Option<Holder> {
        self.has_ended.then_some(self.execution)
    }

    /// The execution, if it runs according to the event: for the first time, or again.
    #[must_use]
    pub fn running(&self) -> Option<&Holder> {
        self.runs.then_some(&self.execution)
    }
}

impl FromEvent for ExecutionEvent {
    const WHOLE_TABLE: bool = true;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        let detail = |name: &str| text(event.0, &format!("/detail/{name}"));
        let invalid = |field: &str, problem: &str| Error::invalid(field, problem);
        let (field, execution) = [
            ("detail.executionArn", detail("executionArn")),
            ("detail.durableExecutionArn", detail("durableExecutionArn")),
        ]
        .into_iter()
        .find_map(|(field, arn)| Some((field, arn?)))
        .ok_or_else(|| invalid("detail.executionArn", REQUIRED))?;
        let execution = Holder::new(execution).map_err(|problem| Error::invalid(field, problem))?;
        let status = detail("status").ok_or_else(|| invalid("detail.status", REQUIRED))?;
        let has_ended = match status {
            "RUNNING" | "PENDING_REDRIVE" | "PAUSING" | "PAUSED" => false,
            "SUCCEEDED" | "FAILED" | "ABORTED" | "STOPPED" | "TIMED_OUT" => true,
            _ => return Err(invalid("detail.status", "is not a known status")),
        };
        Ok(Self {
            execution,
            has_ended,
            runs: status == "RUNNING",
        })
    }
}

/// The function handles the whole table, so it has no boundary.
impl Request for ExecutionEvent {
    fn names(&self) -> Names<'_> {
        Names::default()
    }
}
