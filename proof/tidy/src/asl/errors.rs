//! Names of errors: each that a state machine speaks of is one that somebody can raise.

use super::{error_equals, machines, sites};
use crate::tree::{Report, Tree, words};

/// Where the library's names stand.
const LIBRARY: &str = "lib/src/error.rs";

/// What the machines themselves end with, or tell one part of themselves by.
const MACHINES: &[&str] = &[
    "Lease.StepTimeout",
    "Semaphore.ItemsFailed",
    "Transfer.BalanceTooLarge",
    "Transfer.InsufficientFunds",
    "Transfer.NoSuchAccount",
    "Transfer.Unknown",
    "WithLease.ChildAborted",
    "WithLease.ChildFailed",
    "WithLease.ChildSucceeded",
    "WithLease.ChildTimedOut",
    "WithLease.NoChild",
    "WithLease.Redriven",
];

/// What the services raise, as they spell it: `DynamoDB.` by the optimised integration, `DynamoDb.` by the SDK's.
const AWS: &[&str] = &[
    "DynamoDB.AmazonDynamoDBException",
    "DynamoDB.ConditionalCheckFailedException",
    "DynamoDB.InternalServerErrorException",
    "DynamoDB.ProvisionedThroughputExceededException",
    "DynamoDB.RequestLimitExceededException",
    "DynamoDB.SdkClientException",
    "DynamoDB.ThrottlingException",
    "DynamoDB.TransactionCanceledException",
    "DynamoDb.ConditionalCheckFailedException",
    "DynamoDb.InternalServerErrorException",
    "DynamoDb.ProvisionedThroughputExceededException",
    "DynamoDb.RequestLimitExceededException",
    "DynamoDb.SdkClientException",
    "DynamoDb.ThrottlingException",
    "DynamoDb.TransactionCanceledException",
    "DynamoDb.TransactionInProgressException",
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
    "Lambda.Unknown",
    "Runtime.ExitError",
    "Sandbox.Timedout",
    "Sfn.SdkClientException",
    "Sfn.ThrottlingException",
    "States.ALL",
    "States.BranchFailed",
    "States.DataLimitExceeded",
    "States.ExceedToleratedFailureThreshold",
    "States.HeartbeatTimeout",
    "States.ItemReaderFailed",
    "States.NoChoiceMatched",
    "States.Permissions",
    "States.QueryEvaluationError",
    "States.ResultWriterFailed",
    "States.Runtime",
    "States.TaskFailed",
    "States.Timeout",
    "StepFunctions.ExecutionAlreadyExistsException",
    "StepFunctions.ExecutionLimitExceededException",
    "StepFunctions.SdkClientException",
    "StepFunctions.ThrottlingException",
];

pub fn names(tree: &Tree, report: &mut Report) {
    let library = library(tree);
    if library.is_empty() {
        report.error(format!("{LIBRARY}: no list of names"));
    }
    let is_known = |name: &str| {
        library.iter().any(|known| known == name) || MACHINES.contains(&name) || AWS.contains(&name)
    };
    let mut families: Vec<&str> = AWS
        .iter()
        .chain(MACHINES)
        .filter_map(|name| Some(&name[..=name.find('.')?]))
        .collect();
    families.sort_unstable();
    families.dedup();
    let machines = machines(tree, report);
    let mut spoken_of = Vec::new();
    for machine in &machines {
        // Wherever it stands: in a literal of JSONata as well as in a Comment.
        let text = machine.definition.to_string();
        for family in &families {
            let whole = words(&text, family)
                .into_iter()
                .filter(|name| name != family);
            spoken_of.extend(whole.map(|name| (machine.place.clone(), name)));
        }
    }
    // Here also a name of a family that nobody has heard of.
    for site in sites(&machines) {
        let handlers = super::list(&site.state["Retry"])
            .iter()
            .chain(super::list(&site.state["Catch"]));
        let ended_with = site.state["Error"]
            .as_str()
            .filter(|error| !error.starts_with("{%"));
        let names = handlers.flat_map(error_equals).chain(ended_with);
        spoken_of.extend(names.map(|name| (site.place.clone(), name.to_owned())));
    }
    for (place, name) in &spoken_of {
        if !is_known(name) {
            report.error(format!("{place}: nobody raises {name}"));
        }
    }
    for name in MACHINES {
        if !spoken_of.iter().any(|(_, spoken)| spoken == name) {
            report.error(format!(
                "statemachines/: no machine ends with {name} any more"
            ));
        }
    }
}

/// The names in the library's list; a name elsewhere, in a test or in a comment, does not make it one.
pub fn library(tree: &Tree) -> Vec<String> {
    let source = tree.get(LIBRARY).unwrap_or_default();
    let list = source
        .split_once("pub const NAMES")
        .map_or("", |(_, rest)| {
            rest.split_once("];").map_or("", |(list, _)| list)
        });
    words(list, "\"Lease.")
        .iter()
        .map(|name| name.replace('"', ""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    fn found(machine: &str) -> Vec<String> {
        let lib = (
            LIBRARY,
            "pub const NAMES: [&str; 1] = [\"Lease.Held\"];\n\"Lease.Hold\" is in a test",
        );
        let mut found = errors(names, &[lib, ("statemachines/x.asl.json", machine)]);
        found.retain(|error| !error.contains("any more"));
        found
    }

    #[test]
    fn a_name_exists_wherever_it_stands() {
        let fine = r#"{"Comment": "Lease.Held $lease.key States.ALL. My.Lease.Odd, /^States[.]/"}"#;
        assert_eq!(found(fine), [""; 0]);
        assert_eq!(
            found(r#"{"States": {"A": {"Cause": "{% $x = 'Lease.Hold' ? 'States.All' %}"}}}"#),
            [
                "statemachines/x.asl.json: nobody raises Lease.Hold",
                "statemachines/x.asl.json: nobody raises States.All"
            ]
        );
        assert_eq!(
            found(r#"{"States": {"A": {"Catch": [{"ErrorEquals": ["Leese.Held"]}]}}}"#),
            ["statemachines/x.asl.json: A: nobody raises Leese.Held"]
        );
    }

    #[test]
    fn a_name_that_no_machine_has_is_not_written_down() {
        let found = errors(names, &[("statemachines/x.asl.json", "{}")]);
        assert_eq!(found.len(), 1 + MACHINES.len(), "{found:?}");
    }
}
