//! The table in DynamoDB.

use std::{collections::HashMap, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::{
    Client,
    client::customize::CustomizableOperation,
    config::{Builder, StalledStreamProtectionConfig},
};
use aws_smithy_types::{retry::RetryConfig, timeout::TimeoutConfig};

mod clocks;
mod requests;
mod restricted;

use super::{
    Entry, ItemAddress, Page, Position, ScanSegment, Slot, Store, Write, Written, failures::Request,
};
use crate::{
    clock::stopwatch,
    error::Error,
    row::attributes as at,
    row::{Item, Stored, s, text},
    values::{Holder, Key},
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

    fn request<'a>(&'a self, action: &'static str, key: Option<&'a Key>) -> Request<'a> {
        Request {
            action,
            table: self.table.as_str(),
            key,
            region: self.client.config().region().is_some(),
        }
    }
}

/// Shortens one operation's timeout.
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

    async fn write(&self, writes: &[Write], limit: Duration) -> Result<Written, Error> {
        match writes {
            [write] if !write.is_check() => self.write_alone(write, limit).await,
            _ => self.write_together(writes, limit).await,
        }
    }

    async fn read(
        &self,
        items: &[ItemAddress],
        limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        match items {
            [item] => Ok(Some(vec![self.read_alone(item, limit).await?])),
            _ => self.read_together(items, limit).await,
        }
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

    async fn scan(
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
            .map(|item| {
                let (pk, sk) = place(item).unwrap_or_default();
                Entry::of(&pk, &sk, item)
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
        store::{Address, Operations as _},
        transition::{Change, Extend},
        values::{Counter, LeaseId, RequestDigest, RequestId},
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
    async fn row_reads_are_strongly_consistent() {
        let recorder = Recorder::default();
        let config = Builder::new()
            .behavior_version_latest()
            .interceptor(recorder.clone());
        let store = DynamoDb::new(Client::from_conf(config.build()), "leases");
        let (key, limit) = (Key::new("orders/42").unwrap(), Duration::from_secs(1));
        let address = Address::first(&key);
        let _ = store.read_row(&address, limit).await;
        let _ = store.read_key(&key, limit).await;
        let _ = store
            .token_item(
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
    async fn write_always_has_time_limit() {
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
            ttl: crate::test_support::make::ttl(Duration::from_secs(1)),
            now: Timestamp::from_millis(1000),
            expires_at: Timestamp::from_millis(2000),
            require_unexpired: false,
            behind: false,
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
