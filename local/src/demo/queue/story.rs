//! An execution as its history tells it: the engine's own record, which knows nothing of leases.

use aws_sdk_sfn::error::DisplayErrorContext;
use aws_sdk_sfn::types::{
    HistoryEvent, HistoryEventType as Type, StateEnteredEventDetails, StateExitedEventDetails,
};
use leasehold_local::Error;

/// When what happened, in milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Story {
    /// Acquire was entered for the first time.
    pub(super) asked: Option<u64>,
    /// How often it was entered.
    pub(super) waits: usize,
    /// Acquire was left: its turn had come.
    pub(super) woken: Option<u64>,
    /// Confirm was left: it had the lease.
    pub(super) confirmed: Option<u64>,
    /// Release was entered.
    pub(super) released: Option<u64>,
    pub(super) ended: Option<u64>,
    /// How it ended, as in `DescribeExecution`; empty if it did not.
    pub(super) status: String,
}

impl Story {
    /// Asks the engine for the history of an execution.
    pub(super) async fn ask(sfn: &aws_sdk_sfn::Client, arn: &str) -> Result<Self, Error> {
        let pages = sfn.get_execution_history().execution_arn(arn);
        let events = pages.into_paginator().items().send();
        let events: Result<Vec<_>, _> = events.collect().await;
        let events = events.map_err(|error| Error::Call {
            what: "GetExecutionHistory".to_owned(),
            message: DisplayErrorContext(&error).to_string(),
        })?;
        let mut story = Self::default();
        for event in &events {
            story.add(event);
        }
        Ok(story)
    }

    fn add(&mut self, event: &HistoryEvent) {
        let at = event.timestamp().to_millis().ok();
        let at = at.and_then(|at| u64::try_from(at).ok());
        let entered = event.state_entered_event_details();
        let exited = event.state_exited_event_details();
        let entered = entered.map(StateEnteredEventDetails::name);
        let exited = exited.map(StateExitedEventDetails::name);
        match (entered, exited) {
            (Some("Acquire"), _) => {
                self.asked = self.asked.or(at);
                self.waits += 1;
            }
            (Some("Release"), _) => self.released = at,
            (_, Some("Acquire")) => self.woken = at,
            (_, Some("Confirm")) => self.confirmed = self.confirmed.or(at),
            _ => {}
        }
        let status = match event.r#type() {
            Type::ExecutionSucceeded => "SUCCEEDED",
            Type::ExecutionFailed => "FAILED",
            Type::ExecutionAborted => "ABORTED",
            Type::ExecutionTimedOut => "TIMED_OUT",
            _ => return,
        };
        status.clone_into(&mut self.status);
        self.ended = at;
    }
}
