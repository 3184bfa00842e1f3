//! What an execution came to, for a task that waits for it: the last event of its history says it, and says all of it at once.

use std::time::Duration;

use aws_sdk_sfn::types::{
    HistoryEvent, HistoryEventExecutionDataDetails, HistoryEventType as Event,
};
use leasehold::{Error, Execution, Failure, Holder, Outcome, stopwatch};

use super::{NOT_DECRYPTED, NOT_KNOWN, NOT_READ, StepFunctions, history};
use crate::service_calls::{failed, is_one_of};

impl StepFunctions {
    pub(super) async fn outcome_of(
        &self,
        execution: &Holder,
        limit: Duration,
    ) -> Result<Outcome, Error> {
        let began = stopwatch();
        let left = || limit.saturating_sub(began.elapsed());
        let mut with_data = true;
        loop {
            let error = match self.last_event(execution, with_data, left()).await {
                Ok(last) => {
                    return Ok(last.map_or(Outcome::Runs, |last| outcome(&last, with_data)));
                }
                Err(error) => error,
            };
            if is_one_of(&error, &NOT_KNOWN) {
                return Ok(Outcome::Unknown);
            }
            // A role that may not read any history is refused once more.
            if with_data && is_one_of(&error, &NOT_READ) {
                with_data = false;
                continue;
            }
            if is_one_of(&error, &NOT_DECRYPTED) {
                // Its status is protected by no key.
                return Ok(match self.described(execution, None, left()).await? {
                    Execution::Running => Outcome::Runs,
                    Execution::Ended { .. } => Outcome::Ended(None),
                    Execution::Unknown => Outcome::Unknown,
                });
            }
            let what = format!("execution {execution}");
            return Err(failed("states:GetExecutionHistory", what, error));
        }
    }
}

/// What this event says, if it is the last one.
fn outcome(last: &HistoryEvent, with_data: bool) -> Outcome {
    if history::end(last.r#type()).is_none() {
        return Outcome::Runs;
    }
    if !with_data {
        return Outcome::Ended(None);
    }
    let (error, cause) = match last.r#type() {
        Event::ExecutionSucceeded => {
            let details = last.execution_succeeded_event_details();
            let is_left_out = details
                .and_then(|details| details.output_details())
                .is_some_and(HistoryEventExecutionDataDetails::truncated);
            return match details.and_then(|details| details.output()) {
                _ if is_left_out => Outcome::Ended(None),
                Some(output) => Outcome::Ended(Some(Ok(output.to_owned()))),
                None => Outcome::Incomplete,
            };
        }
        Event::ExecutionTimedOut => {
            let details = last.execution_timed_out_event_details();
            (
                "States.Timeout",
                details.and_then(|details| details.cause()),
            )
        }
        Event::ExecutionAborted => {
            let details = last.execution_aborted_event_details();
            ("Lease.Aborted", details.and_then(|details| details.cause()))
        }
        _ => {
            let details = last.execution_failed_event_details();
            let error = details.and_then(|details| details.error());
            (
                error.unwrap_or("States.TaskFailed"),
                details.and_then(|details| details.cause()),
            )
        }
    };
    Outcome::Ended(Some(Err(Failure {
        error: error.to_owned(),
        cause: cause.unwrap_or_default().to_owned(),
    })))
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::types::{
        ExecutionAbortedEventDetails, ExecutionFailedEventDetails, ExecutionSucceededEventDetails,
    };
    use aws_smithy_types::DateTime;

    use super::*;

    #[test]
    fn each_end_has_its_name() {
        let event = |kind: Event| {
            let event = HistoryEvent::builder().timestamp(DateTime::from_secs(1));
            event.r#type(kind).id(1).build().expect("complete")
        };
        let succeeded = |output: Option<&str>, truncated| {
            let details = HistoryEventExecutionDataDetails::builder();
            let details = ExecutionSucceededEventDetails::builder()
                .set_output(output.map(str::to_owned))
                .output_details(details.truncated(truncated).build());
            let mut event = event(Event::ExecutionSucceeded);
            event.execution_succeeded_event_details = Some(details.build());
            event
        };
        let mut failed = event(Event::ExecutionFailed);
        let details = ExecutionFailedEventDetails::builder();
        failed.execution_failed_event_details = Some(details.error("Mine").build());
        let mut stopped = event(Event::ExecutionAborted);
        let details = ExecutionAbortedEventDetails::builder().error("Mine");
        stopped.execution_aborted_event_details = Some(details.cause("by hand").build());
        let named = |error: &str, cause: &str| {
            Outcome::Ended(Some(Err(Failure {
                error: error.to_owned(),
                cause: cause.to_owned(),
            })))
        };
        let (read, unread) = (true, false);
        for (last, with_data, expected) in vec![
            (
                succeeded(Some("[1]"), false),
                read,
                Outcome::Ended(Some(Ok("[1]".to_owned()))),
            ),
            (succeeded(None, false), read, Outcome::Incomplete),
            (event(Event::ExecutionSucceeded), read, Outcome::Incomplete),
            (succeeded(None, true), read, Outcome::Ended(None)),
            (succeeded(None, false), unread, Outcome::Ended(None)),
            (failed, read, named("Mine", "")),
            (
                event(Event::ExecutionFailed),
                read,
                named("States.TaskFailed", ""),
            ),
            (
                event(Event::ExecutionTimedOut),
                read,
                named("States.Timeout", ""),
            ),
            (stopped, read, named("Lease.Aborted", "by hand")),
            (event(Event::ExecutionRedriven), read, Outcome::Runs),
            (event(Event::TaskStateExited), unread, Outcome::Runs),
        ] {
            assert_eq!(outcome(&last, with_data), expected, "{last:?}");
        }
    }
}
