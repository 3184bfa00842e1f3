//! One slice of the soak, as CI has it; and whether it would notice.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use leasehold_soak::calls::{Answer, Caller, Handle};
use leasehold_soak::checks::writes;
use leasehold_soak::context::Context;
use leasehold_soak::fixture::Fixture;
use leasehold_soak::plan::Step;
use leasehold_soak::row::MARGIN;
use leasehold_soak::run::Soak;
use leasehold_soak::watch::{Watch, sleep_ms};
use serde_json::json;

const SEED: u64 = 20_261_121;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_every_fault_all_that_is_promised_holds() {
    let soak = Soak {
        seed: SEED,
        length: Duration::from_secs(40),
        first: 0,
        clients: 48,
        margin: MARGIN,
    };
    let total = soak.run().await.unwrap();
    assert_eq!(total.violations, [], "printed above");
    assert_eq!(total.undecided, 0);
    for kind in [
        "LoseAnswer",
        "ResetAnswer",
        "HalfAnswer",
        "FailAnswer",
        "HangAnswer",
        "LoseRequest",
        "LateRequest",
        "Throttle",
        "Conflict",
        "ServerError",
        "Hang",
        "kill -9",
        "kill before the answer",
        "kill after the start",
        "stopped",
        "slow",
    ] {
        let happened = total.faults.get(kind).copied().unwrap_or(0);
        assert!(happened > 0, "{kind}: {total}");
    }
    let calls_back = total
        .faults
        .keys()
        .filter(|kind| kind.starts_with("call back"));
    assert!(calls_back.count() > 0, "{total}");
    // Far below what any machine manages: only to see that something went on.
    assert!(total.operations > 300 && total.grants > 50, "{total}");
}

/// Functions whose margin is zero take over too early, by their clocks and by everybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_margin_it_is_found_out() {
    // On a busy machine one slice has too few operations.
    for first in 1000..1004 {
        let soak = Soak {
            seed: SEED,
            length: Duration::from_secs(20),
            first,
            clients: 32,
            margin: 0,
        };
        let total = soak.run().await.unwrap();
        let mut found = total.violations.iter();
        if found.any(|violation| violation.invariant == "linearizability") {
            return;
        }
    }
    panic!("four slices, and nothing found");
}

/// Somebody oversleeps, and somebody else works in its place. Without the fence an update is lost; with it none is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_oversleeps_is_dangerous_without_the_fence_alone() {
    let fixture = Arc::new(Fixture::start(MARGIN).await.unwrap());
    let context = Context::new(Arc::clone(&fixture), Watch::start(), SEED, 0, 60_000_000);
    let resource = &fixture.resource;
    let sleeper = acquire(&context, "sleeper").await.unwrap();
    let key = &sleeper.place.key;
    let slept = resource.enter(key, sleeper.token).await.unwrap().unwrap();

    let mut worker = None;
    while worker.is_none() {
        sleep_ms(100).await;
        worker = acquire(&context, "worker").await;
    }
    let worker = worker.unwrap();
    let read = resource.enter(key, worker.token).await.unwrap().unwrap();
    assert!(resource.add(key, worker.token, read.guarded).await.unwrap());
    resource.add_without(key, read.unguarded).await.unwrap();

    assert!(
        !resource
            .add(key, sleeper.token, slept.guarded)
            .await
            .unwrap()
    );
    resource.add_without(key, slept.unguarded).await.unwrap();
    let observed = resource.read(key).await.unwrap();
    assert_eq!(writes(key, &observed, 1), []);
    assert_eq!(observed.unguarded, 1, "one of two is lost");
}

async fn acquire(context: &Context, holder: &str) -> Option<Handle> {
    let caller = Caller::new(context, holder.to_owned(), String::new());
    let payload = json!({"key": "k", "holder": holder, "ttl_seconds": 1});
    let step = Step {
        fleet: 0,
        fault: None,
        after: 0,
    };
    match caller.call("acquire", step, &payload, "").await.answer {
        Answer::Well(answer) => caller.handle(&answer["lease"]),
        Answer::Error(name, _) if name == "Lease.Held" => None,
        other => panic!("{other:?}"),
    }
}
