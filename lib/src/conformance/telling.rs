//! How a waiter learns of its grant, and what happens if it may not have learned of it.

use std::time::Duration;

use super::{
    Bench, Lost, MARGIN, MS, STALE, TTL, make,
    queue::{QueueCase, WAIT},
};
use crate::{Execution, LeaseState, Queued, Receipt, ReleaseOutcome};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_call_that_was_lost_costs_nobody_his_grant(bench).await;
    whoever_may_not_have_been_told_is_told_by_the_next_sweep(bench).await;
    whoever_asks_again_is_told_by_its_new_token(bench).await;
    whoever_asked_again_just_before_is_told_by_its_new_token(bench).await;
    what_others_told_meanwhile_is_not_taken_back(bench).await;
    a_dead_token_is_looked_up_half_a_minute_later(bench).await;
    whoever_shows_that_it_knows_keeps_it(bench).await;
    what_was_granted_at_once_and_never_told_is_taken_back(bench).await;
    an_ended_execution_that_never_knew_keeps_nothing(bench).await;
    a_holder_is_seen_as_any_other(bench).await;
}

const MISSING: Receipt = Receipt::Missing { waits: false };

impl<B: Bench> QueueCase<'_, B> {
    fn shows(&self, who: &str, receipt: Receipt) {
        let holder = make::execution(who);
        self.calls.set_receipt(holder.as_str(), receipt);
    }
}

async fn a_call_that_was_lost_costs_nobody_his_grant<B: Bench>(bench: &B) {
    for (n, lost) in [(Lost::Response, 1), (Lost::Response, 2), (Lost::Request, 1)]
        .into_iter()
        .enumerate()
    {
        let key = format!("line/lost call {n}");
        let (line, _) = QueueCase::released_with(bench, &key, lost).await;
        let lease = line.turn_of("a").lease;
        line.sweep().await;
        line.expect_no_answers();
        line.prove(&lease).await;
        line.has_waiting(&["b"]).await;
    }
}

async fn whoever_may_not_have_been_told_is_told_by_the_next_sweep<B: Bench>(bench: &B) {
    let both = (Lost::Request, 2);
    let (line, holder) = QueueCase::released_with(bench, "line/untold", both).await;
    line.expect_no_answers();
    assert!(line.waiter("a").await.is_some(), "it may not know");
    assert!(!line.hand_over().await, "it is held");
    line.sweep().await;
    let turn = line.turn_of("a");
    assert_eq!(turn.lease.fencing_token, holder.fencing_token.plus(1));
    assert_eq!(turn.output["grant"], "new");
    assert_eq!(line.waiter("a").await, None);
    line.prove(&turn.lease).await;
    // Freed by a client that cannot tell anybody.
    line.release_silently(&turn.lease).await;
    line.expect_no_answers();
    line.sweep().await;
    line.turn_of("b");
}

async fn whoever_asks_again_is_told_by_its_new_token<B: Bench>(bench: &B) {
    let both = (Lost::Request, 2);
    let (line, _) = QueueCase::released_with(bench, "line/asks again", both).await;
    line.pass(MS);
    let turn = line.acquires("a", "a again").await;
    assert_eq!(turn.output["grant"], "replayed");
    assert_eq!(line.waiter("a").await, None);
    line.sweep().await;
    line.expect_no_answers();
    // One that is still in line, on a key that was freed by a client that cannot tell anybody, is granted it.
    let (line, holder) = QueueCase::held(bench, "line/asks on", &["a"]).await;
    line.release_silently(&holder).await;
    line.pass(MS);
    line.ask("a", "a again").await.expect("an answer");
    line.turn_of("a again");
    // Without a token, the response tells it.
    let both = (Lost::Request, 2);
    let (line, _) = QueueCase::released_with(bench, "line/asks otherwise", both).await;
    let asked = line.leases.acquire(line.request("a")).await;
    let lease = asked.expect("an answer").granted().expect("its own").lease;
    line.shows("a", MISSING);
    line.calls.expire_token(&line.token("a"));
    line.pass(STALE + MARGIN + STALE);
    line.sweep().await;
    line.prove(&lease).await;
    // So does another request of the same holder, by its own token.
    let (line, _) = QueueCase::released_with(bench, "line/asks reentrantly", both).await;
    let other = line
        .request("a")
        .request_id(make::request_id("another"))
        .reentrant();
    let asked = line.leases.acquire_queued(other, line.queue("x", WAIT));
    assert_eq!(asked.await.expect("an answer"), Queued::Acquired);
    let lease = line.turn_of("x").lease;
    line.prove(&lease).await;
}

/// Between the read of its item and the grant, so that it is told by its old token first.
async fn whoever_asked_again_just_before_is_told_by_its_new_token<B: Bench>(bench: &B) {
    use crate::store::Store as _;
    let (line, holder) = QueueCase::held(bench, "line/asked just before", &["a", "b"]).await;
    let old = line.waiter("a").await.expect("an item");
    line.pass(MS);
    line.calls.expire_token(&line.token("a"));
    line.release_silently(&holder).await;
    let row = line.row().await;
    let (key, limit) = (&line.address.key, std::time::Duration::from_secs(1));
    let granted = line.leases.grant_to(key, &row, &old).await;
    let granted = granted.expect("an answer").expect("granted");
    let new = crate::waiter::Waiter {
        task_token: line.queue("a again", WAIT).task_token,
        asked_at: line.now(),
        ..old.clone()
    };
    let stored = line.leases.store().update_task_token(key, &new, limit);
    stored.await.expect("stored");
    let workflows = line.leases.workflows().expect("some");
    let told = line.leases.tell_first(workflows, key, granted, &old).await;
    let told = told.expect("an answer");
    assert!(
        matches!(told, (crate::queue::Told::Accepted, None)),
        "{told:?}"
    );
    line.turn_of("a again");
    line.has_waiting(&["b"]).await;
}

/// Between the grant and the call of the one that wrote it, whose token is dead or answered by then.
async fn what_others_told_meanwhile_is_not_taken_back<B: Bench>(bench: &B) {
    for by in [
        "sweep",
        "acquire",
        "another request",
        "a set",
        "a set with others",
    ] {
        let key = format!("line/told by {by}");
        let (line, holder) = QueueCase::held(bench, &key, &["a", "b"]).await;
        let waiter = line.waiter("a").await.expect("an item");
        line.release_silently(&holder).await;
        let row = line.row().await;
        let key = &line.address.key;
        let granted = line.leases.grant_to(key, &row, &waiter).await;
        let granted = granted.expect("an answer").expect("granted");
        let other = line.request("a").request_id(make::request_id("other"));
        match by {
            "sweep" => line.sweep().await,
            "acquire" => {
                let asked = line.leases.acquire(line.request("a")).await;
                drop(asked.expect("an answer").granted().expect("its own"));
            }
            "another request" => {
                let queue = line.queue("x", WAIT);
                let asked = line.leases.acquire_queued(other.reentrant(), queue).await;
                assert_eq!(asked.expect("an answer"), Queued::Acquired);
            }
            _ => {
                let beside = make::key(format!("{key}, and beside"));
                let beside = (by != "a set").then_some(beside);
                let keys = make::keys([key.clone()].into_iter().chain(beside).collect());
                let set = crate::AcquireAll::new(keys, other.holder, other.lifetime);
                let asked = line.leases.acquire_all(set.reentrant()).await;
                drop(asked.expect("an answer").granted().expect("its own"));
            }
        }
        line.calls.expire_token(&line.token("a"));
        let workflows = line.leases.workflows().expect("some");
        let told = line
            .leases
            .tell_first(workflows, key, granted, &waiter)
            .await;
        let told = told.expect("an answer");
        assert!(
            matches!(told, (crate::queue::Told::Refused, None)),
            "{by}: {told:?}"
        );
        let row = line.row().await;
        assert_eq!(row.request, QueueCase::<B>::digest("a"), "{by}");
        assert!(row.holding().is_some(), "{by}");
        drop(line.answers());
    }
}

async fn a_dead_token_is_looked_up_half_a_minute_later<B: Bench>(bench: &B) {
    let both = (Lost::Request, 2);
    let (line, holder) = QueueCase::released_with(bench, "line/dead token", both).await;
    // Its task times out, and its execution runs on without the lease.
    line.calls.expire_token(&line.token("a"));
    line.shows("a", MISSING);
    line.sweep().await;
    line.expect_no_answers();
    let row = line.row().await;
    assert!(row.holding().is_some(), "somebody may have told it before");
    assert_eq!(line.waiter("a").await, None, "nobody can tell it any more");
    line.pass((STALE + MARGIN).saturating_sub(MS));
    line.sweep().await;
    line.expect_no_answers();
    line.pass(MS);
    line.sweep().await;
    let turn = line.turn_of("b");
    assert_eq!(turn.lease.fencing_token, holder.fencing_token.plus(2));
    assert_eq!(turn.output["previous"]["holder"], "holder");

    // Whose history cannot be read keeps it until the execution ends.
    let (line, _) = QueueCase::released_with(bench, "line/unread", both).await;
    line.calls.expire_token(&line.token("a"));
    line.shows("a", Receipt::Unreadable);
    for _ in 0..3 {
        line.sweep().await;
        line.pass(STALE + MARGIN);
    }
    line.expect_no_answers();
    line.is("a", over(&line, true));
    line.pass(STALE + MARGIN);
    line.sweep().await;
    line.turn_of("b");
}

fn over<B: Bench>(line: &QueueCase<'_, B>, all_answered: bool) -> Execution {
    Execution::Ended {
        stopped_at: line.now(),
        redrivable: true,
        all_answered,
    }
}

async fn whoever_shows_that_it_knows_keeps_it<B: Bench>(bench: &B) {
    let response = (Lost::Response, 2);
    let (line, _) = QueueCase::released_with(bench, "line/knows", response).await;
    let lease = line.turn_of("a").lease;
    line.shows("a", Receipt::Shown);
    line.sweep().await;
    line.pass(STALE + MARGIN);
    line.sweep().await;
    line.expect_no_answers();
    let row = line.row().await;
    let held = row.holding().expect("held");
    assert_eq!((held.telling, &held.lease_id), (None, &lease.lease_id));
    assert_eq!(
        row.to_item().keys().find(|name| name.contains("told")),
        None
    );
    // A proof shows it as well.
    let (line, _) = QueueCase::released_with(bench, "line/proves", response).await;
    let lease = line.turn_of("a").lease;
    line.sweep().await;
    line.prove(&lease).await;
    line.shows("a", MISSING);
    line.pass(STALE + MARGIN);
    line.sweep().await;
    line.expect_no_answers();
    line.prove(&lease).await;
}

/// The call of acquire that granted it died before it could tell anybody.
async fn what_was_granted_at_once_and_never_told_is_taken_back<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/at once and untold");
    line.calls.lose(&line.token("a"), Lost::Request, 2);
    refused!(line.ask("a", "a").await, Unavailable);
    line.join("b").await;
    line.shows("a", Receipt::Missing { waits: true });
    line.pass(STALE + MARGIN);
    line.sweep().await;
    line.expect_no_answers();
    line.shows("a", MISSING);
    line.sweep().await;
    line.turn_of("b");
    // Its workflow repeats the call.
    let line = QueueCase::new(bench, "line/at once and repeated");
    line.calls.lose(&line.token("a"), Lost::Request, 2);
    refused!(line.ask("a", "a").await, Unavailable);
    line.pass(MS);
    let turn = line.acquires("a", "a again").await;
    assert_eq!(turn.output["grant"], "replayed");
    assert_eq!(line.waiter("a").await, None);
    line.prove(&turn.lease).await;
}

async fn an_ended_execution_that_never_knew_keeps_nothing<B: Bench>(bench: &B) {
    let known = [(Receipt::Shown, true), (MISSING, false)];
    // Kept for a redrive, or for what may be at work.
    let keeps = [(100 * TTL, true), (Duration::ZERO, false)];
    for ((receipt, kept), (keep, all_answered)) in known
        .into_iter()
        .flat_map(|one| keeps.map(|keep| (one, keep)))
    {
        let line = QueueCase::new(bench, &format!("line/kept {kept} {all_answered}"));
        let holder = line.lease("holder").await;
        let mut asked = line.request("a");
        asked.lifetime = crate::Lifetime::Execution {
            keep: crate::KeepTime::new(keep).expect("valid"),
        };
        let queued = line.leases.acquire_queued(asked, line.queue("a", WAIT));
        queued.await.expect("in line");
        line.join("b").await;
        line.release(&holder).await;
        line.turn_of("a");
        line.shows("a", receipt);
        line.is("a", over(&line, all_answered));
        line.pass(STALE + MARGIN);
        line.sweep().await;
        if kept {
            line.expect_no_answers();
        } else {
            line.turn_of("b");
        }
    }
}

async fn a_holder_is_seen_as_any_other<B: Bench>(bench: &B) {
    let (line, turn) = QueueCase::handed_over(bench, "line/seen", &["seen a", "seen b"]).await;
    let key = &line.address.key;
    let holder = &turn.lease.holder;
    let (first, permits) = line.inspected().await;
    assert!(permits.is_empty());
    assert_eq!((first.state, first.waiting), (LeaseState::Held, 1));
    assert_eq!(first.previous.expect("a grant").holder.as_str(), "holder");
    assert_eq!(first.lease.fencing_token, turn.lease.fencing_token);
    let held = first.lease.held.as_ref().expect("a holder");
    assert_eq!(&held.holder, holder);
    assert_eq!(held.expires_at(), None);
    let text = serde_json::to_string(&first.lease).expect("JSON");
    assert!(!text.contains(turn.lease.lease_id.expose()), "{text}");

    // The holder has a lease; the next one has none.
    let listed = line.leases.held_by(holder, 100, None).await;
    assert_eq!(
        listed.expect("a list").leases,
        std::slice::from_ref(&first.lease)
    );
    let behind = make::execution("seen b");
    let listed = line.leases.held_by(&behind, 100, None).await;
    assert_eq!(listed.expect("a list").leases, []);
    let everything = line.leases.list(10_000, None).await.expect("a list");
    let of_key = everything.leases.iter().filter(|view| view.key == *key);
    assert!(of_key.eq([&first.lease]));
    let held = line.contention("x").await.held;
    assert_eq!(
        (&held.holder, held.waiting, held.by_you),
        (holder, 1, false)
    );
    assert_eq!(line.release(&turn.lease).await, ReleaseOutcome::Released);
}
