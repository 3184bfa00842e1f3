//! One slice of the soak, as CI has it; and whether it would notice.
#![allow(missing_docs)]

use std::time::Duration;

use leasehold_soak::round::Totals;
use leasehold_soak::row::MARGIN;
use leasehold_soak::run::Soak;

const SEED: u64 = 20_261_121;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_under_every_fault() {
    let mut total = Totals::default();
    // A busy machine needs several slices until something has gone on.
    for first in 0..5 {
        let soak = Soak {
            seed: SEED,
            length: Duration::from_secs(40),
            first,
            clients: 48,
            margin: MARGIN,
        };
        total.add(soak.run().await);
        assert_eq!(total.violations, [], "printed above");
        assert_eq!(total.undecided, 0);
        if total.operations > 300 && total.grants > 25 {
            break;
        }
    }
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
    assert!(total.operations > 300 && total.grants > 25, "{total}");
    let starts: u64 = ["started", "queued"]
        .iter()
        .filter_map(|heard| total.starts.get(heard))
        .sum();
    assert!(starts > 10, "{total}");
    assert!(total.starts["tasks told"] > 3, "{total}");
}

/// Functions whose margin is zero take over too early, by their clocks and by everybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn missing_margin_is_found_out() {
    // On a busy machine one slice has too few operations.
    for first in 1000..1004 {
        let soak = Soak {
            seed: SEED,
            length: Duration::from_secs(20),
            first,
            clients: 32,
            margin: 0,
        };
        let total = soak.run().await;
        let mut found = total.violations.iter();
        if found.any(|violation| violation.invariant == "linearizability") {
            return;
        }
    }
    panic!("four slices, and nothing found");
}
