//! The sample events, and a table as the cases find it: rows in every state, waiters, items that are not ours, and what the
//! sample events speak of.

use std::{
    fs,
    future::Future,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Acquire, AuditReason, Holder, Key, Lease, Leases, ManualClock, Memory, Operator, Permits,
    Queue, Reason, RequestDigest, RequestId, Settings, TaskToken, Timestamp, Ttl, WaitTime,
    row::{Holding, Item, Row, State},
    store::Address,
};
use serde_json::Value;

use crate::{Function, secrets, step_functions::UnreliableStepFunctions};

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
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../events");
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
    static ROWS: LazyLock<Vec<StoredItem>> = LazyLock::new(make_rows);
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

fn make_rows() -> Vec<StoredItem> {
    let table = Memory::new();
    for sample in samples() {
        put_leases(&table, &sample.event);
    }
    now(put_states(&table));
    for key in STRANGERS {
        let mut item = Item::from([("colour".to_owned(), AttributeValue::S("green".to_owned()))]);
        if key.ends_with("held") {
            item.insert(
                "holder".to_owned(),
                AttributeValue::S("somebody".to_owned()),
            );
            item.insert(
                "lease_id".to_owned(),
                AttributeValue::S("a stranger's".to_owned()),
            );
        }
        table.put_at(key, "LEASE#0000", &item);
        table.put_at(key, "WAIT#0123456789abcdef0123456789abcdef", &item);
        table.put_at(key, "whatever", &item);
    }
    let mut all = table.all();
    for (_, _, item) in &mut all {
        mark_item(item);
    }
    all
}

/// Makes the secrets of an item recognisable.
fn mark_item(item: &mut Item) {
    for (name, value) in item {
        if let AttributeValue::S(text) = value
            && secrets::is_secret(name)
            && secrets::found_in(text).is_none()
        {
            *text = secrets::secret(text);
        }
    }
}

/// Rows that are as the handles in an event say.
fn put_leases(table: &Memory, event: &Value) {
    let several = event["leases"].as_array().into_iter().flatten();
    for handle in several.chain([&event["lease"]]) {
        let Ok(lease) = serde_json::from_value::<Lease>(handle.clone()) else {
            continue;
        };
        let sample = RequestId::new("sample").expect("valid");
        let row = Row {
            fencing_token: lease.fencing_token,
            version: lease.version,
            request: RequestDigest::of(&lease.holder, &sample),
            granted_to: lease.holder,
            past_requests: [None, None, None],
            previous: None,
            frozen: None,
            operator: None,
            purge_at: None,
            request_keys: None,
            queue: Vec::new(),
            state: State::Held(Holding {
                lease_id: lease.lease_id,
                ttl: lease.ttl,
                acquired_at: lease.acquired_at,
                extended_at: None,
                expires_at: lease.expires_at,
                sweep_after: Some(lease.expires_at),
                metadata: lease.metadata,
            }),
        };
        let address = Address {
            key: lease.key,
            permit: lease.permit,
        };
        table.put(address, &row.to_item());
    }
}

/// Rows in every other state, as they come about.
async fn put_states(table: &Memory) {
    let clock = Arc::new(ManualClock::at(NOW));
    let leases = Leases::new(table.clone(), Settings::default())
        .with_clock(clock.clone())
        .with_workflows(UnreliableStepFunctions::from_turn(2));
    // Half of what the samples ask for is somebody else's.
    let asked = samples()
        .iter()
        .filter(|sample| sample.function == Function::Acquire);
    for sample in asked.step_by(2) {
        if let Some(key) = sample.event["key"].as_str() {
            let _ = leases.acquire(ask(key, "somebody else", 300)).await;
        }
    }
    for key in ["free", "freed-by-force", "promised", "frozen-free", "line"] {
        let lease = leases.acquire(ask(key, "first", 300)).await;
        let lease = lease.expect("an answer").granted().expect("a grant").lease;
        if key == "line" || key == "promised" {
            for who in ["second", "third"] {
                let queue = Queue {
                    task_token: TaskToken::new(format!("token of {who} for {key}")).expect("valid"),
                    wait: WaitTime::new(Duration::from_secs(600)).expect("valid"),
                };
                let queued = leases.acquire_queued(ask(key, who, 300), queue).await;
                let _ = queued.expect("an answer");
            }
        }
        match key {
            "line" => {}
            "freed-by-force" => {
                let key = Key::new(key).expect("valid");
                let (which, because) = (leasehold::ForceReleaseOptions::default(), because());
                let forced = leases.force_release(&key, which, &because).await;
                let _ = forced.expect("an answer");
            }
            _ => _ = leases.release(&lease).await.expect("an answer"),
        }
    }
    drop(leases.acquire(ask("frozen-held", "first", 300)).await);
    for key in ["frozen-free", "frozen-held"] {
        let key = Key::new(key).expect("valid");
        let _ = leases.freeze(&key, &because()).await.expect("an answer");
    }
    for who in ["first", "second"] {
        let permit = ask("semaphore", who, 300).permits(Permits::new(3).expect("valid"));
        let _ = leases.acquire(permit).await.expect("an answer");
    }
    clock.set(NOW.minus(Duration::from_secs(60)));
    drop(leases.acquire(ask("expired", "first", 2)).await);
}

pub fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").expect("valid"),
        why: Reason::new("it is stuck").expect("valid"),
    }
}

pub fn ask(key: &str, holder: &str, seconds: u64) -> Acquire {
    Acquire::new(
        Key::new(key).expect("valid"),
        Holder::new(holder).expect("valid"),
        Ttl::new(Duration::from_secs(seconds)).expect("valid"),
    )
    .request_id(RequestId::new(format!("by {holder}")).expect("valid"))
}
