//! Powertools' idempotency utility, used as a lock: a record that exists while somebody works.

use std::time::Duration;

use leasehold::{Clock as _, SystemClock};
use leasehold_local::{Stack, create_table};

use super::ours::{Ours, found, outwait, until};
use super::signal;
use leasehold_bench::python::Python;
use rustix::process::Signal;
use serde_json::{Value, json};

const TABLE: &str = "IdempotencyTable";

/// What the work says after an order.
async fn state(process: &Python, order: Value) -> Value {
    process.ask("", order).await.unwrap()["state"].clone()
}

/// Somebody at work, whose record counts for so many seconds.
async fn work(stack: &Stack, expires: u32) -> Python {
    let endpoint = stack.dynamodb_url();
    let expires = expires.to_string();
    let arguments = [
        "--endpoint",
        &endpoint,
        "--table",
        TABLE,
        "--key",
        "orders/42",
        "--expires",
        &expires,
    ];
    Python::start("idempotency.py", &arguments).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_failure_deletes_anothers_record() {
    let world = Ours::start().await;
    create_table(&world.stack.dynamodb(), TABLE, &["id"], Some("expiration"))
        .await
        .unwrap();
    let first = work(&world.stack, 1).await;
    assert_eq!(state(&first, json!({})).await, "inside");
    let entered = SystemClock.now();
    signal(&first, Signal::STOP);
    // Its record is over: it counts in whole seconds, one of them, and has to lie in the past.
    until(entered.plus(Duration::from_secs(2))).await;
    let second = work(&world.stack, 3600).await;
    assert_eq!(state(&second, json!({})).await, "inside");
    signal(&first, Signal::CONT);
    assert_eq!(state(&first, json!({"fail": true})).await, "failed");
    let third = work(&world.stack, 3600).await;
    // While the second one is still at work.
    assert_eq!(
        state(&third, json!({})).await,
        "inside",
        "the second one's record is kept"
    );
    assert_eq!(state(&second, json!({})).await, "done");

    let first = world.acquire("orders/42", "first", 1).await.unwrap();
    outwait(&first["lease"]).await;
    let second = world.acquire("orders/42", "second", 60).await.unwrap();
    assert_eq!(second["grant"], "takeover");
    let late = world.release(&first["lease"]).await.unwrap();
    assert_eq!(late["outcome"], "lost");
    let third = world.acquire("orders/42", "third", 60).await.unwrap_err();
    assert_eq!(third, "Lease.Held");
    let extended = world.extend(&second["lease"]).await.unwrap();
    assert_eq!(extended["outcome"], "extended");
    found(
        "the late one's failure deleted the second one's record: two inside at once",
        "the late release answers \"lost\" and frees nothing: the third gets Lease.Held",
    );
}
