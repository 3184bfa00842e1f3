//! A reservation, until its waiter confirms.

use super::{Bench, CLAIM, Lost, MARGIN, MS, TTL, UNEXPIRED, make, queue::QueueCase};
use crate::{LeaseState, ReleaseOutcome};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_call_that_was_lost_costs_nobody_his_turn(bench).await;
    a_promise_that_is_not_taken_up_is_told_again_and_then_passed_on(bench).await;
    whoever_comes_late_comes_in_time_until_it_is_passed_on(bench).await;
    whoever_holds_a_promise_is_seen_as_its_holder(bench).await;
}

async fn a_call_that_was_lost_costs_nobody_his_turn<B: Bench>(bench: &B) {
    for (n, lost) in [(Lost::Response, 1), (Lost::Response, 2), (Lost::Request, 1)]
        .into_iter()
        .enumerate()
    {
        let key = format!("line/lost call {n}");
        let (line, _) = QueueCase::released_with(bench, &key, lost).await;
        line.confirm(&line.turn_of("a")).await;
    }
    // A repeated release notifies again: its workflow got no response either.
    let both = (Lost::Request, 2);
    let (line, holder) = QueueCase::released_with(bench, "line/lost call and answer", both).await;
    line.expect_no_answers();
    for _ in 0..3 {
        let released = line.release(&holder).await;
        assert_eq!(released, ReleaseOutcome::AlreadyReleased);
    }
    line.confirm(&line.turn_of("a")).await;
    // If no notification arrived, the next call after the time to confirm notifies again.
    let (line, holder) = QueueCase::released_with(bench, "line/lost call", both).await;
    line.expect_no_answers();
    line.pass(CLAIM.saturating_sub(MS));
    assert!(!line.hand_over().await, "the first call may have arrived");
    line.pass(MS);
    assert!(line.hand_over().await);
    let turn = line.turn_of("a");
    assert_eq!(turn.lease.fencing_token, holder.fencing_token.plus(1));
    assert_eq!(turn.lease.expires_at(), line.now().plus(CLAIM));
    line.confirm(&turn).await;
}

async fn a_promise_that_is_not_taken_up_is_told_again_and_then_passed_on<B: Bench>(bench: &B) {
    let (line, first) = QueueCase::promised(bench, "line/lapsed", &["a", "b"]).await;
    line.pass(CLAIM);
    // The token was answered before, so the refusal proves nothing.
    assert!(!line.hand_over().await);
    line.expect_no_answers();
    let row = line.row().await;
    let reserved = row.reserved().expect("still kept for it");
    assert_eq!(reserved.until, line.now().plus(CLAIM));
    assert_eq!(reserved.tries.get(), 2);
    line.pass((CLAIM + MARGIN).saturating_sub(MS));
    assert!(!line.hand_over().await, "not before the margin");
    line.pass(MS);
    assert!(line.hand_over().await);
    let turn = line.turn_of("b");
    assert_eq!(turn.lease.fencing_token, first.lease.fencing_token.plus(1));
    assert_eq!(
        turn.output["previous"]["holder"], "holder",
        "the last who really held it"
    );
    assert_ne!(turn.lease.lease_id, first.lease.lease_id);
    for _ in 0..2 {
        refused!(line.extend(&first.lease).await, Lost);
        assert_eq!(line.release(&first.lease).await, ReleaseOutcome::Lost);
        line.confirm(&turn).await;
    }
}

async fn whoever_comes_late_comes_in_time_until_it_is_passed_on<B: Bench>(bench: &B) {
    let (line, turn) = QueueCase::promised(bench, "line/late", &["a", "b"]).await;
    line.pass(100 * CLAIM);
    refused!(line.leases.extend(&turn.lease, UNEXPIRED).await, Expired);
    let lease = line.confirm(&turn).await;
    assert_eq!(lease.expires_at(), line.now().plus(TTL));
    assert!(!line.hand_over().await, "it is held");
    // A late release works too.
    line.release(&lease).await;
    let turn = line.turn();
    line.pass(100 * CLAIM);
    assert_eq!(line.release(&turn.lease).await, ReleaseOutcome::Released);
    line.expect_no_answers();
}

async fn whoever_holds_a_promise_is_seen_as_its_holder<B: Bench>(bench: &B) {
    let (line, turn) =
        QueueCase::promised(bench, "line/seen", &["line/seen a", "line/seen b"]).await;
    let key = &line.address.key;
    let holder = &turn.lease.holder;
    line.pass(CLAIM / 3);
    let (first, permits) = line.inspected().await;
    assert!(permits.is_empty());
    assert_eq!((first.state, first.waiting), (LeaseState::Held, 1));
    assert_eq!(first.previous.expect("a grant").holder.as_str(), "holder");
    assert_eq!(first.lease.fencing_token, turn.lease.fencing_token);
    let held = first.lease.held.as_ref().expect("a holder");
    assert_eq!(&held.holder, holder);
    assert_eq!(held.acquired_at, turn.lease.acquired_at);
    assert_eq!(held.expires_at(), Some(turn.lease.expires_at()));
    let text = serde_json::to_string(&first.lease).expect("JSON");
    assert!(!text.contains(turn.lease.lease_id.expose()), "{text}");

    // The waiter whose turn it is has a lease; the next one has none.
    let listed = line.leases.held_by(holder, 100, None).await;
    assert_eq!(
        listed.expect("a list").leases,
        std::slice::from_ref(&first.lease)
    );
    let behind = make::holder("line/seen b");
    let listed = line.leases.held_by(&behind, 100, None).await;
    assert_eq!(listed.expect("a list").leases, []);
    let everything = line.leases.list(10_000, None).await.expect("a list");
    let of_key = everything.leases.iter().filter(|view| view.key == *key);
    assert!(of_key.eq([&first.lease]));

    // Past the time to confirm it has expired, and nobody else may take it yet.
    line.pass(CLAIM);
    assert_eq!(line.inspected().await.0.state, LeaseState::Expired);
    let held = line.contention("x").await.held;
    assert_eq!(
        (&held.holder, held.waiting, held.by_you),
        (holder, 1, false)
    );
    assert_eq!(held.fencing_token, turn.lease.fencing_token);
    assert_eq!(held.until, crate::HeldUntil::of(turn.lease.deadline));
}
