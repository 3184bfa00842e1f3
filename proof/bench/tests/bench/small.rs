//! What the benchmark counts is what was sent, and what is counted is the same in every run.

use std::time::Duration;

use leasehold_bench::clients::Who;
use leasehold_bench::scale;
use leasehold_bench::sections::{lost_answer, section};
use leasehold_bench::site::Cost;
use leasehold_bench::waiting::{WaitCost, run};
use leasehold_bench::workflows::stage::{Peer, Stage};
use leasehold_bench::workflows::{Crowd, alone, crowd};

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_section_costs_everybody_what_the_calls_send() {
    let who = [
        Who::Polling,
        Who::Functions,
        Who::Direct,
        Who::DynamodbLease,
    ];
    for who in who {
        let steps = section(who).await.unwrap();
        let sent: Vec<_> = steps.iter().map(Cost::told).collect();
        assert_eq!(sent, who.writes(), "{}", who.name());
    }
    // The row, and what the index has of it: an extend leaves that alone.
    let units = section(Who::Polling)
        .await
        .unwrap()
        .map(|cost| cost.write_units);
    assert_eq!(units.map(|units| units.to_string()), ["2", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_costs_ours_one_more_request_through_the_functions() {
    for step in 0..3 {
        let settled = lost_answer(Who::Functions, step).await.unwrap();
        assert_eq!((settled.requests, settled.knows), (2, Ok(())), "{step}");
    }
}

fn each(figure: f64, wanted: f64) -> bool {
    (figure - wanted).abs() < 1e-9
}

fn is_sound(run: &WaitCost, waiters: usize) {
    assert_eq!(
        (run.served, run.overlaps, run.errors.len()),
        (waiters, 0, 0),
        "{run:?}"
    );
    assert!(run.idle > 0.0 && run.idle < 1.0, "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_line_a_wait_costs_three_requests_and_who_asks_again_pays_for_each() {
    let line = run(Who::Line, 5, LIMIT).await.unwrap();
    is_sound(&line, 5);
    assert!(
        each(line.requests, 3.0) && each(line.out_of_turn, 0.0),
        "{line:?}"
    );
    assert!(line.aside >= 1.0, "each confirms: {line:?}");
    for who in [Who::Polling, Who::DynamodbLease] {
        let polling = run(who, 5, LIMIT).await.unwrap();
        is_sound(&polling, 5);
        assert!(
            polling.requests > 2.0 && each(polling.aside, 0.0),
            "{polling:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_pays_two_transitions_for_a_lease_and_one_for_a_wait() {
    let stage = Stage::open().await.unwrap();
    let section = alone(&stage, "CriticalSection").await.unwrap();
    assert_eq!(
        [
            section.of_the_lease(),
            section.of_extending(),
            section.of_waiting()
        ],
        [2, 1, 0]
    );
    assert_eq!(section.sections.told(), "3 UpdateItem");
    assert_eq!(section.tidying.told(), "2 Query");
    let queued = alone(&stage, "QueuedSection").await.unwrap();
    assert_eq!([queued.of_the_lease(), queued.of_waiting()], [2, 1]);
    let permits = alone(&stage, "Semaphore").await.unwrap();
    assert_eq!(permits.of_the_lease(), 10, "two for each of five items");
    let sample = stage.once(Peer::Published).await.unwrap();
    assert_eq!(
        (sample.of_the_lease(), sample.sections.told().as_str()),
        (5, "2 UpdateItem")
    );
    assert!(sample.invocations.is_empty(), "{sample:?}");

    let line = crowd(&stage, Crowd::Line, 3).await.unwrap();
    assert_eq!((line.served, line.overlaps), (3, 0), "{line:?}");
    assert!(
        line.transitions
            .is_some_and(|transitions| each(transitions, 3.0)),
        "{line:?}"
    );
    let sample = crowd(&stage, Crowd::Of(Peer::Sample), 3).await.unwrap();
    assert_eq!((sample.served, sample.overlaps), (3, 0), "{sample:?}");
    assert!(sample.transitions > line.transitions, "{sample:?}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn free_rows_cost_nothing_but_to_who_scans() {
    let alone = scale::beside(1, 20).await.unwrap();
    let among = scale::beside(10_000, 20).await.unwrap();
    assert_eq!(alone.steps, among.steps);
    assert!(among.scan.requests() > alone.scan.requests(), "{among:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deeper_line_takes_the_same_requests() {
    for depth in scale::line(&[1, 7, 32]).await.unwrap() {
        let sent = [&depth.join, &depth.hand_over, &depth.confirm].map(Cost::told);
        assert_eq!(
            sent,
            ["TransactWriteItems", "GetItem, UpdateItem", "UpdateItem"],
            "{depth:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sweep_clears_up_behind_all_who_were_served() {
    let found = scale::keeps_up(2, 40, Duration::ZERO).await.unwrap();
    // Two for each, and the pages.
    assert!(found.requests <= 2 * 40 + 10, "{found:?}");
}
