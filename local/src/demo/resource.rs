//! The resource's own record of who was inside when: written by the work under its fencing tokens, read here
//! afterwards. It knows nothing of leases.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::{Error, Stack};

pub(super) type Item = HashMap<String, AttributeValue>;

/// What the resource knows of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// Every write that it accepted, by key, in the order of acceptance.
    pub(super) writes: Vec<Write>,
    /// How often it saw somebody come in on somebody else.
    pub(super) overlaps: u64,
}

/// An accepted write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) key: String,
    /// Its place in the order of acceptance.
    pub(super) number: u64,
    pub(super) fencing_token: u64,
    /// Whose work it was.
    pub(super) holder: String,
    /// Coming in, or going out.
    pub(super) enters: bool,
    pub(super) at: u64,
}

/// The name of the resource's table.
pub(super) fn table(stack: &Stack) -> Result<String, Error> {
    let step = stack.functions().function("step")?;
    let table = step.environment.get("RESOURCE_TABLE").cloned();
    table.ok_or_else(|| Error::Call {
        what: "find the resource's table".to_owned(),
        message: "the step function has no RESOURCE_TABLE".to_owned(),
    })
}

/// Reads what the resource has recorded of these keys.
pub(super) async fn audit(stack: &Stack, keys: &[&str]) -> Result<Audit, Error> {
    let mut audit = Audit::default();
    let table = table(stack)?;
    let client = stack.dynamodb();
    for key in keys {
        for item in items(&client, &table, key).await? {
            audit.take_up(&item);
        }
    }
    let place = |write: &Write| (write.key.clone(), write.number);
    audit.writes.sort_by_key(place);
    Ok(audit)
}

/// All items of a key, as they are now.
pub(super) async fn items(client: &Client, table: &str, key: &str) -> Result<Vec<Item>, Error> {
    let items = client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("pk = :key")
        .expression_attribute_values(":key", AttributeValue::S(key.to_owned()))
        .into_paginator()
        .items()
        .send();
    let items = items.collect::<Result<_, _>>().await;
    items.map_err(|error| Error::Call {
        what: format!("read {table}"),
        message: DisplayErrorContext(&error).to_string(),
    })
}

impl Audit {
    fn take_up(&mut self, item: &Item) {
        let sk = text(item, "sk");
        match sk.parse() {
            Ok(number) => self.writes.push(Write {
                key: text(item, "pk"),
                number,
                fencing_token: self::number(item, "token"),
                holder: text(item, "holder"),
                enters: text(item, "op") == "enter",
                at: self::number(item, "at"),
            }),
            // The row that guards.
            Err(_) => self.overlaps += self::number(item, "overlaps"),
        }
    }
}

pub(super) fn text(item: &Item, name: &str) -> String {
    let value = item.get(name).and_then(|value| value.as_s().ok());
    value.cloned().unwrap_or_default()
}

fn number(item: &Item, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|n| n.parse().ok()).unwrap_or_default()
}
