//! The services that run executions: which of them a call goes to, the ARN of the execution says.

use std::time::Duration;

use aws_config::SdkConfig;
#[cfg(feature = "https-client")]
use leasehold::Connection;
use leasehold::{
    Begun, Call, Delivery, Error, Execution, ExecutionName, GrantOf, Holder, Outcome, Receipt,
    Redrives, StateMachineArn, WaiterOf, Workflows,
};

#[cfg(feature = "durable-functions")]
use crate::DurableFunctions;
use crate::StepFunctions;

/// Calls the service that runs an execution. Not by `dyn`, so that what a function never calls is not linked.
/// Without the client of Lambda, Step Functions gets all calls, and refuses executions of others.
macro_rules! ask {
    ($services:expr, $execution:expr, $call:ident($($argument:expr),*)) => {{
        #[cfg(feature = "durable-functions")]
        if $execution.is_durable_execution() {
            return $services.durable_functions.$call($($argument),*);
        }
        $services.step_functions.$call($($argument),*)
    }};
}

/// The same for what a function that never looks does not call: its role does not allow it, and the code that reads the response is
/// not linked.
macro_rules! look {
    ($services:expr, $execution:expr, $call:ident($($argument:expr),*)) => {{
        if LOOKS {
            return ask!($services, $execution, $call($($argument),*));
        }
        never_looks()
    }};
}

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

impl<const LOOKS: bool> Workflows for ExecutionServices<LOOKS> {
    fn succeed<'a>(
        &'a self,
        to: WaiterOf<'a>,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        ask!(self, to.0, succeed(to, output, limit))
    }

    fn fail<'a>(
        &'a self,
        to: WaiterOf<'a>,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        ask!(self, to.0, fail(to, error, cause, limit))
    }

    fn waits<'a>(&'a self, who: WaiterOf<'a>, limit: Duration) -> Call<'a, bool> {
        ask!(self, who.0, waits(who, limit))
    }

    fn describe_execution<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Execution> {
        if LOOKS {
            return ask!(self, execution, describe_execution(execution, limit));
        }
        // Before a start begins that stops with its caller, which waits in Step Functions.
        self.step_functions.describe_execution(execution, limit)
    }

    fn running<'a>(
        &'a self,
        machine: &'a StateMachineArn,
        limit: Duration,
    ) -> Call<'a, Vec<Holder>> {
        if LOOKS {
            return self.step_functions.running(machine, limit);
        }
        never_looks()
    }

    fn received<'a>(&'a self, grant: GrantOf<'a>, limit: Duration) -> Call<'a, Receipt> {
        look!(self, grant.0, received(grant, limit))
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
        look!(self, execution, redrives(execution, limit))
    }

    fn stop_redriven<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        if LOOKS {
            return self.step_functions.stop_redriven(execution, cause, limit);
        }
        never_looks()
    }

    fn stop_called<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        if LOOKS {
            return self.step_functions.stop_called(execution, cause, limit);
        }
        never_looks()
    }

    fn outcome<'a>(&'a self, execution: &'a Holder, limit: Duration) -> Call<'a, Outcome> {
        self.step_functions.outcome(execution, limit)
    }

    fn execution_input<'a>(
        &'a self,
        execution: &'a Holder,
        limit: Duration,
    ) -> Call<'a, Option<String>> {
        self.step_functions.execution_input(execution, limit)
    }
}

fn never_looks<'a, T: Send + 'a>() -> Call<'a, T> {
    Box::pin(std::future::ready(Err(Error::Misconfigured {
        problem:
            "this function cannot ask how executions stand: serve it by a `Function` with `that_looks`"
                .to_owned(),
        source: None,
    })))
}
