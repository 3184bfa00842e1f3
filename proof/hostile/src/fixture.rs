//! The sample events, and a table as the cases find it: rows in every state, waiters, items that are not ours, and what the
//! sample events speak of. The rows are those of the corpus.

use std::{collections::BTreeSet, fs, future::Future, path::Path, sync::LazyLock, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Acquire, AuditReason, Holder, KeepTime, Key, Lifetime, Memory, Operator, Reason, RequestId,
    Timestamp, Ttl, row::Item,
};
use serde_json::Value;

use crate::{Function, secrets, wire};

/// An item, after its keys.
pub type StoredItem = (String, String, Item);

/// A minute after the sample events' leases were granted.
pub const NOW: Timestamp = Timestamp::from_millis(1_795_230_060_000);

/// Keys whose rows are items that are not ours.
pub const STRANGERS: [&str; 2] = ["stranger", "stranger-held"];

/// A valid event.
pub struct Sample {
    pub function: Function,
    pub event: Value,
}

/// The sample events of the repository in the order of their names, with secrets that can be recognised.
pub fn samples() -> &'static [Sample] {
    static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(read_samples);
    &SAMPLES
}

fn read_samples() -> Vec<Sample> {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events");
    let files = fs::read_dir(events).expect("the repository has events");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let sample = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let verb = name.split('-').next().unwrap_or_default();
        let function = Function::ALL.iter().find(|known| known.name() == verb);
        let text = fs::read_to_string(path).expect("an event");
        let mut event = serde_json::from_str(&text).expect("JSON");
        mark_event(&mut event);
        Sample {
            function: *function.expect("an event begins with its function's name"),
            event,
        }
    };
    files.iter().map(sample).collect()
}

fn mark_event(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mark_event),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if secrets::is_secret(name) => {
                        *text = secrets::secret(text);
                    }
                    other => mark_event(other),
                }
            }
        }
        _ => {}
    }
}

/// Everything in the table before a case.
pub fn rows() -> &'static [StoredItem] {
    static ROWS: LazyLock<Vec<StoredItem>> = LazyLock::new(read_rows);
    &ROWS
}

/// A table with these rows.
pub fn table() -> Memory {
    let table = Memory::new();
    for (pk, sk, item) in rows() {
        table.put_at(pk, sk, item);
    }
    table
}

/// Runs what never waits: the table is in memory, and its clock is moved by hand.
pub fn now<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}

/// The rows and waiters of the corpus, which has every state that a row of ours can be in; and items that are not ours.
fn read_rows() -> Vec<StoredItem> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/row");
    let files = fs::read_dir(corpus).expect("the repository has a corpus");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let table = Memory::new();
    let mut keys = BTreeSet::new();
    for file in files {
        let bytes = fs::read(file).expect("a case");
        let case: Value = serde_json::from_slice(&bytes).expect("JSON");
        let key = case["handle"]["key"].as_str().expect("a key");
        // Further cases of a key have rows that are changed.
        if keys.insert(key.to_owned()) {
            for (pk, sk, item) in &wire::items(key, &case["items"]).expect("items") {
                table.put_at(pk, sk, item);
            }
        }
    }
    for key in STRANGERS {
        let mut item = Item::from([("colour".to_owned(), AttributeValue::S("green".to_owned()))]);
        if key.ends_with("held") {
            let secret = secrets::secret("a stranger's");
            item.insert("lease_id".to_owned(), AttributeValue::S(secret));
            item.insert(
                "holder".to_owned(),
                AttributeValue::S("somebody".to_owned()),
            );
        }
        for sk in [
            "LEASE#0000",
            "WAIT#0123456789abcdef0123456789abcdef",
            "whatever",
        ] {
            table.put_at(key, sk, &item);
        }
    }
    table.all()
}

pub fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").expect("valid"),
        why: Reason::new("it is stuck").expect("valid"),
    }
}

pub fn ask(key: &str, holder: &str, seconds: u64) -> Acquire {
    let ttl = Ttl::new(Duration::from_secs(seconds)).expect("valid");
    ask_for(key, holder, ttl.into())
}

/// By the execution of this name, for as long as it runs.
pub fn ask_as_execution(key: &str, name: &str) -> Acquire {
    let holder = format!("arn:aws:states:us-east-1:123456789012:execution:leasing:{name}");
    let keep = KeepTime::default();
    ask_for(key, &holder, Lifetime::Execution { keep })
}

fn ask_for(key: &str, holder: &str, lifetime: Lifetime) -> Acquire {
    Acquire::new(
        Key::new(key).expect("valid"),
        Holder::new(holder).expect("valid"),
        lifetime,
    )
    .request_id(RequestId::new(format!("by {holder}")).expect("valid"))
}
