//! The second act: executions queue for one key, and are woken one after the other. One is stopped while it waits, another
//! while it holds.

use std::time::{Duration, Instant};

use leasehold_local::Error;
use serde_json::{Value, json};

use super::cast::{Part, QUEUE_KEY, waiters};
use super::counts::{Meters, Queue};
use super::director::{Director, Item, LOOK_EVERY};
use super::record::{Record, now};
use super::{GRACE_SECONDS, show};

/// After how many turns a waiter is stopped.
const STOP_AFTER_TURNS: usize = 3;
/// How long the stopped holder is inside before it is stopped: longer than clocks may be apart, lest its lease look as if it
/// were written by a redrive.
const STOP_INSIDE_MS: u64 = 1_000;
/// When the act stops to wait for turns; who had none then was lost.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long sweep may take to clear up afterwards.
const CLEAR_LIMIT: Duration = Duration::from_secs(20);

/// What the act has left behind, besides the record.
#[derive(Debug)]
pub(super) struct Left {
    /// When the demo, which held the key until all were in the queue, gave it back.
    pub(super) given_back: u64,
    /// What inspect tells of the key in the end.
    pub(super) key: Value,
    /// How many items of the key are left, of which one is its row. Those of waiters who were served are DynamoDB's to purge.
    pub(super) items: usize,
    /// Requests by function.
    pub(super) counts: Queue,
}

/// Plays the act to its end.
pub(super) async fn play(director: &Director<'_>) -> Result<Left, Error> {
    let grace = ("LEASE_REAP_GRACE_SECONDS", GRACE_SECONDS.to_string());
    let meters = Meters::install(director.stack, &[grace]).await?;
    let request =
        json!({"key": QUEUE_KEY, "holder": "demo", "request_id": "demo", "ttl_seconds": 300});
    let lease = director.invoke("acquire", &request).await?["lease"].clone();
    let cast = waiters();
    show(&format!(
        "the demo itself holds {QUEUE_KEY}; {} executions queue for it",
        cast.len()
    ));
    let before = meters.read();
    let mut running = Vec::new();
    for role in &cast {
        let arn = director.start(role).await?;
        let queued = director.hear("it is in the queue", |record| {
            record.execution(&arn)?.queued.first().map(|_| ())
        });
        queued.await?;
        running.push(arn);
    }
    show("all are in the queue; the demo gives the key back");
    let given_back = director.record().at(now());
    director.invoke("release", &json!({"lease": lease})).await?;
    let began = Instant::now();
    while !running.is_empty() && began.elapsed() < PATIENCE {
        let due = due(&director.record());
        for arn in due {
            director.stop(&arn).await?;
        }
        // One question at a time: they end one after the other, but for the one that is stopped.
        let mut next: Vec<_> = running.drain(..1).collect();
        director.look(&mut next).await?;
        next.append(&mut running);
        running = next;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let (key, items) = clear(director).await?;
    Ok(Left {
        given_back,
        key,
        items,
        counts: Queue::of(&before, &meters.read()),
    })
}

/// Who is to be stopped now.
fn due(record: &Record) -> Vec<String> {
    let queue = || record.executions.iter().filter(|one| one.key == QUEUE_KEY);
    let turns = queue().filter(|one| one.lease.is_some()).count();
    let now = record.at(now());
    let due = queue().filter(|one| {
        let inside = one.lease.as_ref();
        one.stopped.is_none()
            && match one.part {
                Part::StoppedWaiting => turns >= STOP_AFTER_TURNS,
                Part::StoppedHolding => {
                    inside.is_some_and(|hold| now >= hold.from + STOP_INSIDE_MS)
                }
                _ => false,
            }
    });
    due.map(|one| one.arn.clone()).collect()
}

/// Waits until sweep has cleared what is left of those who were served.
async fn clear(director: &Director<'_>) -> Result<(Value, usize), Error> {
    let table = director.stack.tables().first().copied().unwrap_or_default();
    let began = Instant::now();
    loop {
        let items = director.items(table, QUEUE_KEY).await?;
        let is_left = |item: &&Item| item.contains_key("version") || item.contains_key("holder");
        let items = items.iter().filter(is_left).count();
        if items <= 1 || began.elapsed() > CLEAR_LIMIT {
            return Ok((director.inspect(QUEUE_KEY).await?, items));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
