//! The package `python_dynamodb_lock`: an item with a version that a thread in the background changes.

use std::time::Duration;

use leasehold_bench::workflows::History;
use leasehold_local::Fault;
use leasehold_proof::fixture::s;
use serde_json::{Value, json};

use super::fixture::{fresh_key, with_fixture};
use super::ours::{Ours, call, found, in_time, outwait};
use super::signal;
use leasehold_bench::python::Python;
use rustix::process::Signal;

const TABLE: &str = "DynamoDBLockTable";
/// Its lease in these tests, in seconds; its default is 30.
const LEASE: f64 = 1.5;
/// Every way to lose an answer but silence, which boto3 waits a minute for.
const FAULTS: [Fault; 4] = [
    Fault::LoseAnswer,
    Fault::ResetAnswer,
    Fault::HalfAnswer,
    Fault::FailAnswer,
];

async fn start(world: &Ours) -> Python {
    let endpoint = world.stack.dynamodb_url();
    let process = Python::start("locks.py", &["--endpoint", &endpoint]).await;
    let names = world.stack.dynamodb().list_tables().send().await.unwrap();
    if !names.table_names().contains(&TABLE.to_owned()) {
        process
            .ask("table", json!({"do": "create_table"}))
            .await
            .unwrap();
    }
    process
}

/// A new client of it, and what it says to an acquire.
async fn acquire(
    process: &Python,
    client: &str,
    key: &str,
    limits: Option<(f64, f64)>,
) -> Result<Value, String> {
    let new = json!({"do": "new", "lease": LEASE, "heartbeat": 0.4, "expiry": 1});
    process.ask(client, new).await.unwrap();
    let mut order = json!({"do": "acquire", "key": key});
    if let Some((period, timeout)) = limits {
        order["period"] = json!(period);
        order["timeout"] = json!(timeout);
    }
    process.ask(client, order).await
}

/// Asks every 0.2 s, for longer than any lease here.
const PATIENT: Option<(f64, f64)> = Some((0.2, 20.0));

async fn owner(world: &Ours, key: &str) -> Option<String> {
    let get = world.stack.dynamodb().get_item().table_name(TABLE);
    let get = get.key("lock_key", s(key)).key("sort_key", s("-"));
    let item = get.consistent_read(true).send().await.unwrap().item?;
    Some(item["owner_name"].as_s().unwrap().clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_lock_is_waited_for() {
    let world = Ours::start().await;
    let process = start(&world).await;
    let proxy = world.stack.proxy();
    proxy.reset();
    proxy.inject(Fault::LoseAnswer, "PutItem", 1);
    let lock = acquire(&process, "a", "orders/42", PATIENT).await.unwrap();
    assert!(lock["owner"].is_string(), "{lock}");
    let waited = lock["seconds"].as_f64().unwrap();
    let counts = proxy.counts();
    let requests = counts.of("GetItem") + counts.of("PutItem");
    // Written, refused by itself, and at last overwritten like a dead one's.
    assert_eq!(counts.of("PutItem"), 3, "{lock}");
    assert!(waited > LEASE, "{lock}: not waited for");
    drop(process);

    world.requests();
    proxy.inject(Fault::LoseAnswer, "UpdateItem", 1);
    let acquired = world.acquire("orders/42", "us", 2).await.unwrap();
    let here = world.requests();
    assert_eq!((acquired["outcome"].as_str(), here), (Some("acquired"), 2));
    found(
        format!(
            "{requests} requests and {waited:.1} s, with nobody else there and a lease of {LEASE} s"
        ),
        format!("acquired with {here} requests"),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_heartbeat_steals() {
    let world = Ours::start().await;
    let process = start(&world).await;
    let proxy = world.stack.proxy();
    for (n, fault) in FAULTS.into_iter().enumerate() {
        let (client, key) = (format!("client-{n}"), format!("orders/{n}"));
        let lock = acquire(&process, &client, &key, None).await.unwrap();
        proxy.inject_matching(fault, "UpdateItem", &key, 1);
        let invalid = in_time(async {
            loop {
                let order = json!({"do": "status", "key": key});
                let status = process.ask(&client, order).await.unwrap();
                if status["events"] != json!([]) {
                    break status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let status = invalid.await;
        assert_eq!(status["status"], "INVALID", "{fault:?}");
        assert_eq!(status["events"], json!(["LOCK_STOLEN"]), "{fault:?}");
        let owner = owner(&world, &key).await;
        assert_eq!(
            owner.as_deref(),
            lock["owner"].as_str(),
            "{fault:?}: somebody has stolen it"
        );

        let lease = world.acquire(&key, "us", 60).await.unwrap();
        proxy.inject_matching(fault, "UpdateItem", &key, 1);
        let extended = world.extend(&lease["lease"]).await.unwrap();
        assert_eq!(extended["outcome"], "extended", "{fault:?}");
    }
    assert_eq!(proxy.pending_faults(), 0);
    drop(process);
    found(
        "LOCK_STOLEN in 4 of 4 ways, while the row still names the owner itself",
        "extended in 4 of 4 ways",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_lock_and_short_callers() {
    const CALLERS: usize = 4;
    let world = Ours::start().await;
    let mut holder = start(&world).await;
    let process = start(&world).await;
    acquire(&holder, "holder", "orders/42", None).await.unwrap();
    holder.kill().await;
    let lease = world.acquire("orders/42", "killed", 2).await.unwrap();
    // From here on both leases are over, and so is the peer's time of expiry.
    outwait(&lease["lease"]).await;

    let mut refused = 0;
    for n in 0..CALLERS {
        let short = Some((0.2, LEASE / 2.0));
        let answer = acquire(&process, &format!("caller-{n}"), "orders/42", short).await;
        refused += usize::from(answer.is_err_and(|error| error.starts_with("ACQUIRE_TIMEOUT")));
    }
    assert_eq!(refused, CALLERS, "a short caller has taken it");
    drop(process);

    world.requests();
    let taken = world.acquire("orders/42", "short", 2).await.unwrap();
    let requests = world.requests();
    assert_eq!((taken["grant"].as_str(), requests), (Some("takeover"), 1));
    assert_eq!(taken["previous"]["ended"], "expired");
    found(
        format!(
            "ACQUIRE_TIMEOUT for {refused} of {CALLERS} callers after the lease and its time of expiry were over"
        ),
        format!("taken over by the first caller with {requests} request"),
    );
}

#[test]
fn a_failure_inside_is_swallowed() {
    with_fixture(async |fixture| {
        let there = Ours::start().await;
        let process = start(&there).await;
        acquire(&process, "a", "orders/42", None).await.unwrap();
        let order = json!({"do": "fail_inside", "key": "orders/42"});
        let answer = process.ask("a", order).await.unwrap();
        assert_eq!(answer["raised"], Value::Null, "it is raised");
        drop(process);

        let input =
            json!({"key": fresh_key(), "ttl_seconds": 30, "first": {"fail": "Work.Broken"}});
        let section = fixture.shipped("CriticalSection");
        let run = fixture.start(section, &input).await;
        assert_eq!(run.ended().await.error, "Work.Broken");
        let states = History::of(&run).await.states;
        assert!(states.contains_key("ReleaseAfterFailure"));
        found(
            "the error raised inside the block did not reach whoever had entered it",
            "the critical section released and failed with the step's own error",
        );
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_holder_writes_late() {
    let world = Ours::start().await;
    let (first, second) = (start(&world).await, start(&world).await);
    let table = "ResourceTable";
    let write = json!({"do": "write", "key": "orders/42", "table": table});
    acquire(&first, "first", "orders/42", None).await.unwrap();
    let held = first
        .ask("first", json!({"do": "status", "key": "orders/42"}))
        .await
        .unwrap();
    assert_eq!(held["status"], "LOCKED");
    // Paused between its check and its write.
    signal(&first, Signal::STOP);
    acquire(&second, "second", "orders/42", PATIENT)
        .await
        .unwrap();
    second.ask("second", write.clone()).await.unwrap();
    let late = first.ask("first", write);
    signal(&first, Signal::CONT);
    late.await.expect("the late write was refused");
    let item = world.item_of(table, "orders/42", "RESOURCE").await.unwrap();
    assert_eq!(item["writer"].as_s().unwrap(), "first", "nothing was lost");
    drop((first, second));

    let here = Box::pin(late_step(&world)).await;
    found(
        "the late write was accepted and the next holder's lost",
        format!("the late write was refused with {here}, the next holder's stays"),
    );
}

/// A step is paused at work (SIGSTOP) for longer than its lease; how its last write ends.
async fn late_step(world: &Ours) -> String {
    let pass = |lease: &Value| json!({"key": lease["key"], "holder": lease["holder"], "fencing_token": lease["fencing_token"], "safe_until": lease["safe_until"]});
    let functions = world.stack.functions();
    // Started before, so that there is a process to pause.
    call(world, "StepFunction", &json!({"step": "warm"}))
        .await
        .unwrap();
    let old = world.acquire("orders/43", "paused", 2).await.unwrap();
    let event = json!({"step": "late", "work": {"seconds": 3}, "lease": pass(&old["lease"])});
    let at_work = call(world, "StepFunction", &event);
    let meanwhile = async {
        let entered = in_time(async {
            while world.overtaken("orders/43").await.is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        entered.await;
        assert_eq!(functions.freeze("StepFunction").unwrap(), 1);
        outwait(&old["lease"]).await;
        let new = world.acquire("orders/43", "next", 60).await.unwrap();
        assert_eq!(new["grant"], "takeover");
        // The frozen process is at work, so this is another one.
        let event = json!({"step": "next", "lease": pass(&new["lease"])});
        call(world, "StepFunction", &event).await.unwrap();
        functions.thaw("StepFunction").unwrap();
        new["lease"]["fencing_token"].to_string()
    };
    let (late, token) = tokio::join!(at_work, meanwhile);
    assert_eq!(world.overtaken("orders/43").await, Some(token));
    late.unwrap_err()
}

impl Ours {
    /// The largest token that the resource has accepted, once it has one.
    async fn overtaken(&self, key: &str) -> Option<String> {
        let item = self.item_of("ResourceTable", key, "RESOURCE").await?;
        Some(item["fence"].as_n().unwrap().clone())
    }
}
