//! Several rows at once: `TransactWriteItems` and `TransactGetItems`.

use std::time::Duration;

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

use super::{DynamoDb, primary_key, within};
use crate::{
    error::Error,
    row::Stored,
    store::{
        Address, AppliedAll,
        expressions::{self, Expressions},
    },
    transition::Change,
};

/// Transactions have no IAM actions of their own.
const WRITE: &str = "dynamodb:UpdateItem";
const WRITE_AND_CHECK: &str = "dynamodb:UpdateItem and dynamodb:ConditionCheckItem";

impl DynamoDb {
    pub(super) async fn write_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> Result<AppliedAll, Error> {
        let checks = |(_, change): &(_, Change)| matches!(change, Change::CheckHeld(_));
        let action = if changes.iter().any(checks) {
            WRITE_AND_CHECK
        } else {
            WRITE
        };
        let request = self.request(action, None);
        let items = changes
            .iter()
            .map(|(address, change)| self.transact_item(address, change));
        let items = items
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactWriteItemsError, ()>(unbuilt(error)))?;
        // The SDK sends an idempotency token, so a transaction whose response was lost is not applied again when it
        // is sent again.
        let write = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items));
        match within(write.customize(), limit).send().await {
            Ok(_) => Ok(AppliedAll::Done),
            Err(error) => match cancellation(&error) {
                Some(reasons) => self.cancelled(changes, &reasons, error),
                None => Err(request.failed(error)),
            },
        }
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

    /// A cancelled transaction has a reason for each item, "None" for items that did not cause it. Only a refused
    /// condition says who holds what, so all other reasons are handled first.
    fn cancelled(
        &self,
        changes: &[(Address, Change)],
        reasons: &[CancellationReason],
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Result<AppliedAll, Error> {
        let code = |reason: &CancellationReason| reason.code().unwrap_or("None").to_owned();
        if reasons
            .iter()
            .any(|reason| code(reason) == "TransactionConflict")
        {
            return Ok(AppliedAll::Conflict);
        }
        let known = |code: &str| matches!(code, "None" | "ConditionalCheckFailed");
        let other = reasons.iter().position(|reason| !known(&code(reason)));
        if let Some(at) = other {
            let key = changes.get(at).map(|(address, _)| &address.key);
            let message = reasons[at].message().unwrap_or_default();
            return Err(self
                .request(WRITE, key)
                .refused(&code(&reasons[at]), message, error));
        }
        let refused = reasons.iter().map(|reason| {
            (code(reason) == "ConditionalCheckFailed").then(|| Stored::read(reason.item()))
        });
        Ok(AppliedAll::Refused(refused.collect()))
    }

    pub(super) async fn get_all(
        &self,
        addresses: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        let request = self.request("dynamodb:GetItem", None);
        let gets = addresses.iter().map(|address| {
            let get = Get::builder()
                .table_name(&self.table)
                .set_key(Some(primary_key(address)));
            Ok(TransactGetItem::builder().get(get.build()?).build())
        });
        let gets = gets
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactWriteItemsError, ()>(unbuilt(error)))?;
        let get = self
            .client
            .transact_get_items()
            .set_transact_items(Some(gets));
        match within(get.customize(), limit).send().await {
            Ok(output) => {
                let items = output.responses().iter();
                let rows = items.map(|found| Stored::read(found.item()));
                Ok(Some(rows.collect()))
            }
            // The SDK does not retry a read that conflicts with a writer.
            Err(SdkError::ServiceError(refusal)) if is_conflict(refusal.err()) => Ok(None),
            Err(error) => Err(request.failed(error)),
        }
    }
}

/// Why a transaction was cancelled, for each item; none if it failed in another way.
pub(super) fn cancellation<R>(
    error: &SdkError<TransactWriteItemsError, R>,
) -> Option<Vec<CancellationReason>> {
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            Some(cancelled.cancellation_reasons().to_vec())
        }
        _ => None,
    }
}

fn is_conflict(error: &TransactGetItemsError) -> bool {
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
