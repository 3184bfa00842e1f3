//! What the response to a task means: that its work is done, or only that it was accepted and goes on.
//!
//! For each service integration that has the form `.sync`, Step Functions' documentation says so of the plain form. Requests of the
//! AWS SDK are judged by what the API does, which its name says: `Start…`, `Submit…`, `Run…` and `…Async` answer before the end.

use crate::read::node::Node;

use super::calls::{arguments, starts_with_lease};

/// A service, by its name in a `Resource`, another name of it there, and what it only accepts.
type Accepting = (&'static str, &'static str, &'static [&'static str]);

/// What a service only accepts, and does afterwards.
#[rustfmt::skip]
pub(crate) const ACCEPTED: [Accepting; 23] = [
    ("athena", "", &["startQueryExecution"]),
    ("batch", "", &["submitJob"]),
    ("bedrock", "", &["createEvaluationJob", "createModelCopyJob", "createModelCustomizationJob", "createModelImportJob", "createModelInvocationJob"]),
    ("cloudformation", "", &["createStack", "deleteStack", "executeChangeSet", "updateStack"]),
    ("codebuild", "", &["startBuild", "startBuildBatch"]),
    ("databrew", "", &["startJobRun"]),
    ("dynamodb", "", &["exportTableToPointInTime", "importTable"]),
    ("ecs", "", &["runTask"]),
    ("eks", "", &["createCluster", "createFargateProfile", "createNodegroup", "deleteCluster", "deleteFargateProfile", "deleteNodegroup", "runJob"]),
    ("elasticmapreduce", "emr", &["addJobFlowSteps", "addStep", "cancelStep", "createCluster", "runJobFlow", "terminateCluster"]),
    ("elastictranscoder", "", &["createJob"]),
    ("emr-containers", "emrcontainers", &["createVirtualCluster", "deleteVirtualCluster", "startJobRun"]),
    ("emr-serverless", "emrserverless", &["cancelJobRun", "createApplication", "startApplication", "startJobRun", "stopApplication"]),
    ("glue", "", &["startJobRun"]),
    ("iot", "", &["createJob"]),
    ("lambda", "", &["invokeAsync"]),
    ("macie2", "", &["createClassificationJob"]),
    ("mediaconvert", "", &["createJob"]),
    ("redshiftdata", "redshift-data", &["batchExecuteStatement", "executeStatement"]),
    ("s3control", "", &["createJob"]),
    ("sagemaker", "", &["createAutoMLJob", "createAutoMLJobV2", "createCompilationJob", "createEndpoint", "createHyperParameterTuningJob", "createLabelingJob", "createProcessingJob", "createTrainingJob", "createTransformJob", "updateEndpoint"]),
    ("sfn", "states", &["startExecution"]),
    ("ssm", "", &["sendCommand"]),
];

/// How the names of such APIs begin.
const BEGINNINGS: [&str; 3] = ["start", "submit", "run"];
/// How they end.
const END: &str = "Async";
/// A name of that kind whose response is the end.
const WAITS: [&str; 2] = ["startSyncExecution", "startSession"];

/// What the response to a task means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// The work is done.
    Done,
    /// The work goes on, in this service. A later read of it there may tell of its end.
    Accepted(String),
    /// A function works on, and no read reports its end.
    Invoked,
}

impl Response {
    pub(crate) fn of(task: &Node) -> Self {
        let resource = task.text_of("Resource").unwrap_or_default();
        let invocation = arguments(task).and_then(|arguments| arguments.field("InvocationType"));
        if resource.contains(":lambda:invoke") && invocation.and_then(Node::text) == Some("Event") {
            return Self::Invoked;
        }
        let Some((service, action, is_sdk)) = integration(resource) else {
            return Self::Done;
        };
        let is_listed = ACCEPTED.iter().any(|(name, other, actions)| {
            (*name == service || *other == service) && actions.contains(&action)
        });
        let is_named_so = || {
            let begins = BEGINNINGS.iter().any(|word| begins_with(action, word));
            is_sdk && !WAITS.contains(&action) && (begins || action.ends_with(END))
        };
        if action == "invokeAsync" {
            return Self::Invoked;
        }
        if (is_listed || is_named_so()) && !starts_with_lease(task) {
            return Self::Accepted(plain(service).to_owned());
        }
        Self::Done
    }
}

/// The service of which a task reads something.
pub(crate) fn asked(task: &Node) -> Option<&str> {
    let resource = task.text_of("Resource")?;
    integration(resource).map(|(service, ..)| plain(service))
}

/// A service by one of its names.
fn plain(service: &str) -> &str {
    let mut known = ACCEPTED.iter();
    let known = known.find(|(_, other, _)| *other == service);
    known.map_or(service, |(name, ..)| name)
}

/// The service and the action of an integration whose response does not wait for an end, and whether it is a request of the SDK.
fn integration(resource: &str) -> Option<(&str, &str, bool)> {
    let (_, named) = resource.split_once(":states:::")?;
    let (named, is_sdk) = match named.strip_prefix("aws-sdk:") {
        Some(named) => (named, true),
        None => (named, false),
    };
    let (service, action) = named.split_once(':')?;
    // `.sync`, `.sync:2` and `.waitForTaskToken` wait.
    (!action.contains('.')).then_some((service, action, is_sdk))
}

/// Whether a name in camel case begins with this word, and not with a longer one.
fn begins_with(name: &str, word: &str) -> bool {
    let rest = name.strip_prefix(word);
    rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{json, source::Source};

    fn response(resource: &str) -> Response {
        let task = serde_json::json!({"Type": "Task", "Resource": resource});
        let source = Source::new("a task", task.to_string());
        Response::of(&json::read(&source).expect("JSON"))
    }

    #[test]
    fn what_is_only_accepted_goes_on() {
        let page = std::fs::read_to_string("../docs/reference/check-rules.md").expect("a page");
        for (service, other, actions) in ACCEPTED {
            for action in actions {
                assert!(
                    page.contains(&format!("`{action}`")),
                    "check-rules.md has no {action}"
                );
                for form in ["", "aws-sdk:"] {
                    let resource = format!("arn:aws:states:::{form}{service}:{action}");
                    let goes_on = if *action == "invokeAsync" {
                        Response::Invoked
                    } else {
                        Response::Accepted(service.to_owned())
                    };
                    assert_eq!(response(&resource), goes_on, "{resource}");
                    let waits = format!("{resource}.sync");
                    assert_eq!(response(&waits), Response::Done, "{waits}");
                    if !other.is_empty() {
                        let resource = resource.replace(service, other);
                        assert_eq!(response(&resource), goes_on, "{resource}");
                    }
                }
            }
        }
    }
}
