//! The table in DynamoDB.

use std::{collections::HashMap, future::Future, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::{
    Client,
    client::customize::CustomizableOperation,
    config::{Builder, StalledStreamProtectionConfig},
    error::{ProvideErrorMetadata, SdkError},
    operation::{
        transact_get_items::TransactGetItemsError,
        update_item::{UpdateItemError, UpdateItemOutput},
    },
    types::{AttributeValue, CancellationReason, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use aws_smithy_types::{retry::RetryConfig, timeout::TimeoutConfig};
use tokio::time::sleep;

mod clocks;
mod redrivable;
mod restricted;
mod starts;
mod superseded;
mod transactions;

use super::{
    Address, Applied, AppliedAll, Entry, Joined, Page, Position, PutStart, ScanSegment, Settled,
    Settlement, Store, What,
    expressions::{self, Expressions},
    failures::Request,
    foreign_item, foreign_rules, sweep_after, what,
};
use crate::{
    clock::{Timestamp, stopwatch},
    error::Error,
    redrivable::Redrivable,
    retry::Backoff,
    row::attributes as at,
    row::{Holding, Item, Stored, s, text},
    rules::TableRules,
    start::StartItem,
    transition::{Change, Join, Leave, transition},
    values::{Holder, Key, RequestDigest},
    waiter::Waiter,
};
use superseded::SAME_TOKEN;
use transactions::{
    LATEST, Transacted, WRITE, WRITE_AND_CHECK, is_conflict, is_refused, settled_unless,
    transact_get, unbuilt,
};

/// A DynamoDB table of lease rows.
///
/// Every write is one `UpdateItem`, or several in one transaction. The condition contains the whole rule, and a
/// refusal returns the stored row, so a lost response needs no further read.
#[derive(Clone, Debug)]
pub struct DynamoDb {
    client: Client,
    table: String,
}

/// The client's time limits and retries, which are pinned. The SDK's defaults change with its versions, and with them
/// a Lambda function waits for a silent server until it times out.
pub struct Connection;

impl Connection {
    /// The longest time of one operation, including its retries.
    pub const OPERATION: Duration = Duration::from_millis(1500);

    pub(crate) const CONNECT: Duration = Duration::from_millis(500);
    const ATTEMPT: Duration = Duration::from_millis(500);
    const ATTEMPTS: u32 = 3;
    const FIRST_BACKOFF: Duration = Duration::from_millis(25);
    const LONGEST_BACKOFF: Duration = Duration::from_millis(250);

    /// The ambient configuration (Region, credentials chain, `AWS_ENDPOINT_URL_DYNAMODB` …) with
    /// the pinned timeouts and retries.
    #[cfg(feature = "https-client")]
    pub async fn from_env() -> Client {
        Self::client(&Self::ambient().await)
    }

    /// The ambient configuration itself, for several clients to share.
    #[cfg(feature = "https-client")]
    pub async fn ambient() -> SdkConfig {
        aws_config::defaults(aws_config::BehaviorVersion::v2026_01_12())
            .load()
            .await
    }

    /// A client from your own configuration, with the pinned timeouts and retries.
    #[must_use]
    pub fn client(ambient: &SdkConfig) -> Client {
        Client::from_conf(Self::pinned(Builder::from(ambient)))
    }

    fn pinned(builder: Builder) -> aws_sdk_dynamodb::Config {
        builder
            .retry_config(
                RetryConfig::standard()
                    .with_max_attempts(Self::ATTEMPTS)
                    .with_initial_backoff(Self::FIRST_BACKOFF)
                    .with_max_backoff(Self::LONGEST_BACKOFF),
            )
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Self::CONNECT)
                    .operation_attempt_timeout(Self::ATTEMPT)
                    .operation_timeout(Self::OPERATION)
                    .build(),
            )
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .interceptor(clocks::CompareClocks)
            .build()
    }
}

impl DynamoDb {
    /// The table `table`, through a client from [`Connection`]. No request takes longer than
    /// [`Connection::OPERATION`], whatever limits the client has.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
        }
    }

    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    async fn update(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> Result<UpdateItemOutput, SdkError<UpdateItemError>> {
        let Expressions {
            condition,
            update,
            names,
            values,
        } = expressions::of(change);
        // A grant returns the whole new row, with its token; the others return the attributes that they changed.
        let answer = match change {
            Change::Grant(_) => ReturnValue::AllNew,
            _ => ReturnValue::AllOld,
        };
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(primary_key(address)))
            .condition_expression(condition)
            .set_update_expression(Some(update).filter(|update| !update.is_empty()))
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_values(answer)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        within(update.customize(), limit).send().await
    }

    /// The item at this address, of this key if it is one of a key. Never a stale one.
    async fn item_at(
        &self,
        place: Item,
        key: Option<&Key>,
        limit: Duration,
    ) -> Result<Option<Item>, Error> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(place))
            .consistent_read(true);
        let output = within(get.customize(), limit).send().await;
        let output = output.map_err(|e| self.request("dynamodb:GetItem", key).failed(e))?;
        Ok(output.item)
    }

    fn request<'a>(&'a self, action: &'static str, key: Option<&'a Key>) -> Request<'a> {
        Request {
            action,
            table: self.table.as_str(),
            key,
            region: self.client.config().region().is_some(),
        }
    }
}

/// Shortens one operation's time limit.
fn within<T, E, B>(
    operation: CustomizableOperation<T, E, B>,
    limit: Duration,
) -> CustomizableOperation<T, E, B> {
    let limit = limit.clamp(Duration::from_millis(1), Connection::OPERATION);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Connection::CONNECT)
        .operation_attempt_timeout(Connection::ATTEMPT.min(limit))
        .operation_timeout(limit);
    operation.config_override(Builder::new().timeout_config(timeouts.build()))
}

impl Store for DynamoDb {
    fn name(&self) -> &str {
        &self.table
    }

    async fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> Result<Applied, Error> {
        // On the heap, because otherwise the futures of the callers nest too deep for the compiler.
        let answered = Box::pin(retry_on_conflict(limit, |limit| {
            self.update(address, change, limit)
        }));
        match answered.await {
            Ok(output) => match (Stored::read(output.attributes()), change) {
                (Stored::Row(row), Change::Grant(_)) => Ok(Applied::Done {
                    row,
                    deadline_before: None,
                }),
                // There was no row, and not every engine says so in the same way.
                (_, Change::ReplaceIfUnchanged(swap)) if swap.seen.is_none() => Ok(Applied::Done {
                    row: swap.row.clone(),
                    deadline_before: None,
                }),
                (before, _) => match (transition(&before, change), before) {
                    (Some(row), Stored::Row(before)) => Ok(Applied::Done {
                        row,
                        deadline_before: before.holding().map(Holding::expires_at),
                    }),
                    (_, before) => Err(overwritten(address, &before)),
                },
            },
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => {
                Ok(Applied::Refused(refused_by(refusal.err())))
            }
            Err(error) => {
                let request = self.request("dynamodb:UpdateItem", Some(&address.key));
                Err(request.failed(error))
            }
        }
    }

    async fn apply_all(
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
        let items = changes
            .iter()
            .map(|(address, change)| self.transact_item(address, change));
        let key_of = |at: usize| changes.get(at).map(|(address, _)| &address.key);
        let request = self.request(action, None);
        Ok(match self.transact(request, items, key_of, limit).await? {
            Transacted::Done => AppliedAll::Done,
            Transacted::Conflict => AppliedAll::Conflict,
            Transacted::Refused(reasons) => {
                let refused = reasons
                    .iter()
                    .map(|reason| is_refused(reason).then(|| Stored::read(reason.item())));
                AppliedAll::Refused(refused.collect())
            }
        })
    }

    async fn read_all(
        &self,
        addresses: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        let request = self.request("dynamodb:GetItem", None);
        let gets = addresses
            .iter()
            .map(|address| transact_get(&self.table, address));
        let gets = gets
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| request.failed::<TransactGetItemsError, ()>(unbuilt(error)))?;
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

    async fn read(&self, address: &Address, limit: Duration) -> Result<Stored, Error> {
        let place = primary_key(address);
        let item = self.item_at(place, Some(&address.key), limit).await?;
        Ok(Stored::read(item.as_ref()))
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let mut rows = Vec::new();
        let mut from = None;
        let began = stopwatch();
        loop {
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .consistent_read(true)
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :lease)")
                .expression_attribute_names("#pk", at::PK)
                .expression_attribute_names("#sk", at::SK)
                .expression_attribute_values(":pk", s(key.as_str()))
                .expression_attribute_values(":lease", s("LEASE#"))
                .set_exclusive_start_key(from);
            // One limit for all pages together.
            let left = limit.saturating_sub(began.elapsed());
            let output = within(query.customize(), left)
                .send()
                .await
                .map_err(|e| self.request("dynamodb:Query", Some(key)).failed(e))?;
            rows.extend(output.items().iter().filter_map(|item| {
                let permit = at::permit_of(item.get(at::SK)?.as_s().ok()?)?;
                Some((permit, Stored::read(Some(item))))
            }));
            from = output.last_evaluated_key;
            if from.is_none() {
                return Ok(rows);
            }
        }
    }

    async fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<Joined, Error> {
        let request = self.request(WRITE, Some(key));
        let address = Address::first(key);
        let join = self.transact_item(&address, &Change::Join(join.clone()));
        let items = [join, self.put_beside(key, waiter)].into_iter();
        let reasons = match self.transact(request, items, |_| Some(key), limit).await? {
            Transacted::Done => return Ok(Joined::Done),
            Transacted::Conflict => return Ok(Joined::Conflict),
            Transacted::Refused(reasons) => reasons,
        };
        let beside = reasons.get(1).and_then(CancellationReason::item);
        if let Some(by) = beside.and_then(Waiter::superseded_by) {
            return Ok(Joined::Superseded(by));
        }
        if let Some(row) = reasons.first().filter(|reason| is_refused(reason)) {
            return Ok(Joined::Refused(Stored::read(row.item())));
        }
        Ok(match beside.and_then(Waiter::read) {
            Some(found) if found.request == waiter.request => Joined::SupersededByLaterCall,
            _ => Joined::ForeignItem,
        })
    }

    async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<Waiter>, Error> {
        let place = place(key, &at::wait_sk(request));
        let item = self.item_at(place, Some(key), limit).await?;
        Ok(item.as_ref().and_then(Waiter::read))
    }

    async fn update_task_token(
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
                if let Some(by) = item.and_then(Waiter::superseded_by) {
                    let key = key.clone();
                    return Err(Error::Superseded { key, by });
                }
                let found = item.and_then(Waiter::read);
                let same = found.filter(|found| found.request == waiter.request);
                same.ok_or_else(|| foreign_item(key, &waiter.request))
            }
            Err(error) => Err(self.request("dynamodb:UpdateItem", Some(key)).failed(error)),
        }
    }

    async fn delete_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<(), Error> {
        if waiter.superseded_by.is_some() {
            return self.keep_note(key, waiter, limit).await;
        }
        let token: AttributeValue = s(waiter.task_token.expose());
        let delete = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(place(key, &at::wait_sk(&waiter.request))))
            .condition_expression(SAME_TOKEN)
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

    async fn supersede_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        by: &Holder,
        leave: &Leave,
        limit: Duration,
    ) -> Result<Settled, Error> {
        let address = Address::first(key);
        let left = self.transact_item(&address, &Change::Leave(leave.clone()));
        let items = [left, self.superseding(key, waiter, by)].into_iter();
        let request = self.request(WRITE, Some(key));
        let reasons = match self.transact(request, items, |_| Some(key), limit).await? {
            Transacted::Done => return Ok(Settled::Done),
            Transacted::Conflict => return Ok(Settled::Conflict),
            Transacted::Refused(reasons) => reasons,
        };
        Ok(settled_unless(&reasons))
    }

    async fn put_start(
        &self,
        item: &StartItem,
        repeat: bool,
        limit: Duration,
    ) -> Result<PutStart, Error> {
        self.put_start_item(item, repeat, limit).await
    }

    async fn start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<StartItem>, Error> {
        self.read_start_item(key, request, limit).await
    }

    async fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        limit: Duration,
    ) -> Result<Settled, Error> {
        match with {
            None => self.settle_alone(item, settlement, limit).await,
            Some(change) => self.settle_with(item, settlement, change, limit).await,
        }
    }

    async fn redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<Redrivable>, Error> {
        self.read_redrivable(key, request, limit).await
    }

    async fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        limit: Duration,
    ) -> Result<bool, Error> {
        self.write_redrivable(noted, seen, times, limit).await
    }

    async fn forget_redrivable(&self, noted: &Redrivable, limit: Duration) -> Result<(), Error> {
        self.delete_redrivable(noted, limit).await
    }

    async fn scan_held(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .index_name(at::INDEX)
            .segment(i32::from(segment.segment))
            .total_segments(i32::from(segment.total))
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from.map(start_key));
        let output = within(scan.customize(), limit)
            .send()
            .await
            .map_err(|e| self.request("dynamodb:Scan", None).failed(e))?;
        Ok(page(output.items(), output.last_evaluated_key()))
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(at::INDEX)
            .key_condition_expression("#holder = :holder")
            .expression_attribute_names("#holder", at::HOLDER)
            .expression_attribute_values(":holder", s(holder.as_str()))
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from.map(start_key));
        let output = within(query.customize(), limit)
            .send()
            .await
            .map_err(|e| self.request("dynamodb:Query", None).failed(e))?;
        Ok(page(output.items(), output.last_evaluated_key()))
    }

    async fn rules(&self, limit: Duration) -> Result<Option<TableRules>, Error> {
        let item = self.item_at(place_of_rules(), None, limit).await?;
        item.as_ref()
            .map(|item| TableRules::read(item).ok_or_else(|| foreign_rules(&self.table)))
            .transpose()
    }

    async fn publish_rules(&self, rules: &TableRules, limit: Duration) -> Result<bool, Error> {
        let attributes = rules.attributes();
        let set = attributes
            .each_ref()
            .map(|(name, _)| format!("#{name} = :{name}"));
        let mut update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(place_of_rules()))
            .condition_expression(
                "attribute_not_exists(#token_floor) OR #token_floor <= :token_floor",
            )
            .update_expression(format!("SET {}", set.join(", ")))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None);
        for (name, value) in attributes {
            update = update
                .expression_attribute_names(format!("#{name}"), name)
                .expression_attribute_values(format!(":{name}"), value);
        }
        match within(update.customize(), limit).send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refusal)) if is_condition(refusal.err()) => Ok(false),
            Err(error) => Err(self.request("dynamodb:UpdateItem", None).failed(error)),
        }
    }
}

fn place_of_rules() -> Item {
    Item::from([
        (at::PK.to_owned(), s(TableRules::PK)),
        (at::SK.to_owned(), s(TableRules::SK)),
    ])
}

fn primary_key(address: &Address) -> HashMap<String, AttributeValue> {
    place(&address.key, &at::lease_sk(address.permit))
}

fn place(key: &Key, sk: &str) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (at::PK.to_owned(), s(key.as_str())),
        (at::SK.to_owned(), s(sk)),
    ])
}

fn is_condition(error: &UpdateItemError) -> bool {
    error.is_conditional_check_failed_exception()
}

fn refused_by(error: &UpdateItemError) -> Stored {
    match error {
        UpdateItemError::ConditionalCheckFailedException(refusal) => Stored::read(refusal.item()),
        _ => Stored::Absent,
    }
}

/// The condition allowed a write that the rules do not allow, because an attribute was wrong in a way that conditions
/// cannot see, such as a number with a fraction.
fn overwritten(address: &Address, before: &Stored) -> Error {
    let reason = match before {
        Stored::Foreign(reason) => reason,
        _ => "the table and the library disagree about it",
    };
    Error::Corrupt {
        key: address.key.clone(),
        reason: format!("{reason}; the condition could not see it, and the item was changed"),
    }
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
pub(super) async fn retry_on_conflict<T, E, R, F>(
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

fn page(items: &[Item], last: Option<&Item>) -> Page {
    let place = |item: &Item| {
        Some((
            text(item, at::PK)?.to_owned(),
            text(item, at::SK)?.to_owned(),
        ))
    };
    Page {
        entries: items
            .iter()
            .map(|item| Entry {
                what: place(item).map_or(What::Foreign, |(pk, sk)| what(&pk, &sk)),
                sweep_after: sweep_after(item),
            })
            .collect(),
        next: last.and_then(|item| {
            let (pk, sk) = place(item)?;
            let holder = text(item, at::HOLDER)?.to_owned();
            Some(Position { holder, pk, sk })
        }),
    }
}

fn start_key(position: &Position) -> Item {
    HashMap::from([
        (at::HOLDER.to_owned(), s(&position.holder)),
        (at::PK.to_owned(), s(&position.pk)),
        (at::SK.to_owned(), s(&position.sk)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Timestamp,
        transition::Extend,
        values::{Counter, LeaseId, RequestId},
    };
    use aws_smithy_runtime_api::box_error::BoxError;
    use aws_smithy_runtime_api::client::interceptors::Intercept;
    use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
    use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
    use aws_smithy_types::config_bag::ConfigBag;
    use std::sync::{Arc, Mutex};

    /// Records each request and its time limits, and sends nothing.
    #[derive(Clone, Debug, Default)]
    struct Recorder {
        requests: Arc<Mutex<Vec<String>>>,
        limits: Arc<Mutex<Vec<TimeoutConfig>>>,
    }

    #[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
    impl Intercept for Recorder {
        fn name(&self) -> &'static str {
            "Recorder"
        }

        fn read_before_serialization(
            &self,
            context: &BeforeSerializationInterceptorContextRef<'_>,
            _: &RuntimeComponents,
            config: &mut ConfigBag,
        ) -> Result<(), BoxError> {
            let mut requests = self.requests.lock().unwrap();
            requests.push(format!("{:?}", context.input()));
            let limits = config.load::<TimeoutConfig>().unwrap();
            self.limits.lock().unwrap().push(limits.clone());
            Err("nothing is sent".into())
        }
    }

    /// A stale read could show a lease that has ended.
    #[tokio::test]
    async fn every_read_of_a_row_is_strongly_consistent() {
        let recorder = Recorder::default();
        let config = Builder::new()
            .behavior_version_latest()
            .interceptor(recorder.clone());
        let store = DynamoDb::new(Client::from_conf(config.build()), "leases");
        let (key, limit) = (Key::new("orders/42").unwrap(), Duration::from_secs(1));
        let address = Address::first(&key);
        let _ = store.read(&address, limit).await;
        let _ = store.read_key(&key, limit).await;
        let _ = store
            .waiter(
                &key,
                &RequestDigest::of(&Holder::new("me").unwrap(), &RequestId::random()),
                limit,
            )
            .await;
        let requests = recorder.requests.lock().unwrap();
        assert_eq!(requests.len(), 3);
        for request in requests.iter() {
            assert!(request.contains("consistent_read: Some(true)"), "{request}");
        }
    }
    /// Without a limit of its own, a write would wait for a silent server without end.
    #[tokio::test]
    async fn a_write_is_limited_whatever_the_limits_of_its_client_are() {
        let recorder = Recorder::default();
        let config = Builder::new()
            .behavior_version_latest()
            .timeout_config(TimeoutConfig::disabled())
            .interceptor(recorder.clone());
        let store = DynamoDb::new(Client::from_conf(config.build()), "leases");
        let address = Address::first(&Key::new("orders/42").unwrap());
        let change = Change::Extend(Extend {
            lease_id: LeaseId::stored("shown-by-the-sdk"),
            fencing_token: Counter::MIN,
            ttl: crate::conformance::make::ttl(Duration::from_secs(1)),
            now: Timestamp::from_millis(1000),
            expires_at: Timestamp::from_millis(2000),
            require_unexpired: false,
        });
        for limit in [Duration::from_secs(60), Duration::from_millis(300)] {
            let _ = store.apply(&address, &change, limit).await;
        }
        let in_milliseconds = |limits: &TimeoutConfig| {
            let of_all = [
                limits.connect_timeout(),
                limits.operation_attempt_timeout(),
                limits.operation_timeout(),
            ];
            of_all.map(|limit| limit.unwrap().as_millis())
        };
        let limits = recorder.limits.lock().unwrap();
        let limits: Vec<_> = limits.iter().map(in_milliseconds).collect();
        // docs/reference/configuration.md says so.
        assert_eq!(limits, [[500, 500, 1500], [500, 300, 300]]);
    }
}
