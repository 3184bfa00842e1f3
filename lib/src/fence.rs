//! Fenced writes: the resource's side of a fencing token.
//!
//! A lease cannot stop a holder that was paused and resumes late. The write can, if it carries one of two conditions.
//! Either the lease still exists ([`Lease::condition_check`], in a transaction with the lease row), or the item has
//! seen no newer token ([`condition`], for any single item of any table).

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{AttributeValue, ConditionCheck},
};

use crate::{
    outcomes::Lease,
    row::attributes as at,
    row::{n, s},
    values::Counter,
};

/// A condition on an item that stores the largest token it was written with, and the update that stores it. Join them
/// with your own by ` AND ` and by `, `.
///
/// ```no_run
/// # async fn example(client: aws_sdk_dynamodb::Client, lease: leasehold::Lease) -> Result<(), Box<dyn
/// std::error::Error>> { use aws_sdk_dynamodb::types::AttributeValue::S;
/// use leasehold::fence;
///
/// let guard = fence::condition(lease.fencing_token);
/// client
///     .update_item()
///     .table_name("orders")
///     .key("pk", S("orders/42".into()))
///     .condition_expression(guard.condition)
///     .update_expression(format!("SET {}, #status = :status", guard.assignment))
///     .set_expression_attribute_names(Some(guard.names))
///     .set_expression_attribute_values(Some(guard.values))
///     .expression_attribute_names("#status", "status")
///     .expression_attribute_values(":status", S("paid".into()))
///     .send()
///     .await?; // ConditionalCheckFailedException: a later holder wrote before; stop
/// # Ok(())
/// # }
/// ```
///
/// If a holder reads the item before it writes, it should raise the fence when it reads: by this same update with
/// `ReturnValue::AllNew`. Until the fence is raised, an earlier holder whose lease has expired may still write in
/// between.
#[derive(Clone, Debug, PartialEq)]
pub struct Fence {
    /// `(attribute_not_exists(#fence) OR #fence <= :fencing_token)`
    pub condition: &'static str,
    /// `#fence = :fencing_token`, for the `SET` of an update.
    pub assignment: &'static str,
    /// `#fence`: the attribute `fence`.
    pub names: HashMap<String, String>,
    /// `:fencing_token`: the token.
    pub values: HashMap<String, AttributeValue>,
}

/// The guard of a write under the lease that has this token. The same token may write again.
#[must_use]
pub fn condition(fencing_token: Counter) -> Fence {
    Fence {
        condition: "(attribute_not_exists(#fence) OR #fence <= :fencing_token)",
        assignment: "#fence = :fencing_token",
        names: HashMap::from([("#fence".to_owned(), "fence".to_owned())]),
        values: HashMap::from([(":fencing_token".to_owned(), n(fencing_token.get()))]),
    }
}

impl Lease {
    /// A check for a `TransactWriteItems` of your own: the transaction is applied only if this very grant is still in
    /// the lease table `table`. It compares no clock. A lease that has expired and was not taken over passes, because
    /// an extend would revive it.
    ///
    /// The expression contains the `lease_id`, which is a secret.
    ///
    /// ```no_run
    /// # async fn example(client: aws_sdk_dynamodb::Client, lease: leasehold::Lease, update:
    /// aws_sdk_dynamodb::types::Update) -> Result<(), Box<dyn std::error::Error>> { use
    /// aws_sdk_dynamodb::types::TransactWriteItem;
    ///
    /// let check = lease.condition_check("leases")?;
    /// client
    ///     .transact_write_items()
    ///     .transact_items(TransactWriteItem::builder().condition_check(check).build())
    ///     .transact_items(TransactWriteItem::builder().update(update).build())
    ///     .send()
    ///     .await?; // TransactionCanceledException: the lease has ended, or another wrote; look which
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// None with this version of the SDK. Its builder returns a `Result` because it refuses a missing field.
    pub fn condition_check(&self, table: &str) -> Result<ConditionCheck, BuildError> {
        ConditionCheck::builder()
            .table_name(table)
            .key(at::PK, s(self.key.as_str()))
            .key(at::SK, s(&at::lease_sk(self.permit)))
            .condition_expression("#lease_id = :lease_id AND #fencing_token = :fencing_token")
            .expression_attribute_names("#lease_id", at::LEASE_ID)
            .expression_attribute_names("#fencing_token", at::FENCING_TOKEN)
            .expression_attribute_values(":lease_id", s(self.lease_id.expose()))
            .expression_attribute_values(":fencing_token", n(self.fencing_token.get()))
            .build()
    }
}
