//! Direct calls: a conditional put, update and delete, as one writes them oneself. The floor of what a lock can cost
//! on DynamoDB. The row goes when the key is given back, and what it could remember with it; and a refusal is taken to
//! mean that another holds the key, though it may be one's own write whose answer was lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};

use super::{Lock, Setting, TABLE, Who, told};
use crate::site::Site;

pub(super) const SETTINGS: &str = "aws-sdk-dynamodb with its defaults: PutItem if there is no row or it has expired, UpdateItem and \
     DeleteItem if it is still the own; asks every 1 s; neither a token nor a memory of requests";

/// As other clients do.
const EVERY: Duration = Duration::from_secs(1);

/// A client, and whose name it writes.
pub struct Direct {
    /// The table's client.
    pub client: Client,
    lease: Duration,
    owner: String,
}

impl Direct {
    /// A client at the door that `config` leads to.
    pub async fn at(
        config: &aws_config::SdkConfig,
        lease: Duration,
        owner: &str,
    ) -> Result<Self, String> {
        let client = Client::new(config);
        table(&client, TABLE).await?;
        Ok(Self {
            client,
            lease,
            owner: owner.to_owned(),
        })
    }

    /// A lease from now on.
    fn deadline(&self) -> AttributeValue {
        number(now() + self.lease.as_millis())
    }

    /// One conditional put: whether it was applied.
    async fn put(&self, key: &str) -> Result<bool, String> {
        let put = self.client.put_item().table_name(TABLE);
        let put = put
            .item("pk", text(key))
            .item("owner", text(&self.owner))
            .item("expires_at", self.deadline())
            .condition_expression("attribute_not_exists(pk) OR expires_at < :now")
            .expression_attribute_values(":now", number(now()));
        refusable(put.send().await)
    }
}

impl Lock for Direct {
    const WHO: Who = Who::DirectCalls;
    type Held = String;

    async fn enter(site: &Site, setting: &Setting) -> Result<Self, String> {
        Self::at(&site.config().await, setting.lease, super::ours::HOLDER).await
    }

    async fn acquire(&mut self, key: &str) -> Result<String, String> {
        while !self.put(key).await? {
            tokio::time::sleep(EVERY).await;
        }
        Ok(key.to_owned())
    }

    async fn extend(&mut self, held: &mut String) -> Result<(), String> {
        let update = self.client.update_item().table_name(TABLE);
        let update = update
            .key("pk", text(held))
            .update_expression("SET expires_at = :until")
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(&self.owner))
            .expression_attribute_values(":until", self.deadline());
        own(refusable(update.send().await)?)
    }

    async fn release(&mut self, held: String) -> Result<(), String> {
        let delete = self.client.delete_item().table_name(TABLE);
        let delete = delete
            .key("pk", text(&held))
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(&self.owner));
        own(refusable(delete.send().await)?)
    }
}

fn own(applied: bool) -> Result<(), String> {
    let no = || "refused: taken to be no longer its own".to_owned();
    applied.then_some(()).ok_or_else(no)
}

/// Whether a conditional write was applied; what failed otherwise is an error.
pub(in crate::counts) fn refusable<T, E, R>(sent: Result<T, SdkError<E, R>>) -> Result<bool, String>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    match sent {
        Ok(_) => Ok(true),
        Err(error) => match error
            .as_service_error()
            .and_then(ProvideErrorMetadata::code)
        {
            Some("ConditionalCheckFailedException") => Ok(false),
            _ => Err(told(&error)),
        },
    }
}

/// Makes a table with the hash key `pk`, if there is none.
pub(in crate::counts) async fn table(client: &Client, name: &str) -> Result<(), String> {
    let described = client.describe_table().table_name(name).send().await;
    if described.is_ok() {
        return Ok(());
    }
    create(client, name).await.map_err(|error| told(&error))
}

async fn create(client: &Client, name: &str) -> Result<(), aws_sdk_dynamodb::Error> {
    let key = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build()?;
    let hash = KeySchemaElement::builder()
        .attribute_name("pk")
        .key_type(KeyType::Hash)
        .build()?;
    let table = client.create_table().table_name(name);
    let table = table.billing_mode(BillingMode::PayPerRequest);
    let table = table.attribute_definitions(key).key_schema(hash);
    table.send().await?;
    Ok(())
}

/// A text, as an attribute.
pub(in crate::counts) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: u128) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Milliseconds since the epoch.
fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}
