use std::sync::Arc;

use super::*;
use crate::{
    Ended, ForceReleaseOptions, Memory, Queue, Settings, Start, StartRules,
    test_support::{FakeStepFunctions, StartFate, grant, make},
};

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";
const EVERYTHING: KeyDetails = KeyDetails {
    waiters: usize::MAX,
    starts: true,
};

fn leases() -> (Queue<Memory>, Arc<FakeStepFunctions>) {
    let calls = Arc::new(FakeStepFunctions::default());
    let leases = Leases::new(Memory::new(), Settings::default())
        .with_clock(make::clock())
        .with_engine(calls.clone())
        .with_starts(StartRules::of(MACHINE).expect("valid"));
    (leases, calls)
}

fn start(key: &str, name: &str) -> Start {
    let machine = StateMachineArn::new(MACHINE).expect("valid");
    let name = ExecutionName::new(name).expect("valid");
    Start::new(make::key(key), machine, name)
}

#[tokio::test]
async fn never_leased_key_has_nothing() {
    let (leases, _) = leases();
    let view = leases.key_view(&make::key("k"), EVERYTHING).await;
    let view = view.expect("a view");
    let nothing = KeyView {
        waiters: Some(Vec::new()),
        failed_starts: Some(Vec::new()),
        ..KeyView::of(make::key("k"), Inspected::Absent, leases.now())
    };
    assert_eq!(view, nothing);
    assert!(view.first().is_none() && !view.is_frozen() && view.limit().is_none());
}

#[tokio::test]
async fn semaphore_is_viewed_as_one_key() {
    let (leases, _) = leases();
    let key = make::key("k");
    for (holder, permits) in [("a", 3), ("b", 2)] {
        let request = make::request(key.clone(), holder, std::time::Duration::from_secs(60));
        grant(&leases, request.permits(make::permits(permits))).await;
    }
    let seen = leases.key_view(&key, KeyDetails::default()).await;
    let seen = seen.expect("a view");
    assert_eq!((seen.held().count(), seen.size()), (2, 2));
    assert_eq!(seen.sizes_asked_for(), [2, 3].into());
    let second = &seen.permits[1].lease;
    let which = ForceReleaseOptions {
        permit: Some(second.permit),
        fencing_token: Some(second.fencing_token),
    };
    let forced = leases.force_release(&key, which, &make::because()).await;
    forced.expect("forced");
    let view = leases.key_view(&key, KeyDetails::default()).await;
    let view = view.expect("a view");
    assert!(view.is_semaphore());
    assert_eq!((view.held().count(), view.size()), (1, 2));
    // It is of another permit than the first.
    let act = view.last_act().map(|record| record.act);
    assert_eq!(act, Some(crate::Act::ForceRelease));
    let previous = view.permits[1].previous.as_ref();
    assert_eq!(previous.map(|previous| previous.ended), Some(Ended::Forced));
}

#[tokio::test]
async fn details_are_read_if_asked_for() {
    let (leases, calls) = leases();
    let key = make::key("k");
    // Its call is lost, so that it has the key and has not begun.
    calls.script_starts("first", &[StartFate::Lost]);
    let _ = leases.start(start("k", "first")).await.expect("queued");
    let _ = leases.start(start("k", "second")).await.expect("queued");
    // Another key's is not shown.
    calls.script_starts("refused", &[StartFate::Refused]);
    let refused = leases.start(start("refused", "refused")).await;
    assert!(
        matches!(refused, Err(Error::NotStarted { .. })),
        "{refused:?}"
    );
    let view = leases.key_view(&key, EVERYTHING).await.expect("a view");
    assert_eq!(view.not_begun, [0].into());
    assert_eq!(view.waiting(), 1);
    let waiters = view.waiters.expect("asked for");
    let second = start("k", "second").execution();
    assert_eq!((waiters.len(), &waiters[0].holder), (1, &second));
    assert_eq!(view.failed_starts, Some(Vec::new()));
    let refused = leases.key_view(&make::key("refused"), EVERYTHING).await;
    let failed = refused.expect("a view").failed_starts.expect("asked for");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].execution_arn, start("k", "refused").execution());
    assert!(failed[0].reason.contains("StateMachineDoesNotExist"));
    let rows = leases.key_view(&key, KeyDetails::default()).await;
    let rows = rows.expect("a view");
    assert!(rows.not_begun.is_empty() && rows.waiters.is_none() && rows.failed_starts.is_none());
}
