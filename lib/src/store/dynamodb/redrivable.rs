//! The items of executions that may be redriven, in DynamoDB.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::SdkError, operation::update_item::UpdateItemError,
    types::ReturnValuesOnConditionCheckFailure,
};

use super::{DynamoDb, is_condition, retry_on_conflict, within};
use crate::{
    clock::Timestamp,
    error::Error,
    redrivable::Redrivable,
    row::attributes as at,
    row::{Item, n, s},
    values::{Key, RequestDigest},
};

const UNCHANGED: &str = "#version = :seen";

impl DynamoDb {
    pub(super) async fn read_redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<Redrivable>, Error> {
        let item = self.item_at(place(key, request), Some(key), limit).await?;
        Ok(item.as_ref().and_then(Redrivable::read))
    }

    pub(super) async fn write_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        limit: Duration,
    ) -> Result<bool, Error> {
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(&noted.key, &noted.request())))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        update = match seen {
            Some(version) => update
                .condition_expression(UNCHANGED)
                .expression_attribute_values(":seen", n(version)),
            None => update
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", at::PK),
        };
        let mut set = Vec::new();
        for (name, value) in noted.attributes(times) {
            set.push(format!("#{name} = :{name}"));
            update = update
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        let update = update.update_expression(format!("SET {}", set.join(", ")));
        let answered = retry_on_conflict(limit, |limit| {
            within(update.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => {
                let found = match refusal.err() {
                    UpdateItemError::ConditionalCheckFailedException(refused) => refused.item(),
                    _ => None,
                };
                // The response to this very write was lost.
                Ok(found.and_then(Redrivable::read).as_ref() == Some(noted))
            }
            Err(error) => {
                let request = self.request("dynamodb:UpdateItem", Some(&noted.key));
                Err(request.failed(error))
            }
        }
    }

    pub(super) async fn delete_redrivable(
        &self,
        noted: &Redrivable,
        limit: Duration,
    ) -> Result<(), Error> {
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(place(&noted.key, &noted.request())))
            .condition_expression(UNCHANGED)
            .expression_attribute_names("#version", at::VERSION)
            .expression_attribute_values(":seen", n(noted.version));
        match within(delete.customize(), limit).send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(refusal))
                if refusal.err().is_conditional_check_failed_exception() =>
            {
                Ok(())
            }
            Err(error) => {
                let request = self.request("dynamodb:DeleteItem", Some(&noted.key));
                Err(request.failed(error))
            }
        }
    }
}

fn place(key: &Key, request: &RequestDigest) -> Item {
    let (pk, sk) = Redrivable::address(key, request);
    Item::from([(at::PK.to_owned(), s(&pk)), (at::SK.to_owned(), s(&sk))])
}
