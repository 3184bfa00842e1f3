//! The items of starts in DynamoDB.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::update_item::UpdateItemError,
    types::{
        AttributeValue, Delete, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
    },
};

use super::{
    DynamoDb, is_condition, retry_on_conflict,
    transactions::{Transacted, WRITE, settled_unless},
    within,
};
use crate::{
    error::Error,
    row::attributes as at,
    row::{Item, instant, n, s},
    start::{FAILED, StartItem},
    store::{Address, PutStart, Settled, Settlement},
    transition::Change,
    values::{Key, RequestDigest},
};

/// A start that waits, and only that, is settled; one that has failed, and only that, is dismissed. It is the one that was read,
/// and not one that was stored anew since.
const BEFORE: &str = "#status = :before AND #asked_at = :asked_at";
/// That it has begun is written whatever became of it before.
const ANY: &str = "attribute_exists(#status)";

/// What a settlement writes.
struct Writes {
    condition: &'static str,
    update: String,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl DynamoDb {
    pub(super) async fn put_start_item(
        &self,
        item: &StartItem,
        repeat: bool,
        limit: Duration,
    ) -> Result<PutStart, Error> {
        let attributes = item.attributes();
        let set = attributes
            .each_ref()
            .map(|(name, _)| format!("#{name} = :{name}"));
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(&item.key, &item.request())))
            .expression_attribute_names("#pk", at::PK)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (name, value) in attributes {
            update = update
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        let mut condition = "attribute_not_exists(#pk)".to_owned();
        let mut text = format!("SET {}", set.join(", "));
        if repeat {
            condition.push_str(" OR #status = :failed");
            text.push_str(" REMOVE #reason");
            update = update
                .expression_attribute_names("#reason", at::REASON)
                .expression_attribute_values(":failed", s("failed"));
        }
        let update = update
            .condition_expression(condition)
            .update_expression(text);
        let answered = retry_on_conflict(limit, |limit| {
            within(update.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(_) => Ok(PutStart::Done),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => {
                Ok(match found(refusal.err()).and_then(StartItem::read) {
                    // The response to this very write was lost.
                    Some(found) if found == *item => PutStart::Done,
                    Some(found) => PutStart::Found(found),
                    None => PutStart::Foreign,
                })
            }
            Err(error) => {
                let request = self.request("dynamodb:UpdateItem", Some(&item.key));
                Err(request.failed(error))
            }
        }
    }

    pub(super) async fn read_start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<StartItem>, Error> {
        let item = self.item_at(place(key, request), Some(key), limit).await?;
        Ok(item.as_ref().and_then(StartItem::read))
    }

    /// A write whose response was lost, and that the SDK sends again, finds the start settled already.
    pub(super) async fn settle_alone(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        limit: Duration,
    ) -> Result<Settled, Error> {
        let request = item.request();
        if settlement.deletes() {
            let delete = self
                .client
                .delete_item()
                .table_name(&self.table)
                .set_key(Some(place(&item.key, &request)))
                .condition_expression(BEFORE)
                .expression_attribute_names("#status", at::STATUS)
                .expression_attribute_names("#asked_at", at::ASKED_AT)
                .set_expression_attribute_values(before(item, settlement));
            return match within(delete.customize(), limit).send().await {
                Ok(_) => Ok(Settled::Done),
                Err(SdkError::ServiceError(refusal))
                    if refusal.err().is_conditional_check_failed_exception() =>
                {
                    Ok(Settled::NotWaiting)
                }
                Err(error) => {
                    let request = self.request("dynamodb:DeleteItem", Some(&item.key));
                    Err(request.failed(error))
                }
            };
        }
        let writes = writes(item, settlement);
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place(&item.key, &request)))
            .condition_expression(writes.condition)
            .update_expression(writes.update)
            .set_expression_attribute_names(Some(writes.names))
            .set_expression_attribute_values(Some(writes.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None);
        let answered = retry_on_conflict(limit, |limit| {
            within(update.clone().customize(), limit).send()
        });
        match answered.await {
            Ok(_) => Ok(Settled::Done),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => {
                Ok(Settled::NotWaiting)
            }
            Err(error) => {
                let request = self.request("dynamodb:UpdateItem", Some(&item.key));
                Err(request.failed(error))
            }
        }
    }

    pub(super) async fn settle_with(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        (address, change): (&Address, &Change),
        limit: Duration,
    ) -> Result<Settled, Error> {
        let key = &item.key;
        let row = self.transact_item(address, change);
        let items = [row, self.settling(item, settlement)].into_iter();
        let request = self.request(WRITE, Some(key));
        let reasons = match self.transact(request, items, |_| Some(key), limit).await? {
            Transacted::Done => return Ok(Settled::Done),
            Transacted::Conflict => return Ok(Settled::Conflict),
            Transacted::Refused(reasons) => reasons,
        };
        Ok(settled_unless(&reasons))
    }

    /// The part of a transaction that settles a start.
    fn settling(
        &self,
        item: &StartItem,
        settlement: &Settlement,
    ) -> Result<TransactWriteItem, BuildError> {
        let key = Some(place(&item.key, &item.request()));
        let part = TransactWriteItem::builder();
        if settlement.deletes() {
            let delete = Delete::builder()
                .table_name(&self.table)
                .set_key(key)
                .condition_expression(BEFORE)
                .expression_attribute_names("#status", at::STATUS)
                .expression_attribute_names("#asked_at", at::ASKED_AT)
                .set_expression_attribute_values(before(item, settlement));
            return Ok(part.delete(delete.build()?).build());
        }
        let writes = writes(item, settlement);
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(key)
            .condition_expression(writes.condition)
            .update_expression(writes.update)
            .set_expression_attribute_names(Some(writes.names))
            .set_expression_attribute_values(Some(writes.values));
        Ok(part.update(update.build()?).build())
    }
}

fn writes(item: &StartItem, settlement: &Settlement) -> Writes {
    let (mut set, mut remove) = (
        vec![(at::STATUS, s(settlement.word()))],
        vec![at::SWEEP_AFTER],
    );
    match settlement {
        // Listed under a holder of their own; sweep leaves alone what has no `sweep_after`.
        Settlement::Failed(reason) => {
            set.extend([(at::REASON, s(reason)), (at::HOLDER, s(FAILED))]);
        }
        Settlement::Begun { purge_at } | Settlement::Skipped { purge_at } => {
            set.push((at::PURGE_AT, n(*purge_at)));
            remove.extend([at::HOLDER, at::REASON, at::SUPERSEDED_BY]);
        }
        Settlement::Superseded { by, purge_at } => {
            set.extend([
                (at::SUPERSEDED_BY, s(by.as_str())),
                (at::PURGE_AT, n(*purge_at)),
            ]);
            remove.push(at::HOLDER);
        }
        Settlement::Withdrawn | Settlement::Dismissed => {}
    }
    let names = set
        .iter()
        .map(|(name, _)| *name)
        .chain(remove.iter().copied())
        .chain(settlement.before().map(|_| at::ASKED_AT));
    let names = names
        .map(|name| (format!("#{name}"), name.to_owned()))
        .collect();
    let sets: Vec<_> = set
        .iter()
        .map(|(name, _)| format!("#{name} = :{name}"))
        .collect();
    let removes: Vec<_> = remove.iter().map(|name| format!("#{name}")).collect();
    let values = set
        .into_iter()
        .map(|(name, value)| (format!(":{name}"), value));
    let condition = match settlement.before() {
        Some(_) => BEFORE,
        None => ANY,
    };
    Writes {
        condition,
        update: format!("SET {} REMOVE {}", sets.join(", "), removes.join(", ")),
        names,
        values: values
            .chain(before(item, settlement).into_iter().flatten())
            .collect(),
    }
}

/// The value in [`BEFORE`].
fn before(item: &StartItem, settlement: &Settlement) -> Option<HashMap<String, AttributeValue>> {
    let word = settlement.before()?;
    Some(HashMap::from([
        (":before".to_owned(), s(word)),
        (":asked_at".to_owned(), instant(item.asked_at)),
    ]))
}

fn found(error: &UpdateItemError) -> Option<&Item> {
    match error {
        UpdateItemError::ConditionalCheckFailedException(refused) => refused.item(),
        _ => None,
    }
}

fn place(key: &Key, request: &RequestDigest) -> Item {
    let (pk, sk) = StartItem::address(key, request);
    Item::from([(at::PK.to_owned(), s(&pk)), (at::SK.to_owned(), s(&sk))])
}
