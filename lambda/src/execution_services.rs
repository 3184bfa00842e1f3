//! The services that run executions: which of them a call goes to, the ARN of the execution says.

use std::time::Duration;

use aws_config::SdkConfig;
use leasehold::{
    Begun, Call, Connection, Delivery, Execution, ExecutionName, GrantOf, Holder, Receipt,
    Redrives, StateMachineArn, WaiterOf, Workflows,
};

use crate::{DurableFunctions, StepFunctions};

/// Step Functions and Lambda's durable functions. Executions are started and stopped in Step Functions only.
#[derive(Debug)]
pub struct ExecutionServices {
    step_functions: StepFunctions,
    durable_functions: DurableFunctions,
}

impl ExecutionServices {
    /// The ambient configuration (Region, credentials chain, `AWS_ENDPOINT_URL_SFN`, `AWS_ENDPOINT_URL_LAMBDA` …) with pinned time
    /// limits and without retries.
    pub async fn from_env() -> Self {
        Self::new(&Connection::ambient().await)
    }

    /// From your own configuration, with pinned time limits and without retries.
    #[must_use]
    pub fn new(ambient: &SdkConfig) -> Self {
        Self {
            step_functions: StepFunctions::new(ambient),
            durable_functions: DurableFunctions::new(ambient),
        }
    }
}

impl Workflows for ExecutionServices {
    fn succeed<'a>(
        &'a self,
        to: WaiterOf<'a>,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        if to.0.is_durable_execution() {
            self.durable_functions.succeed(to, output, limit)
        } else {
            self.step_functions.succeed(to, output, limit)
        }
    }

    fn fail<'a>(
        &'a self,
        to: WaiterOf<'a>,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        if to.0.is_durable_execution() {
            self.durable_functions.fail(to, error, cause, limit)
        } else {
            self.step_functions.fail(to, error, cause, limit)
        }
    }

    fn describe_execution<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Execution> {
        if execution.is_durable_execution() {
            self.durable_functions.describe_execution(execution, limit)
        } else {
            self.step_functions.describe_execution(execution, limit)
        }
    }

    fn received<'a>(&'a self, grant: GrantOf<'a>, limit: Duration) -> Call<'a, Receipt> {
        if grant.0.is_durable_execution() {
            self.durable_functions.received(grant, limit)
        } else {
            self.step_functions.received(grant, limit)
        }
    }

    fn start_execution<'a>(
        &'a self,
        what: (&'a StateMachineArn, &'a ExecutionName),
        input: String,
        limit: Duration,
    ) -> Call<'a, Begun> {
        self.step_functions.start_execution(what, input, limit)
    }

    fn stop_execution<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        self.step_functions.stop_execution(execution, cause, limit)
    }

    /// A durable execution cannot be redriven.
    fn redrives<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Option<Redrives>> {
        if execution.is_durable_execution() {
            self.durable_functions.redrives(execution, limit)
        } else {
            self.step_functions.redrives(execution, limit)
        }
    }

    fn stop_redriven<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        self.step_functions.stop_redriven(execution, cause, limit)
    }

    fn execution_input<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Option<String>> {
        self.step_functions.execution_input(execution, limit)
    }
}
