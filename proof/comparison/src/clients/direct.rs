//! Direct calls: a conditional put, update and delete, as one writes them oneself. The row goes when the key is given back, and what
//! it could remember with it; and a refusal is taken to mean that another holds the key, though it may be one's own write whose
//! answer was lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::{Proxy, create_table};
use leasehold_proof::fixture::{n, s};

use super::{Calling, Client};
use crate::fixture::config;
use crate::message;

const TABLE: &str = "locks";
/// As other clients do.
const EVERY: Duration = Duration::from_secs(1);

pub(super) struct Direct {
    client: aws_sdk_dynamodb::Client,
    owner: String,
    lease: Duration,
    key: String,
}

impl Direct {
    pub(super) async fn at(endpoint: &Proxy, number: usize, lease: Duration) -> Self {
        let client = aws_sdk_dynamodb::Client::new(&config(endpoint).await);
        create_table(&client, TABLE, &["pk"], None).await.unwrap();
        let owner =
            format!("arn:aws:states:us-east-1:123456789012:execution:orders:order-{number}");
        Self {
            client,
            owner,
            lease,
            key: String::new(),
        }
    }

    /// A lease from now on.
    fn deadline(&self) -> AttributeValue {
        n(now() + self.lease.as_millis())
    }
}

impl Client for Direct {
    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            key.clone_into(&mut self.key);
            loop {
                let put = self.client.put_item().table_name(TABLE);
                let put = put
                    .item("pk", s(key))
                    .item("owner", s(&self.owner))
                    .item("expires_at", self.deadline())
                    .condition_expression("attribute_not_exists(pk) OR expires_at < :now")
                    .expression_attribute_values(":now", n(now()));
                if applied(put.send().await)? {
                    return Ok(());
                }
                tokio::time::sleep(EVERY).await;
            }
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(async move {
            let update = self
                .client
                .update_item()
                .table_name(TABLE)
                .key("pk", s(&self.key));
            let update = update
                .update_expression("SET expires_at = :until")
                .condition_expression("#owner = :owner")
                .expression_attribute_names("#owner", "owner")
                .expression_attribute_values(":owner", s(&self.owner))
                .expression_attribute_values(":until", self.deadline());
            own(applied(update.send().await)?)
        })
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(async move {
            let delete = self
                .client
                .delete_item()
                .table_name(TABLE)
                .key("pk", s(&self.key));
            let delete = delete
                .condition_expression("#owner = :owner")
                .expression_attribute_names("#owner", "owner")
                .expression_attribute_values(":owner", s(&self.owner));
            own(applied(delete.send().await)?)
        })
    }
}

fn own(applied: bool) -> Result<(), String> {
    applied
        .then_some(())
        .ok_or_else(|| "refused: taken to be no longer its own".to_owned())
}

/// Whether a conditional write was applied; what failed otherwise is an error.
fn applied<T, E, R>(sent: Result<T, SdkError<E, R>>) -> Result<bool, String>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
        Err(error) => Err(message(&error)),
    }
}

/// Milliseconds since the epoch.
fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis()
}
