//! Leases that last while the execution that holds them runs.

use std::time::Duration;

use super::observing::reentered;
use super::{
    Case, MARGIN, MS, STALE, TTL, contention, grant, invalid, make, plus, queue::QueueCase, with,
};
use leasehold::{
    Acquire, AcquireAll, Ended, Execution, Executions, ExtendOptions, Extended, GrantKind,
    KeepTime, Lease, LeaseState, Leases, Lifetime, LifetimeKind, Reaped, ReleaseOutcome, Settings,
    Swept, ViewUntil,
    store::{Applied, Operations as _},
    transition::{Change, Prove},
};

const LOOK: Duration = Duration::from_secs(300);
const GRACE: Duration = Duration::from_secs(900);
const ONE: &str = "arn:aws:states:eu-west-1:123456789012:execution:orders:1";

const fn ended(stopped_at: leasehold::Timestamp, all_answered: bool) -> Execution {
    Execution::Ended {
        stopped_at,
        redrivable: true,
        all_answered,
    }
}

impl QueueCase {
    fn while_it_runs(&self, who: &str, request_id: &str, keep: Duration) -> Acquire {
        let keep = KeepTime::new(keep).expect("valid");
        let (key, holder) = (self.address.key.clone(), make::holder(who));
        Acquire::new(key, holder, Lifetime::Execution { keep })
            .request_id(make::request_id(request_id))
    }

    /// The lease of an execution of this name, which keeps it so long after a failure.
    async fn of_execution(&self, who: &str, keep: Duration) -> Lease {
        let request = self.while_it_runs(who, "alone", keep);
        grant(&self.leases, request).await.lease
    }

    /// A sweep that finds nothing else to do. Looks at other cases' executions are not counted.
    async fn looks(&self) -> Swept {
        self.swept().await
    }
}

fn name(test: &str) -> String {
    format!("arn:aws:states:eu-west-1:123456789012:execution:orders:{test}")
}

#[tokio::test]
async fn handle_has_lifetime_not_deadline() {
    let case = QueueCase::new("execution/handle");
    let request = case.while_it_runs(ONE, "1", Duration::ZERO);
    let granted = grant(&case.leases, request.clone()).await;
    assert_eq!((granted.grant, &granted.previous), (GrantKind::New, &None));
    let json = serde_json::to_value(&granted.lease).expect("JSON");
    assert_eq!(json["lifetime"], "execution");
    for name in ["ttl_seconds", "expires_at", "safe_until"] {
        assert_eq!(json.get(name), None, "{name}");
    }
    let read: Lease = serde_json::from_value(json).expect("a handle");
    assert_eq!(read, granted.lease);

    let replayed = grant(&case.leases, request).await;
    assert_eq!(replayed.grant, GrantKind::Replayed);
    assert_eq!(replayed.lease, granted.lease);

    let contention = contention(&case.leases, case.case.request("b", "by b")).await;
    assert_eq!(contention.retry, None);
    let json = serde_json::to_value(&contention).expect("JSON");
    assert_eq!(json["held"]["lifetime"], "execution");
    for (object, name) in [
        (&json, "retry_at"),
        (&json, "wait_seconds"),
        (&json["held"], "expires_at"),
        (&json["held"], "ttl_seconds"),
    ] {
        assert_eq!(object.get(name), None, "{name}");
    }
    let (shown, _) = case.inspected().await;
    assert_eq!(shown.state, LeaseState::Held);
    let held = shown.lease.held.expect("held");
    assert_eq!(
        held.until,
        ViewUntil::Execution {
            lifetime: LifetimeKind::Execution,
            keep: KeepTime::default(),
            looked_at: None,
            look_again_at: None,
            look_due_at: Some(case.now().plus(LOOK)),
        }
    );
    assert_eq!(
        case.give_back(&granted.lease).await,
        ReleaseOutcome::Released
    );
    assert_eq!(
        case.give_back(&granted.lease).await,
        ReleaseOutcome::AlreadyReleased
    );
    // A lease with a deadline has nothing of it.
    let next = case.lease("c").await;
    let item = case.row().await.to_item();
    for name in ["keep_ms", "looked_at", "look_again_at"] {
        assert!(!item.contains_key(name), "{name}");
    }
    assert_eq!(case.give_back(&next).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn no_clock_ends_it() {
    let case = QueueCase::new("execution/no clock");
    case.calls
        .set_execution(&name("no clock"), Execution::Running);
    let lease = case.of_execution(&name("no clock"), Duration::ZERO).await;
    case.pass(Duration::from_hours(24 * 300));
    let waiting = contention(&case.leases, case.case.request("b", "by b")).await;
    // Nor does an observation: a look at an execution that runs does not change the version.
    let observing = case
        .case
        .request("c", "by c")
        .observed_version(waiting.held.version);
    assert!(contention(&case.leases, observing).await.held.holder == lease.holder);
    let mut observing = case.while_it_runs(&name("another"), "2", Duration::ZERO);
    observing.observed_version = Some(waiting.held.version.into());
    invalid(case.leases.acquire(observing).await, "observed_version");
    assert!(case.extension(&lease).await.is_ok());
    // A lease with a deadline is taken over by an execution as by anybody.
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Released);
    case.lease("d").await;
    case.pass(TTL + MARGIN);
    let taken = case.while_it_runs(&name("no clock"), "3", Duration::ZERO);
    let taken = grant(&case.leases, taken).await;
    assert_eq!(taken.grant, GrantKind::Takeover);
    assert_eq!(case.give_back(&taken.lease).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn an_extend_proves_it() {
    let case = QueueCase::new("execution/proof");
    let lease = case.of_execution(&name("proof"), Duration::ZERO).await;
    case.pass(TTL);
    let proven = case.extension(&lease).await.expect("proven");
    let Extended::Extended { lease: after } = proven else {
        panic!("it cannot lapse");
    };
    assert_eq!(after.version, plus(lease.version, 1));
    assert_eq!(
        after,
        with(lease.clone(), |lease| lease.version = after.version)
    );
    let row = case.row().await;
    assert_eq!(row.holding().expect("held").extended_at, Some(case.now()));
    let longer = ExtendOptions {
        ttl: Some(make::ttl(TTL)),
        ..ExtendOptions::default()
    };
    invalid(case.leases.extend(&lease, longer).await, "ttl_seconds");
    // An operator's freeze does not touch a holder.
    case.freeze_by_operator().await;
    case.extended(&lease).await;
    case.unfreeze_by_operator().await;
    let forged = with(lease.clone(), |lease| {
        lease.lease_id = leasehold::LeaseId::random();
    });
    refused!(case.extension(&forged).await, Lost);
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Released);
    refused!(case.extension(&lease).await, Lost);
    // The handle of one kind is not that of the other.
    let other = case.lease("b").await;
    let as_execution = with(other.clone(), |lease| lease.deadline = None);
    refused!(case.extension(&as_execution).await, Lost);
    assert_eq!(case.give_back(&other).await, ReleaseOutcome::Released);
}

/// When the row was written tells a redrive from an end before it.
#[tokio::test]
async fn late_proof_leaves_row_as_new_as_it_is() {
    let case = QueueCase::new("execution/late proof");
    let lease = case.of_execution(&name("late"), Duration::ZERO).await;
    let of_before = Change::Prove(Prove {
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        now: case.now(),
        behind: false,
    });
    case.pass(TTL);
    let proven_at = case.now();
    case.extended(&lease).await;
    let late = case.leases.store().apply(&case.address, &of_before, TTL);
    assert!(matches!(late.await, Ok(Applied::Refused(_))));
    // Another of its functions, by a clock that is behind.
    case.clock.set(lease.acquired_at);
    let version = case.row().await.version;
    case.extended(&lease).await;
    let row = case.row().await;
    assert_eq!(row.version, plus(version, 1));
    assert_eq!(row.holding().expect("held").extended_at, Some(proven_at));
}

#[tokio::test]
async fn only_visible_standard_executions_get_one() {
    let mut case = QueueCase::new("execution/who");
    for holder in [
        "somebody",
        "arn:aws:states:eu-west-1:123456789012:express:orders:1:2",
    ] {
        let request = case.while_it_runs(holder, "1", Duration::ZERO);
        invalid(case.leases.acquire(request).await, "holder");
    }
    let listed = Executions::of("arn:aws:states:*:123456789012:stateMachine:payments");
    case.case.leases = Leases::new(case.case.table.clone(), Settings::default())
        .with_clock(case.clock.clone())
        .with_executions(listed.expect("valid"))
        .with_engine(case.calls.clone());
    let request = case.while_it_runs(ONE, "1", Duration::ZERO);
    invalid(case.leases.acquire(request).await, "holder");
    assert!(case.leases.inspect(&case.address.key).await.is_ok());
}

#[tokio::test]
async fn sets_permits_and_reentrant_requests_work() {
    let case = QueueCase::new("execution/several");
    let execution = name("several");
    let request = case.while_it_runs(&execution, "1", Duration::ZERO);
    let first = grant(&case.leases, request.permits(make::permits(2)))
        .await
        .lease;
    let other = case.while_it_runs(&name("several, another"), "2", Duration::ZERO);
    let second = grant(&case.leases, other.permits(make::permits(2)))
        .await
        .lease;
    assert_ne!(first.permit, second.permit);
    let full = case.while_it_runs(&name("several, too"), "3", Duration::ZERO);
    let full = contention(&case.leases, full.permits(make::permits(2))).await;
    assert_eq!(full.retry, None);
    for lease in [&first, &second] {
        assert_eq!(case.give_back(lease).await, ReleaseOutcome::Released);
    }

    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(Duration::from_hours(48));
    let again = case.while_it_runs(&execution, "again", Duration::ZERO);
    let again = grant(&case.leases, again.reentrant()).await;
    assert_eq!(
        (again.grant, again.lease),
        (GrantKind::Reentered, reentered(&lease))
    );
    let keys = ["execution/several", "execution/several/more"].map(make::key);
    let set = AcquireAll::new(
        make::keys(keys.into()),
        make::holder(&execution),
        Lifetime::Execution {
            keep: KeepTime::default(),
        },
    );
    let set = case
        .leases
        .acquire_all(set.reentrant())
        .await
        .expect("an answer");
    let set = set.granted().expect("a grant").leases;
    assert_eq!(set[0].lease_id, lease.lease_id);
    assert!(set.iter().all(|lease| lease.deadline.is_none()));
    for (lease, outcome) in [
        (&set[0], ReleaseOutcome::Kept),
        (&lease, ReleaseOutcome::Released),
        (&set[1], ReleaseOutcome::Released),
    ] {
        assert_eq!(case.give_back(lease).await, outcome);
    }
}

#[tokio::test]
async fn sweep_looks_when_it_is_due() {
    let case = QueueCase::new("execution/due");
    let execution = name("due");
    case.calls.set_execution(&execution, Execution::Running);
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK.checked_sub(MS).expect("longer"));
    assert_eq!(case.looks().await.looked, 0);
    case.pass(MS);
    let swept = case.looks().await;
    assert_eq!((swept.looked, swept.ended, swept.freed), (1, 0, 0));
    let row = case.row().await;
    assert_eq!(row.version, lease.version, "the holder did nothing");
    let next = |row: &leasehold::row::Row| row.holding().and_then(|held| held.sweep_after);
    // As long again as it has lasted, and after an hour at the latest.
    assert_eq!(next(&row), Some(case.now().plus(LOOK)));
    assert_eq!(case.looks().await.looked, 0);
    case.pass(LOOK);
    assert_eq!(case.looks().await.looked, 1);
    assert_eq!(next(&case.row().await), Some(case.now().plus(2 * LOOK)));
    case.pass(Duration::from_hours(100));
    assert_eq!(case.looks().await.looked, 1);
    let hour = Duration::from_hours(1);
    assert_eq!(next(&case.row().await), Some(case.now().plus(hour)));
    let (shown, _) = case.inspected().await;
    let until = shown.lease.held.expect("held").until;
    let ViewUntil::Execution { looked_at, .. } = until else {
        panic!("{until:?}");
    };
    assert_eq!(looked_at, Some(case.now()));
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_look_ends_what_is_over() {
    let case = QueueCase::new("execution/over");
    let execution = name("over");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    let keys = ["execution/over/1", "execution/over/2"].map(make::key);
    let lifetime = Lifetime::Execution {
        keep: KeepTime::default(),
    };
    let set = AcquireAll::new(make::keys(keys.into()), make::holder(&execution), lifetime);
    let set = case.leases.acquire_all(set).await.expect("an answer");
    set.granted().expect("a grant");
    case.pass(LOOK);
    case.calls
        .set_execution(&execution, ended(case.now().minus(TTL), true));
    let swept = case.looks().await;
    assert_eq!(swept.ended, 3);
    // Once for all its leases on a page of the index.
    assert!((1..=3).contains(&swept.looked), "{swept:?}");
    refused!(case.extension(&lease).await, Lost);
    let next = case.lease("b").await;
    let previous = case.row().await.previous.expect("a predecessor");
    assert_eq!(
        (previous.ended, previous.fencing_token),
        (Ended::Released, lease.fencing_token)
    );
    assert!(next.fencing_token > lease.fencing_token);
    assert_eq!(case.give_back(&next).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn look_asks_again_after_grace() {
    for (key, known) in [("grace", true), ("grace, unknown", false)] {
        let case = QueueCase::new(&format!("execution/{key}"));
        let execution = name(key);
        let lease = case.of_execution(&execution, Duration::ZERO).await;
        case.pass(LOOK);
        let say = |all_answered| {
            let said = ended(case.now().minus(TTL), all_answered);
            case.calls.set_execution(&execution, said);
        };
        if known {
            say(false);
        }
        let swept = case.looks().await;
        assert_eq!((swept.looked, swept.ended), (1, 0));
        let until = case.now().plus(GRACE);
        let (shown, _) = case.inspected().await;
        let shown = shown.lease.held.expect("held").until;
        assert!(
            matches!(shown, ViewUntil::Execution { look_again_at: Some(at), .. } if at == until),
            "{shown:?}"
        );
        case.pass(GRACE.checked_sub(MS).expect("longer"));
        assert_eq!(case.looks().await.looked, 0);
        // It runs again: everything begins anew.
        case.pass(MS);
        case.calls.set_execution(&execution, Execution::Running);
        assert_eq!(case.looks().await.ended, 0);
        case.pass(Duration::from_hours(1));
        say(false);
        assert_eq!(case.looks().await.ended, 0);
        case.pass(GRACE);
        let swept = case.looks().await;
        assert_eq!((swept.looked, swept.ended), (1, 1));
        refused!(case.extension(&lease).await, Lost);
        let next = grant(&case.leases, case.case.request("b", "by b")).await;
        assert_eq!(next.previous.expect("a predecessor").ended, Ended::Expired);
        assert_eq!(case.give_back(&next.lease).await, ReleaseOutcome::Released);
    }
}

/// Redriven without a proof, and over again before the next look.
#[tokio::test]
async fn second_end_has_own_grace() {
    let case = QueueCase::new("execution/two ends");
    let execution = name("two ends");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK);
    let over = ended(case.now().minus(TTL), false);
    case.calls.set_execution(&execution, over);
    assert_eq!(case.looks().await.looked, 1);
    case.pass(GRACE);
    let again = ended(case.now().minus(MS), false);
    case.calls.set_execution(&execution, again);
    let swept = case.looks().await;
    assert_eq!((swept.looked, swept.ended), (1, 0));
    case.pass(GRACE.checked_sub(MS + MS).expect("longer"));
    assert_eq!(case.looks().await.looked, 0);
    case.pass(MS);
    assert_eq!(case.looks().await.ended, 1);
    refused!(case.extension(&lease).await, Lost);
}

#[tokio::test]
async fn proof_ends_wait_for_grace() {
    let case = QueueCase::new("execution/redriven");
    let execution = name("redriven");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK);
    let over = ended(case.now().minus(TTL), false);
    case.calls.set_execution(&execution, over);
    assert_eq!(case.looks().await.looked, 1);
    case.pass(GRACE.checked_sub(MS).expect("longer"));
    // Redriven, and it proves its lease; the service does not show the redrive yet.
    let proven = case.extended(&lease).await;
    case.pass(MS);
    assert_eq!(case.looks().await.ended, 0);
    case.pass(STALE + MARGIN);
    assert_eq!(case.looks().await.ended, 0, "the wait begins anew");
    case.extended(&proven).await;
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn failed_execution_keeps_lease_for_redrive() {
    let case = QueueCase::new("execution/keep");
    let execution = name("keep");
    let keep = Duration::from_hours(10);
    let lease = case.of_execution(&execution, keep).await;
    case.pass(LOOK);
    let stopped_at = case.now().minus(TTL);
    case.calls
        .set_execution(&execution, ended(stopped_at, true));
    assert_eq!(case.looks().await.ended, 0);
    let until = stopped_at.plus(keep).plus(STALE);
    case.clock.set(until.minus(MS));
    assert_eq!(case.looks().await.looked, 0);
    // A late event asks at once: a redrive just before the end of that time may not show yet.
    let holder = make::holder(&execution);
    let late = case.leases.reap(&holder).await.expect("an answer");
    assert!(matches!(late, Reaped::Reaped { kept: 1, .. }), "{late:?}");
    case.extended(&lease).await;
    case.clock.set(until.plus(STALE + MARGIN));
    assert_eq!(case.looks().await.ended, 1);
    // An execution that succeeded cannot be redriven.
    let lease = case.while_it_runs(&execution, "2", keep);
    let lease = grant(&case.leases, lease).await.lease;
    case.pass(LOOK);
    let succeeded = Execution::Ended {
        stopped_at: case.now(),
        redrivable: false,
        all_answered: true,
    };
    case.calls.set_execution(&execution, succeeded);
    assert_eq!(case.looks().await.ended, 1);
    refused!(case.extension(&lease).await, Lost);
}

#[tokio::test]
async fn recent_write_waits_for_later_look() {
    let case = QueueCase::new("execution/young");
    let execution = name("young");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK);
    case.calls
        .set_execution(&execution, ended(case.now().minus(TTL), true));
    let proven = case.extended(&lease).await;
    assert_eq!(case.looks().await.ended, 0);
    assert_eq!(case.row().await.version, proven.version);
    case.pass((STALE + MARGIN).checked_sub(MS).expect("longer"));
    assert_eq!(case.looks().await.looked, 0);
    case.pass(MS);
    assert_eq!(case.looks().await.ended, 1);
}

/// It writes nothing, so a redriven execution knows that it has its lease only by an extend.
#[tokio::test]
async fn replayed_acquire_proves_nothing() {
    let case = QueueCase::new("execution/replayed");
    let execution = name("replayed");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK);
    case.calls
        .set_execution(&execution, ended(case.now().minus(TTL), true));
    let again = case.of_execution(&execution, Duration::ZERO).await;
    assert_eq!(again, lease);
    // The service does not show the redrive yet.
    assert_eq!(case.looks().await.ended, 1);
    refused!(case.extension(&again).await, Lost);
}

#[tokio::test]
async fn frozen_lease_ends_with_execution() {
    let case = QueueCase::new("execution/frozen");
    let execution = name("frozen");
    case.of_execution(&execution, Duration::ZERO).await;
    case.freeze_by_operator().await;
    case.pass(LOOK);
    case.calls
        .set_execution(&execution, ended(case.now().minus(TTL), true));
    assert_eq!(case.looks().await.ended, 1);
    assert!(case.row().await.frozen.is_some());
    case.unfreeze_by_operator().await;
}

/// It keeps its lease, and the sweep goes on.
#[tokio::test]
async fn denied_lookup_does_not_stop_sweep() {
    let case = QueueCase::new("execution/denied");
    let execution = name("denied");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    let beside = Case::on(case.table.clone(), "execution/beside one that is denied");
    beside.clock.set(case.now());
    beside.lease("somebody").await;
    case.pass(LOOK);
    case.calls.deny_execution(&execution);
    let swept = case.looks().await;
    assert_eq!((swept.failed, swept.ended), (1, 0));
    assert!(beside.row().await.holding().is_none());
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn reap_decides_as_sweep_does() {
    let case = QueueCase::new("execution/reaped");
    let execution = name("reaped");
    let holder = make::holder(&execution);
    let outcome = |released, kept| Reaped::Reaped {
        released,
        cut: 0,
        kept,
        left: 0,
        undecided: 0,
        answered: 0,
        stopped: 0,
    };
    let reap = || async { case.leases.reap(&holder).await.expect("an answer") };
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.pass(LOOK * 4);
    assert_eq!(reap().await, outcome(0, 1), "nobody knows it");
    case.calls
        .set_execution(&execution, ended(case.now(), false));
    assert!(matches!(
        reap().await,
        Reaped::Reaped {
            kept: 1,
            undecided: 1,
            ..
        }
    ));
    // Sweep looks when the grace is over.
    let again = case.row().await.holding().and_then(|held| held.sweep_after);
    assert_eq!(again, Some(case.now().plus(GRACE)));
    case.calls.set_execution(&execution, Execution::Running);
    assert_eq!(reap().await, Reaped::Running);
    case.calls
        .set_execution(&execution, ended(case.now(), true));
    assert_eq!(reap().await, outcome(1, 0));
    refused!(case.extension(&lease).await, Lost);
    assert_eq!(reap().await, outcome(0, 0));
}

#[tokio::test]
async fn waiter_is_served_after_look() {
    let case = QueueCase::new("execution/waits");
    let execution = name("waits");
    let lease = case.of_execution(&execution, Duration::ZERO).await;
    case.join("a").await;
    case.pass(LOOK);
    case.calls
        .set_execution(&execution, ended(case.now().minus(TTL), true));
    let swept = case.looks().await;
    assert_eq!((swept.ended, swept.granted), (1, 1));
    let turn = case.turn_of("a");
    turn.follows(&lease);
    assert_eq!(case.give_back(&turn.lease).await, ReleaseOutcome::Released);
}
