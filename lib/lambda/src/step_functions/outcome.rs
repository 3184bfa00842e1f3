//! What an execution came to, for a task that waits for it.

use std::time::Duration;

use aws_sdk_sfn::{
    operation::describe_execution::DescribeExecutionOutput,
    types::{CloudWatchEventsExecutionDataDetails, ExecutionStatus, IncludedData},
};
use leasehold::{Error, Failure, Holder, Outcome, stopwatch};

use super::{StepFunctions, within};
use crate::service_calls::{failed, is_one_of};

/// What the KMS key of a state machine refuses.
const NOT_READ: [&str; 3] = [
    "KmsAccessDeniedException",
    "KmsInvalidStateException",
    "AccessDeniedException",
];

impl StepFunctions {
    pub(super) async fn outcome_of(
        &self,
        execution: &Holder,
        limit: Duration,
    ) -> Result<(Option<String>, Outcome), Error> {
        let began = stopwatch();
        let mut included = IncludedData::AllData;
        loop {
            let call = self.client.describe_execution();
            let call = call.execution_arn(execution.as_str());
            let call = call.included_data(included.clone());
            let left = limit.saturating_sub(began.elapsed());
            match within(call.customize(), left).send().await {
                Ok(described) => {
                    let outcome = outcome(&described);
                    return Ok((described.input, outcome));
                }
                Err(error) if is_one_of(&error, &["ExecutionDoesNotExist", "InvalidArn"]) => {
                    return Ok((None, Outcome::Unknown));
                }
                // Its status is protected by no key. A role that may not look at all is refused once more.
                Err(error) if included == IncludedData::AllData && is_one_of(&error, &NOT_READ) => {
                    included = IncludedData::MetadataOnly;
                }
                Err(error) => {
                    let what = format!("execution {execution}");
                    return Err(failed("states:DescribeExecution", what, error));
                }
            }
        }
    }
}

fn outcome(described: &DescribeExecutionOutput) -> Outcome {
    let included = |details: Option<&CloudWatchEventsExecutionDataDetails>| {
        details.is_none_or(CloudWatchEventsExecutionDataDetails::included)
    };
    let is_read = described.input.is_some() && included(described.input_details());
    let otherwise = match described.status() {
        ExecutionStatus::Running | ExecutionStatus::PendingRedrive => return Outcome::Runs,
        _ if described.stop_date().is_none() => return Outcome::Runs,
        _ if !is_read => return Outcome::Ended(None),
        ExecutionStatus::Succeeded => {
            let output = described.output.clone();
            let output = output.filter(|_| included(described.output_details()));
            return Outcome::Ended(output.map(Ok));
        }
        ExecutionStatus::TimedOut => return failure("States.Timeout", described),
        ExecutionStatus::Aborted => return failure("Lease.Aborted", described),
        _ => "States.TaskFailed",
    };
    failure(described.error().unwrap_or(otherwise), described)
}

fn failure(error: &str, described: &DescribeExecutionOutput) -> Outcome {
    let cause = described.cause().unwrap_or_default();
    Outcome::Ended(Some(Err(Failure {
        error: error.to_owned(),
        cause: cause.to_owned(),
    })))
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::primitives::DateTime;

    use super::*;

    fn described(status: ExecutionStatus) -> DescribeExecutionOutput {
        let described = DescribeExecutionOutput::builder()
            .execution_arn("arn")
            .state_machine_arn("arn")
            .start_date(DateTime::from_secs(1))
            .stop_date(DateTime::from_secs(2))
            .input("{}")
            .status(status);
        described.build().expect("complete")
    }

    #[test]
    fn each_end_has_its_name() {
        let mut stopped = described(ExecutionStatus::Aborted);
        stopped.error = Some("Mine".to_owned());
        stopped.cause = Some("by hand".to_owned());
        let mut failed = described(ExecutionStatus::Failed);
        let nameless = failed.clone();
        failed.error = Some("Mine".to_owned());
        let mut succeeded = described(ExecutionStatus::Succeeded);
        succeeded.output = Some("[1]".to_owned());
        let mut unread = succeeded.clone();
        unread.input = None;
        let named = |error: &str, cause: &str| {
            Outcome::Ended(Some(Err(Failure {
                error: error.to_owned(),
                cause: cause.to_owned(),
            })))
        };
        for (described, expected) in [
            (succeeded, Outcome::Ended(Some(Ok("[1]".to_owned())))),
            (unread, Outcome::Ended(None)),
            (described(ExecutionStatus::Succeeded), Outcome::Ended(None)),
            (failed, named("Mine", "")),
            (nameless, named("States.TaskFailed", "")),
            (
                described(ExecutionStatus::TimedOut),
                named("States.Timeout", ""),
            ),
            (stopped, named("Lease.Aborted", "by hand")),
            (described(ExecutionStatus::PendingRedrive), Outcome::Runs),
        ] {
            assert_eq!(outcome(&described), expected, "{described:?}");
        }
    }
}
