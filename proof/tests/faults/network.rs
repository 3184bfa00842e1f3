//! What the network and the table do to a call, and tables and clients that do not fit.

use std::time::{Duration, Instant};

use leasehold::{
    Connection, DynamoDb, Error, GrantKind, Holder, Leases, ReleaseOutcome, Settings, SweepBounds,
};
use leasehold_local::{Fault, create_table};
use leasehold_proof::fixture::{TABLE, Table, without_executions};

use crate::operations::{KEY, Operation, Outcome, Scenario, UPDATE, each};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It had happened before, and the answer says so.
    FoundOut,
    /// It happened now.
    DoneOnce,
}

/// A fault that so many requests meet, and how many are sent then; the error, or how the call ends. After an error the
/// same call, made again, ends so.
#[derive(Clone, Copy, Debug)]
struct Row(Fault, u32, (u64, u64), Option<&'static str>, End);

/// What never reaches the database.
const LOST_REQUESTS: [Fault; 3] = [Fault::LoseRequest, Fault::ServerError, Fault::Hang];

fn rows() -> Vec<Row> {
    let lost = Fault::LOST_ANSWERS.into_iter().flat_map(|fault| {
        let unknown = Some("Lease.Unavailable");
        let once = Row(fault, 1, (2, 2), None, End::FoundOut);
        [once, Row(fault, 3, (2, 3), unknown, End::FoundOut)]
    });
    let unsent = LOST_REQUESTS.into_iter().flat_map(|fault| {
        let unknown = Some("Lease.Unavailable");
        let once = Row(fault, 1, (2, 2), None, End::DoneOnce);
        [once, Row(fault, 3, (2, 3), unknown, End::DoneOnce)]
    });
    let throttled = Some("Lease.Throttled");
    let refused = [
        Row(Fault::Throttle, 2, (3, 3), None, End::DoneOnce),
        Row(Fault::Throttle, u32::MAX, (3, 3), throttled, End::DoneOnce),
        // A holder asks through as many transactions as those do who join its queue, and as long as a request may take.
        Row(Fault::Conflict, 6, (7, 7), None, End::DoneOnce),
        Row(
            Fault::Conflict,
            u32::MAX,
            (7, u64::MAX),
            throttled,
            End::DoneOnce,
        ),
        Row(
            Fault::Denied,
            1,
            (1, 1),
            Some("Lease.Denied"),
            End::DoneOnce,
        ),
    ];
    lost.chain(unsent).chain(refused).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_ends_as_tabulated() {
    each(&rows(), &Operation::ALL, async |row, scenario| {
        let Row(fault, times, (least, most), error, end) = row;
        scenario.table.proxy.inject(fault, UPDATE, times);
        let mut outcome = scenario.call().await;
        let requests = scenario.requests();
        let context = format!("{row:?} {:?}", scenario.operation);
        assert!((least..=most).contains(&requests), "{context}: {requests}");
        if let Some(name) = error {
            let refused = outcome.expect_err(&context);
            assert_eq!(refused.name(), name, "{context}");
            let text = refused.to_string();
            assert!(
                text.contains("dynamodb:UpdateItem on table leases"),
                "{context}: {text}"
            );
            if let (Some(lease), End::DoneOnce) = (&scenario.lease, end) {
                scenario.matches_table(lease).await;
            }
            outcome = scenario.call().await;
        }
        ends(&scenario, outcome.expect(&context), end).await;
    })
    .await;
}

async fn ends(scenario: &Scenario, outcome: Outcome, end: End) {
    let done_once = end == End::DoneOnce;
    match outcome {
        Outcome::Granted(GrantKind::New, lease) if done_once => {
            scenario.matches_table(&lease).await;
        }
        Outcome::Granted(GrantKind::Replayed, lease) if !done_once => {
            scenario.matches_table(&lease).await;
        }
        Outcome::Extended(lease) => {
            assert_eq!(lease.expires_at(), scenario.renewed());
            let before = scenario.lease.as_ref().unwrap().version.get();
            assert!(!done_once || lease.version.get() == before + 1, "one write");
            scenario.matches_table(&lease).await;
        }
        Outcome::Released(released) => {
            let expected = [ReleaseOutcome::AlreadyReleased, ReleaseOutcome::Released];
            assert_eq!(released, expected[usize::from(done_once)]);
            assert!(scenario.table.row(KEY).await.holding().is_none());
        }
        other => panic!("{end:?} {:?}: {other:?}", scenario.operation),
    }
}

/// However many attempts are on their way, a holder knows while it still holds.
#[tokio::test(flavor = "multi_thread")]
async fn wait_for_silent_server_is_bounded() {
    each(&[Fault::Hang], &Operation::ALL, async |fault, scenario| {
        // Less than one attempt is left of it, and one attempt is all that is made.
        let soon = Duration::from_millis(100);
        if let Some(lease) = &scenario.lease {
            scenario.clock.set(lease.safe_until().minus(soon));
        }
        scenario.table.proxy.inject(fault, UPDATE, 3);
        let start = Instant::now();
        let unknown = scenario.call().await;
        assert!(
            matches!(unknown, Err(Error::Unavailable { .. })),
            "{unknown:?}"
        );
        let requests = scenario.requests();
        if scenario.operation == Operation::Extend {
            assert!(requests <= 1, "{requests}");
            let left = soon + Settings::default().guard;
            assert!(start.elapsed() < left, "before the lease is over");
        } else {
            assert!((2..=3).contains(&requests), "{requests}");
            assert!(start.elapsed() >= Connection::OPERATION, "in all");
        }
    })
    .await;
}

/// What is wrong with the table.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Missing,
    KeySchema,
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_table_is_misconfigured_at_once() {
    let wrong = [Wrong::Missing, Wrong::KeySchema];
    each(&wrong, &Operation::ALL, async |wrong, mut scenario| {
        let name = match wrong {
            Wrong::Missing => "elsewhere",
            Wrong::KeySchema => "other",
        };
        if matches!(wrong, Wrong::KeySchema) {
            let created = create_table(&scenario.table.client, name, &["id"], None).await;
            created.unwrap();
        }
        scenario.leases = Leases::new(
            DynamoDb::new(scenario.table.client.clone(), name),
            Settings::default(),
        )
        .with_clock(scenario.clock.clone());
        scenario.table.proxy.reset();
        misconfigured(scenario.call().await.err(), name);
        assert_eq!(scenario.requests(), 1, "{wrong:?}");
    })
    .await;
}

#[tokio::test]
async fn table_without_index_is_misconfigured() {
    let table = Table::without_table().await;
    let created = create_table(&table.client, TABLE, &["pk", "sk"], None).await;
    created.unwrap();
    let leases = table.leases();
    let lease = table.grant("k", "a", "1").await.lease;
    misconfigured(
        without_executions(&leases)
            .sweep(SweepBounds::Schedule)
            .await
            .err(),
        TABLE,
    );
    misconfigured(leases.list(10, None).await.err(), TABLE);
    let holder = Holder::new("a").unwrap();
    misconfigured(leases.held_by(&holder, 10, None).await.err(), TABLE);
    // What needs one row only goes on.
    let _ = leases.release(&lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_region_nothing_is_sent() {
    each(&[()], &Operation::ALL, async |(), mut scenario| {
        let config = aws_config::SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::v2026_01_12())
            .endpoint_url(scenario.table.proxy.url())
            .build();
        let store = DynamoDb::new(Connection::client(&config), TABLE);
        scenario.leases =
            Leases::new(store, Settings::default()).with_clock(scenario.clock.clone());
        misconfigured(scenario.call().await.err(), "AWS_REGION");
        assert_eq!(scenario.requests(), 0);
    })
    .await;
}

fn misconfigured(error: Option<Error>, named: &str) {
    let Some(error @ Error::Misconfigured { .. }) = error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains(named), "{named} in {error}");
}
