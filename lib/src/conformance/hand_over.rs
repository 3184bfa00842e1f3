//! From a holder to the next waiter.

use serde_json::{Value, json};

use super::{
    Bench, MARGIN, MS, TTL, make,
    queue::{QueueCase, WAIT},
};
use crate::{KeepTime, Lifetime, ReleaseOutcome};

pub(super) async fn all<B: Bench>(bench: &B) {
    first_come_first_served(bench).await;
    a_hand_over_is_the_grant(bench).await;
    the_next_is_told_how_the_last_grant_ended(bench).await;
    whoever_does_not_wait_any_more_is_passed_over(bench).await;
    whoever_was_passed_over_may_ask_anew(bench).await;
    an_expired_lease_that_others_wait_for_is_over(bench).await;
    a_frozen_line_stands_still(bench).await;
    whoever_may_not_be_told_is_passed_over_and_no_more_than_one(bench).await;
}

fn previous(lease: &crate::Lease, ended: &str) -> Value {
    json!({
        "holder": lease.holder,
        "fencing_token": lease.fencing_token,
        "ended": ended,
    })
}

async fn first_come_first_served<B: Bench>(bench: &B) {
    let waiting = ["a", "b", "c", "d", "e"];
    let (line, mut lease) = QueueCase::held(bench, "line/order", &waiting).await;
    for (n, who) in waiting.into_iter().enumerate() {
        line.pass(MS);
        assert_eq!(line.release(&lease).await, ReleaseOutcome::Released);
        let turn = line.turn_of(who);
        assert_eq!(turn.lease.holder, make::execution(who));
        assert_eq!(turn.output["previous"], previous(&lease, "released"));
        assert_eq!(turn.output["grant"], "new");
        assert_eq!(turn.lease.fencing_token, lease.fencing_token.plus(1));
        let row = line.row().await;
        assert_eq!(row.request, QueueCase::<B>::digest(who));
        assert_eq!(row.waiting().len(), 4 - n);
        assert_eq!(line.waiter(who).await, None, "nothing is left to sweep");
        // Repeated, the release changes nothing.
        let again = line.release(&lease).await;
        assert_eq!(again, ReleaseOutcome::AlreadyReleased);
        assert_eq!(line.row().await, row);
        lease = turn.lease;
    }
    assert_eq!(line.release(&lease).await, ReleaseOutcome::Released);
    line.expect_no_answers();
    let next = line.granted("x").await;
    assert!(next.lease.fencing_token > lease.fencing_token);
    assert_eq!(next.previous.map(|p| p.holder), Some(lease.holder));
}

async fn a_hand_over_is_the_grant<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/granted");
    let holder = line.lease("holder").await;
    let metadata = make::metadata("order", "42");
    let keep = KeepTime::new(TTL).expect("valid");
    let mut asked = line.request("a").metadata(metadata.clone());
    asked.lifetime = Lifetime::Execution { keep };
    let queued = line.leases.acquire_queued(asked, line.queue("a", WAIT));
    queued.await.expect("in line");
    line.join("b").await;
    line.pass(TTL / 2);
    line.release(&holder).await;
    let granted = line.turn().lease;
    assert_eq!((granted.deadline, granted.permit), (None, 0));
    assert_eq!(granted.metadata, metadata);
    assert_eq!(granted.acquired_at, line.now());
    let row = line.row().await;
    let held = row.holding().expect("held");
    assert_eq!(held.lease_id, granted.lease_id);
    assert_eq!((row.version, held.term.keep()), (granted.version, keep));
    assert_eq!(row.purge_at, None);
    // Extend only proves it.
    let proven = line.prove(&granted).await;
    assert!(proven.version > granted.version);
    let version = granted.version;
    assert_eq!(crate::Lease { version, ..proven }, granted);
    assert_eq!(line.release(&granted).await, ReleaseOutcome::Released);
    line.turn_of("b");
    refused!(line.ask("a", "a again").await, Consumed);
}

async fn the_next_is_told_how_the_last_grant_ended<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/previous", &["a", "b", "c"]).await;
    line.expire();
    line.sweep().await;
    let turn = line.turn();
    assert_eq!(turn.output["previous"], previous(&holder, "expired"));
    assert_eq!(turn.output["grant"], "takeover");
    let first = turn.lease.clone();
    // A repeated request gets the same response.
    let again = line.ask("a", "again").await;
    again.expect("an answer");
    assert_eq!(line.turn().output["previous"], turn.output["previous"]);

    // An operator's forced release hands over too.
    line.force(None).await;
    let turn = line.turn_of("b");
    assert_eq!(turn.output["previous"], previous(&first, "forced"));
    refused!(line.extend(&first).await, Lost);
    assert_eq!(line.release(&first).await, ReleaseOutcome::Lost);
    let second = turn.lease;
    assert!(second.fencing_token.get() > first.fencing_token.get() + 1);
    line.release(&second).await;
    assert_eq!(
        line.turn().output["previous"],
        previous(&second, "released")
    );
}

async fn whoever_does_not_wait_any_more_is_passed_over<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/refused", &["a", "b", "c"]).await;
    line.calls.expire_token(&line.token("a"));
    line.release(&holder).await;
    let turn = line.turn_of("b");
    assert_eq!(turn.lease.fencing_token, holder.fencing_token.plus(2));
    assert_eq!(turn.output["previous"], previous(&holder, "released"));
    assert_eq!(line.waiter("a").await, None);
    let lease = turn.lease;
    assert_eq!(
        line.row().await.last_ended().map(|p| p.holder),
        Some(holder.holder.clone())
    );
    let again = line.release(&holder).await;
    assert_eq!(again, ReleaseOutcome::AlreadyReleased);

    // Nobody is left: the key is free, and the tokens that were used up are not used again.
    line.calls.expire_token(&line.token("c"));
    line.release(&lease).await;
    line.expect_no_answers();
    let next = line.granted("x").await;
    assert!(next.lease.fencing_token.get() > lease.fencing_token.get() + 1);
    assert_eq!(
        json!(next.previous),
        previous(&lease, "released"),
        "the last who really held it"
    );
}

async fn whoever_was_passed_over_may_ask_anew<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/anew", &["a", "b"]).await;
    line.calls.expire_token(&line.token("a"));
    line.release(&holder).await;
    let lease = line.turn_of("b").lease;
    // Its task timed out, and its workflow retries.
    let again = line.ask("a", "a again").await.expect("an answer");
    assert!(matches!(again, crate::Queued::Queued { .. }), "{again:?}");
    line.release(&lease).await;
    line.turn_of("a again");

    // Of the very first grant of a key, and of one at once.
    let line = QueueCase::new(bench, "line/anew at once");
    line.calls.expire_token(&line.token("dead"));
    refused!(line.ask("a", "dead").await, Unavailable);
    assert!(line.row().await.holding().is_none(), "it never knew");
    line.acquires("a", "alive").await;
}

async fn an_expired_lease_that_others_wait_for_is_over<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/expired holder", &["a"]).await;
    line.pass(TTL.saturating_sub(MS));
    let holder = line.extend(&holder).await.expect("in time");
    let before = line.row().await;
    // By another clock it may not have expired yet, so its holder may still trust it.
    let over = holder.expires_at().plus(MARGIN);
    for at in [holder.expires_at(), over.minus(MS)] {
        line.clock.set(at);
        refused!(line.extend(&holder).await, Lost);
        line.expect_no_answers();
        assert_eq!(line.row().await, before);
    }
    line.clock.set(over);
    refused!(line.extend(&holder).await, Lost);
    // The waiter need not wait for sweep.
    let turn = line.turn();
    assert_eq!(turn.output["previous"], previous(&holder, "expired"));
    // No clock ends its lease.
    line.pass(100 * TTL);
    line.contention("x").await;
    line.release(&turn.lease).await;
    // A late release counts as a release.
    let late = line.lease("late").await;
    line.join("b").await;
    line.pass(2 * TTL);
    assert_eq!(line.release(&late).await, ReleaseOutcome::Released);
    assert_eq!(line.turn().output["previous"], previous(&late, "released"));
}

async fn a_frozen_line_stands_still<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/frozen", &["a", "b"]).await;
    line.freeze_by_operator().await;
    assert_eq!(line.release(&holder).await, ReleaseOutcome::Released);
    line.expect_no_answers();
    line.has_waiting(&["a", "b"]).await;
    assert!(!line.hand_over().await);
    line.sweep().await;
    line.expect_no_answers();
    line.unfreeze_by_operator().await;
    let turn = line.turn_of("a");
    assert!(!line.hand_over().await, "it was told");

    // Frozen after the grant: the holder keeps it, and nobody is granted it after that.
    line.freeze_by_operator().await;
    let lease = line.prove(&turn.lease).await;
    line.pass(WAIT / 2);
    line.sweep().await;
    line.prove(&lease).await;
    line.release(&lease).await;
    line.expect_no_answers();
    assert_eq!(line.row().await.purge_at, Some(crate::row::Row::NEVER));
}

async fn whoever_may_not_be_told_is_passed_over_and_no_more_than_one<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/forbidden", &["a", "b"]).await;
    line.calls.deny_token(&line.token("a"));
    line.release(&holder).await;
    line.turn_of("b");
    // If our own role may tell nobody, no other waiter loses its place.
    let waiting = ["a", "b", "c"];
    let (line, holder) = QueueCase::held(bench, "line/all forbidden", &waiting).await;
    for who in waiting {
        line.calls.deny_token(&line.token(who));
    }
    line.release(&holder).await;
    line.expect_no_answers();
    line.has_waiting(&["c"]).await;
    // The call may have arrived before it was denied, so the key is not passed on.
    let (line, holder) = QueueCase::held(bench, "line/forbidden since", &["a", "b"]).await;
    line.calls.lose(&line.token("a"), super::Lost::Response, 1);
    line.calls.deny_token(&line.token("a"));
    line.release(&holder).await;
    line.prove(&line.turn_of("a").lease).await;
}
