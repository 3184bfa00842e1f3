//! A slice of it, as CI has it; and whether it would notice.
#![allow(missing_docs)]

use std::time::Duration;

use leasehold_real::{MARGIN, Run, Totals};

const SEED: u64 = 20_261_121;

/// What goes wrong, each at least once.
const FAULTS: &[&str] = &[
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
];

/// As many rounds as a busy machine needs until enough has gone on.
async fn until(enough: impl Fn(&Totals) -> bool, length: u64, first: u64, margin: i64) -> Totals {
    let run = Run {
        seed: SEED,
        length: Duration::from_secs(length),
        first,
        margin,
    };
    run.until(enough).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_under_every_fault() {
    let is_enough = |total: &Totals| {
        let count = |kind| total.counts.get(kind).copied().unwrap_or(0);
        let calls_back = total
            .counts
            .keys()
            .any(|kind| kind.starts_with("call back"));
        let has_begun = count("begun") > 10 && count("told") > 3;
        let is_much = total.operations > 300 && count("inside") > 25 && has_begun;
        is_much && calls_back && FAULTS.iter().all(|kind| count(kind) > 0)
    };
    let total = until(
        |total| is_enough(total) || !total.violations.is_empty(),
        200,
        0,
        MARGIN,
    );
    let total = total.await;
    assert_eq!(total.violations, [], "printed above");
    assert!(is_enough(&total), "{total}: {:?}", total.counts);
}

/// Functions whose margin is zero take over too early, by their clocks and by everybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn missing_margin_is_found_out() {
    let is_found = |total: &Totals| {
        let mut found = total.violations.iter();
        found.any(|broken| ["F3", "S8"].contains(&broken.promise))
    };
    let total = until(is_found, 200, 1000, 0).await;
    assert!(is_found(&total), "{total}");
}
