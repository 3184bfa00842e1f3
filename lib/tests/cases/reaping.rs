//! The leases and waiters of executions that have ended.

use std::time::Duration;

use super::{Case, MARGIN, STALE, TTL, grant, make, queue::QueueCase};
use leasehold::{Execution, Holder, Lease, Reaped};

const GRACE: Duration = Duration::from_secs(900);

fn reaped(released: u64, cut: u64, left: u64) -> Reaped {
    Reaped::Reaped {
        released,
        cut,
        kept: 0,
        left,
        undecided: 0,
        answered: 0,
        stopped: 0,
    }
}

/// Nothing was done, because the service does not say enough yet.
fn undecided(undecided: u64) -> Reaped {
    Reaped::Reaped {
        released: 0,
        cut: 0,
        kept: 0,
        left: 0,
        undecided,
        answered: 0,
        stopped: 0,
    }
}

impl QueueCase {
    async fn reap(&self, who: &str) -> Reaped {
        self.reap_holder(&make::holder(who)).await
    }

    async fn reap_holder(&self, holder: &Holder) -> Reaped {
        self.leases.reap(holder).await.expect("an answer")
    }

    /// Ends an execution, some seconds after its last act; `all_answered` says whether every task has answered.
    fn ends(&self, who: &str, all_answered: bool) {
        self.pass(Duration::from_secs(5));
        let stopped_at = self.now();
        let ended = Execution::Ended {
            stopped_at,
            redrivable: true,
            all_answered,
        };
        self.calls.set_execution(who, ended);
        self.is(who, ended);
    }

    /// A lease on another key, much longer than the grace time.
    async fn long(&self, name: &str, who: &str) -> (Case, Lease) {
        let key = format!("{}/{name}", self.address.key);
        let mut beside = Case::on(self.table.clone(), &key);
        beside.clock = self.clock.clone();
        let mut request = beside.request(who, "1");
        request.lifetime = make::ttl(10 * GRACE).into();
        let lease = grant(&self.leases, request).await.lease;
        (beside, lease)
    }
}

#[tokio::test]
async fn fully_answered_execution_leaves_nothing() {
    let case = QueueCase::new("reap/answered");
    let execution = "an execution whose tasks have answered";
    let lease = case.granted(execution).await.lease;
    let (beside, _) = case.long("beside", execution).await;
    let (others, others_lease) = case.long("another's", "somebody else").await;
    case.join("a").await;
    case.ends(execution, true);
    assert_eq!(case.reap(execution).await, reaped(2, 0, 0));
    let turn = case.turn_of("a");
    assert_eq!(turn.output["previous"]["ended"], "released");
    turn.follows(&lease);
    assert!(beside.row().await.holding().is_none());
    assert_eq!(
        others.row().await.version,
        others_lease.version,
        "untouched"
    );
    assert_eq!(case.reap(execution).await, reaped(0, 0, 0));
    case.expect_no_answers();
}

#[tokio::test]
async fn possibly_working_execution_gets_grace() {
    let case = QueueCase::new("reap/at work");
    let execution = "an execution with a task at work";
    let short = case.granted(execution).await.lease;
    case.join("a").await;
    let (beside, long) = case.long("long", execution).await;
    case.ends(execution, false);
    // A later history may show that it has answered.
    let cut = Reaped::Reaped {
        released: 0,
        cut: 1,
        kept: 0,
        left: 0,
        undecided: 1,
        answered: 0,
        stopped: 0,
    };
    assert_eq!(case.reap(execution).await, cut);
    // It is not freed, and nobody is notified.
    case.expect_no_answers();
    let row = beside.row().await;
    let held = row.holding().expect("held");
    assert_eq!(held.lease_id, long.lease_id);
    assert_eq!(row.fencing_token, long.fencing_token);
    assert_eq!(held.expires_at(), case.now().plus(GRACE));
    assert_eq!(
        held.sweep_after,
        Some(held.expires_at().plus(MARGIN)),
        "or sweep would come late"
    );
    assert!(row.version > long.version);
    // A lease that ends sooner is not made longer.
    assert_eq!(case.row().await.version, short.version);
    // A lease is not shortened twice.
    case.pass(TTL / 2);
    assert_eq!(case.reap(execution).await, reaped(0, 0, 0));
    assert_eq!(beside.row().await, row);

    case.expire();
    case.sweep().await;
    let turn = case.turn();
    assert_eq!(turn.output["previous"]["ended"], "expired");
    case.pass(GRACE);
    case.sweep().await;
    assert!(
        beside.row().await.holding().is_none(),
        "after the grace, by sweep alone"
    );
}

#[tokio::test]
async fn running_or_unknown_is_left_alone() {
    let case = QueueCase::new("reap/not ended");
    let execution = "an execution that has not ended";
    let lease = case.granted(execution).await.lease;
    assert_eq!(case.reap(execution).await, undecided(1), "nobody knows it");
    case.join("who waits unknown").await;
    let waits = make::execution("who waits unknown");
    case.calls.set_execution(waits.as_str(), Execution::Unknown);
    assert_eq!(case.reap_holder(&waits).await, undecided(1));
    assert!(case.row().await.head().is_some(), "it waits on");
    case.calls.set_execution(execution, Execution::Running);
    assert_eq!(case.reap(execution).await, Reaped::Running);
    assert_eq!(case.row().await.version, lease.version);
    case.ends(execution, true);
    assert_eq!(case.reap(execution).await, reaped(1, 0, 0));
}

/// The look-up may be older than a redrive that has written the lease.
#[tokio::test]
async fn write_after_end_waits_for_look() {
    for all_answered in [true, false] {
        let case = QueueCase::new(&format!("reap/redriven {all_answered}"));
        let execution = format!("an execution redriven {all_answered}");
        let (beside, lease) = case.long("beside", &execution).await;
        case.ends(&execution, all_answered);
        case.pass(Duration::from_secs(1));
        let proven = case.extend(&lease).await.expect("extended");
        let reaped_at_once = case.reap(&execution).await;
        assert_eq!(reaped_at_once, undecided(1));
        assert!(reaped_at_once.is_undecided(), "its event goes back");
        assert_eq!(beside.row().await.version, proven.version);
        // Half a minute later the look-up would show the redrive, whatever the clocks.
        case.pass(Duration::from_secs(30) + MARGIN);
        let (released, cut) = if all_answered { (1, 0) } else { (0, 1) };
        assert_eq!(case.reap(&execution).await, reaped(released, cut, 0));
    }
}

/// Its leases with a ttl it may have passed on.
#[tokio::test]
async fn success_ends_only_execution_leases() {
    let name = "just succeeded";
    let (case, turn) = QueueCase::handed_over("reap/succeeded", &[name]).await;
    let execution = make::execution(name);
    let (beside, passed_on) = case.long("beside", execution.as_str()).await;
    let ended = Execution::Ended {
        stopped_at: case.now(),
        redrivable: false,
        all_answered: true,
    };
    case.calls.set_execution(execution.as_str(), ended);
    assert_eq!(case.reap_holder(&execution).await, reaped(1, 0, 0));
    refused!(case.extend(&turn.lease).await, Lost);
    assert_eq!(beside.row().await.version, passed_on.version);
}

#[tokio::test]
async fn served_waiter_is_not_looked_up() {
    let (case, turn) = QueueCase::handed_over("reap/served", &["served"]).await;
    case.release(&turn.lease).await;
    let holder = make::execution("served");
    assert_eq!(case.reap_holder(&holder).await, reaped(0, 0, 0));
}

#[tokio::test]
async fn reap_gives_up_queue_places() {
    for all_answered in [true, false] {
        let execution = format!("waiting execution {all_answered}");
        let waiting = ["a", &execution, "b"];
        let key = format!("reap/waits {all_answered}");
        let (case, holder) = QueueCase::held(&key, &waiting).await;
        case.ends(&execution, all_answered);
        let waits = make::execution(&execution);
        assert_eq!(case.reap_holder(&waits).await, reaped(0, 0, 1));
        case.has_waiting(&["a", "b"]).await;
        assert_eq!(case.reap_holder(&waits).await, reaped(0, 0, 0));
        case.sweep().await;
        assert!(case.waiter(&execution).await.is_none(), "no ghost");
        drop(case.answers());
        case.release(&holder).await;
        case.release(&case.turn_of("a").lease).await;
        case.turn_of("b");
    }
}

#[tokio::test]
async fn granted_then_ended_passes_key_on() {
    let execution = "granted and ended";
    let waiting = [execution, "b"];
    let (case, turn) = QueueCase::handed_over("reap/next", &waiting).await;
    case.ends(execution, true);
    case.pass(STALE + MARGIN);
    let holder = make::execution(execution);
    assert_eq!(case.reap_holder(&holder).await, reaped(1, 0, 0));
    let next = case.turn_of("b");
    next.follows(&turn.lease);
    refused!(case.extend(&turn.lease).await, Lost);
}
