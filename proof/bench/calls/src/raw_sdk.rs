//! The same requests by the SDK alone, as somebody would write them by hand who knows them already: constant texts, the names
//! and values in lists, the same answer asked for, and of the answer the one number that a careful user reads.
//!
//! It makes up no ids and computes no digest: the caller has them. It keeps no condition apart from another failure.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    config::{Builder, StalledStreamProtectionConfig, retry::RetryConfig, timeout::TimeoutConfig},
    primitives::Blob,
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use aws_types::SdkConfig;

use crate::{Failed, expressions};

/// A client with the library's time limits and retries, and nothing else of the library's.
pub(crate) fn client(ambient: &SdkConfig) -> Client {
    let config = Builder::from(ambient)
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(3)
                .with_initial_backoff(Duration::from_millis(25))
                .with_max_backoff(Duration::from_millis(250)),
        )
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(Duration::from_millis(500))
                .operation_attempt_timeout(Duration::from_millis(500))
                .operation_timeout(Duration::from_millis(1500))
                .build(),
        )
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

/// A grant that is known by everything that the row is to say of it.
pub(crate) struct Grant<'a> {
    pub(crate) key: &'a str,
    pub(crate) holder: &'a str,
    pub(crate) request: [u8; 16],
    pub(crate) lease_id: &'a str,
    pub(crate) now: u64,
    pub(crate) ttl_ms: u64,
}

/// Answers the fencing token.
pub(crate) async fn acquire(client: &Client, grant: &Grant<'_>) -> Result<u64, Failed> {
    let expires_at = grant.now + grant.ttl_ms;
    let values = [
        (":zero", n(0)),
        (":one", n(1)),
        (":step", n(2)),
        (":most", n(4_503_599_627_370_496)),
        (":longest", n(86_400_000)),
        (":forever", n(253_402_300_799_999)),
        (":number", s("N")),
        (":text", s("S")),
        (":binary", s("B")),
        (":map", s("M")),
        (":list", s("L")),
        (":null", AttributeValue::Null(true)),
        (":empty", AttributeValue::L(Vec::new())),
        (":released", s("released")),
        (":expired", s("expired")),
        (":forced", s("forced")),
        (":holder", s(grant.holder)),
        (":lease_id", s(grant.lease_id)),
        (":request", AttributeValue::B(Blob::new(grant.request))),
        (":ttl_ms", n(grant.ttl_ms)),
        (":metadata", AttributeValue::M(HashMap::new())),
        (":now", n(grant.now)),
        (":seed", n(grant.now)),
        (":over", n(grant.now - 2000)),
        (":expires_at", n(expires_at)),
        (":sweep_after", n(expires_at + 2000)),
    ];
    let output = client
        .update_item()
        .table_name(expressions::TABLE)
        .key("pk", s(grant.key))
        .key("sk", s("LEASE#0000"))
        .condition_expression(expressions::ACQUIRE_IF)
        .update_expression(expressions::ACQUIRE)
        .set_expression_attribute_names(Some(names(&expressions::ACQUIRE_NAMES)))
        .set_expression_attribute_values(Some(named(values)))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await?;
    number(output.attributes(), "fencing_token")
}

/// Answers the deadline that was.
pub(crate) async fn extend(
    client: &Client,
    (key, lease_id, token): (&str, &str, u64),
    now: u64,
    ttl_ms: u64,
) -> Result<u64, Failed> {
    let values = [
        (":one", n(1)),
        (":most", n(4_503_599_627_370_496)),
        (":longest", n(86_400_000)),
        (":forever", n(253_402_300_799_999)),
        (":number", s("N")),
        (":text", s("S")),
        (":binary", s("B")),
        (":map", s("M")),
        (":list", s("L")),
        (":lease_id", s(lease_id)),
        (":fencing_token", n(token)),
        (":ttl_ms", n(ttl_ms)),
        (":now", n(now)),
        (":expires_at", n(now + ttl_ms)),
    ];
    let output = client
        .update_item()
        .table_name(expressions::TABLE)
        .key("pk", s(key))
        .key("sk", s("LEASE#0000"))
        .condition_expression(expressions::EXTEND_IF)
        .update_expression(expressions::EXTEND)
        .set_expression_attribute_names(Some(names(&expressions::EXTEND_NAMES)))
        .set_expression_attribute_values(Some(named(values)))
        .return_values(ReturnValue::AllOld)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await?;
    number(output.attributes(), "expires_at")
}

/// Answers the deadline that was.
pub(crate) async fn release(
    client: &Client,
    (key, lease_id, token): (&str, &str, u64),
    now: u64,
) -> Result<u64, Failed> {
    let values = [
        (":one", n(1)),
        (":most", n(4_503_599_627_370_496)),
        (":longest", n(86_400_000)),
        (":forever", n(253_402_300_799_999)),
        (":number", s("N")),
        (":text", s("S")),
        (":binary", s("B")),
        (":map", s("M")),
        (":list", s("L")),
        (":null", AttributeValue::Null(true)),
        (":lease_id", s(lease_id)),
        (":fencing_token", n(token)),
        (":ended", s("released")),
        (":purge_at", n(now / 1000 + 604_800)),
    ];
    let output = client
        .update_item()
        .table_name(expressions::TABLE)
        .key("pk", s(key))
        .key("sk", s("LEASE#0000"))
        .condition_expression(expressions::RELEASE_IF)
        .update_expression(expressions::RELEASE)
        .set_expression_attribute_names(Some(names(&expressions::RELEASE_NAMES)))
        .set_expression_attribute_values(Some(named(values)))
        .return_values(ReturnValue::AllOld)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await?;
    number(output.attributes(), "expires_at")
}

fn names(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(placeholder, name)| ((*placeholder).to_owned(), (*name).to_owned()));
    owned.collect()
}

fn named<const N: usize>(values: [(&str, AttributeValue); N]) -> HashMap<String, AttributeValue> {
    let owned = values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    owned.collect()
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn number(item: Option<&HashMap<String, AttributeValue>>, name: &str) -> Result<u64, Failed> {
    let value = item.and_then(|item| item.get(name));
    let text = value.and_then(|value| value.as_n().ok());
    Ok(text.ok_or("the answer lacks the number")?.parse()?)
}
