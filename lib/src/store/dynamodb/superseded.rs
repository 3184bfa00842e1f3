//! The items of waiters that were sent away for a later one: a note stays of each.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    types::{ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};

use super::{DynamoDb, is_condition, place, retry_on_conflict, within};
use crate::{
    clock::Timestamp,
    error::Error,
    row::attributes as at,
    row::{instant, s},
    values::{Holder, Key},
    waiter::Waiter,
};

/// The waiter has not asked again since it was read.
pub(super) const SAME_TOKEN: &str = "#task_token = :task_token";

impl DynamoDb {
    /// The part of a transaction that notes who came later. It asked at the end of time, so that no copy of its request counts as later.
    pub(super) fn superseding(
        &self,
        key: &Key,
        waiter: &Waiter,
        by: &Holder,
    ) -> Result<TransactWriteItem, BuildError> {
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression(SAME_TOKEN)
            .update_expression("SET #superseded_by = :by, #asked_at = :never")
            .expression_attribute_names("#task_token", at::TASK_TOKEN)
            .expression_attribute_names("#superseded_by", at::SUPERSEDED_BY)
            .expression_attribute_names("#asked_at", at::ASKED_AT)
            .expression_attribute_values(":task_token", s(waiter.task_token.expose()))
            .expression_attribute_values(":by", s(by.as_str()))
            .expression_attribute_values(":never", instant(Timestamp::MAX));
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }

    /// It was told: the note leaves the index, so that nobody tells it again.
    pub(super) async fn keep_note(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<(), Error> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression(SAME_TOKEN)
            .update_expression("REMOVE #holder, #sweep_after, #task_token")
            .expression_attribute_names("#task_token", at::TASK_TOKEN)
            .expression_attribute_names("#holder", at::HOLDER)
            .expression_attribute_names("#sweep_after", at::SWEEP_AFTER)
            .expression_attribute_values(":task_token", s(waiter.task_token.expose()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None);
        let answered = retry_on_conflict(limit, |limit| {
            within(update.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => Ok(()),
            Err(error) => Err(self.request("dynamodb:UpdateItem", Some(key)).failed(error)),
        }
    }
}
