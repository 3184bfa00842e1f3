//! The benchmark itself, on a tiny scale: what it counts is what was sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use leasehold_bench::measures::Measure;
use leasehold_bench::parts::{Ground, Part};
use leasehold_bench::report::{self, Machine};
use leasehold_bench::waiting;
use leasehold_bench::waiting::contestants::Name;
use leasehold_bench::waiting::course::Course;
use leasehold_bench::waiting::figures::Figures;
use leasehold_bench::waiting::run::run;

/// Half of it is how late a task may come before an edge cuts a cycle.
const HOLD: Duration = Duration::from_millis(100);

#[allow(clippy::unwrap_used, reason = "a test's own function")]
async fn figures(name: Name, waiters: usize) -> Figures {
    let course = Course {
        waiters,
        hold: HOLD,
        rest: Duration::ZERO,
        latency: Duration::ZERO,
        warm_up: HOLD,
        window: HOLD * 5,
    };
    // Without Python the root is not looked at.
    let ran = run(Path::new("/nowhere"), name, course).await;
    Figures::from(&ran.unwrap())
}

fn operations(figures: &Figures) -> Vec<&str> {
    figures
        .requests
        .by_operation
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn alone_each_cycle_costs_what_the_two_calls_send() {
    let polling = figures(Name::Polling, 1).await;
    assert_eq!(operations(&polling), ["UpdateItem"]);
    // To acquire and to release; the edges cut no cycle.
    assert!(polling.cycles > 0, "{polling:?}");
    assert_eq!(polling.requests.total, 2 * polling.cycles);

    let other = figures(Name::DynamodbLease, 1).await;
    assert_eq!(operations(&other), ["DeleteItem", "PutItem"]);
    assert!(other.cycles > 0, "{other:?}");
    assert_eq!(other.requests.total, 2 * other.cycles);

    for run in [polling, other] {
        assert_eq!(run.handovers, run.cycles, "{run:?}");
        assert_eq!((run.aside.total, run.overlaps), (0, 0), "{run:?}");
        assert_eq!((run.to_another, run.requests_per_change), (0.0, None));
        assert!(run.errors.is_empty(), "{run:?}");
        assert!(run.utilisation > 0.0 && run.utilisation < 1.0, "{run:?}");
    }
}

#[tokio::test]
async fn who_has_to_ask_again_costs_more_and_nobody_is_inside_with_another() {
    let run = figures(Name::Polling, 8).await;
    assert!(run.cycles > 0, "{run:?}");
    // While one holds, the others ask for nothing.
    assert!(run.requests.total > 2 * run.cycles, "{run:?}");
    assert_eq!((run.overlaps, run.errors.len()), (0, 0), "{run:?}");
    assert!(run.wait.longest_by_mean >= 1.0, "{run:?}");
}

#[tokio::test]
async fn in_line_each_cycle_costs_three_and_the_key_goes_round() {
    let run = figures(Name::Queue, 3).await;
    assert_eq!(
        operations(&run),
        ["GetItem", "TransactWriteItems", "UpdateItem"]
    );
    assert!(run.cycles > 0, "{run:?}");
    assert_eq!(run.requests.total, 3 * run.cycles);
    // To confirm; a sweep adds other operations when it comes.
    assert!((run.aside.by_operation["UpdateItem"] - 1.0).abs() < 1e-9);
    assert!((run.to_another - 1.0).abs() < 1e-9, "{run:?}");
    assert_eq!((run.overlaps, run.errors.len()), (0, 0), "{run:?}");
}

#[tokio::test]
async fn the_report_has_an_object_a_measure_and_a_picture() {
    let options = waiting::Options {
        waiters: Some(vec![1]),
        only: vec![Name::Queue, Name::Polling],
        hold: 100,
        rest: 0,
        long_holds: Some(vec![100]),
        long_waiters: 1,
        latency: Some(vec![5]),
    };
    let ground = Ground {
        root: PathBuf::from("/nowhere"),
        quick: true,
        prices: None,
    };
    let found = Part::Waiting.measure(&ground, &options).await.unwrap();
    assert!(found.told.contains("per cycle: UpdateItem 2.00"));

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let parts = [(Part::Waiting, found)];
    let files = report::write(&directory, &Machine::this(), &parts).unwrap();
    let [report, runs, svg] = &files[..] else {
        panic!("{files:?}");
    };
    let measures: Vec<Measure> = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let found = measures
        .iter()
        .find(|measure| measure.name == "requests per contended cycle, 1 waiters, held for 100 ms");
    // Alone nobody waits: two to join and to release, as the others.
    let found = found.unwrap();
    assert_eq!(found.met, Some(true), "{found:?}");
    assert!((found.peers["leasehold, polling"] - 2.0).abs() < 1e-9);
    let runs: serde_json::Value = serde_json::from_slice(&std::fs::read(runs).unwrap()).unwrap();
    assert_eq!(
        runs["parts"]["waiting"]["by_hold"][0]["contestant"],
        "queue"
    );
    let far = &runs["parts"]["waiting"]["by_latency"][0];
    assert_eq!(
        (&far["latency_ms"], &far["contestant"]),
        (&5.into(), &"queue".into())
    );
    // To join, to hand over, and what a transaction, its index and the row cost.
    let per_cycle = far["requests"]["write_units"].as_f64().unwrap();
    assert!((per_cycle - 7.0).abs() < 0.5, "{far}");
    let svg = std::fs::read_to_string(svg).unwrap();
    // Five panels by waiters, less the one of what there was none of, one by hold, one from afar, and the legend.
    assert_eq!(svg.matches("<circle class=\"polling\"").count(), 7);
    assert!(report::verdicts(&parts).contains("met    requests per contended cycle"));
}

#[test]
fn everybody_tells_what_was_set() {
    for name in Name::value_variants() {
        assert!(name.settings().len() > 20, "{}", name.told());
    }
}
