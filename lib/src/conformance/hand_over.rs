//! From a holder to the next waiter.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Bench, CLAIM, MARGIN, MS, TTL, make,
    queue::{QueueCase, WAIT},
};
use crate::{ReleaseOutcome, Settings};

pub(super) async fn all<B: Bench>(bench: &B) {
    first_come_first_served(bench).await;
    the_first_extend_of_a_promise_is_the_grant(bench).await;
    the_next_is_told_how_the_last_grant_ended(bench).await;
    a_promise_can_be_given_back(bench).await;
    whoever_does_not_wait_any_more_is_passed_over(bench).await;
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
        assert_eq!(turn.lease.holder.as_str(), who);
        assert_eq!(turn.output["previous"], previous(&lease, "released"));
        assert_eq!(turn.output["grant"], "new");
        assert!(turn.lease.fencing_token > lease.fencing_token);
        let row = line.row().await;
        assert!(row.holding().is_none(), "kept, and not granted yet");
        assert_eq!(row.waiting().len(), 4 - n);
        let confirmed = line.confirm(&turn).await;
        assert_eq!(confirmed.fencing_token, turn.lease.fencing_token);
        assert_eq!(confirmed.lease_id, turn.lease.lease_id);
        assert_eq!(confirmed.holder, turn.lease.holder);
        let row = line.row().await;
        assert_eq!(row.request, QueueCase::<B>::digest(who));
        assert_eq!(row.fencing_token, confirmed.fencing_token);
        lease = confirmed;
    }
    assert_eq!(line.release(&lease).await, ReleaseOutcome::Released);
    line.expect_no_answers();
    let next = line.granted("x").await;
    assert!(next.lease.fencing_token > lease.fencing_token);
    assert_eq!(next.previous.map(|p| p.holder), Some(lease.holder));
}

async fn the_first_extend_of_a_promise_is_the_grant<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/confirmed");
    let holder = line.lease("holder").await;
    let metadata = make::metadata("order", "42");
    let mut asked = line.request("a").metadata(metadata.clone());
    asked.lifetime = make::ttl(2 * TTL).into();
    let queued = line.leases.acquire_queued(asked, line.queue("a", WAIT));
    queued.await.expect("in line");
    line.join("b").await;
    line.pass(TTL / 2);
    line.release(&holder).await;
    let turn = line.turn();
    let promised = &turn.lease;
    assert_eq!(promised.ttl(), Some(make::ttl(2 * TTL)));
    assert_eq!((promised.permit, &promised.metadata), (0, &metadata));
    assert_eq!(promised.acquired_at, line.now());
    assert_eq!(promised.expires_at(), line.now().plus(CLAIM));
    let guard = Settings::default().guard;
    assert_eq!(promised.safe_until(), promised.expires_at().minus(guard));

    line.pass(CLAIM / 2);
    let lease = line.confirm(&turn).await;
    assert_eq!(lease.expires_at(), line.now().plus(2 * TTL));
    assert_eq!((lease.ttl(), &lease.metadata), (promised.ttl(), &metadata));
    assert_eq!(lease.acquired_at, promised.acquired_at);
    // Repeated, it is known by its time and its deadline, and writes nothing. With another of them it is another extend.
    assert_eq!(line.confirm(&turn).await, lease);
    let mut last = lease.version;
    for earlier in [Duration::ZERO, MS] {
        line.pass(earlier);
        let options = make::extend_by((3 * TTL).saturating_sub(earlier));
        let again = line.leases.extend(promised, options).await;
        let again = again.expect("extended").into_lease();
        assert_eq!(again.expires_at(), lease.expires_at().plus(TTL));
        assert!(again.version > last);
        last = again.version;
    }
    // The handle of the reservation works as well as the one that the confirmation returned.
    line.pass(TTL);
    let later = line.extend(promised).await.expect("extended");
    assert_eq!(later.expires_at(), line.now().plus(2 * TTL));
    assert_eq!(later.fencing_token, lease.fencing_token);
    assert_eq!(line.release(promised).await, ReleaseOutcome::Released);
    assert_eq!(line.release(&lease).await, ReleaseOutcome::AlreadyReleased);

    // A ttl in the confirmation becomes the lease's.
    let turn = line.turn();
    let options = make::extend_by(TTL / 4);
    let named = line.leases.extend(&turn.lease, options).await;
    let named = named.expect("confirmed").into_lease();
    assert_eq!(named.expires_at(), line.now().plus(TTL / 4));
    let row = line.row().await;
    let term = crate::row::Term::Ttl {
        ttl: make::ttl(TTL / 4),
        expires_at: named.expires_at(),
    };
    assert_eq!(row.holding().expect("held").term, term);
    refused!(line.case.ask("a", "by a").await, Consumed);
}

async fn the_next_is_told_how_the_last_grant_ended<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/previous", &["a", "b", "c"]).await;
    line.expire();
    line.sweep().await;
    let turn = line.turn();
    assert_eq!(turn.output["previous"], previous(&holder, "expired"));
    assert_eq!(turn.output["grant"], "takeover");
    let first = line.confirm(&turn).await;
    // A repeated request gets the same response.
    let again = line.ask("a", "again").await;
    again.expect("an answer");
    assert_eq!(line.turn().output["previous"], turn.output["previous"]);

    line.force(None).await;
    line.expect_no_answers();
    let barging = line.contention("x").await;
    assert_eq!(barging.held.holder.as_str(), "b", "the one who is next");
    assert!(line.hand_over().await);
    let turn = line.turn_of("b");
    assert_eq!(turn.output["previous"], previous(&first, "forced"));
    refused!(line.extend(&first).await, Lost);
    assert_eq!(line.release(&first).await, ReleaseOutcome::Lost);
    let second = line.confirm(&turn).await;
    assert!(second.fencing_token.get() > first.fencing_token.get() + 1);
    line.release(&second).await;
    assert_eq!(
        line.turn().output["previous"],
        previous(&second, "released")
    );
}

async fn a_promise_can_be_given_back<B: Bench>(bench: &B) {
    use ReleaseOutcome::{AlreadyReleased, Released};
    let (line, turn) = QueueCase::promised(bench, "line/given back", &["a", "b"]).await;
    assert_eq!(line.release(&turn.lease).await, Released);
    let next = line.turn_of("b");
    // It counts as a grant.
    assert_eq!(next.output["previous"], previous(&turn.lease, "released"));
    assert!(next.lease.fencing_token > turn.lease.fencing_token);
    assert_eq!(line.release(&turn.lease).await, AlreadyReleased);
    refused!(line.extend(&turn.lease).await, Lost);
    line.confirm(&next).await;
    assert_eq!(line.release(&turn.lease).await, AlreadyReleased);
    assert_eq!(line.release(&next.lease).await, Released);
    for who in ["a", "b"] {
        refused!(line.case.ask(who, &format!("by {who}")).await, Consumed);
    }
    line.expect_no_answers();
}

async fn whoever_does_not_wait_any_more_is_passed_over<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/refused", &["a", "b", "c"]).await;
    line.calls.expire_token(&line.token("a"));
    line.release(&holder).await;
    let turn = line.turn_of("b");
    assert_eq!(turn.lease.fencing_token, holder.fencing_token.plus(2));
    assert_eq!(turn.output["previous"], previous(&holder, "released"));
    let lease = line.confirm(&turn).await;
    assert_eq!(
        line.row().await.last_ended().map(|p| p.holder),
        Some(holder.holder)
    );

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
    // The waiters that were skipped never held it.
    line.release(&next.lease).await;
    let again = line.granted("a").await;
    assert_eq!(again.previous.map(|p| p.holder), Some(next.lease.holder));
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
    line.confirm(&turn).await;
    // Nobody waits, so it may be revived.
    line.pass(2 * TTL);
    let revived = line.extend(&turn.lease).await.expect("revived");
    // A late release counts as a release.
    line.join("b").await;
    line.pass(2 * TTL);
    assert_eq!(line.release(&revived).await, ReleaseOutcome::Released);
    assert_eq!(
        line.turn().output["previous"],
        previous(&revived, "released")
    );
}

async fn a_frozen_line_stands_still<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/frozen", &["a", "b"]).await;
    line.freeze_by_operator().await;
    assert_eq!(line.release(&holder).await, ReleaseOutcome::Released);
    line.expect_no_answers();
    let row = line.row().await;
    assert_eq!((row.reserved(), row.waiting().len()), (None, 2));
    assert!(!line.hand_over().await);
    line.sweep().await;
    line.expect_no_answers();
    line.unfreeze_by_operator().await;
    line.expect_no_answers();
    assert!(line.hand_over().await);
    let turn = line.turn_of("a");
    assert!(!line.hand_over().await, "it was notified");

    // Frozen after the notification: the waiter waits for the operator, and keeps its turn.
    line.freeze_by_operator().await;
    refused!(line.extend(&turn.lease).await, Frozen);
    line.pass(100 * CLAIM);
    line.calls.renew_token(&line.token("a"));
    line.sweep().await;
    line.expect_no_answers();
    line.unfreeze_by_operator().await;
    line.confirm(&turn).await;
    // Released while frozen, it is not reserved for the next waiter.
    line.release(&turn.lease).await;
    let turn = line.turn();
    line.freeze_by_operator().await;
    assert_eq!(line.release(&turn.lease).await, ReleaseOutcome::Released);
    assert_eq!(
        line.release(&turn.lease).await,
        ReleaseOutcome::AlreadyReleased
    );
}

async fn whoever_may_not_be_told_is_passed_over_and_no_more_than_one<B: Bench>(bench: &B) {
    let (line, holder) = QueueCase::held(bench, "line/forbidden", &["a", "b"]).await;
    line.calls.deny_token(&line.token("a"));
    line.release(&holder).await;
    let turn = line.turn_of("b");
    line.confirm(&turn).await;
    // If our own role may notify nobody, no other waiter loses its place.
    let waiting = ["a", "b", "c"];
    let (line, holder) = QueueCase::held(bench, "line/all forbidden", &waiting).await;
    for who in waiting {
        line.calls.deny_token(&line.token(who));
    }
    line.release(&holder).await;
    line.expect_no_answers();
    let row = line.row().await;
    let next = row.reserved().map(|reserved| reserved.request.clone());
    assert_eq!(next, Some(QueueCase::<B>::digest("b")));
    line.has_waiting(&["c"]).await;
    // The callback may have been delivered before it was denied, so the turn is not passed on.
    let (line, holder) = QueueCase::held(bench, "line/forbidden since", &["a", "b"]).await;
    line.calls.lose(&line.token("a"), super::Lost::Response, 1);
    line.calls.deny_token(&line.token("a"));
    line.release(&holder).await;
    let turn = line.turn_of("a");
    line.confirm(&turn).await;
}
