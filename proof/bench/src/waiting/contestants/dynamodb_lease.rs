//! The crate `dynamodb-lease`: an item that exists while it is held, asked for once a second.

use std::sync::Arc;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    TimeToLiveSpecification,
};
use dynamodb_lease::Lease;

use super::{KEY, told};
use crate::site::Site;
use crate::waiting::course::Course;
use crate::waiting::crew::{Client, Crew};
use crate::waiting::diary::Diary;

pub(super) const SETTINGS: &str = "0.22.1 with its defaults: asks every 1 s, ttl 60 s, extends every 30 s; \
     one Client per waiter, as for one process each; release() awaited";

/// Its default.
const TABLE: &str = "leases";

struct Leaser(dynamodb_lease::Client);

impl Client for Leaser {
    type Held = Lease;

    async fn acquire(&mut self) -> Result<Lease, String> {
        self.0
            .acquire(KEY)
            .await
            .map_err(|error| format!("{error:#}"))
    }

    async fn release(&mut self, held: Lease) -> Result<(), String> {
        held.release().await.map_err(|error| format!("{error:#}"))
    }
}

pub(super) async fn enter(
    site: &Site,
    course: &Course,
    diary: &Arc<Diary>,
) -> Result<Crew, String> {
    let client = aws_sdk_dynamodb::Client::new(&site.config().await);
    table(&client).await?;
    let mut leasers = Vec::with_capacity(course.waiters);
    for _ in 0..course.waiters {
        // Clones of one would share its local locks: they would wait in line inside the process.
        let built = dynamodb_lease::Client::builder().build_and_check_db(client.clone());
        leasers.push(Leaser(built.await.map_err(|error| format!("{error:#}"))?));
    }
    Ok(Crew::of(leasers, course, diary))
}

/// Makes its table, if there is none.
pub(crate) async fn table(client: &aws_sdk_dynamodb::Client) -> Result<(), String> {
    let described = client.describe_table().table_name(TABLE).send().await;
    if described.is_ok() {
        return Ok(());
    }
    create_table(client).await.map_err(|error| told(&error))
}

/// The table that it checks for: hash key `key`, DynamoDB-TTL attribute `lease_expiry`.
pub(crate) async fn create_table(
    client: &aws_sdk_dynamodb::Client,
) -> Result<(), aws_sdk_dynamodb::Error> {
    let key = AttributeDefinition::builder()
        .attribute_name("key")
        .attribute_type(ScalarAttributeType::S)
        .build()?;
    let hash = KeySchemaElement::builder()
        .attribute_name("key")
        .key_type(KeyType::Hash)
        .build()?;
    let table = client.create_table().table_name(TABLE);
    let table = table.billing_mode(BillingMode::PayPerRequest);
    table
        .attribute_definitions(key)
        .key_schema(hash)
        .send()
        .await?;
    let expiry = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name("lease_expiry")
        .build()?;
    let ttl = client.update_time_to_live().table_name(TABLE);
    ttl.time_to_live_specification(expiry).send().await?;
    Ok(())
}
