//! Several items at once: `TransactWriteItems` and `TransactGetItems`.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    error::{BuildError, ProvideErrorMetadata as _, SdkError},
    operation::{
        transact_get_items::TransactGetItemsError, transact_write_items::TransactWriteItemsError,
    },
    types::{
        CancellationReason, ConditionCheck, Get, ReturnValuesOnConditionCheckFailure,
        TransactGetItem, TransactWriteItem, Update,
    },
};

use super::{DynamoDb, place, primary_key, within};
use crate::{
    error::Error,
    row::Stored,
    row::attributes as at,
    store::{
        Address, Settled,
        expressions::{self, Expressions},
        failures::Request,
    },
    transition::Change,
    values::Key,
    waiter::Waiter,
};

/// Transactions have no IAM actions of their own.
pub(super) const WRITE: &str = "dynamodb:UpdateItem";
pub(super) const WRITE_AND_CHECK: &str = "dynamodb:UpdateItem and dynamodb:ConditionCheckItem";

/// The outcome of a transaction.
pub(super) enum Transacted {
    Done,
    /// A reason for each item; see [`is_refused`].
    Refused(Vec<CancellationReason>),
    /// Somebody was writing one of the items.
    Conflict,
}

/// There is no item, or there is an item of the same request that was not written later.
pub(super) const LATEST: &str = "attribute_not_exists(#pk) \
    OR #request = :request AND #asked_at <= :asked_at";

impl DynamoDb {
    /// Writes all items or none. A cancelled transaction has a reason for each item, "None" for items that did not
    /// cause it. Only a refused condition says who holds what, so all other reasons are handled first.
    pub(super) async fn transact<'a>(
        &self,
        request: Request<'_>,
        items: impl Iterator<Item = Result<TransactWriteItem, BuildError>>,
        key_of: impl Fn(usize) -> Option<&'a Key>,
        limit: Duration,
    ) -> Result<Transacted, Error> {
        let items = items
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactWriteItemsError, ()>(unbuilt(error)))?;
        // The SDK sends an idempotency token, so a transaction whose response was lost is not applied again when it
        // is sent again.
        let write = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items));
        let Err(error) = within(write.customize(), limit).send().await else {
            return Ok(Transacted::Done);
        };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                cancelled.cancellation_reasons().to_vec()
            }
            _ => return Err(request.failed(error)),
        };
        let codes: Vec<_> = reasons.iter().map(code).collect();
        if codes.contains(&"TransactionConflict") {
            return Ok(Transacted::Conflict);
        }
        let known = ["None", REFUSED];
        if let Some(at) = codes.iter().position(|code| !known.contains(code)) {
            let message = reasons[at].message().unwrap_or_default();
            let request = self.request(WRITE, key_of(at));
            return Err(request.refused(codes[at], message, error));
        }
        Ok(Transacted::Refused(reasons))
    }

    pub(super) fn transact_item(
        &self,
        address: &Address,
        change: &Change,
    ) -> Result<TransactWriteItem, BuildError> {
        let Expressions {
            condition,
            update,
            names,
            values,
        } = expressions::of(change);
        let (key, table) = (Some(primary_key(address)), self.table.as_str());
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        let item = TransactWriteItem::builder();
        Ok(if update.is_empty() {
            let check = ConditionCheck::builder()
                .table_name(table)
                .set_key(key)
                .condition_expression(condition)
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values(Some(values))
                .return_values_on_condition_check_failure(all_old);
            item.condition_check(check.build()?).build()
        } else {
            let update = Update::builder()
                .table_name(table)
                .set_key(key)
                .condition_expression(condition)
                .update_expression(update)
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values(Some(values))
                .return_values_on_condition_check_failure(all_old);
            item.update(update.build()?).build()
        })
    }

    /// The part of a transaction that stores a waiter's item.
    pub(super) fn put_beside(
        &self,
        key: &Key,
        waiter: &Waiter,
    ) -> Result<TransactWriteItem, BuildError> {
        let attributes = waiter.attributes();
        let set = attributes
            .each_ref()
            .map(|(name, _)| format!("#{name} = :{name}"));
        let name = |name: &str| (format!("#{name}"), name.to_owned());
        let names = attributes.each_ref().map(|(own, _)| name(own));
        let values = attributes.map(|(name, value)| (format!(":{name}"), value));
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression(LATEST)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .update_expression(format!("SET {}", set.join(", ")))
            .set_expression_attribute_names(Some(names.into_iter().chain([name(at::PK)]).collect()))
            .set_expression_attribute_values(Some(HashMap::from(values)));
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }
}

/// Why a transaction was refused that changes the row first, and then an item beside it.
pub(super) fn settled_unless(reasons: &[CancellationReason]) -> Settled {
    let row = reasons.first().filter(|reason| is_refused(reason));
    let row = row.map(|reason| Stored::read(reason.item()));
    row.map_or(Settled::NotWaiting, Settled::Refused)
}

const REFUSED: &str = "ConditionalCheckFailed";

fn code(reason: &CancellationReason) -> &str {
    reason.code().unwrap_or("None")
}

/// Whether this item's condition refused the transaction. Then the reason has the item.
pub(super) fn is_refused(reason: &CancellationReason) -> bool {
    code(reason) == REFUSED
}

/// The read of one row in a transaction.
pub(super) fn transact_get(table: &str, address: &Address) -> Result<TransactGetItem, BuildError> {
    let get = Get::builder()
        .table_name(table)
        .set_key(Some(primary_key(address)));
    Ok(TransactGetItem::builder().get(get.build()?).build())
}

pub(super) fn is_conflict(error: &TransactGetItemsError) -> bool {
    match error {
        TransactGetItemsError::TransactionCanceledException(cancelled) => {
            let reasons = cancelled.cancellation_reasons().iter();
            let mut codes = reasons.filter_map(CancellationReason::code);
            codes.any(|code| code == "TransactionConflict")
        }
        error => error.code() == Some("TransactionConflictException"),
    }
}

pub(super) fn unbuilt<E>(error: BuildError) -> SdkError<E, ()> {
    SdkError::construction_failure(error)
}
