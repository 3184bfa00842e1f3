//! Amazon Resource Names. All local ones have one account and one Region.

use std::fmt::Display;

/// The account that all local ARNs name.
pub(crate) const ACCOUNT: &str = "123456789012";
/// The Region that all local ARNs name.
pub(crate) const REGION: &str = "us-east-1";

fn arn(service: &str, resource: impl Display) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}")
}

/// The ARN of a resource, by its `CloudFormation` type and its name. None for a type without an ARN here.
pub(crate) fn of(kind: &str, name: &str) -> Option<String> {
    Some(match kind {
        "AWS::CloudWatch::Alarm" => arn("cloudwatch", format_args!("alarm:{name}")),
        "AWS::DynamoDB::Table" => table(name),
        "AWS::Events::Rule" => rule(name),
        "AWS::IAM::ManagedPolicy" => format!("arn:aws:iam::{ACCOUNT}:policy/{name}"),
        "AWS::IAM::Role" => role(name),
        "AWS::Lambda::Function" => function(name),
        // The streams of the group, not the group itself.
        "AWS::Logs::LogGroup" => format!("{}:*", log_group(name)),
        "AWS::SQS::Queue" => queue(name),
        "AWS::StepFunctions::StateMachine" => state_machine(name),
        _ => return None,
    })
}

pub(crate) fn function(name: &str) -> String {
    arn("lambda", format_args!("function:{name}"))
}

pub(crate) fn log_group(name: &str) -> String {
    arn("logs", format_args!("log-group:{name}"))
}

pub(crate) fn queue(name: &str) -> String {
    arn("sqs", name)
}

pub(crate) fn role(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{name}")
}

pub(crate) fn rule(name: &str) -> String {
    arn("events", format_args!("rule/{name}"))
}

pub(crate) fn stack(name: &str) -> String {
    arn("cloudformation", format_args!("stack/{name}/local"))
}

pub(crate) fn state_machine(name: &str) -> String {
    arn("states", format_args!("stateMachine:{name}"))
}

pub(crate) fn table(name: &str) -> String {
    arn("dynamodb", format_args!("table/{name}"))
}

/// The name at the end of an ARN.
pub(crate) fn name(arn: &str) -> &str {
    arn.rsplit([':', '/']).next().unwrap_or(arn)
}
