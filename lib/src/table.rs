//! Creating and checking the table. Its definition is the one in `template.yaml`, taken from there
//! when this crate is compiled.

use aws_sdk_dynamodb::{
    Client,
    client::Waiters as _,
    error::{ProvideErrorMetadata as _, SdkError},
    operation::update_time_to_live::UpdateTimeToLiveError,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, GlobalSecondaryIndexDescription,
        KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType,
        StreamSpecification, StreamViewType, TableDescription, TimeToLiveSpecification,
        TimeToLiveStatus,
    },
};
use serde::Deserialize;

use crate::{
    error::{Cause, Error},
    store::failed,
};

const DEFINITION: &str = include_str!(concat!(env!("OUT_DIR"), "/table.json"));

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    attribute_definitions: Vec<Attribute>,
    billing_mode: String,
    global_secondary_indexes: Vec<Index>,
    key_schema: Vec<KeyPart>,
    stream_specification: Stream,
    time_to_live_specification: TimeToLive,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attribute {
    attribute_name: String,
    attribute_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyPart {
    attribute_name: String,
    key_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_field_names, reason = "CloudFormation's names")]
struct Index {
    index_name: String,
    key_schema: Vec<KeyPart>,
    projection: Projected,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Projected {
    projection_type: String,
    #[serde(default)]
    non_key_attributes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stream {
    stream_view_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TimeToLive {
    attribute_name: String,
}

/// Creates the table `name` and waits until it can be used: keys, index, billing, the stream that hands
/// rows over to who waits, and the TTL that purges free rows. Of a table that exists already only the TTL is switched on; [`check`] tells
/// whether the rest fits.
///
/// # Errors
/// [`Error::Denied`] without `dynamodb:CreateTable`, `DescribeTable` or `UpdateTimeToLive`;
/// [`Error::Misconfigured`], [`Error::Throttled`], [`Error::Unavailable`]. Safe to repeat.
pub async fn create(client: &Client, name: &str) -> Result<(), Error> {
    let definition = definition()?;
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(definition.stream_specification.view())
        .build()
        .map_err(|error| broken(&error))?;
    let created = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::from(definition.billing_mode.as_str()))
        .set_key_schema(Some(key_schema(&definition.key_schema)?))
        .set_attribute_definitions(Some(attributes(&definition)?))
        .set_global_secondary_indexes(Some(indexes(&definition)?))
        .stream_specification(stream)
        .send()
        .await;
    match created {
        Ok(_) => {}
        // Created by somebody else, or by a call of ours whose answer was lost.
        Err(SdkError::ServiceError(e)) if e.err().is_resource_in_use_exception() => {}
        Err(error) => return Err(failed("dynamodb:CreateTable", name, error)),
    }
    client
        .wait_until_table_exists()
        .table_name(name)
        .wait(std::time::Duration::from_mins(2))
        .await
        .map_err(|error| Error::Unavailable {
            problem: format!("table {name} did not become active"),
            source: Some(Cause::of(&error)),
        })?;
    let ttl = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name(&definition.time_to_live_specification.attribute_name)
        .build()
        .map_err(|error| broken(&error))?;
    let enabled = client
        .update_time_to_live()
        .table_name(name)
        .time_to_live_specification(ttl)
        .send()
        .await;
    match enabled {
        Err(SdkError::ServiceError(e)) if is_enabled_already(e.err()) => Ok(()),
        Err(error) => Err(failed("dynamodb:UpdateTimeToLive", name, error)),
        Ok(_) => Ok(()),
    }
}

fn is_enabled_already(error: &UpdateTimeToLiveError) -> bool {
    error.code() == Some("ValidationException")
        && error
            .message()
            .is_some_and(|m| m.contains("already enabled"))
}

/// Checks that the table `name` is one that leases can be kept in.
///
/// # Errors
/// [`Error::Misconfigured`], naming everything that differs: keys, index, billing, stream or TTL;
/// [`Error::Denied`] without `dynamodb:DescribeTable` or `DescribeTimeToLive`; and those of any
/// request.
pub async fn check(client: &Client, name: &str) -> Result<(), Error> {
    let definition = definition()?;
    let described = client.describe_table().table_name(name).send().await;
    let described = described.map_err(|e| failed("dynamodb:DescribeTable", name, e))?;
    let ttl = client.describe_time_to_live().table_name(name).send().await;
    let ttl = ttl.map_err(|e| failed("dynamodb:DescribeTimeToLive", name, e))?;

    let mut faults = Vec::new();
    if let Some(table) = described.table() {
        faults.extend(shape_faults(&definition, table)?);
    }
    let wanted = definition.time_to_live_specification.attribute_name;
    let ttl = ttl.time_to_live_description();
    let on = ttl
        .and_then(|t| t.time_to_live_status())
        .is_some_and(|status| {
            matches!(
                status,
                TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling
            )
        });
    if !on || ttl.and_then(|t| t.attribute_name()) != Some(wanted.as_str()) {
        faults.push(format!("its TTL attribute is not {wanted}"));
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::Misconfigured {
        problem: format!("table {name} is not a lease table: {}", faults.join("; ")),
        source: None,
    })
}

fn shape_faults(definition: &Definition, table: &TableDescription) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    if !same(table.key_schema(), &key_schema(&definition.key_schema)?) {
        faults.push("its keys are not pk (HASH) and sk (RANGE)".to_owned());
    }
    for attribute in attributes(definition)? {
        if !table.attribute_definitions().contains(&attribute) {
            let name = attribute.attribute_name();
            faults.push(format!("its attribute {name} is not a string"));
        }
    }
    for wanted in indexes(definition)? {
        let found = table
            .global_secondary_indexes()
            .iter()
            .find(|index| index.index_name() == Some(wanted.index_name()));
        if !found.is_some_and(|index| is_index(index, &wanted)) {
            let name = wanted.index_name();
            faults.push(format!("its index {name} is missing or of another shape"));
        }
    }
    // A table that was never on demand has no summary.
    let billing = table.billing_mode_summary().and_then(|b| b.billing_mode());
    if billing.map(BillingMode::as_str) != Some(definition.billing_mode.as_str()) {
        faults.push(format!("its billing is not {}", definition.billing_mode));
    }
    let view = definition.stream_specification.view();
    let streams = table.stream_specification().is_some_and(|stream| {
        // One that carries more than is wanted serves as well.
        let found = stream.stream_view_type();
        stream.stream_enabled()
            && (found == Some(&view) || found == Some(&StreamViewType::NewAndOldImages))
    });
    if !streams {
        faults.push(format!("it has no stream of {}", view.as_str()));
    }
    Ok(faults)
}

impl Stream {
    fn view(&self) -> StreamViewType {
        StreamViewType::from(self.stream_view_type.as_str())
    }
}

fn is_index(found: &GlobalSecondaryIndexDescription, wanted: &GlobalSecondaryIndex) -> bool {
    let projected = |projection: Option<&Projection>| {
        projection.map(|p| {
            let mut names = p.non_key_attributes().to_vec();
            names.sort();
            (p.projection_type().cloned(), names)
        })
    };
    same(found.key_schema(), wanted.key_schema())
        && projected(found.projection()) == projected(wanted.projection())
}

/// The order of a key's parts is the service's.
fn same(found: &[KeySchemaElement], wanted: &[KeySchemaElement]) -> bool {
    found.len() == wanted.len() && wanted.iter().all(|part| found.contains(part))
}

fn definition() -> Result<Definition, Error> {
    serde_json::from_str(DEFINITION).map_err(|error| broken(&error))
}

/// A template that says something else than a table: a fault of the build, told as one.
fn broken(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Misconfigured {
        problem: "the table's definition in template.yaml cannot be used".to_owned(),
        source: Some(Cause::of(error)),
    }
}

fn key_schema(parts: &[KeyPart]) -> Result<Vec<KeySchemaElement>, Error> {
    let element = |part: &KeyPart| {
        KeySchemaElement::builder()
            .attribute_name(&part.attribute_name)
            .key_type(KeyType::from(part.key_type.as_str()))
            .build()
            .map_err(|error| broken(&error))
    };
    parts.iter().map(element).collect()
}

fn attributes(definition: &Definition) -> Result<Vec<AttributeDefinition>, Error> {
    let attribute = |attribute: &Attribute| {
        AttributeDefinition::builder()
            .attribute_name(&attribute.attribute_name)
            .attribute_type(ScalarAttributeType::from(attribute.attribute_type.as_str()))
            .build()
            .map_err(|error| broken(&error))
    };
    definition
        .attribute_definitions
        .iter()
        .map(attribute)
        .collect()
}

fn indexes(definition: &Definition) -> Result<Vec<GlobalSecondaryIndex>, Error> {
    let index = |index: &Index| {
        let names = &index.projection.non_key_attributes;
        GlobalSecondaryIndex::builder()
            .index_name(&index.index_name)
            .set_key_schema(Some(key_schema(&index.key_schema)?))
            .projection(
                Projection::builder()
                    .projection_type(ProjectionType::from(
                        index.projection.projection_type.as_str(),
                    ))
                    .set_non_key_attributes((!names.is_empty()).then(|| names.clone()))
                    .build(),
            )
            .build()
            .map_err(|error| broken(&error))
    };
    definition
        .global_secondary_indexes
        .iter()
        .map(index)
        .collect()
}
