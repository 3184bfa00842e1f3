//! Step Functions, for the commands that stop or redrive an execution.

use std::time::Duration;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold::Holder;

use crate::connect::TableClient;
use crate::environment;
use crate::exit::{Code, Failure};

/// Between two questions about the same thing.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The client. With `--endpoint-url`, which is DynamoDB's, the endpoint of Step Functions has to be named too.
pub(crate) fn client(table_client: &TableClient) -> Result<Client, Failure> {
    let mut config = aws_sdk_sfn::config::Builder::from(&table_client.config);
    if table_client.config.endpoint_url().is_some() {
        let named = ["AWS_ENDPOINT_URL_SFN", "AWS_ENDPOINT_URL"];
        let Some(url) = named.iter().find_map(|name| environment::text(name)) else {
            let failure =
                Failure::usage("--endpoint-url is DynamoDB's, and Step Functions has none");
            return Err(failure.advice("set AWS_ENDPOINT_URL_SFN"));
        };
        config = config.endpoint_url(url);
    }
    Ok(Client::from_conf(config.build()))
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
