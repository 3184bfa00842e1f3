//! What is left of executions that have ended.

use std::time::Duration;

use super::{Bench, Case, TTL, line::Line};
use crate::{EndOf, Error, Execution, Granted, Holder, Lease, Reaped, Settings, Ttl};

pub(super) async fn all<B: Bench>(bench: &B) {
    what_ended_well_or_badly_is_released(bench).await;
    what_was_stopped_is_cut_to_the_grace(bench).await;
    what_failed_with_work_left_is_cut_even_if_only_step_functions_knows(bench).await;
    what_runs_again_is_left_alone(bench).await;
    places_in_line_are_given_up(bench).await;
    whoever_will_not_come_is_passed_over(bench).await;
}

const GRACE: Duration = Duration::from_secs(900);

fn reaped(released: u64, cut: u64, left: u64) -> Reaped {
    Reaped::Reaped {
        released,
        cut,
        left,
    }
}

impl<B: Bench> Line<'_, B> {
    async fn reap(&self, who: &str, end: EndOf) -> Reaped {
        let holder = Holder::new(who).expect("a valid holder");
        let reaped = self.case.leases.reap(&holder, end).await;
        reaped.expect("an answer")
    }

    /// A lease that long outlives the grace, on a key beside.
    async fn long(&self, name: &str, who: &str) -> (Case<'_, B>, Lease) {
        let key = format!("{}/{name}", self.case.address.key);
        let beside = Case::new(self.case.bench, &key);
        let mut request = beside.request(who, "1");
        request.ttl = Ttl::new(10 * GRACE).expect("valid");
        let acquired = self.case.leases.acquire(request).await.expect("an answer");
        let Granted { lease, .. } = acquired.granted().expect("a grant");
        (beside, lease)
    }
}

async fn what_ended_well_or_badly_is_released<B: Bench>(bench: &B) {
    for (n, end) in [EndOf::Success, EndOf::Failure].into_iter().enumerate() {
        let line = Line::new(bench, &format!("reap/{n}"));
        let execution = format!("execution {n}");
        let lease = line.granted(&execution).await.lease;
        let (beside, _) = line.long("beside", &execution).await;
        let (others, others_lease) = line.long("another's", "somebody else").await;
        line.join("a").await;
        assert_eq!(line.reap(&execution, end).await, reaped(2, 0, 0));
        let turn = line.turn();
        assert_eq!(turn.who, "a", "at once");
        assert_eq!(turn.told["previous"]["ended"], "released");
        assert_eq!(
            turn.told["previous"]["fencing_token"],
            lease.fencing_token.get()
        );
        assert!(beside.row().await.holding().is_none());
        assert_eq!(
            others.row().await.version,
            others_lease.version,
            "untouched"
        );
        assert_eq!(line.reap(&execution, end).await, reaped(0, 0, 0));
        line.nobody_was_told();
    }
}

async fn what_was_stopped_is_cut_to_the_grace<B: Bench>(bench: &B) {
    let line = Line::new(bench, "reap/stopped");
    let execution = "stopped execution";
    let short = line.granted(execution).await.lease;
    line.join("a").await;
    let (beside, long) = line.long("long", execution).await;
    assert_eq!(line.reap(execution, EndOf::Force).await, reaped(0, 1, 0));
    // A task of it may still be at work: it is not freed, and nobody is told.
    line.nobody_was_told();
    let row = beside.row().await;
    let held = row.holding().expect("held");
    assert_eq!(
        (&held.lease_id, row.fencing_token),
        (&long.lease_id, long.fencing_token)
    );
    assert_eq!(held.expires_at, line.case.now().plus(GRACE));
    let margin = Settings::default().clock_margin;
    assert_eq!(
        held.sweep_after,
        Some(held.expires_at.plus(margin)),
        "or sweep would come late"
    );
    assert!(row.version > long.version);
    // What ends sooner is not made longer.
    assert_eq!(line.case.row().await.version, short.version);
    // Nor is it cut again.
    line.case.pass(TTL / 2);
    assert_eq!(line.reap(execution, EndOf::Force).await, reaped(0, 0, 0));
    assert_eq!(beside.row().await, row);

    line.expire();
    line.sweep().await;
    let turn = line.turn();
    assert_eq!(turn.told["previous"]["ended"], "expired");
    line.case.pass(GRACE);
    line.sweep().await;
    assert!(
        beside.row().await.holding().is_none(),
        "after the grace, by sweep alone"
    );
}

async fn what_failed_with_work_left_is_cut_even_if_only_step_functions_knows<B: Bench>(bench: &B) {
    for (error, released, cut) in [("Lease.StepTimeout", 0, 1), ("Payment.Declined", 1, 0)] {
        let line = Line::new(bench, &format!("reap/failed by {error}"));
        let execution = format!("failed by {error}");
        let (_, _) = line.long("long", &execution).await;
        let ended = Execution::Ended {
            error: Some(error.to_owned()),
        };
        line.calls.stands(&execution, ended);
        let done = line.reap(&execution, EndOf::Failure).await;
        assert_eq!(done, reaped(released, cut, 0), "{error}");
    }
}

async fn what_runs_again_is_left_alone<B: Bench>(bench: &B) {
    let line = Line::new(bench, "reap/redriven");
    let execution = "redriven execution";
    line.calls.stands(execution, Execution::Running);
    let lease = line.granted(execution).await.lease;
    let (waits, _) = Line::held(bench, "reap/redriven/waits", &[execution]).await;
    for end in [EndOf::Failure, EndOf::Force] {
        assert_eq!(line.reap(execution, end).await, Reaped::Running);
        assert_eq!(line.case.row().await.version, lease.version);
    }
    assert_eq!(waits.waiting().await.len(), 1);
    // What succeeded cannot run again.
    assert_eq!(line.reap(execution, EndOf::Success).await, reaped(1, 0, 1));
}

async fn places_in_line_are_given_up<B: Bench>(bench: &B) {
    for (n, end) in [EndOf::Success, EndOf::Failure, EndOf::Force]
        .into_iter()
        .enumerate()
    {
        let execution = format!("waiting execution {n}");
        let waiting = ["a", &execution, "b"];
        let (line, holder) = Line::held(bench, &format!("reap/waits {n}"), &waiting).await;
        assert_eq!(line.reap(&execution, end).await, reaped(0, 0, 1));
        assert_eq!(line.waiting().await, ["a", "b"].map(Line::<B>::digest));
        assert_eq!(line.reap(&execution, end).await, reaped(0, 0, 0));
        line.sweep().await;
        assert!(line.waiter(&execution).await.is_none(), "no ghost");
        drop(line.told());
        line.release(&holder).await;
        let turn = line.turn();
        assert_eq!(turn.who, "a");
        line.confirm(&turn).await;
        line.release(&turn.lease).await;
        assert_eq!(line.turn().who, "b");
    }
}

async fn whoever_will_not_come_is_passed_over<B: Bench>(bench: &B) {
    for (n, end) in [EndOf::Success, EndOf::Failure].into_iter().enumerate() {
        let execution = format!("next execution {n}");
        let waiting = [&execution, "b"];
        let (line, turn) = Line::promised(bench, &format!("reap/next {n}"), &waiting).await;
        assert_eq!(line.reap(&execution, end).await, reaped(0, 0, 1));
        let next = line.turn();
        assert_eq!(next.who, "b", "at once");
        assert_eq!(next.told["previous"]["holder"], "holder");
        assert!(next.lease.fencing_token > turn.lease.fencing_token);
        let lost = line.extend(&turn.lease).await;
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
        line.confirm(&next).await;
    }
    // Stopped, a task of it may still act on the promise, until its time is over; and then it is
    // not told again.
    let execution = "next stopped execution";
    let (line, turn) = Line::promised(bench, "reap/next stopped", &[execution, "b"]).await;
    line.case.pass(TTL / 6);
    assert_eq!(line.reap(execution, EndOf::Force).await, reaped(0, 0, 0));
    line.nobody_was_told();
    let row = line.case.row().await;
    let reserved = row.reserved().expect("kept for it still");
    assert_eq!(
        (reserved.until, reserved.tries.get()),
        (turn.lease.expires_at, 2)
    );
    // The event comes twice.
    assert_eq!(line.reap(execution, EndOf::Force).await, reaped(0, 0, 0));
    assert_eq!(line.case.row().await, row);
    let margin = Settings::default().clock_margin;
    line.case.clock.set(reserved.until.plus(margin));
    assert!(line.hand_over().await);
    assert_eq!(line.turn().who, "b");
    let lost = line.extend(&turn.lease).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}
