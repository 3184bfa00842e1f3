//! Step Functions, for the commands that start, stop or redrive an execution.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::operation::stop_execution::StopExecutionError;
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold::{Answer, Call, Engine, Error, Holder, Question, StopFor};
use leasehold_lambda::StepFunctions;

use crate::connect::TableClient;
use crate::environment;
use crate::exit::{Code, Failure};

/// Between two questions about the same thing.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The client.
pub(crate) fn client(table_client: &TableClient) -> Result<Client, Failure> {
    Ok(Client::new(&config(table_client)?))
}

/// With `--endpoint-url`, which is DynamoDB's, the endpoint of Step Functions has to be named too.
fn config(table_client: &TableClient) -> Result<SdkConfig, Failure> {
    let config = table_client.config.clone();
    if config.endpoint_url().is_none() {
        return Ok(config);
    }
    let named = ["AWS_ENDPOINT_URL_SFN", "AWS_ENDPOINT_URL"];
    let Some(url) = named.iter().find_map(|name| environment::text(name)) else {
        let failure = Failure::usage("--endpoint-url is DynamoDB's, and Step Functions has none");
        return Err(failure.advice("set AWS_ENDPOINT_URL_SFN"));
    };
    Ok(config.into_builder().endpoint_url(url).build())
}

/// Step Functions for one start. Everybody else who waits for the key is left to the stack, because this person may lack the
/// rights to start or to tell them, and a refusal would cost them their place.
#[derive(Debug)]
pub(crate) struct OneStart {
    execution: Holder,
    step_functions: StepFunctions,
}

impl OneStart {
    pub(crate) fn new(table_client: &TableClient, execution: Holder) -> Result<Self, Failure> {
        let step_functions = StepFunctions::new(&config(table_client)?);
        Ok(Self {
            execution,
            step_functions,
        })
    }
}

impl Engine for OneStart {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        match &question {
            Question::Succeed(..) | Question::Fail(..) => left_to_the_stack(),
            Question::Start(machine, name, _) if machine.execution(name) != self.execution => {
                left_to_the_stack()
            }
            Question::Start(..)
            | Question::Describe(_)
            | Question::Input(_)
            | Question::Stop(_, _, StopFor::Another) => self.step_functions.ask(question, limit),
            _ => Box::pin(std::future::ready(question.unknown())),
        }
    }
}

/// Step Functions for everybody who waits, with the rights of the person. A waiter that this person may not notify or start keeps what
/// it was granted: a refusal is no answer here, and sweep, which has the rights, calls again.
#[derive(Debug)]
pub(crate) struct Everybody(StepFunctions);

impl Everybody {
    /// None if the table is not AWS's own, and nobody says where its Step Functions are: there the credentials are not sent to AWS.
    pub(crate) fn of(table_client: &TableClient) -> Option<Self> {
        let elsewhere = environment::text("AWS_ENDPOINT_URL_DYNAMODB").is_some();
        let mut given = ["AWS_ENDPOINT_URL_SFN", "AWS_ENDPOINT_URL"].into_iter();
        if elsewhere && !given.any(|name| environment::text(name).is_some()) {
            return None;
        }
        let config = config(table_client).ok()?;
        Some(Self(StepFunctions::new(&config)))
    }
}

impl Engine for Everybody {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        match &question {
            Question::Succeed(who, ..) | Question::Fail(who, ..) if who.is_durable_execution() => {
                left_to_the_stack()
            }
            Question::Succeed(..)
            | Question::Fail(..)
            | Question::Start(..)
            | Question::Describe(_)
            | Question::Input(_) => Box::pin(async move {
                match self.0.ask(question, limit).await {
                    Err(Error::Denied { .. }) => left_to_the_stack().await,
                    answer => answer,
                }
            }),
            _ => Box::pin(std::future::ready(question.unknown())),
        }
    }
}

fn left_to_the_stack<'a>() -> Call<'a, Answer> {
    Box::pin(std::future::ready(Err(Error::Unavailable {
        problem: "the grant of another waiter is left to the stack".to_owned(),
        source: None,
    })))
}

/// Whether Step Functions answered that it knows no such execution.
pub(crate) fn is_unknown<A>(answer: &Result<A, SdkError<StopExecutionError>>) -> bool {
    let error = answer.as_ref().err().and_then(SdkError::as_service_error);
    error.is_some_and(StopExecutionError::is_execution_does_not_exist)
}

/// What Step Functions refused, or why it did not answer.
pub(crate) fn failed<E, R>(action: &str, error: &SdkError<E, R>) -> Failure
where
    E: ProvideErrorMetadata,
{
    match (error.code(), error.message()) {
        (Some(code), message) => {
            let message = message.unwrap_or_default();
            Failure::new(
                Code::UNREACHABLE,
                format!("states:{action}: {code} {message}"),
            )
        }
        (None, _) => Failure::new(
            Code::UNREACHABLE,
            format!("states:{action} got no response from Step Functions"),
        ),
    }
}

pub(crate) async fn status(
    client: &Client,
    execution: &Holder,
) -> Result<ExecutionStatus, Failure> {
    let call = client
        .describe_execution()
        .execution_arn(execution.as_str());
    let described = call.send().await;
    let described = described.map_err(|error| failed("DescribeExecution", &error))?;
    Ok(described.status().clone())
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, Region};
    use leasehold::{ExecutionName, StateMachineArn};

    use super::*;

    #[tokio::test]
    async fn one_start_begins_no_other() {
        let nowhere = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url("http://127.0.0.1:9")
            .build();
        let machine = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";
        let machine = StateMachineArn::new(machine).expect("valid");
        let [own, other] = ["own", "other"].map(|name| ExecutionName::new(name).expect("valid"));
        let one = OneStart {
            execution: machine.execution(&own),
            step_functions: StepFunctions::new(&nowhere),
        };
        for (name, is_left) in [(&own, false), (&other, true)] {
            let limit = Duration::from_secs(1);
            let start = Question::Start(machine.clone(), name.clone(), "{}".to_owned());
            let problem = one
                .ask(start, limit)
                .await
                .expect_err("nobody answers")
                .to_string();
            assert_eq!(problem.contains("left to the stack"), is_left, "{problem}");
        }
    }
}
