//! Sixty-four processes race for one key for ten seconds, and some are killed in the middle. What
//! happened is told by the protected resource alone: who was let in, in which order, with which token.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::{AttributeValue, KeySchemaElement, KeyType};

use leasehold::{Inspected, Key};

mod bench;
use bench::{TABLE, Table};

const RACERS: usize = 64;
const LENGTH: Duration = Duration::from_secs(10);
const RESOURCE: &str = "resource";

struct Racer(Child);

impl Drop for Racer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn racer(n: usize, endpoint: &str, log: &std::path::Path) -> Racer {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().unwrap().parent().unwrap();
    let binary: PathBuf = target.join("examples/racer");
    assert!(
        binary.exists(),
        "build it first: cargo build -p leasehold-local --examples"
    );
    let out = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    let child = Command::new(binary)
        .arg(format!("racer {n}"))
        .env_clear()
        .envs([
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL_DYNAMODB", endpoint),
            ("LEASE_TABLE", TABLE),
            ("LEASE_CLOCK_MARGIN_MS", "100"),
            ("LEASE_GUARD_MS", "100"),
            ("RESOURCE_TABLE", RESOURCE),
        ])
        .stdin(Stdio::null())
        .stdout(out)
        .spawn()
        .unwrap();
    Racer(child)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_of_processes_never_has_two_winners() {
    let table = Table::start().await;
    create_resource(&table).await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("racers.log");
    let url = table.proxy.url();
    let mut racers: Vec<_> = (0..RACERS).map(|n| racer(n, &url, &log)).collect();
    let start = Instant::now();
    let mut kills = 0;
    while start.elapsed() < LENGTH {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Every third time whoever holds the key; else anybody.
        let holder = if kills % 3 == 0 {
            holder(&table).await
        } else {
            None
        };
        let victim = holder.unwrap_or(kills * 7 % RACERS);
        assert!(
            racers[victim].0.try_wait().unwrap().is_none(),
            "it went on until killed"
        );
        // Killed where it stands, wherever that is; another takes its place.
        racers[victim] = racer(victim, &url, &log);
        kills += 1;
    }
    drop(racers);

    let row = table
        .client
        .get_item()
        .table_name(RESOURCE)
        .consistent_read(true);
    let row = row
        .key("pk", s("prize"))
        .key("sk", s("RESOURCE"))
        .send()
        .await
        .unwrap();
    let row = row.item.unwrap();
    assert!(
        !row.contains_key("overlaps"),
        "the resource saw two inside: {row:?}"
    );
    let entries = entries(&table).await;
    for pair in entries.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(before.token <= after.token, "{before:?} then {after:?}");
    }
    let mut holders = HashMap::new();
    for entry in &entries {
        let holder = holders.entry(entry.token).or_insert(&entry.holder);
        assert_eq!(*holder, &entry.holder, "one token, one holder");
    }
    let left: HashSet<_> = entries
        .iter()
        .filter(|e| e.op == "leave")
        .map(|e| e.token)
        .collect();
    let abandoned = holders.keys().filter(|token| !left.contains(token)).count();
    let told = std::fs::read_to_string(&log).unwrap();
    let count = |what: &str| told.lines().filter(|line| *line == what).count();
    let (done, held) = (count("done"), count("held"));
    println!(
        "race: {RACERS} processes, {kills} killed, {} tokens, {} accepted writes, {done} sections, {abandoned} abandoned, \
         {held} refusals, {} stale writes refused, {} lost, {} unavailable",
        holders.len(),
        entries.len(),
        count("stale"),
        count("lost"),
        count("unavailable"),
    );
    assert_eq!(count("overlap"), 0);
    assert!(
        done >= 100 && held >= 100 && kills >= 50,
        "the race was a race"
    );
}

async fn create_resource(table: &Table) {
    use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, ScalarAttributeType};
    let key = |name: &str, kind| {
        let part = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind);
        part.build().unwrap()
    };
    let text = |name: &str| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute
            .attribute_type(ScalarAttributeType::S)
            .build()
            .unwrap()
    };
    let create = table.client.create_table().table_name(RESOURCE);
    let create = create.billing_mode(BillingMode::PayPerRequest);
    let create = create
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range));
    let create = create
        .attribute_definitions(text("pk"))
        .attribute_definitions(text("sk"));
    create.send().await.unwrap();
}

#[derive(Debug)]
struct Entry {
    token: u64,
    holder: String,
    op: String,
}

/// What the resource accepted, in the order in which it did.
async fn entries(table: &Table) -> Vec<Entry> {
    let query = table
        .client
        .query()
        .table_name(RESOURCE)
        .consistent_read(true);
    let query = query
        .key_condition_expression("pk = :pk AND sk < :end")
        .expression_attribute_values(":pk", s("prize"))
        .expression_attribute_values(":end", s("A"));
    let items = query
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await
        .unwrap();
    items
        .iter()
        .map(|item| Entry {
            token: item["token"].as_n().unwrap().parse().unwrap(),
            holder: item["holder"].as_s().unwrap().clone(),
            op: item["op"].as_s().unwrap().clone(),
        })
        .collect()
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
