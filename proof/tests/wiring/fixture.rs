//! A stack of `fixtures/wiring.json`, whose function fails as its records say.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use leasehold_local::{Invocation, Options, Stack};
use leasehold_proof::fixture::{TIMEOUT, eventually, s};
use serde_json::Value;
use tokio::sync::broadcast;

pub fn options() -> Options {
    let binaries = leasehold_proof::example("picky");
    let binaries = binaries.parent().unwrap().to_owned();
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wiring.json");
    Options {
        template: Some(template),
        binaries: Some(binaries),
        queue_delay: Some(Duration::from_millis(30)),
        ..Options::default()
    }
}

pub async fn stack() -> Stack {
    Stack::start(options()).await.unwrap()
}

/// The next invocation to end, with its payload.
pub async fn next(invocations: &mut broadcast::Receiver<Invocation>) -> (Invocation, Value) {
    let next = tokio::time::timeout(TIMEOUT, invocations.recv()).await;
    let invocation = next.expect("no invocation").unwrap();
    let payload = serde_json::from_str(&invocation.payload).unwrap();
    (invocation, payload)
}

/// Writes items at once, so that they come out of the stream together: for each its key, which function is to
/// get it, and what that is to do.
pub async fn write(stack: &Stack, items: &[(&str, &str, &str)]) {
    let puts = items.iter().map(|(key, function, wish)| {
        let item = HashMap::from([
            ("pk".to_owned(), s(key)),
            ("sk".to_owned(), s("ROW")),
            ((*function).to_owned(), s("yes")),
            ("do".to_owned(), s(wish)),
        ]);
        let put = Put::builder().table_name("Rows").set_item(Some(item));
        TransactWriteItem::builder()
            .put(put.build().unwrap())
            .build()
    });
    let write = stack.dynamodb().transact_write_items();
    write
        .set_transact_items(Some(puts.collect()))
        .send()
        .await
        .unwrap();
}

/// The keys of a batch's records, in order.
pub fn keys(payload: &Value) -> Vec<&str> {
    let records = payload["Records"].as_array().unwrap().iter();
    records
        .filter_map(|record| record["dynamodb"]["Keys"]["pk"]["S"].as_str())
        .collect()
}

/// The dead letters of the stack, once there are as many.
pub async fn dead_letters(stack: &Stack, count: usize) -> Vec<Value> {
    let letters = eventually("dead letters", async || {
        let letters = stack.queue("DeadQueue").unwrap();
        (letters.len() >= count).then_some(letters)
    });
    let letters = letters.await;
    letters
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}
