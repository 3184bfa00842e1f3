//! AWS Lambda's durable functions: their executions wait with the id of a callback.

use std::{sync::OnceLock, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_lambda::{
    Client,
    client::customize::CustomizableOperation,
    config::{Builder, StalledStreamProtectionConfig},
    primitives::Blob,
    types::{ErrorObject, ExecutionStatus},
};
use aws_smithy_types::retry::RetryConfig;
use leasehold::{
    Answer, Call, Delivery, Engine, Error, Execution, Failure, Holder, Question, TaskToken,
};
use serde_json::Value;

use crate::service_calls::{CALL, delivered, failed, instant, is_one_of, timeouts};

/// Lambda's durable functions, through its API.
#[derive(Debug)]
pub struct DurableFunctions {
    ambient: SdkConfig,
    /// Made by the first call, because few stacks have such waiters.
    client: OnceLock<Client>,
}

impl DurableFunctions {
    /// From your own configuration, with pinned time limits and without retries.
    #[must_use]
    pub fn new(ambient: &SdkConfig) -> Self {
        Self {
            ambient: ambient.clone(),
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> &Client {
        self.client.get_or_init(|| {
            let config = Builder::from(&self.ambient)
                .retry_config(RetryConfig::disabled())
                .timeout_config(timeouts(CALL))
                .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
            Client::from_conf(config.build())
        })
    }
}

fn within<T, E, B>(
    operation: CustomizableOperation<T, E, B>,
    limit: Duration,
) -> CustomizableOperation<T, E, B> {
    operation.config_override(Builder::new().timeout_config(timeouts(limit)))
}

/// The id itself is a secret.
const A_CALLBACK: &str = "a callback";
/// The callback was answered, or timed out; or there is none with this id.
const REFUSALS: [&str; 3] = [
    "CallbackTimeoutException",
    "ResourceNotFoundException",
    "InvalidParameterValueException",
];

impl DurableFunctions {
    async fn succeed(
        &self,
        id: &TaskToken,
        output: String,
        limit: Duration,
    ) -> Result<Delivery, Error> {
        let call = self.client().send_durable_execution_callback_success();
        let call = call.callback_id(id.expose()).result(Blob::new(output));
        let sent = within(call.customize(), limit).send().await.map(drop);
        let action = "lambda:SendDurableExecutionCallbackSuccess";
        delivered(action, A_CALLBACK, sent, &REFUSALS)
    }

    /// The error type does not reach the code that waits, in any SDK. So the error's data are the whole error, as of a function that
    /// failed.
    async fn fail(
        &self,
        id: &TaskToken,
        Failure { error, cause }: Failure,
        limit: Duration,
    ) -> Result<Delivery, Error> {
        let object = ErrorObject::builder().error_type(error);
        let object = object.error_message(message(&cause).unwrap_or_default());
        let object = object.error_data(cause).build();
        let call = self.client().send_durable_execution_callback_failure();
        let call = call.callback_id(id.expose()).error(object);
        let sent = within(call.customize(), limit).send().await.map(drop);
        let action = "lambda:SendDurableExecutionCallbackFailure";
        delivered(action, A_CALLBACK, sent, &REFUSALS)
    }

    async fn describe(&self, execution: &Holder, limit: Duration) -> Result<Execution, Error> {
        let call = self.client().get_durable_execution();
        // Without input and result, because a KMS key may protect them.
        let call = call.include_execution_data(false);
        let call = call.durable_execution_arn(execution.as_str());
        match within(call.customize(), limit).send().await {
            Ok(described) => Ok(match (described.status(), described.end_timestamp()) {
                (status, _) if !has_ended(status) => Execution::Running,
                // That it is being deleted does not say when it ended.
                (_, None) => Execution::Unknown,
                (status, Some(ended)) => Execution::Ended {
                    stopped_at: instant(ended),
                    // Nobody redrives it. But with this a lease with a deadline is cut, as after any end but success.
                    redrivable: *status != ExecutionStatus::Succeeded,
                    // After a stop or a timeout, an invocation goes on to its next checkpoint. Only a handler that has returned
                    // is known to do nothing more.
                    all_answered: *status == ExecutionStatus::Succeeded,
                },
            }),
            Err(error) if is_one_of(&error, &["ResourceNotFoundException"]) => {
                Ok(Execution::Unknown)
            }
            Err(error) => {
                let what = format!("execution {execution}");
                Err(failed("lambda:GetDurableExecution", what, error))
            }
        }
    }
}

impl DurableFunctions {
    /// What it answers; of how executions stand only if it looks.
    pub(crate) async fn answer<const LOOKS: bool>(
        &self,
        question: Question,
        limit: Duration,
    ) -> Result<Answer, Error> {
        Ok(match question {
            Question::Succeed(_, id, output) => self.succeed(&id, output, limit).await?.into(),
            Question::Fail(_, id, failure) => self.fail(&id, failure, limit).await?.into(),
            Question::Describe(execution) if LOOKS => {
                self.describe(&execution, limit).await?.into()
            }
            other => return other.unknown(),
        })
    }
}

/// A durable execution is started and stopped by others, and cannot be redriven.
impl Engine for DurableFunctions {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        Box::pin(self.answer::<true>(question, limit))
    }
}

/// What a cause says to people.
fn message(cause: &str) -> Option<String> {
    let error: Value = serde_json::from_str(cause).ok()?;
    let told: Value = serde_json::from_str(error["errorMessage"].as_str()?).ok()?;
    told["message"].as_str().map(str::to_owned)
}

/// One that pauses may go on, and so may one of a status that is not known here.
fn has_ended(status: &ExecutionStatus) -> bool {
    ["SUCCEEDED", "FAILED", "TIMED_OUT", "STOPPED", "DELETING"].contains(&status.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paused_or_unknown_has_not_ended() {
        for status in ["RUNNING", "PAUSING", "PAUSED", "SOMETHING_NEW"] {
            assert!(!has_ended(&ExecutionStatus::from(status)), "{status}");
        }
        for status in ["SUCCEEDED", "FAILED", "TIMED_OUT", "STOPPED", "DELETING"] {
            assert!(has_ended(&ExecutionStatus::from(status)), "{status}");
        }
    }

    #[test]
    fn failure_carries_the_message() {
        let cause = r#"{"errorType": "Lease.QueueTimeout", "errorMessage": "{\"message\": \"too late\", \"key\": \"k\"}"}"#;
        assert_eq!(message(cause).as_deref(), Some("too late"));
        assert_eq!(message("no JSON"), None);
    }
}
