//! Tables beside the lease table: what leases protect, and what other locks write to.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    TimeToLiveSpecification,
};

use crate::error::Error;

/// Creates a table if there is none of this name. Its keys are texts, the partition key first; it may have an attribute
/// by which items are purged.
///
/// # Errors
/// [`Error::Call`] when the database refuses.
pub async fn create_table(
    client: &Client,
    table: &str,
    keys: &[&str],
    purged_by: Option<&str>,
) -> Result<(), Error> {
    let unnamed = |error: BuildError| Error::call(format_args!("create the table {table}"), error);
    let described = client.describe_table().table_name(table).send().await;
    if described.is_ok() {
        return Ok(());
    }
    let mut create = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest);
    for (key, kind) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let part = KeySchemaElement::builder()
            .attribute_name(*key)
            .key_type(kind);
        let text = AttributeDefinition::builder()
            .attribute_name(*key)
            .attribute_type(ScalarAttributeType::S);
        create = create
            .key_schema(part.build().map_err(unnamed)?)
            .attribute_definitions(text.build().map_err(unnamed)?);
    }
    create.send().await?;
    if let Some(attribute) = purged_by {
        let by = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(attribute);
        let update = client.update_time_to_live().table_name(table);
        let update = update.time_to_live_specification(by.build().map_err(unnamed)?);
        update.send().await?;
    }
    Ok(())
}
