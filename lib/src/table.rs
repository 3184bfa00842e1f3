//! Creating and checking the table. `template.yaml` defines the same table; a test compares the two.

use aws_sdk_dynamodb::{
    Client,
    client::Waiters as _,
    error::{ProvideErrorMetadata as _, SdkError},
    operation::update_time_to_live::UpdateTimeToLiveError,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, GlobalSecondaryIndexDescription,
        KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType,
        TableDescription, TimeToLiveSpecification, TimeToLiveStatus,
    },
};

use crate::{
    error::{Cause, Error},
    row::attributes as at,
    store::failed,
};

const KEYS: [(&str, KeyType); 2] = [(at::PK, KeyType::Hash), (at::SK, KeyType::Range)];
const INDEX_KEYS: [(&str, KeyType); 1] = [(at::HOLDER, KeyType::Hash)];
const ATTRIBUTES: [&str; 3] = [at::PK, at::SK, at::HOLDER];
const BILLING: BillingMode = BillingMode::PayPerRequest;

/// Creates the table `name` and waits until it can be used: keys, index, billing, and the TTL that purges free rows. If
/// the table exists already, this only switches the TTL on; [`check`] reports whether the rest is right.
///
/// # Errors
/// [`Error::Denied`] without `dynamodb:CreateTable`, `DescribeTable` or `UpdateTimeToLive`;
/// [`Error::Misconfigured`], [`Error::Throttled`], [`Error::Unavailable`]. Safe to repeat.
pub async fn create(client: &Client, name: &str) -> Result<(), Error> {
    let created = client
        .create_table()
        .table_name(name)
        .billing_mode(BILLING)
        .set_key_schema(Some(key_schema(&KEYS)?))
        .set_attribute_definitions(Some(attributes()?))
        .global_secondary_indexes(index()?)
        .send()
        .await;
    match created {
        Ok(_) => {}
        // Created by somebody else, or by an earlier call of ours whose response was lost.
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
        .attribute_name(at::PURGE_AT)
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

/// The part of a table in which it differs from a lease table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Its keys, billing or Regions.
    Table,
    /// Its index.
    Index,
    /// Its TTL.
    Ttl,
}

/// One difference of a table from a lease table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub part: Part,
    /// What, for people.
    pub what: String,
}

/// Checks that the table `name` is a lease table.
///
/// # Errors
/// [`Error::Misconfigured`], naming everything that differs: keys, index, billing or TTL, or that the
/// table is a global one; and those of [`faults`].
pub async fn check(client: &Client, name: &str) -> Result<(), Error> {
    let faults = faults(client, name).await?;
    if faults.is_empty() {
        return Ok(());
    }
    let faults: Vec<_> = faults.into_iter().map(|fault| fault.what).collect();
    Err(Error::Misconfigured {
        problem: format!("table {name} is not a lease table: {}", faults.join("; ")),
        source: None,
    })
}

/// Everything in which the table `name` differs from a lease table.
///
/// # Errors
/// [`Error::Denied`] without `dynamodb:DescribeTable` or `DescribeTimeToLive`; and those of any
/// request.
pub async fn faults(client: &Client, name: &str) -> Result<Vec<Fault>, Error> {
    let described = client.describe_table().table_name(name).send().await;
    let described = described.map_err(|e| failed("dynamodb:DescribeTable", name, e))?;
    let ttl = client.describe_time_to_live().table_name(name).send().await;
    let ttl = ttl.map_err(|e| failed("dynamodb:DescribeTimeToLive", name, e))?;

    let mut faults = Vec::new();
    if let Some(table) = described.table() {
        faults.extend(shape_faults(table)?);
    }
    let ttl = ttl.time_to_live_description();
    let on = ttl
        .and_then(|t| t.time_to_live_status())
        .is_some_and(|status| {
            matches!(
                status,
                TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling
            )
        });
    if !on || ttl.and_then(|t| t.attribute_name()) != Some(at::PURGE_AT) {
        faults.push(Fault {
            part: Part::Ttl,
            what: format!("its TTL attribute is not {}", at::PURGE_AT),
        });
    }
    Ok(faults)
}

fn shape_faults(table: &TableDescription) -> Result<Vec<Fault>, Error> {
    let mut faults = Vec::new();
    let mut add = |part, what| faults.push(Fault { part, what });
    if !same(table.key_schema(), &key_schema(&KEYS)?) {
        add(
            Part::Table,
            "its keys are not pk (HASH) and sk (RANGE)".to_owned(),
        );
    }
    for attribute in attributes()? {
        if !table.attribute_definitions().contains(&attribute) {
            let name = attribute.attribute_name();
            add(Part::Table, format!("its attribute {name} is not a string"));
        }
    }
    let wanted = index()?;
    let mut indexes = table.global_secondary_indexes().iter();
    let found = indexes.find(|index| index.index_name() == Some(at::INDEX));
    if !found.is_some_and(|index| is_index(index, &wanted)) {
        let what = format!("its index {} is missing or of another shape", at::INDEX);
        add(Part::Index, what);
    }
    // A table that was never on demand has no summary.
    let billing = table.billing_mode_summary().and_then(|b| b.billing_mode());
    if billing != Some(&BILLING) {
        add(
            Part::Table,
            format!("its billing is not {}", BILLING.as_str()),
        );
    }
    if is_global(table) {
        add(
            Part::Table,
            "it is a global table, and a lease table has one Region: with several, the last writer wins or there are no \
             transactions"
                .to_owned(),
        );
    }
    Ok(faults)
}

/// With eventual consistency two Regions can grant the same key with the same token. With strong consistency, sets
/// and the queue lack their transactions, and free rows their purge. A witness may stand in for one of the replicas.
fn is_global(table: &TableDescription) -> bool {
    !table.replicas().is_empty()
        || !table.global_table_witnesses().is_empty()
        || table.multi_region_consistency().is_some()
        || table.global_table_version().is_some()
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

/// DynamoDB may return the parts of a key in any order.
fn same(found: &[KeySchemaElement], wanted: &[KeySchemaElement]) -> bool {
    found.len() == wanted.len() && wanted.iter().all(|part| found.contains(part))
}

/// A definition that the SDK does not accept: a bug in this crate.
fn broken(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Misconfigured {
        problem: "the table's definition cannot be used".to_owned(),
        source: Some(Cause::of(error)),
    }
}

fn key_schema(parts: &[(&str, KeyType)]) -> Result<Vec<KeySchemaElement>, Error> {
    let element = |(name, key_type): &(&str, KeyType)| {
        KeySchemaElement::builder()
            .attribute_name(*name)
            .key_type(key_type.clone())
            .build()
            .map_err(|error| broken(&error))
    };
    parts.iter().map(element).collect()
}

fn attributes() -> Result<Vec<AttributeDefinition>, Error> {
    let attribute = |name| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .map_err(|error| broken(&error))
    };
    ATTRIBUTES.into_iter().map(attribute).collect()
}

/// Sparse: only held rows and waiters have a holder. It projects no attribute that an extend changes.
fn index() -> Result<GlobalSecondaryIndex, Error> {
    let projection = Projection::builder()
        .projection_type(ProjectionType::Include)
        .non_key_attributes(at::SWEEP_AFTER)
        .build();
    GlobalSecondaryIndex::builder()
        .index_name(at::INDEX)
        .set_key_schema(Some(key_schema(&INDEX_KEYS)?))
        .projection(projection)
        .build()
        .map_err(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{
        GlobalTableWitnessDescription, MultiRegionConsistency, ReplicaDescription,
    };
    use serde_json::{Value, json};

    use super::*;

    fn keys(schema: &[KeySchemaElement]) -> Value {
        let part = |part: &KeySchemaElement| json!({"AttributeName": part.attribute_name(), "KeyType": part.key_type().as_str()});
        schema.iter().map(part).collect()
    }

    /// The embedded table has no such fields, so the description is written here.
    #[test]
    fn multi_region_table_is_refused() {
        let replica = ReplicaDescription::builder()
            .region_name("eu-west-1")
            .build();
        let witness = GlobalTableWitnessDescription::builder()
            .region_name("eu-west-2")
            .build();
        let table = TableDescription::builder;
        for (described, global) in [
            (table(), false),
            (table().replicas(replica.clone()), true),
            (table().global_table_witnesses(witness), true),
            (
                table().multi_region_consistency(MultiRegionConsistency::Strong),
                true,
            ),
            (table().global_table_version("2019.11.21"), true),
        ] {
            let table = described.build();
            let faults = shape_faults(&table).expect("faults");
            let refused = faults
                .iter()
                .any(|fault| fault.what.contains("global table"));
            assert_eq!(refused, global, "{table:?}");
        }
    }

    #[test]
    fn the_template_defines_the_same_table() {
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml");
        let template = std::fs::read_to_string(template).expect("the template");
        let template: yaml_serde::Value = yaml_serde::from_str(&template).expect("YAML");
        let mut table = template["Resources"]["LeaseTable"]["Properties"].clone();
        // Properties with intrinsic functions are not part of the table's shape.
        let shape = table.as_mapping_mut().expect("properties");
        let is_chosen = ["SSESpecification", "DeletionProtectionEnabled"];
        shape.retain(|name, _| name.as_str().is_none_or(|name| !is_chosen.contains(&name)));
        let table = serde_json::to_value(table).expect("JSON");
        let attributes = attributes().expect("attributes");
        let attribute = |a: &AttributeDefinition| json!({"AttributeName": a.attribute_name(), "AttributeType": a.attribute_type().as_str()});
        let index = index().expect("an index");
        let projection = index.projection().expect("a projection");
        let ours = json!({
            "AttributeDefinitions": attributes.iter().map(attribute).collect::<Value>(),
            "BillingMode": BILLING.as_str(),
            "GlobalSecondaryIndexes": [{
                "IndexName": index.index_name(),
                "KeySchema": keys(index.key_schema()),
                "Projection": {
                    "ProjectionType": projection.projection_type().map(ProjectionType::as_str),
                    "NonKeyAttributes": projection.non_key_attributes(),
                },
            }],
            "KeySchema": keys(&key_schema(&KEYS).expect("keys")),
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true},
            "TimeToLiveSpecification": {"AttributeName": at::PURGE_AT, "Enabled": true},
        });
        assert_eq!(table, ours);
    }
}
