//! The functions of a stack on the Lambda host, and the sample work: the function `local/step`, and its table. In a deployment both
//! are the user's own, so the template has only parameters for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Options;
use crate::arn;
use crate::error::Error;
use crate::lambda::{Code, Function, LambdaHost};
use crate::template::{FunctionResource, Template};
use crate::wiring::Wiring;

/// More than any test or demo needs at once, and few enough for a laptop.
const CONCURRENCY: usize = 50;

const WORK: &str = "StepFunction";
const WORK_VERB: &str = "step";
const WORK_TIMEOUT: Duration = Duration::from_mins(1);
/// The resource's table, which also has the accounts. Only the library writes to the leases' table.
pub(super) const RESOURCE_TABLE: &str = "ResourceTable";

/// Checks that each function has its binary.
pub(super) fn all_are_built(template: &Template, binaries: &Path) -> Result<(), Error> {
    let verbs = template.functions.iter().map(|function| &function.verb);
    let missing: Vec<_> = verbs
        .filter(|verb| !binaries.join(verb).is_file())
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::MissingBinaries {
        missing,
        directory: binaries.to_owned(),
    })
}

/// Registers the template's functions, and the sample work if it is built. The endpoints of the stack take precedence over the
/// template's, which are AWS's own.
pub(super) fn register(
    lambda: &LambdaHost,
    template: &Template,
    options: &Options,
    binaries: &Path,
    wiring: &Wiring,
) {
    let work = work_is_built(binaries).then(|| work(template.environment.clone()));
    let endpoints = [
        ("AWS_ENDPOINT_URL_DYNAMODB", &wiring.dynamodb),
        ("AWS_ENDPOINT_URL_SFN", &wiring.sfn),
        ("AWS_ENDPOINT_URL_LAMBDA", &wiring.lambda),
    ];
    for resource in template.functions.iter().cloned().chain(work) {
        let mut environment = resource.environment;
        environment.extend(endpoints.map(|(name, url)| (name.to_owned(), url.clone())));
        // The role, by which the local services identify the function.
        if let Some(role) = resource.role
            && template.roles.contains_key(&role)
        {
            environment.insert("AWS_ACCESS_KEY_ID".to_owned(), role);
        }
        options.change(&mut environment, &resource.logical_id, &resource.verb);
        lambda.register(Function {
            code: Code::Binary(binaries.join(&resource.verb)),
            logical_id: resource.logical_id,
            verb: resource.verb,
            environment,
            timeout: resource.timeout,
            here: resource.here,
            memory_mb: resource.memory_mb,
            concurrency: CONCURRENCY,
        });
    }
}

/// Whether the sample work has been built.
pub(super) fn work_is_built(binaries: &Path) -> bool {
    binaries.join(WORK_VERB).is_file()
}

/// Values for the template's parameters.
pub(super) fn work_parameters() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("StepFunctionArn".to_owned(), arn::function(WORK)),
        ("AccountsTableName".to_owned(), RESOURCE_TABLE.to_owned()),
    ])
}

/// The sample work as a function of the template.
fn work(mut environment: BTreeMap<String, String>) -> FunctionResource {
    environment.insert("RESOURCE_TABLE".to_owned(), RESOURCE_TABLE.to_owned());
    FunctionResource {
        logical_id: WORK.to_owned(),
        verb: WORK_VERB.to_owned(),
        environment,
        timeout: WORK_TIMEOUT,
        here: None,
        memory_mb: 128,
        role: None,
        log_group: None,
    }
}

pub(super) fn resource_table() -> Value {
    json!({
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
    })
}
