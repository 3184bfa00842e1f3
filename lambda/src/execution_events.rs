//! Status events of executions, from `EventBridge`.

use leasehold::{Error, Holder};

use crate::{Event, FromEvent, Names, Request, json::text};

/// A status event of an execution.
#[derive(Debug)]
pub struct ExecutionEvent {
    execution: Holder,
    /// According to the event, which is a hint.
    has_ended: bool,
}

impl ExecutionEvent {
    /// The execution, if it has ended according to the event.
    #[must_use]
    pub fn ended(self) -> Option<Holder> {
        self.has_ended.then_some(self.execution)
    }
}

impl FromEvent for ExecutionEvent {
    const WHOLE_TABLE: bool = true;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        let detail = |name: &str| {
            let required = || {
                let field = format!("detail.{name}");
                Error::invalid(
                    &field,
                    "is required: a Step Functions Execution Status Change",
                )
            };
            text(event.0, &format!("/detail/{name}")).ok_or_else(required)
        };
        let execution = Holder::new(detail("executionArn")?)
            .map_err(|problem| Error::invalid("detail.executionArn", problem))?;
        let has_ended = match detail("status")? {
            "RUNNING" | "PENDING_REDRIVE" => false,
            "SUCCEEDED" | "FAILED" | "ABORTED" | "TIMED_OUT" => true,
            _ => return Err(Error::invalid("detail.status", "is not a known status")),
        };
        Ok(Self {
            execution,
            has_ended,
        })
    }
}

/// The function handles the whole table, so it has no boundary.
impl Request for ExecutionEvent {
    fn names(&self) -> Names<'_> {
        Names::default()
    }
}
