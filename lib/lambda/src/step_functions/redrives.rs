//! Executions that were redriven, and how any execution is stopped.

use std::time::Duration;

use aws_sdk_sfn::types::{ExecutionRedriveStatus, ExecutionStatus, IncludedData};
use leasehold::{Error, Holder, Redrives, Stands};

use super::{NOT_KNOWN, StepFunctions, within};
use crate::service_calls::{failed, instant, is_one_of};

impl StepFunctions {
    pub(super) async fn redrives_of(
        &self,
        execution: &Holder,
        limit: Duration,
    ) -> Result<Option<Redrives>, Error> {
        let call = self.client.describe_execution();
        let call = call.execution_arn(execution.as_str());
        let call = call.included_data(IncludedData::MetadataOnly);
        match within(call.customize(), limit).send().await {
            Ok(described) => Ok(Some(Redrives {
                stands: match (described.status(), described.redrive_status()) {
                    (ExecutionStatus::Running | ExecutionStatus::PendingRedrive, _) => Stands::Runs,
                    (_, Some(ExecutionRedriveStatus::NotRedrivable)) => Stands::Final,
                    _ => Stands::Redrivable,
                },
                count: described
                    .redrive_count()
                    .and_then(|count| count.try_into().ok())
                    .unwrap_or_default(),
                at: described.redrive_date().map(instant),
            })),
            Err(error) if is_one_of(&error, &NOT_KNOWN) => Ok(None),
            Err(error) => {
                let what = format!("execution {execution}");
                Err(failed("states:DescribeExecution", what, error))
            }
        }
    }

    /// False if no such execution is known.
    pub(super) async fn stop(
        &self,
        execution: &Holder,
        error: &str,
        cause: String,
        limit: Duration,
    ) -> Result<bool, Error> {
        let call = self.client.stop_execution();
        let call = call.execution_arn(execution.as_str());
        let call = call.error(error).cause(cause);
        match within(call.customize(), limit).send().await {
            Ok(_) => Ok(true),
            Err(error) if is_one_of(&error, &["ExecutionDoesNotExist"]) => Ok(false),
            Err(error) => {
                let what = format!("execution {execution}");
                Err(failed("states:StopExecution", what, error))
            }
        }
    }
}
