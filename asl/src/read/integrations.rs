//! The service integrations that a Task may name, as Step Functions documents them.

use crate::read::error_names::nearest;

/// A service with integrations of its own, their actions, and which of them also have `.sync` and `.waitForTaskToken`.
type Service = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const SERVICES: [Service; 22] = [
    ("apigateway", "invoke", "", "invoke"),
    ("athena", "startQueryExecution stopQueryExecution getQueryExecution getQueryResults", "startQueryExecution", ""),
    ("batch", "submitJob", "submitJob", ""),
    ("bedrock", "invokeModel createModelCustomizationJob", "createModelCustomizationJob", ""),
    ("codebuild", "startBuild stopBuild batchDeleteBuilds batchGetReports startBuildBatch stopBuildBatch retryBuildBatch deleteBuildBatch", "startBuild startBuildBatch retryBuildBatch", ""),
    ("databrew", "startJobRun", "startJobRun", ""),
    ("dynamodb", "getItem putItem updateItem deleteItem", "", ""),
    ("ecs", "runTask", "runTask", "runTask"),
    ("eks", "call runJob createCluster deleteCluster createNodegroup deleteNodegroup createFargateProfile deleteFargateProfile", "runJob createCluster deleteCluster createNodegroup deleteNodegroup createFargateProfile deleteFargateProfile", "runJob"),
    ("elasticmapreduce", "createCluster terminateCluster addStep cancelStep setClusterTerminationProtection modifyInstanceFleetByName modifyInstanceGroupByName", "createCluster terminateCluster addStep", ""),
    ("emr-containers", "createVirtualCluster deleteVirtualCluster startJobRun", "deleteVirtualCluster startJobRun", ""),
    ("emr-serverless", "createApplication startApplication stopApplication deleteApplication startJobRun cancelJobRun", "createApplication startApplication stopApplication deleteApplication startJobRun cancelJobRun", ""),
    ("events", "putEvents", "", "putEvents"),
    ("glue", "startJobRun", "startJobRun", ""),
    ("http", "invoke", "", ""),
    ("lambda", "invoke", "", "invoke"),
    ("mediaconvert", "createJob", "createJob", ""),
    ("sagemaker", "createEndpoint createEndpointConfig createHyperParameterTuningJob createLabelingJob createModel createProcessingJob createTrainingJob createTransformJob updateEndpoint", "createHyperParameterTuningJob createLabelingJob createProcessingJob createTrainingJob createTransformJob", ""),
    ("sns", "publish", "", "publish"),
    ("sqs", "sendMessage", "", "sendMessage"),
    ("states", "startExecution", "startExecution", "startExecution"),
    ("aws-sdk", "", "", ""),
];

/// Why a Task cannot have this resource. Placeholders of a template may be anything.
pub(crate) fn fault(resource: &str) -> Option<String> {
    let Some((_, rest)) = resource.split_once(":states:::") else {
        let is_arn = resource.starts_with("arn:") && resource.split(':').count() > 5;
        return (!is_arn && !resource.contains("${")).then(|| format!("\"{resource}\" is no ARN"));
    };
    if rest.contains("${") {
        return None;
    }
    let words = |list: &'static str| list.split(' ').filter(|word| !word.is_empty());
    let (of, named) = rest.split_once(':').unwrap_or((rest, ""));
    let Some((_, actions, synced, waiting)) = SERVICES.iter().find(|(name, ..)| *name == of) else {
        let near = nearest(SERVICES.iter().map(|(name, ..)| *name), of, 2);
        let near = near.map_or_else(
            || ", but all of them by aws-sdk".to_owned(),
            |near| format!("; {near}?"),
        );
        return Some(format!(
            "Step Functions has no integration of a service \"{of}\"{near}"
        ));
    };
    let (action, pattern) = named.split_once('.').unwrap_or((named, ""));
    if of == "aws-sdk" {
        let action = action.split_once(':').map_or("", |(_, action)| action);
        if !action.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Some(format!(
                "an action of the SDK is written like getObject, not \"{action}\""
            ));
        }
        return (!matches!(pattern, "" | "waitForTaskToken"))
            .then(|| format!("a request of the SDK has no form .{pattern}"));
    }
    if !words(actions).any(|known| known == action) {
        let near = nearest(words(actions), action, 3);
        let near = near.map_or_else(String::new, |near| format!("; {near}?"));
        return Some(format!(
            "the integration {of} has no action \"{action}\"{near}"
        ));
    }
    let has = match pattern {
        "" => true,
        "sync" => words(synced).any(|known| known == action),
        "sync:2" => of == "states",
        "waitForTaskToken" => words(waiting).any(|known| known == action),
        _ => false,
    };
    (!has).then(|| format!("the integration {of}:{action} has no form .{pattern}"))
}
