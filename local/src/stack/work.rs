//! The sample work: the function `local/step`, and the resource that it works on.
//!
//! In a deployment both are the user's own, so the template knows the function by a parameter only, and the
//! resource not at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

use crate::error::Error;
use crate::lambda::{ACCOUNT, REGION};
use crate::template::FunctionResource;

const LOGICAL_ID: &str = "StepFunction";
const VERB: &str = "step";
/// The template's parameter for the function's ARN.
const FUNCTION_PARAMETER: &str = "StepFunctionArn";
/// The template's parameter for a table with accounts, which the resource's serves for, too.
const ACCOUNTS_PARAMETER: &str = "AccountsTableName";
/// The table of the resource; a table of its own, because nobody but the library writes to the leases' table.
const TABLE: &str = "ResourceTable";
/// How long one piece of work may take.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Whether the sample work has been built.
pub(super) fn is_built(binaries: &Path) -> bool {
    binaries.join(VERB).is_file()
}

/// What the template is offered for its parameters.
pub(super) fn parameters() -> BTreeMap<String, String> {
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{LOGICAL_ID}");
    BTreeMap::from([
        (FUNCTION_PARAMETER.to_owned(), arn),
        (ACCOUNTS_PARAMETER.to_owned(), TABLE.to_owned()),
    ])
}

/// The function as if the template had it.
pub(super) fn function(shared: &BTreeMap<String, String>) -> FunctionResource {
    let mut environment = shared.clone();
    environment.insert("RESOURCE_TABLE".to_owned(), TABLE.to_owned());
    FunctionResource {
        logical_id: LOGICAL_ID.to_owned(),
        verb: VERB.to_owned(),
        environment,
        timeout: TIMEOUT,
        memory_mb: 128,
        every: None,
        role: None,
        log_group: None,
    }
}

/// Creates the resource's table.
pub(super) async fn create_table(client: &aws_sdk_dynamodb::Client) -> Result<(), Error> {
    let failed = |message: String| Error::Call {
        what: format!("create the table {TABLE}"),
        message,
    };
    let mut request = client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest);
    for (name, role) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let key = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(role)
            .build();
        let text = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build();
        request = request
            .key_schema(key.map_err(|error| failed(error.to_string()))?)
            .attribute_definitions(text.map_err(|error| failed(error.to_string()))?);
    }
    let created = request.send().await;
    created.map_err(|error| failed(DisplayErrorContext(&error).to_string()))?;
    Ok(())
}
