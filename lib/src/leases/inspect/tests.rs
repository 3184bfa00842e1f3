use std::{collections::HashSet, sync::Arc, time::Duration};

use super::*;
use crate::{
    Acquire, AtLeast, ExtendOptions, KeepTime, KeyView, Lifetime, LimitedTo, ManualClock, Memory,
    Permits, Pool, Queue, Queued, Settings, TaskToken, Wait, WaitTime,
    clock::slow::Slow,
    test_support::{FakeStepFunctions, grant, make},
};

#[tokio::test]
async fn list_fits_into_answer() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let ttl = make::ttl(Duration::from_hours(1));
    let metadata = Metadata::new([("a".to_owned(), "\"".repeat(4095))].into());
    let metadata = metadata.expect("valid");
    for n in 0..1500 {
        let key = make::key(format!("k{n}"));
        let acquire = Acquire::new(key, make::holder("h"), ttl);
        grant(&leases, acquire.metadata(metadata.clone())).await;
    }
    let (mut seen, mut cursor) = (HashSet::new(), None);
    loop {
        let listed = leases.list(10_000, cursor).await.expect("a list");
        assert!(serde_json::to_vec(&listed).expect("json").len() < 6_000_000);
        seen.extend(listed.leases.into_iter().map(|view| view.key));
        cursor = listed.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 1500);
}

#[tokio::test]
async fn list_ends_before_invocation() {
    let leases = Leases::new(Memory::new(), Settings::default());
    let leases = leases.with_clock(Arc::new(Slow::by(100)));
    let ttl = make::ttl(Duration::from_hours(1));
    let holder = make::holder("h");
    for n in 0..300 {
        let key = make::key(format!("k{n}"));
        grant(&leases, Acquire::new(key, holder.clone(), ttl)).await;
    }
    // A hundred rows take ten seconds.
    let soon = leases.for_call(leases.now().plus(Duration::from_secs(5)));
    for listed in [
        soon.list(10_000, None).await,
        soon.held_by(&holder, 10_000, None).await,
    ] {
        let listed = listed.expect("time that runs out is no error");
        assert_eq!(listed.leases.len(), 100);
        assert!(listed.cursor.is_some());
    }
}

/// Every kind of key and list, each as the line of JSON that the function inspect answers.
async fn answers() -> String {
    let clock = make::clock();
    let leases = Leases::new(Memory::new(), Settings::default())
        .with_clock(clock.clone())
        .with_engine(Arc::new(FakeStepFunctions::default()));
    fill(&leases, &clock).await;
    let mut lines = Vec::new();
    for name in [
        "held", "expired", "released", "forced", "closed", "frozen", "limited", "runs", "pool",
        "queue", "renewed", "never",
    ] {
        let seen = leases.inspect(&make::key(name)).await.expect("an answer");
        lines.push(serde_json::to_string(&seen).expect("JSON"));
    }
    let listed = leases.list(3, None).await.expect("a list");
    lines.push(serde_json::to_string(&listed).expect("JSON"));
    let held = leases.held_by(&make::holder("worker 1"), 10, None).await;
    lines.push(serde_json::to_string(&held.expect("a list")).expect("JSON"));
    let pool = Pool::new(&make::key("imports"), make::permits(1));
    for key in ["has a permit", "waits for it"] {
        let request = make::of_execution(make::key(key), "pooled").pool(pool.clone());
        wait(&leases, request, key).await.expect("an answer");
    }
    for key in [make::key("waits for it"), pool.key] {
        let seen = leases.inspect(&key).await.expect("an answer");
        lines.push(serde_json::to_string(&seen).expect("JSON"));
    }
    lines.join("\n") + "\n"
}

async fn fill(leases: &Queue<Memory>, clock: &ManualClock) {
    let request = |key: &str, holder: &str, seconds: u64| {
        let request = make::request(make::key(key), holder, Duration::from_secs(seconds));
        // Which permit is free is looked for in an order that depends on it.
        request.request_id(make::request_id("1"))
    };
    let because = make::because();
    grant(leases, request("expired", "worker 2", 2)).await;
    for (key, seconds) in [("released", 60), ("closed", 60)] {
        let at_least = AtLeast::new(Duration::from_secs(if key == "closed" { 600 } else { 0 }));
        let mut request = request(key, "worker 1", seconds);
        request.at_least = at_least.expect("valid");
        let lease = grant(leases, request).await.lease;
        let _ = leases.release(&lease).await.expect("released");
    }
    grant(leases, request("forced", "worker 3", 600)).await;
    let which = crate::ForceReleaseOptions::default();
    let key = make::key("forced");
    let forced = leases.force_release(&key, which, &because).await;
    forced.expect("forced");
    clock.advance(Duration::from_secs(10));
    grant(
        leases,
        request("held", "worker 1", 600).metadata(make::metadata("order", "42")),
    )
    .await;
    grant(leases, request("forced", "worker 1", 600)).await;
    let renewed = grant(leases, request("renewed", "worker 4", 600)).await;
    leases
        .freeze(&make::key("frozen"), &because)
        .await
        .expect("frozen");
    let limit = LimitedTo::new(2).ok();
    let key = make::key("limited");
    let limited = leases.limit_to(&key, limit, &because).await;
    limited.expect("limited");
    let keep = KeepTime::new(Duration::from_secs(60)).expect("valid");
    let lifetime = Lifetime::Execution { keep };
    grant(
        leases,
        Acquire::new(make::key("runs"), make::execution("r"), lifetime),
    )
    .await;
    for holder in ["a", "b"] {
        let request = request("pool", holder, 600).permits(Permits::new(3).expect("valid"));
        grant(leases, request).await;
    }
    grant(leases, make::of_execution(make::key("queue"), "first")).await;
    for who in ["second", "third"] {
        clock.advance(Duration::from_secs(1));
        let request = make::of_execution(make::key("queue"), who);
        let queued = wait(leases, request, who).await;
        assert!(matches!(queued, Ok(Queued::Queued { .. })), "{queued:?}");
    }
    let extended = leases.extend(&renewed.lease, ExtendOptions::default());
    let _ = extended.await.expect("extended");
}

async fn wait(leases: &Queue<Memory>, request: Acquire, token: &str) -> Result<Queued, Error> {
    let queue = Wait {
        task_token: TaskToken::new(token).expect("valid"),
        wait: WaitTime::DAY,
        latest: false,
    };
    leases.acquire_queued(request, queue).await
}

#[tokio::test]
async fn the_json_stays_as_it_is() {
    assert_eq!(answers().await, include_str!("golden.jsonl"));
}

#[test]
fn answer_reads_back_as_written() {
    for line in include_str!("golden.jsonl").lines() {
        let again = if line.starts_with("{\"leases\"") {
            let listed: LeasePage = serde_json::from_str(line).expect("a list");
            serde_json::to_string(&listed)
        } else {
            let seen: Inspected = serde_json::from_str(line).expect("an answer");
            let key = make::key("k");
            serde_json::to_string(&Inspected::from(KeyView::of(key, seen, Timestamp::MAX)))
        };
        assert_eq!(again.expect("JSON"), line);
    }
}
