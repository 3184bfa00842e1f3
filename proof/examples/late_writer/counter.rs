//! A counter in an item of a table, read and written under a lease, with a guard or without.

use std::{collections::HashMap, error::Error, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    error::SdkError,
    operation::{
        transact_write_items::TransactWriteItemsError,
        update_item::{UpdateItemError, builders::UpdateItemFluentBuilder},
    },
    types::{AttributeValue, ReturnValue, TransactWriteItem, Update},
};
use clap::ValueEnum;
use leasehold::{Lease, fence};

/// What keeps a late write out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Guard {
    /// A transaction that happens only while the lease is in the lease table.
    Lease,
    /// The item remembers the largest token that it was used with, and refuses smaller ones.
    Fence,
    /// Nothing at all.
    #[value(name = "none")]
    Nothing,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It happened.
    Done,
    /// The guard kept it out.
    Refused,
}

/// Where the counters are: one item per key.
pub struct Counter {
    pub client: Client,
    pub table: String,
    pub lease_table: String,
    pub guard: Guard,
}

const SK: &str = "COUNTER";
/// A transaction that met another one of the same items is sent this often, and waits this long in between.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

impl Counter {
    /// The counter as it is now; none if the guard tells already that somebody else came after.
    pub async fn read(&self, lease: &Lease) -> Result<Option<u64>, Box<dyn Error>> {
        if self.guard == Guard::Fence {
            return self.fence_and_read(lease).await;
        }
        let get = self.client.get_item().table_name(&self.table);
        let get = get.key("pk", pk(lease)).key("sk", text(SK));
        let output = get.consistent_read(true).send().await?;
        Ok(Some(count(output.item())))
    }

    /// Shows the token to the item before anything is read of it. Were it shown by the write alone,
    /// a late writer could still write between this reading and this writing, and be overwritten.
    async fn fence_and_read(&self, lease: &Lease) -> Result<Option<u64>, Box<dyn Error>> {
        let guard = fence::condition(lease.fencing_token);
        let update = self
            .update(lease)
            .condition_expression(guard.condition)
            .update_expression(format!("SET {}", guard.assignment))
            .set_expression_attribute_names(Some(guard.names))
            .set_expression_attribute_values(Some(guard.values))
            .return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(output) => Ok(Some(count(output.attributes()))),
            Err(error) if is_refused(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the counter. The value is absolute, so that a repeated write does no harm.
    pub async fn write(&self, lease: &Lease, value: u64) -> Result<Written, Box<dyn Error>> {
        match self.guard {
            Guard::Lease => self.write_under_lease(lease, value).await,
            Guard::Fence => {
                let guard = fence::condition(lease.fencing_token);
                let update = self
                    .update(lease)
                    .condition_expression(guard.condition)
                    .update_expression(format!("SET {}, #count = :count", guard.assignment))
                    .set_expression_attribute_names(Some(guard.names))
                    .set_expression_attribute_values(Some(guard.values));
                written(with_count(update, value).send().await)
            }
            Guard::Nothing => {
                let update = self.update(lease).update_expression("SET #count = :count");
                written(with_count(update, value).send().await)
            }
        }
    }

    async fn write_under_lease(
        &self,
        lease: &Lease,
        value: u64,
    ) -> Result<Written, Box<dyn Error>> {
        let update = Update::builder()
            .table_name(&self.table)
            .key("pk", pk(lease))
            .key("sk", text(SK))
            .update_expression("SET #count = :count")
            .expression_attribute_names("#count", "count")
            .expression_attribute_values(":count", number(value))
            .build()?;
        let check = lease.condition_check(&self.lease_table)?;
        let mut attempts = 1;
        loop {
            let transaction = self
                .client
                .transact_write_items()
                .transact_items(
                    TransactWriteItem::builder()
                        .condition_check(check.clone())
                        .build(),
                )
                .transact_items(TransactWriteItem::builder().update(update.clone()).build());
            match transaction.send().await {
                Ok(_) => return Ok(Written::Done),
                Err(error) if has_reason(&error, "ConditionalCheckFailed") => {
                    return Ok(Written::Refused);
                }
                // Another call wrote to one of the items at the same moment, or only tried to acquire the
                // lease. The conflict says nothing about the lease, and the SDK does not retry it.
                Err(error) if has_reason(&error, "TransactionConflict") && attempts < ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn update(&self, lease: &Lease) -> UpdateItemFluentBuilder {
        let update = self.client.update_item().table_name(&self.table);
        update.key("pk", pk(lease)).key("sk", text(SK))
    }
}

fn with_count(update: UpdateItemFluentBuilder, value: u64) -> UpdateItemFluentBuilder {
    update
        .expression_attribute_names("#count", "count")
        .expression_attribute_values(":count", number(value))
}

fn written<T>(sent: Result<T, SdkError<UpdateItemError>>) -> Result<Written, Box<dyn Error>> {
    match sent {
        Ok(_) => Ok(Written::Done),
        Err(error) if is_refused(&error) => Ok(Written::Refused),
        Err(error) => Err(error.into()),
    }
}

fn is_refused(error: &SdkError<UpdateItemError>) -> bool {
    error
        .as_service_error()
        .is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}

/// Whether the transaction was cancelled for this reason, on any of its items.
fn has_reason(error: &SdkError<TransactWriteItemsError>, code: &str) -> bool {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        return false;
    };
    let mut reasons = cancelled.cancellation_reasons().iter();
    reasons.any(|reason| reason.code() == Some(code))
}

fn count(item: Option<&HashMap<String, AttributeValue>>) -> u64 {
    let count = item.and_then(|item| item.get("count")?.as_n().ok()?.parse().ok());
    count.unwrap_or(0)
}

fn pk(lease: &Lease) -> AttributeValue {
    text(lease.key.as_str())
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(n: u64) -> AttributeValue {
    AttributeValue::N(n.to_string())
}
