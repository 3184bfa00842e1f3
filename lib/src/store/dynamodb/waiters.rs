//! The waiters: an item for each, apart from the row that has the queue.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::{transact_write_items::TransactWriteItemsError, update_item::UpdateItemError},
    types::{
        AttributeValue, CancellationReason, ReturnValue, ReturnValuesOnConditionCheckFailure,
        TransactWriteItem, Update,
    },
};

use super::{
    DynamoDb, is_condition, place, retry_on_conflict,
    transactions::{cancellation, unbuilt},
    within,
};
use crate::{
    clock::Timestamp,
    error::Error,
    row::attributes as at,
    row::{Stored, instant, n, s},
    store::{Address, Joined, foreign_item},
    transition::{Change, Join},
    values::{Key, RequestDigest},
    waiter::Waiter,
};

/// There is no item, or there is an item of the same request that was not written later.
const LATEST: &str = "attribute_not_exists(#pk) \
    OR #request = :request AND (attribute_not_exists(#asked_at) OR #asked_at <= :asked_at)";

impl DynamoDb {
    pub(super) async fn write_both(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<Joined, Error> {
        let request = self.request("dynamodb:UpdateItem", Some(key));
        let address = Address {
            key: key.clone(),
            permit: 0,
        };
        let line = self.transact_item(&address, &Change::Join(join.clone()));
        let beside = self.put_beside(key, waiter);
        let items = line.and_then(|line| Ok(vec![line, beside?]));
        let items =
            items.map_err(|error| request.failed::<TransactWriteItemsError, ()>(unbuilt(error)))?;
        let write = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items));
        let Err(error) = within(write.customize(), limit).send().await else {
            return Ok(Joined::Done);
        };
        let Some(cancelled) = cancellation(&error) else {
            return Err(request.failed(error));
        };
        let code = |at: usize| cancelled.get(at).and_then(CancellationReason::code);
        let codes = [code(0), code(1)].map(|code| code.unwrap_or("None"));
        let known = ["None", "ConditionalCheckFailed"];
        if codes.contains(&"TransactionConflict") {
            return Ok(Joined::Conflict);
        }
        if let Some(at) = codes.iter().position(|code| !known.contains(code)) {
            let message = cancelled[at].message().unwrap_or_default();
            return Err(request.refused(codes[at], message, error));
        }
        Ok(match codes {
            ["None", _] => match cancelled[1].item().and_then(Waiter::read) {
                Some(found) if found.request == waiter.request => Joined::SupersededByLaterCall,
                _ => Joined::ForeignItem,
            },
            _ => Joined::Refused(Stored::read(cancelled[0].item())),
        })
    }

    fn put_beside(
        &self,
        key: &Key,
        waiter: &Waiter,
    ) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
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

    pub(super) async fn read_waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<Waiter>, Error> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(request))))
            .consistent_read(true);
        let output = within(get.customize(), limit).send().await;
        let output = output.map_err(|e| self.request("dynamodb:GetItem", Some(key)).failed(e))?;
        Ok(output.item().and_then(Waiter::read))
    }

    pub(super) async fn write_token(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<Waiter, Error> {
        let attributes = waiter.attributes();
        // The other attributes stay, because the place in the queue belongs to the first call.
        let set = attributes.each_ref().map(|(name, _)| match *name {
            at::TASK_TOKEN | at::ASKED_AT => format!("#{name} = :{name}"),
            _ => format!("#{name} = if_not_exists(#{name}, :{name})"),
        });
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression(LATEST)
            .update_expression(format!("SET {}", set.join(", ")))
            .expression_attribute_names("#pk", at::PK)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (name, value) in attributes {
            update = update
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        let answered = retry_on_conflict(limit, |limit| {
            within(update.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(output) => output
                .attributes()
                .and_then(Waiter::read)
                .ok_or_else(|| foreign_item(key, &waiter.request)),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => {
                let item = match refusal.err() {
                    UpdateItemError::ConditionalCheckFailedException(refused) => refused.item(),
                    _ => None,
                };
                let found = item.and_then(Waiter::read);
                let same = found.filter(|found| found.request == waiter.request);
                same.ok_or_else(|| foreign_item(key, &waiter.request))
            }
            Err(error) => Err(self.request("dynamodb:UpdateItem", Some(key)).failed(error)),
        }
    }

    pub(super) async fn delete_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<(), Error> {
        let token: AttributeValue = s(waiter.task_token.expose());
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression("#task_token = :task_token")
            .expression_attribute_names("#task_token", at::TASK_TOKEN)
            .expression_attribute_values(":task_token", token)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None);
        let answered = retry_on_conflict(limit, |limit| {
            within(delete.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refusal))
                if refusal.err().is_conditional_check_failed_exception() =>
            {
                Ok(())
            }
            Err(error) => Err(self.request("dynamodb:DeleteItem", Some(key)).failed(error)),
        }
    }

    pub(super) async fn retire_waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        now: Timestamp,
        limit: Duration,
    ) -> Result<(), Error> {
        let gone = Waiter::WHILE_IT_WAITS.map(|name| format!("#{name}"));
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(request))))
            .condition_expression("#asked_at < :now")
            .update_expression(format!(
                "SET #purge_at = :purge_at REMOVE {}",
                gone.join(", ")
            ))
            .expression_attribute_values(":now", instant(now))
            .expression_attribute_values(":purge_at", n(now.as_millis() / 1000))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None);
        for name in Waiter::WHILE_IT_WAITS.into_iter().chain([at::PURGE_AT]) {
            update = update.expression_attribute_names(format!("#{name}"), name);
        }
        match within(update.customize(), limit).send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => Ok(()),
            Err(error) => Err(self.request("dynamodb:UpdateItem", Some(key)).failed(error)),
        }
    }
}
