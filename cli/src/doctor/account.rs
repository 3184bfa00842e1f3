//! The account: one client for each service that is asked, and why an answer may be missing.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use aws_config::SdkConfig;
use aws_sdk_cloudformation::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_cloudformation::types::StackResourceSummary;
use aws_sdk_dynamodb::config::Builder as DynamoDbConfig;
use leasehold_asl::plain;
use serde_json::Value;

use super::clocks::Dates;
use super::report::Outcome;
use crate::exit::{Code, Failure};

/// What AWS answers to those who may not ask.
const REFUSALS: [&str; 6] = [
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "ExpiredToken",
];

/// The services that a stack is made of, with the credentials of whoever runs this.
pub(super) struct Account {
    cloudformation: aws_sdk_cloudformation::Client,
    pub(super) dynamodb: aws_sdk_dynamodb::Client,
    pub(super) lambda: aws_sdk_lambda::Client,
    pub(super) sfn: aws_sdk_sfn::Client,
    /// The clock of DynamoDB, as the dates of its answers tell it.
    pub(super) dates: Dates,
}

/// Why a service has not told what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No answer, or none that makes sense.
    NoAnswer(&'static str),
    /// Whoever runs this may not ask.
    Refused(String),
    /// What was asked about is not there.
    Missing,
    /// What else the service said.
    Said(String),
}

impl Trouble {
    /// Asks for `action`, as in `dynamodb:DescribeTable`.
    pub(super) fn of<E: ProvideErrorMetadata, R>(
        action: &'static str,
        error: &SdkError<E, R>,
    ) -> Self {
        let service = match action.split(':').next() {
            Some("cloudformation") => "CloudFormation",
            Some("dynamodb") => "DynamoDB",
            Some("lambda") => "Lambda",
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

    /// What a check makes of it that found nothing else.
    pub(super) fn outcome(self, what: &str) -> Outcome {
        match self {
            Self::NoAnswer(service) => Outcome::not_checked(format!("{service} does not answer")),
            Self::Refused(why) => Outcome::NotChecked(why),
            Self::Missing => Outcome::fail(format!("{what} is not there")),
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

/// What a function has answered.
pub(super) type Answer = Result<Value, Refusal>;

/// Why a function has not answered with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was not called at all.
    Uncalled(Trouble),
    /// Its own error: the name, and the message for people.
    Error { name: String, message: String },
}

impl Refusal {
    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Error { name, .. } if name == wanted)
    }

    /// What a step makes of it that wanted a result of the function.
    pub(super) fn outcome(self, function: &str) -> Outcome {
        match self {
            Self::Uncalled(trouble) => trouble.outcome(&format!("the function {function}")),
            Self::Error { name, message } => {
                Outcome::fail(format!("{function} answers {name}: {message}"))
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
            sfn: aws_sdk_sfn::Client::new(config),
            dates,
        }
    }

    /// What a stack is made of, by its name or ARN.
    pub(super) async fn resources(&self, stack: &str) -> Result<Resources, Trouble> {
        let list = self.cloudformation.list_stack_resources();
        let mut pages = list.stack_name(stack).into_paginator().send();
        let mut resources = Resources::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| Trouble::of("cloudformation:ListStackResources", &e))?;
            resources.extend(page.stack_resource_summaries().iter().filter_map(named));
        }
        Ok(resources)
    }

    /// Invokes a function with an event.
    pub(super) async fn invoke(&self, function: &str, event: &Value) -> Answer {
        let invoke = self.lambda.invoke().function_name(function);
        let invoke = invoke.payload(event.to_string().into_bytes().into());
        let answer = invoke
            .send()
            .await
            .map_err(|error| Refusal::Uncalled(Trouble::of("lambda:InvokeFunction", &error)))?;
        let payload = answer.payload().map(AsRef::as_ref).unwrap_or_default();
        let told: Value = serde_json::from_slice(payload).unwrap_or_default();
        if answer.function_error().is_none() {
            return Ok(told);
        }
        let text = |value: &Value| plain(value.as_str().unwrap_or_default());
        let message = text(&told["errorMessage"]);
        // Ours are JSON in JSON; those of the runtime are plain.
        let inner: Value = serde_json::from_str(&message).unwrap_or_default();
        Err(Refusal::Error {
            name: text(&told["errorType"]),
            message: match &inner["message"] {
                Value::String(message) => plain(message),
                _ => message,
            },
        })
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

/// Without the list of its resources, a stack cannot be looked at.
pub(super) fn unlisted(stack: &str, trouble: &Trouble) -> Failure {
    let unreachable = |what: &dyn Display| Failure::new(Code::UNREACHABLE, what);
    match trouble {
        Trouble::NoAnswer(service) => unreachable(&format!("{service} does not answer"))
            .cure("check the network, --region and AWS_ENDPOINT_URL_CLOUDFORMATION"),
        Trouble::Refused(why) => unreachable(why).cure(
            "docs/reference/permissions.md lists what each command needs; the stack's resources are found by this action",
        ),
        Trouble::Missing => unreachable(&format!("there is no stack {stack}")),
        Trouble::Said(said) => unreachable(said)
            .cure("check --stack, --region and --profile; `aws cloudformation list-stacks` lists the stacks"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Every action that a refusal is told of, and those of the library's look at the table.
    #[test]
    fn the_policy_has_each_action_that_is_asked_for_and_no_other() {
        let sources = [
            include_str!("account.rs"),
            include_str!("look.rs"),
            include_str!("queue.rs"),
        ];
        let sources = sources
            .iter()
            .filter_map(|source| source.split("mod tests {").next());
        let asked = sources.flat_map(|source| source.split("Trouble::of(").skip(1));
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
