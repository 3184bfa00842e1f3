//! The second act: executions queue for one key, and are notified one after the other. One is stopped while it waits, another
//! while it holds the lease.

use std::time::{Duration, Instant};

use leasehold_local::Error;
use serde_json::{Value, json};

use super::cast::{QUEUE_KEY, Scenario, waiters};
use super::director::{Director, Item, LOOK_EVERY};
use super::record::{Record, now};
use super::{GRACE_SECONDS, show};

/// After how many turns a waiter is stopped.
const STOP_AFTER_TURNS: usize = 3;
/// How long the stopped holder is inside before the stop. It is longer than the clock difference, so that reap does not
/// mistake its lease for one that a redrive wrote.
const STOP_INSIDE_MS: u64 = 1_000;
/// How long the act waits for turns. A waiter that had none by then was lost.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long sweep may take for the clean-up afterwards.
const CLEAR_LIMIT: Duration = Duration::from_secs(20);

/// The results of the act, apart from the record.
#[derive(Debug)]
pub(super) struct Left {
    /// When the demo released the key, which it held until all executions were in the queue.
    pub(super) given_back: u64,
    /// The response of inspect for the key at the end.
    pub(super) key: Value,
    /// How many items of the key are left, including its row. DynamoDB purges those of served waiters.
    pub(super) items: usize,
}

/// Plays the act to its end.
pub(super) async fn play(director: &Director<'_>) -> Result<Left, Error> {
    // In the first act a lease has to outlive its stopped holder.
    let functions = director.stack.functions();
    for verb in ["reap", "sweep"] {
        let mut function = functions.function(verb)?;
        let grace = GRACE_SECONDS.to_string();
        let environment = &mut function.environment;
        environment.insert("LEASE_REAP_GRACE_SECONDS".to_owned(), grace);
        functions.register(function);
    }
    let request =
        json!({"key": QUEUE_KEY, "holder": "demo", "request_id": "demo", "ttl_seconds": 300});
    let lease = functions.call("acquire", &request).await?["lease"].clone();
    let cast = waiters();
    show(&format!(
        "the demo itself holds {QUEUE_KEY}; {} executions queue for it",
        cast.len()
    ));
    let mut running = Vec::new();
    for role in &cast {
        let arn = director.start(role).await?;
        let queued = director.wait_for(&arn, "it is in the queue", |one| !one.queued.is_empty());
        queued.await?;
        running.push(arn);
    }
    show("all are in the queue; the demo releases the key");
    let given_back = director.record().at(now());
    functions.call("release", &json!({"lease": lease})).await?;
    let began = Instant::now();
    while !running.is_empty() && began.elapsed() < PATIENCE {
        let seen = functions
            .call("inspect", &json!({"key": QUEUE_KEY}))
            .await?;
        let at = director.record().at(now());
        director.record().served(&seen["lease"], at);
        let due = due(&director.record());
        for arn in due {
            director.stop(&arn).await?;
        }
        // One call at a time, because they end one after the other, apart from the stopped one.
        let mut next: Vec<_> = running.drain(..1).collect();
        director.poll(&mut next).await?;
        next.append(&mut running);
        running = next;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let (key, items) = clear(director).await?;
    Ok(Left {
        given_back,
        key,
        items,
    })
}

/// The executions to stop now.
fn due(record: &Record) -> Vec<String> {
    let queue = || record.executions.iter().filter(|one| one.key == QUEUE_KEY);
    let turns = queue().filter(|one| one.lease.is_some()).count();
    let now = record.at(now());
    let due = queue().filter(|one| {
        let inside = one.lease.as_ref();
        one.stopped.is_none()
            && match one.part {
                Scenario::StoppedWaiting => turns >= STOP_AFTER_TURNS,
                Scenario::StoppedHolding => {
                    inside.is_some_and(|hold| now >= hold.from + STOP_INSIDE_MS)
                }
                _ => false,
            }
    });
    due.map(|one| one.arn.clone()).collect()
}

/// Waits until sweep has removed the remains of served waiters.
async fn clear(director: &Director<'_>) -> Result<(Value, usize), Error> {
    let table = director.stack.tables().first().copied().unwrap_or_default();
    let began = Instant::now();
    loop {
        let items = director.items(table, QUEUE_KEY).await?;
        let is_left = |item: &&Item| item.contains_key("version") || item.contains_key("holder");
        let items = items.iter().filter(is_left).count();
        if items <= 1 || began.elapsed() > CLEAR_LIMIT {
            let inspect = json!({"key": QUEUE_KEY});
            let shown = director.stack.functions().call("inspect", &inspect);
            return Ok((shown.await?, items));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
