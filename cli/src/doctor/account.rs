//! The account: one client for each service, and the reasons why an answer may be missing.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use aws_config::SdkConfig;
use aws_sdk_cloudformation::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_cloudformation::types::StackResourceSummary;
use aws_sdk_dynamodb::config::Builder as DynamoDbConfig;
use leasehold_asl::plain;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clocks::Dates;
use super::report::Outcome;
use crate::exit::{Code, Failure};

/// The error codes by which AWS refuses a caller.
const REFUSALS: [&str; 6] = [
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "ExpiredToken",
];

/// The services of a stack, with the caller's credentials.
pub(super) struct Account {
    cloudformation: aws_sdk_cloudformation::Client,
    pub(super) dynamodb: aws_sdk_dynamodb::Client,
    pub(super) lambda: aws_sdk_lambda::Client,
    pub(super) quotas: aws_sdk_servicequotas::Client,
    pub(super) sfn: aws_sdk_sfn::Client,
    /// DynamoDB's clock, read from the dates of its responses.
    pub(super) dates: Dates,
}

/// Why a service did not answer a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// No response, or one that could not be read.
    NoAnswer(&'static str),
    /// The caller lacks a permission, or the endpoint the operation.
    Refused(String),
    /// The resource does not exist.
    Missing,
    /// Any other error of the service.
    Said(String),
}

impl CallError {
    /// The trouble behind an error of `action`, such as `dynamodb:DescribeTable`.
    pub(super) fn of<E: ProvideErrorMetadata, R>(
        action: &'static str,
        error: &SdkError<E, R>,
    ) -> Self {
        let service = match action.split(':').next() {
            Some("cloudformation") => "CloudFormation",
            Some("dynamodb") => "DynamoDB",
            Some("lambda") => "Lambda",
            Some("servicequotas") => "Service Quotas",
            _ => "Step Functions",
        };
        let SdkError::ServiceError(error) = error else {
            return Self::NoAnswer(service);
        };
        let error = error.err();
        let code = error.code().unwrap_or("an error without a name");
        let message = error.message().unwrap_or_default();
        if REFUSALS.contains(&code) {
            return Self::Refused(format!("your credentials may not {action}"));
        }
        // An endpoint that is not AWS's own.
        if code == "UnknownOperationException" {
            return Self::Refused(format!("this endpoint does not know {action}"));
        }
        let is_missing = [
            "ResourceNotFoundException",
            "StateMachineDoesNotExist",
            "ExecutionDoesNotExist",
        ];
        if is_missing.contains(&code) {
            return Self::Missing;
        }
        Self::Said(plain(&format!("{action}: {code}: {message}")))
    }

    /// The outcome of a check that met this trouble.
    pub(super) fn outcome(self, what: &str) -> Outcome {
        match self {
            Self::NoAnswer(service) => Outcome::not_checked(format!("{service} does not answer")),
            Self::Refused(why) => Outcome::NotChecked(why),
            Self::Missing => Outcome::fail(format!("{what} does not exist")),
            Self::Said(said) => Outcome::fail(format!("{what}: {said}")),
        }
    }
}

/// A resource of the stack.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) kind: String,
    /// A name, or the ARN of a state machine or a nested stack.
    pub(super) id: String,
    pub(super) status: String,
}

/// The resources of a stack, by their names in the template.
pub(super) type Resources = BTreeMap<String, Resource>;

/// The response of a function.
pub(super) type Answer = Result<Value, Refusal>;

/// Why a function returned no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was not called at all.
    Uncalled(CallError),
    /// Its own error: the name, and the message for people.
    Error { name: String, message: String },
}

impl Refusal {
    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Error { name, .. } if name == wanted)
    }

    /// The outcome of a step that needed the function's result.
    pub(super) fn outcome(self, function: &str) -> Outcome {
        match self {
            Self::Uncalled(trouble) => trouble.outcome(&format!("the function {function}")),
            Self::Error { name, message } => {
                Outcome::fail(format!("{function} returned {name}: {message}"))
            }
        }
    }
}

impl Account {
    pub(super) fn of(config: &SdkConfig) -> Self {
        let dates = Dates::default();
        let dynamodb = DynamoDbConfig::from(config).interceptor(dates.clone());
        Self {
            cloudformation: aws_sdk_cloudformation::Client::new(config),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb.build()),
            lambda: aws_sdk_lambda::Client::new(config),
            quotas: aws_sdk_servicequotas::Client::new(config),
            sfn: aws_sdk_sfn::Client::new(config),
            dates,
        }
    }

    /// The resources of a stack, by its name or ARN.
    pub(super) async fn resources(&self, stack: &str) -> Result<Resources, CallError> {
        let list = self.cloudformation.list_stack_resources();
        let mut pages = list.stack_name(stack).into_paginator().send();
        let mut resources = Resources::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| CallError::of("cloudformation:ListStackResources", &e))?;
            resources.extend(page.stack_resource_summaries().iter().filter_map(named));
        }
        Ok(resources)
    }

    /// Invokes a function with an event.
    pub(super) async fn invoke(&self, function: &str, event: &impl Serialize) -> Answer {
        let event = serde_json::to_vec(event).unwrap_or_default();
        let invoke = self.lambda.invoke().function_name(function);
        let invoke = invoke.payload(event.into());
        let answer = invoke
            .send()
            .await
            .map_err(|error| Refusal::Uncalled(CallError::of("lambda:InvokeFunction", &error)))?;
        let payload = answer.payload().map(AsRef::as_ref).unwrap_or_default();
        if answer.function_error().is_none() {
            return Ok(serde_json::from_slice(payload).unwrap_or_default());
        }
        let error: FunctionError = serde_json::from_slice(payload).unwrap_or_default();
        Err(error.into())
    }
}

/// The error of a function, as Lambda returns it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_type: Option<String>,
    error_message: Option<String>,
}

/// The functions' own messages are JSON in JSON. Those of the runtime are plain text.
#[derive(Deserialize)]
struct ErrorMessage {
    message: String,
}

impl From<FunctionError> for Refusal {
    fn from(error: FunctionError) -> Self {
        let message = error.error_message.unwrap_or_default();
        let own: Result<ErrorMessage, _> = serde_json::from_str(&message);
        Self::Error {
            name: plain(&error.error_type.unwrap_or_default()),
            message: plain(&own.map_or(message, |own| own.message)),
        }
    }
}

fn named(summary: &StackResourceSummary) -> Option<(String, Resource)> {
    let id = summary.logical_resource_id()?.to_owned();
    let status = summary
        .resource_status()
        .map(|status| status.as_str().to_owned());
    let resource = Resource {
        kind: summary.resource_type().unwrap_or_default().to_owned(),
        id: summary
            .physical_resource_id()
            .unwrap_or_default()
            .to_owned(),
        status: status.unwrap_or_default(),
    };
    Some((id, resource))
}

/// The name of a stack's table.
pub(crate) async fn table_of(config: &SdkConfig, stack: &str) -> Result<String, Failure> {
    let resources = Account::of(config).resources(stack).await;
    let mut resources = resources.map_err(|trouble| unlisted(stack, &trouble))?;
    let table = resources.remove("LeaseTable").ok_or_else(|| {
        let failure = Failure::new(
            Code::UNREACHABLE,
            format!("{stack} has no table of its own"),
        );
        failure.advice("name the table that it uses: --table NAME")
    })?;
    Ok(table.id)
}

/// The failure if the stack's resources cannot be listed, since every check needs them.
pub(super) fn unlisted(stack: &str, trouble: &CallError) -> Failure {
    let unreachable = |what: &dyn Display| Failure::new(Code::UNREACHABLE, what);
    match trouble {
        CallError::NoAnswer(service) => unreachable(&format!("{service} does not answer"))
            .advice("check the network, --region and AWS_ENDPOINT_URL_CLOUDFORMATION"),
        CallError::Refused(why) => unreachable(why).advice(
            "the stack's resources are listed with this action; docs/reference/permissions.md lists the actions of every command",
        ),
        CallError::Missing => unreachable(&format!("there is no stack {stack}")),
        CallError::Said(said) => unreachable(said)
            .advice("check --stack, --region and --profile; `aws cloudformation list-stacks` lists the stacks"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Every action named in a refusal, and those of the library's check of the table.
    #[test]
    fn doctor_policy_lists_actions_used() {
        let sources = [
            include_str!("account.rs"),
            include_str!("inspect.rs"),
            include_str!("queue.rs"),
            include_str!("quotas.rs"),
        ];
        let sources = sources
            .iter()
            .filter_map(|source| source.split("mod tests {").next());
        let asked = sources.flat_map(|source| source.split("CallError::of(").skip(1));
        let asked = asked.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        let mut asked: BTreeSet<_> = asked.collect();
        asked.extend(["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]);
        let policy = include_str!("../../../examples/operators/doctor.json");
        let policy: serde_json::Value = serde_json::from_str(policy).unwrap();
        let statements = policy["Statement"].as_array().unwrap().iter();
        let named = statements.flat_map(|one| match &one["Action"] {
            serde_json::Value::Array(several) => several.clone(),
            one => vec![one.clone()],
        });
        let named: Vec<_> = named.collect();
        let named: BTreeSet<_> = named.iter().filter_map(serde_json::Value::as_str).collect();
        assert_eq!(asked, named);
    }
}
