//! The services that run executions: which of them a call goes to, the ARN of the execution says.

use std::time::Duration;

use aws_config::SdkConfig;
#[cfg(feature = "https-client")]
use leasehold::Connection;
use leasehold::{Answer, Call, Engine, Question};

#[cfg(feature = "durable-functions")]
use crate::DurableFunctions;
use crate::StepFunctions;

/// Step Functions and Lambda's durable functions. Executions are started and stopped in Step Functions only. Without `LOOKS` it
/// notifies waiters and starts executions, and asks of nobody how it stands but of the caller of a start.
#[derive(Debug)]
pub struct ExecutionServices<const LOOKS: bool = true> {
    step_functions: StepFunctions,
    #[cfg(feature = "durable-functions")]
    durable_functions: DurableFunctions,
}

impl ExecutionServices {
    /// The ambient configuration (Region, credentials chain, `AWS_ENDPOINT_URL_SFN`, `AWS_ENDPOINT_URL_LAMBDA` …) with pinned time
    /// limits and without retries.
    #[cfg(feature = "https-client")]
    pub async fn from_env() -> Self {
        Self::new(&Connection::ambient().await)
    }

    /// From your own configuration, with pinned time limits and without retries.
    #[must_use]
    pub fn new(ambient: &SdkConfig) -> Self {
        Self::of(ambient)
    }
}

impl<const LOOKS: bool> ExecutionServices<LOOKS> {
    pub(crate) fn of(ambient: &SdkConfig) -> Self {
        Self {
            step_functions: StepFunctions::new(ambient),
            #[cfg(feature = "durable-functions")]
            durable_functions: DurableFunctions::new(ambient),
        }
    }
}

impl<const LOOKS: bool> Engine for ExecutionServices<LOOKS> {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        // Without the client of Lambda, Step Functions gets all questions, and refuses executions of others.
        #[cfg(feature = "durable-functions")]
        if let Question::Succeed(who, ..)
        | Question::Fail(who, ..)
        | Question::Waits(who, ..)
        | Question::Describe(who)
        | Question::Received(who, ..)
        | Question::Redrives(who) = &question
            && who.is_durable_execution()
            && (LOOKS || question.is_of_a_waiter())
        {
            return Box::pin(self.durable_functions.answer::<LOOKS>(question, limit));
        }
        Box::pin(self.step_functions.answer::<LOOKS>(question, limit))
    }
}
