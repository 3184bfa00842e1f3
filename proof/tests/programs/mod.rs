//! The examples as programs of their own, at work on the test's tables.
#![allow(dead_code, reason = "each test uses its part")]

use std::{
    collections::HashMap,
    path::Path,
    process::{Child, Command, Stdio},
};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::create_table;

use leasehold_proof::fixture::{TABLE, Table};

/// The table of what the leases protect.
pub const RESOURCE: &str = "resource";

/// A process that does not outlive the test.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example, with margins that suit leases of a second and nothing else of this process's
/// environment.
pub fn example(name: &str, table: &Table) -> Command {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().unwrap().parent().unwrap();
    let binary = target.join("examples").join(name);
    assert!(
        binary.exists(),
        "build it first: cargo build --workspace --examples"
    );
    let mut command = Command::new(binary);
    command.env_clear().stdin(Stdio::null()).envs([
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL_DYNAMODB", table.proxy.url().as_str()),
        ("LEASE_TABLE", TABLE),
        ("LEASE_CLOCK_MARGIN_MS", "100"),
        ("LEASE_GUARD_MS", "100"),
        ("RESOURCE_TABLE", RESOURCE),
    ]);
    command
}

/// One of a race's contenders, which prints what became of each of its rounds to `log`, and appends to the history
/// beside it.
pub fn racer(table: &Table, log: &Path, arguments: &[&str]) -> Program {
    let out = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    let mut racer = example("racer", table);
    racer.args(arguments).stdout(out);
    racer.env("HISTORY", log.with_extension("history"));
    Program(racer.spawn().unwrap())
}

pub async fn create_resource(table: &Table) {
    create_table(&table.client, RESOURCE, &["pk", "sk"], None)
        .await
        .unwrap();
}

/// What the racers' resource accepted, in the order in which it did.
pub async fn accepted(table: &Table) -> Vec<HashMap<String, AttributeValue>> {
    let query = table.client.query().table_name(RESOURCE);
    let query = query
        .consistent_read(true)
        .key_condition_expression("pk = :pk AND sk < :end")
        .expression_attribute_values(":pk", s("prize"))
        .expression_attribute_values(":end", s("A"));
    let items = query.into_paginator().items().send();
    items.collect::<Result<Vec<_>, _>>().await.unwrap()
}

pub fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
