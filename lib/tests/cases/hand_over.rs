//! From a holder to the next waiter.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    MARGIN, MS, STALE, TTL, make, plus,
    queue::{QueueCase, WAIT},
    with,
};
use leasehold::{ExtendOptions, KeepTime, LeaseSet, Lifetime, Receipt, ReleaseOutcome};

fn previous(lease: &leasehold::Lease, ended: &str) -> Value {
    json!({
        "holder": lease.holder,
        "fencing_token": lease.fencing_token,
        "ended": ended,
    })
}

#[tokio::test]
async fn first_come_first_served() {
    let waiting = ["a", "b", "c", "d", "e"];
    let (case, mut lease) = QueueCase::held("queue/order", &waiting).await;
    for (n, who) in waiting.into_iter().enumerate() {
        case.pass(MS);
        assert_eq!(case.release(&lease).await, ReleaseOutcome::Released);
        let turn = case.turn_of(who);
        assert_eq!(turn.lease.holder, make::execution(who));
        assert_eq!(turn.output["previous"], previous(&lease, "released"));
        assert_eq!(turn.output["grant"], "new");
        assert_eq!(turn.lease.fencing_token, plus(lease.fencing_token, 1));
        let row = case.row().await;
        assert_eq!(row.request, QueueCase::digest(who));
        assert_eq!(row.waiting().len(), 4 - n);
        assert_eq!(case.waiter(who).await, None, "nothing is left to sweep");
        // Repeated, the release changes nothing.
        let again = case.release(&lease).await;
        assert_eq!(again, ReleaseOutcome::AlreadyReleased);
        assert_eq!(case.row().await, row);
        lease = turn.lease;
    }
    assert_eq!(case.release(&lease).await, ReleaseOutcome::Released);
    case.expect_no_answers();
    let next = case.granted("x").await;
    assert!(next.lease.fencing_token > lease.fencing_token);
    assert_eq!(next.previous.map(|p| p.holder), Some(lease.holder));
}

/// The leases do each of these too, and leave the queue to sweep.
#[tokio::test]
async fn every_ending_call_serves_queue() {
    for call in [
        "strict",
        "all",
        "all, strictly",
        "late",
        "all, late",
        "work",
    ] {
        let key = format!("queue/ended by {call}");
        let (case, lease) = QueueCase::held(&key, &["a"]).await;
        let (queue, all) = (&case.leases, LeaseSet::new(vec![lease.clone()]));
        let (all, options) = (all.expect("one"), ExtendOptions::default());
        if call.ends_with("late") {
            case.expire();
        }
        let done = match call {
            "strict" => queue.release_strictly(&lease).await.map(drop),
            "all" => queue.release_all(&all).await.map(drop),
            "all, strictly" => queue.release_all_strictly(&all).await.map(drop),
            "late" => queue.extend(&lease, options).await.map(drop),
            "all, late" => queue.extend_all(&all, options).await.map(drop),
            _ => queue.hold(lease, |_| std::future::ready(())).await,
        };
        assert_eq!(done.is_err(), call.ends_with("late"), "{call}: {done:?}");
        case.turn_of("a");
    }
}

#[tokio::test]
async fn a_hand_over_is_the_grant() {
    let case = QueueCase::new("queue/granted");
    let holder = case.lease("holder").await;
    let metadata = make::metadata("order", "42");
    let keep = KeepTime::new(TTL).expect("valid");
    let mut asked = case.request("a").metadata(metadata.clone());
    asked.lifetime = Lifetime::Execution { keep };
    let queued = case.leases.acquire_queued(asked, case.queue("a", WAIT));
    queued.await.expect("queued");
    case.join("b").await;
    case.pass(TTL / 2);
    case.release(&holder).await;
    let granted = case.turn().lease;
    assert_eq!((granted.deadline, granted.permit), (None, 0));
    assert_eq!(granted.metadata, metadata);
    assert_eq!(granted.acquired_at, case.now());
    let row = case.row().await;
    let held = row.holding().expect("held");
    assert_eq!(held.lease_id, granted.lease_id);
    assert_eq!((row.version, held.term.keep()), (granted.version, keep));
    assert_eq!(row.purge_at, None);
    // Extend only proves it.
    let proven = case.prove(&granted).await;
    assert!(proven.version > granted.version);
    let version = granted.version;
    assert_eq!(with(proven, |lease| lease.version = version), granted);
    assert_eq!(case.release(&granted).await, ReleaseOutcome::Released);
    case.turn_of("b");
    refused!(case.ask("a", "a again").await, Consumed);
}

#[tokio::test]
async fn next_learns_how_last_grant_ended() {
    let (case, holder) = QueueCase::held("queue/previous", &["a", "b", "c"]).await;
    case.expire();
    case.sweep().await;
    let turn = case.turn();
    assert_eq!(turn.output["previous"], previous(&holder, "expired"));
    assert_eq!(turn.output["grant"], "takeover");
    let first = turn.lease.clone();
    // A repeated request gets the same response.
    let again = case.ask("a", "again").await;
    again.expect("an answer");
    assert_eq!(case.turn().output["previous"], turn.output["previous"]);

    // An operator's forced release hands over too.
    case.force(None).await;
    let turn = case.turn_of("b");
    assert_eq!(turn.output["previous"], previous(&first, "forced"));
    refused!(case.extend(&first).await, Lost);
    assert_eq!(case.release(&first).await, ReleaseOutcome::Lost);
    let second = turn.lease;
    assert!(second.fencing_token.get() > first.fencing_token.get() + 1);
    case.release(&second).await;
    assert_eq!(
        case.turn().output["previous"],
        previous(&second, "released")
    );
}

#[tokio::test]
async fn departed_waiter_is_passed_over() {
    let (case, holder) = QueueCase::held("queue/refused", &["a", "b", "c"]).await;
    case.calls.expire_token(&case.token("a"));
    case.release(&holder).await;
    let turn = case.turn_of("b");
    assert_eq!(turn.lease.fencing_token, plus(holder.fencing_token, 2));
    assert_eq!(turn.output["previous"], previous(&holder, "released"));
    assert_eq!(case.waiter("a").await, None);
    let lease = turn.lease;
    assert_eq!(
        case.row().await.last_ended().map(|p| p.holder),
        Some(holder.holder.clone())
    );
    let again = case.release(&holder).await;
    assert_eq!(again, ReleaseOutcome::AlreadyReleased);

    // Nobody is left: the key is free, and the tokens that were used up are not used again.
    case.calls.expire_token(&case.token("c"));
    case.release(&lease).await;
    case.expect_no_answers();
    let next = case.granted("x").await;
    assert!(next.lease.fencing_token.get() > lease.fencing_token.get() + 1);
    assert_eq!(
        json!(next.previous),
        previous(&lease, "released"),
        "the last who really held it"
    );
}

#[tokio::test]
async fn passed_over_waiter_may_rejoin() {
    let (case, holder) = QueueCase::held("queue/anew", &["a", "b"]).await;
    case.calls.expire_token(&case.token("a"));
    case.release(&holder).await;
    let lease = case.turn_of("b").lease;
    // Its task timed out, and its workflow retries.
    let again = case.ask("a", "a again").await.expect("an answer");
    assert!(
        matches!(again, leasehold::Queued::Queued { .. }),
        "{again:?}"
    );
    case.release(&lease).await;
    case.turn_of("a again");

    // Of the very first grant of a key, and of one at once.
    let case = QueueCase::new("queue/anew at once");
    case.calls.expire_token(&case.token("dead"));
    refused!(case.ask("a", "dead").await, Unavailable);
    assert!(case.row().await.holding().is_none(), "it never knew");
    case.acquires("a", "alive").await;
}

#[tokio::test]
async fn expired_lease_with_waiters_is_over() {
    let (case, holder) = QueueCase::held("queue/expired holder", &["a"]).await;
    case.pass(TTL.saturating_sub(MS));
    let holder = case.extend(&holder).await.expect("in time");
    let before = case.row().await;
    // By another clock it may not have expired yet, so its holder may still trust it.
    let over = holder.expires_at().plus(MARGIN);
    for at in [holder.expires_at(), over.minus(MS)] {
        case.clock.set(at);
        refused!(case.extend(&holder).await, Lost);
        case.expect_no_answers();
        assert_eq!(case.row().await, before);
    }
    case.clock.set(over);
    refused!(case.extend(&holder).await, Lost);
    // The waiter need not wait for sweep.
    let turn = case.turn();
    assert_eq!(turn.output["previous"], previous(&holder, "expired"));
    // No clock ends its lease.
    case.pass(100 * TTL);
    case.contention("x").await;
    case.release(&turn.lease).await;
    // A late release counts as a release.
    let late = case.lease("late").await;
    case.join("b").await;
    case.pass(2 * TTL);
    assert_eq!(case.release(&late).await, ReleaseOutcome::Released);
    assert_eq!(case.turn().output["previous"], previous(&late, "released"));
}

#[tokio::test]
async fn a_frozen_queue_stands_still() {
    let (case, holder) = QueueCase::held("queue/frozen", &["a", "b"]).await;
    case.freeze_by_operator().await;
    assert_eq!(case.release(&holder).await, ReleaseOutcome::Released);
    case.expect_no_answers();
    case.has_waiting(&["a", "b"]).await;
    assert!(!case.hand_over().await);
    case.sweep().await;
    case.expect_no_answers();
    case.unfreeze_by_operator().await;
    let turn = case.turn_of("a");
    assert!(!case.hand_over().await, "it was told");

    // Frozen after the grant: the holder keeps it, and nobody is granted it after that.
    case.freeze_by_operator().await;
    let lease = case.prove(&turn.lease).await;
    case.pass(WAIT / 2);
    case.sweep().await;
    case.prove(&lease).await;
    case.release(&lease).await;
    case.expect_no_answers();
    assert_eq!(case.row().await.purge_at, Some(leasehold::row::Row::NEVER));
}

#[tokio::test]
async fn only_one_denied_waiter_loses_place() {
    let (case, holder) = QueueCase::held("queue/forbidden", &["a", "b"]).await;
    case.calls.deny_token(&case.token("a"));
    case.release(&holder).await;
    case.turn_of("b");
    // If our own role may tell nobody, no other waiter loses its place.
    let waiting = ["a", "b", "c"];
    let (case, holder) = QueueCase::held("queue/all forbidden", &waiting).await;
    for who in waiting {
        case.calls.deny_token(&case.token(who));
    }
    case.release(&holder).await;
    case.expect_no_answers();
    case.has_waiting(&["c"]).await;
    // The call may have arrived before it was denied, so the key is not passed on.
    let (case, holder) = QueueCase::held("queue/forbidden since", &["a", "b"]).await;
    case.calls.lose(&case.token("a"), super::Lost::Response, 1);
    case.calls.deny_token(&case.token("a"));
    case.release(&holder).await;
    case.prove(&case.turn_of("a").lease).await;
    // And if it did not arrive, and is denied for good: after the grace, and once its history shows nothing.
    let (case, holder) = QueueCase::held("queue/forbidden for good", &["a", "b"]).await;
    case.calls.lose(&case.token("a"), super::Lost::Request, 1);
    case.calls.deny_token(&case.token("a"));
    case.release(&holder).await;
    let unseen = Receipt::Missing { waits: true };
    case.calls
        .set_receipt(make::execution("a").as_str(), unseen);
    case.sweep().await;
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.expect_no_answers();
    case.pass(Duration::from_mins(15));
    for _ in 0..2 {
        case.sweep().await;
        case.pass(STALE + MARGIN);
    }
    case.turn_of("b");
}
