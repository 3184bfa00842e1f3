//! From writes and reads to requests: one alone is an `UpdateItem`, a `DeleteItem` or a `GetItem`, several are a transaction.

use std::{collections::HashMap, future::Future, time::Duration};

use aws_sdk_dynamodb::{
    error::{BuildError, ProvideErrorMetadata, SdkError},
    operation::{
        delete_item::{DeleteItemError, DeleteItemOutput},
        transact_get_items::TransactGetItemsError,
        transact_write_items::TransactWriteItemsError,
        update_item::{UpdateItemError, UpdateItemOutput},
    },
    types::{
        CancellationReason, ConditionCheck, Delete, Get, ReturnValue,
        ReturnValuesOnConditionCheckFailure, TransactGetItem, TransactWriteItem, Update,
    },
};
use tokio::time::sleep;

use super::{DynamoDb, within};
use crate::{
    clock::stopwatch,
    error::Error,
    retry::Backoff,
    row::attributes as at,
    row::{Item, s},
    store::{
        ItemAddress, Slot, Write, Written,
        expressions::{self, Act, Expressions},
    },
};

const UPDATE: &str = "dynamodb:UpdateItem";
const DELETE: &str = "dynamodb:DeleteItem";
const GET: &str = "dynamodb:GetItem";
const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

impl DynamoDb {
    /// Writes one item.
    pub(super) async fn write_alone(
        &self,
        write: &Write,
        limit: Duration,
    ) -> Result<Written, Error> {
        let address = write.address();
        let (place, key) = (place(&address), address.key());
        if write.deletes() {
            let answered = retry_on_conflict(limit, |limit| self.delete(&place, write, limit));
            return match answered.await {
                Ok(output) => Ok(Written::Done(found(output.attributes))),
                Err(SdkError::ServiceError(refusal)) if is_refusal(refusal.err()) => {
                    let found = match refusal.into_err() {
                        DeleteItemError::ConditionalCheckFailedException(refused) => refused.item,
                        _ => None,
                    };
                    Ok(Written::Refused(vec![Some(Slot::of(found))]))
                }
                Err(error) => Err(self.request(DELETE, key).failed(error)),
            };
        }
        // On the heap, because otherwise the futures of the callers nest too deep for the compiler.
        let answered = Box::pin(retry_on_conflict(limit, |limit| {
            self.update(&place, write, limit)
        }));
        match answered.await {
            Ok(output) => Ok(Written::Done(found(output.attributes))),
            Err(SdkError::ServiceError(refusal)) if is_refusal(refusal.err()) => {
                let found = match refusal.into_err() {
                    UpdateItemError::ConditionalCheckFailedException(refused) => refused.item,
                    _ => None,
                };
                Ok(Written::Refused(vec![Some(Slot::of(found))]))
            }
            Err(error) => Err(self.request(UPDATE, key).failed(error)),
        }
    }

    async fn update(
        &self,
        place: &Item,
        write: &Write,
        limit: Duration,
    ) -> Result<UpdateItemOutput, SdkError<UpdateItemError>> {
        let texts = expressions::of(write);
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place.clone()))
            .condition_expression(texts.condition)
            .set_update_expression(texts.act.into_update())
            .set_expression_attribute_names(Some(texts.names))
            .set_expression_attribute_values(Some(texts.values))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ALL_OLD);
        within(update.customize(), limit).send().await
    }

    async fn delete(
        &self,
        place: &Item,
        write: &Write,
        limit: Duration,
    ) -> Result<DeleteItemOutput, SdkError<DeleteItemError>> {
        let texts = expressions::of(write);
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(place.clone()))
            .condition_expression(texts.condition)
            .set_expression_attribute_names(Some(texts.names))
            .set_expression_attribute_values(Some(texts.values))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ALL_OLD);
        within(delete.customize(), limit).send().await
    }

    /// Writes all items or none. A cancelled transaction has a reason for each item, "None" for items that did not
    /// cause it. Only a refused condition says who holds what, so all other reasons are handled first.
    pub(super) async fn write_together(
        &self,
        writes: &[Write],
        limit: Duration,
    ) -> Result<Written, Error> {
        let addresses: Vec<_> = writes.iter().map(Write::address).collect();
        let keys: Vec<_> = addresses.iter().map(ItemAddress::key).collect();
        let same = keys.iter().all(|key| Some(key) == keys.first());
        let key = keys.first().copied().flatten().filter(|_| same);
        let texts: Vec<_> = writes.iter().map(expressions::of).collect();
        let request = self.request(action(&texts), key);
        let parts = addresses.iter().zip(texts);
        let parts = parts
            .map(|(address, texts)| self.part(address, texts))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactWriteItemsError, ()>(unbuilt(error)))?;
        // The SDK sends an idempotency token, so a transaction whose response was lost is not applied again when it
        // is sent again.
        let write = self
            .client
            .transact_write_items()
            .set_transact_items(Some(parts));
        let Err(error) = within(write.customize(), limit).send().await else {
            return Ok(Written::Done(Slot::EMPTY));
        };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                cancelled.cancellation_reasons().to_vec()
            }
            _ => return Err(request.failed(error)),
        };
        let codes: Vec<_> = reasons.iter().map(code).collect();
        if codes.contains(&CONFLICT) {
            return Ok(Written::Conflict);
        }
        let known = ["None", REFUSED];
        if let Some(at) = codes.iter().position(|code| !known.contains(code)) {
            let message = reasons[at].message().unwrap_or_default();
            let request = self.request(UPDATE, keys.get(at).copied().flatten());
            return Err(request.refused(codes[at], message, error));
        }
        let refused = reasons.into_iter().map(|reason| {
            let is_refused = code(&reason) == REFUSED;
            is_refused.then(|| Slot::of(reason.item))
        });
        Ok(Written::Refused(refused.collect()))
    }

    fn part(
        &self,
        address: &ItemAddress,
        texts: Expressions,
    ) -> Result<TransactWriteItem, BuildError> {
        let Expressions {
            condition,
            act,
            names,
            values,
        } = texts;
        let (key, table) = (Some(place(address)), self.table.as_str());
        let (names, values) = (Some(names), Some(values));
        let item = TransactWriteItem::builder();
        Ok(match act {
            Act::Check => {
                let check = ConditionCheck::builder()
                    .table_name(table)
                    .set_key(key)
                    .condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(ALL_OLD);
                item.condition_check(check.build()?).build()
            }
            Act::Update(update) => {
                let update = Update::builder()
                    .table_name(table)
                    .set_key(key)
                    .condition_expression(condition)
                    .update_expression(update)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(ALL_OLD);
                item.update(update.build()?).build()
            }
            Act::Delete => {
                let delete = Delete::builder()
                    .table_name(table)
                    .set_key(key)
                    .condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(ALL_OLD);
                item.delete(delete.build()?).build()
            }
        })
    }

    /// Reads one item. Never a stale one.
    pub(super) async fn read_alone(
        &self,
        address: &ItemAddress,
        limit: Duration,
    ) -> Result<Slot, Error> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(place(address)))
            .consistent_read(true);
        let output = within(get.customize(), limit).send().await;
        let output = output.map_err(|e| self.request(GET, address.key()).failed(e))?;
        Ok(Slot::of(output.item))
    }

    /// Reads several, as they were at one moment.
    pub(super) async fn read_together(
        &self,
        addresses: &[ItemAddress],
        limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        let request = self.request(GET, None);
        let gets = addresses.iter().map(|address| {
            let get = Get::builder()
                .table_name(&self.table)
                .set_key(Some(place(address)));
            Ok(TransactGetItem::builder().get(get.build()?).build())
        });
        let gets = gets
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactGetItemsError, ()>(unbuilt(error)))?;
        let get = self
            .client
            .transact_get_items()
            .set_transact_items(Some(gets));
        match within(get.customize(), limit).send().await {
            Ok(output) => {
                let items = output.responses.unwrap_or_default().into_iter();
                Ok(Some(items.map(|found| Slot::of(found.item)).collect()))
            }
            // The SDK does not retry a read that conflicts with a writer.
            Err(SdkError::ServiceError(refusal)) if is_conflict(refusal.err()) => Ok(None),
            Err(error) => Err(request.failed(error)),
        }
    }
}

/// What a write found that has happened. Where there was nothing, some engines answer with the address.
fn found(item: Option<Item>) -> Slot {
    Slot::of(item.filter(|item| item.keys().any(|name| name != at::PK && name != at::SK)))
}

/// Transactions have no IAM actions of their own.
fn action(texts: &[Expressions]) -> &'static str {
    let has = |act: fn(&Act) -> bool| texts.iter().any(|texts| act(&texts.act));
    let checks = has(|act| matches!(act, Act::Check));
    if checks {
        "dynamodb:UpdateItem and dynamodb:ConditionCheckItem"
    } else if has(|act| matches!(act, Act::Delete)) {
        "dynamodb:UpdateItem and dynamodb:DeleteItem"
    } else {
        UPDATE
    }
}

fn place(address: &ItemAddress) -> Item {
    let (pk, sk) = address.keys();
    HashMap::from([(at::PK.to_owned(), s(&pk)), (at::SK.to_owned(), s(&sk))])
}

const REFUSED: &str = "ConditionalCheckFailed";
const CONFLICT: &str = "TransactionConflict";

fn is_refusal(error: &impl ProvideErrorMetadata) -> bool {
    error.code() == Some("ConditionalCheckFailedException")
}

fn code(reason: &CancellationReason) -> &str {
    reason.code().unwrap_or("None")
}

fn is_conflict(error: &TransactGetItemsError) -> bool {
    match error {
        TransactGetItemsError::TransactionCanceledException(cancelled) => {
            let reasons = cancelled.cancellation_reasons().iter();
            let mut codes = reasons.filter_map(CancellationReason::code);
            codes.any(|code| code == CONFLICT)
        }
        error => error.code() == Some("TransactionConflictException"),
    }
}

fn unbuilt<E>(error: BuildError) -> SdkError<E, ()> {
    SdkError::construction_failure(error)
}

/// Repeats a write that conflicts with a transaction on its item, until it succeeds or `limit` has passed.
///
/// DynamoDB refuses such a write with `TransactionConflictException`, and certainly did not apply it. The SDK does
/// not retry it. Without a retry, a holder could lose its lease because of the transactions of waiters that join its
/// queue.
#[expect(
    clippy::disallowed_methods,
    reason = "the SDK waits in real time as well"
)]
async fn retry_on_conflict<T, E, R, F>(
    limit: Duration,
    write: impl Fn(Duration) -> F,
) -> Result<T, SdkError<E, R>>
where
    E: ProvideErrorMetadata,
    F: Future<Output = Result<T, SdkError<E, R>>>,
{
    let began = stopwatch();
    let mut pauses = Backoff::within(limit);
    let mut left = limit;
    loop {
        let answer = write(left).await;
        let conflict = matches!(&answer, Err(SdkError::ServiceError(refusal))
            if refusal.err().code() == Some("TransactionConflictException"));
        left = limit.saturating_sub(began.elapsed());
        match pauses.next(left).filter(|_| conflict) {
            Some(pause) => sleep(pause).await,
            None => return answer,
        }
        left = limit.saturating_sub(began.elapsed());
    }
}
