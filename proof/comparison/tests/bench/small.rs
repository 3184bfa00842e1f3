//! What the benchmark counts is what was sent: a section and a wait of clients, and a section of a workflow.

use std::time::Duration;

use leasehold_bench::clients::ClientKind;
use leasehold_bench::fixture::Cost;
use leasehold_bench::sections::section;
use leasehold_bench::waiting::run;
use leasehold_bench::workflows::alone;
use leasehold_bench::workflows::crowd::{self, Machine, Wish};
use leasehold_bench::workflows::fixture::{Peer, WorkflowFixture};

#[tokio::test(flavor = "multi_thread")]
async fn section_and_wait_cost_their_calls() {
    for who in [
        ClientKind::Polling,
        ClientKind::Direct,
        ClientKind::DynamodbLease,
    ] {
        let steps = section(who).await;
        let sent: Vec<_> = steps.iter().map(Cost::operations).collect();
        assert_eq!(sent, who.writes(), "{}", who.name());
    }
    let line = run(ClientKind::Queued, 5, Duration::from_mins(1)).await;
    assert_eq!(
        (line.served, line.overlaps, line.errors.len()),
        (5, 0, 0),
        "{line:?}"
    );
    // To join, a read and the place; to release, to read the next one's item, to grant it the key, to delete its item.
    assert!((line.requests - 6.0).abs() < 1e-9, "{line:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_costs_two_transitions_wait_none() {
    let fixture = WorkflowFixture::open().await;
    let section = alone(&fixture, "CriticalSection").await;
    assert_eq!(
        [
            section.of_the_lease(),
            section.of_extending(),
            section.of_waiting()
        ],
        [2, 1, 0]
    );
    assert_eq!(section.sections.operations(), "3 UpdateItem");
    assert_eq!(section.cleanup.operations(), "Query", "nothing was left");
    let queued = alone(&fixture, "QueuedSection").await;
    assert_eq!([queued.of_the_lease(), queued.of_waiting()], [2, 0]);
    let sample = fixture.once(Peer::Published).await;
    assert_eq!(
        (sample.of_the_lease(), sample.sections.operations().as_str()),
        (5, "2 UpdateItem")
    );
    // All in: what they send, what tells the next one, what its end asks the index, and what is left behind; one more for each that
    // found the key free and came too late.
    let crowd = crowd::run(&fixture, Machine::Queued, 4, Wish::Alone).await;
    assert!(
        crowd.requests <= 7.25 && crowd.write_units <= 11.0,
        "{crowd:?}"
    );
    assert_eq!((crowd.transitions, crowd.left), (3.0, 0.0), "{crowd:?}");
    // Of a semaphore a query more; two that end at once may both read the same first, and one of them reads once more.
    let crowd = crowd::run(&fixture, Machine::Queued, 6, Wish::AtOnce(2)).await;
    assert!(crowd.requests <= 10.0, "{crowd:?}");
    assert_eq!((crowd.transitions, crowd.left), (3.0, 0.0), "{crowd:?}");
    // The first of six runs and the last; of those between nothing begins.
    let crowd = crowd::run(&fixture, Machine::Started, 6, Wish::Newest).await;
    assert!(crowd.transitions < 1.0, "{crowd:?}");
    fixture.close().await;
}
