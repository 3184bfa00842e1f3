//! A resource that checks fencing tokens.
//!
//! One item per key, `sk` = `RESOURCE`: `fence` (the highest token accepted), `occupant` and
//! `occupied_until` (who is inside, and the promised end), `entries` (writes
//! accepted so far) and `overlaps` (entries while another holder was inside). One item per
//! accepted write, `sk` = its number: `token`, `holder`, `step`, `op` (`enter` or `leave`), `at`
//! in milliseconds. Only this module writes these items, so they show afterwards who was inside when.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    operation::update_item::{UpdateItemError, builders::UpdateItemFluentBuilder},
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use leasehold::{Cause, Clock as _, SystemClock, Timestamp};
use serde::Deserialize;

use crate::Failure;

/// The longest time for which a Lambda function works.
const LONGEST: Duration = Duration::from_mins(15);

type Item = HashMap<String, AttributeValue>;

/// The fields of a lease that a guarded write needs. They do not include the `lease_id`, which could end the lease.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    pub key: String,
    pub holder: String,
    pub fencing_token: u64,
    /// An execution lease has none.
    pub safe_until: Option<Timestamp>,
}

pub struct Resource {
    client: Client,
    table: String,
}

impl Resource {
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Enters the resource. It is refused if a newer token was accepted, or if another holder is inside and its promised time
    /// has not passed. The same token may enter again, as after a redrive or a lost response.
    pub async fn enter(&self, pass: &Pass, step: &str) -> Result<u64, Failure> {
        let now = SystemClock.now();
        let until = pass.safe_until.unwrap_or_else(|| now.plus(LONGEST));
        let update = self
            .update(pass)
            .update_expression(
                "SET #fence = :token, #occupant = :token, #until = :until, \
                 #entries = if_not_exists(#entries, :zero) + :one",
            )
            .condition_expression(
                "(attribute_not_exists(#fence) OR #fence <= :token) AND \
                 (attribute_not_exists(#occupant) OR #occupant = :token OR #until <= :now)",
            )
            .expression_attribute_names("#occupant", "occupant")
            .expression_attribute_names("#until", "occupied_until")
            .expression_attribute_values(":until", number(until.as_millis()))
            .expression_attribute_values(":now", number(now.as_millis()));
        match self.accepted(update).await? {
            Ok(entry) => self.record(pass, step, "enter", entry, now).await,
            Err(before) => Err(self.refused(pass, &before).await),
        }
    }

    /// Leaves the resource. It is refused if a newer token was accepted meanwhile, because it would disturb that holder's work.
    pub async fn leave(&self, pass: &Pass, step: &str) -> Result<u64, Failure> {
        let now = SystemClock.now();
        let update = self
            .update(pass)
            .update_expression(
                "SET #entries = if_not_exists(#entries, :zero) + :one, #fence = :token \
                 REMOVE #occupant, #until",
            )
            .condition_expression("attribute_not_exists(#fence) OR #fence <= :token")
            .expression_attribute_names("#occupant", "occupant")
            .expression_attribute_names("#until", "occupied_until");
        match self.accepted(update).await? {
            Ok(entry) => self.record(pass, step, "leave", entry, now).await,
            Err(before) => Err(stale(pass, &before)),
        }
    }

    fn update(&self, pass: &Pass) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&pass.key))
            .key("sk", text("RESOURCE"))
            .expression_attribute_names("#fence", "fence")
            .expression_attribute_names("#entries", "entries")
            .expression_attribute_values(":token", number(pass.fencing_token))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// Returns the number of the write, or the item that refused it.
    async fn accepted(
        &self,
        update: UpdateItemFluentBuilder,
    ) -> Result<Result<u64, Item>, Failure> {
        match update.send().await {
            Ok(output) => Ok(Ok(output
                .attributes()
                .map_or(0, |item| read(item, "entries")))),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Err(refused.item().cloned().unwrap_or_default()))
                }
                _ => Err(unavailable(&error)),
            },
        }
    }

    async fn refused(&self, pass: &Pass, before: &Item) -> Failure {
        if read(before, "fence") > pass.fencing_token {
            return stale(pass, before);
        }
        // This must never happen. It is returned to the caller, and recorded for the audit.
        let counted = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&pass.key))
            .key("sk", text("RESOURCE"))
            .update_expression("ADD #overlaps :one")
            .expression_attribute_names("#overlaps", "overlaps")
            .expression_attribute_values(":one", number(1))
            .send()
            .await;
        match counted {
            Ok(_) => Failure::Overlap {
                key: pass.key.clone(),
                token: pass.fencing_token,
                occupant: read(before, "occupant"),
            },
            Err(error) => unavailable(&error),
        }
    }

    async fn record(
        &self,
        pass: &Pass,
        step: &str,
        op: &str,
        entry: u64,
        at: Timestamp,
    ) -> Result<u64, Failure> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("pk", text(&pass.key))
            .item("sk", text(format!("{entry:012}")))
            .item("token", number(pass.fencing_token))
            .item("holder", text(&pass.holder))
            .item("step", text(step))
            .item("op", text(op))
            .item("at", number(at.as_millis()));
        put.send().await.map_err(|error| unavailable(&error))?;
        Ok(entry)
    }
}

fn stale(pass: &Pass, before: &Item) -> Failure {
    Failure::StaleToken {
        key: pass.key.clone(),
        token: pass.fencing_token,
        accepted: read(before, "fence"),
    }
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::Unavailable(Cause::of(error).to_string())
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn read(item: &Item, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|n| n.parse().ok()).unwrap_or(0)
}
