//! How a waiter learns of its grant, and what happens if it may not have learned of it.

use std::time::Duration;

use super::{
    Lost, MARGIN, MS, STALE, TTL, make, plus,
    queue::{QueueCase, WAIT},
};
use leasehold::{
    AcquireAll, Execution, LeaseState, Queued, Receipt, Redrives, ReleaseOutcome, Settings, Stands,
    SweepBounds,
    store::{Operations as _, Renewed},
};

const MISSING: Receipt = Receipt::Missing { waits: false };

impl QueueCase {
    fn shows(&self, who: &str, receipt: Receipt) {
        let holder = make::execution(who);
        self.calls.set_receipt(holder.as_str(), receipt);
    }
}

#[tokio::test]
async fn lost_call_costs_no_grant() {
    for (n, lost) in [(Lost::Response, 1), (Lost::Response, 2), (Lost::Request, 1)]
        .into_iter()
        .enumerate()
    {
        let key = format!("queue/lost call {n}");
        let (case, _) = QueueCase::released_with(&key, lost).await;
        let lease = case.turn_of("a").lease;
        case.sweep().await;
        case.expect_no_answers();
        case.prove(&lease).await;
        case.has_waiting(&["b"]).await;
    }
}

#[tokio::test]
async fn sweep_tells_possibly_untold_waiter() {
    let both = (Lost::Request, 2);
    let (case, holder) = QueueCase::released_with("queue/untold", both).await;
    case.expect_no_answers();
    assert!(case.waiter("a").await.is_some(), "it may not know");
    assert!(!case.hand_over().await, "it is held");
    case.sweep().await;
    case.expect_no_answers();
    case.swept_later().await;
    let turn = case.turn_of("a");
    assert_eq!(turn.lease.fencing_token, plus(holder.fencing_token, 1));
    assert_eq!(turn.output["grant"], "new");
    assert_eq!(case.waiter("a").await, None);
    case.prove(&turn.lease).await;
    // Freed by a client that cannot tell anybody.
    case.release_silently(&turn.lease).await;
    case.expect_no_answers();
    case.sweep().await;
    case.turn_of("b");
}

/// Otherwise it would be another caller, so that neither could know that its call was the only one.
#[tokio::test]
async fn sweep_leaves_new_grant_to_its_writer() {
    let (case, holder) = QueueCase::held("queue/new grant", &["a", "b"]).await;
    let (leases, token) = (case.leases.clone(), case.token("a"));
    case.calls.expire_token(&token);
    case.calls.before(&token, async move {
        drop(leases.sweep(SweepBounds::Schedule).await.expect("swept"));
    });
    case.release(&holder).await;
    case.turn_of("b");
}

#[tokio::test]
async fn asking_again_uses_new_token() {
    let both = (Lost::Request, 2);
    let (case, _) = QueueCase::released_with("queue/asks again", both).await;
    case.pass(MS);
    let turn = case.acquires("a", "a again").await;
    assert_eq!(turn.output["grant"], "replayed");
    assert_eq!(case.waiter("a").await, None);
    case.sweep().await;
    case.expect_no_answers();
    // One that still waits, on a key that was freed by a client that cannot tell anybody, is granted it.
    let (case, holder) = QueueCase::held("queue/asks on", &["a"]).await;
    case.release_silently(&holder).await;
    case.pass(MS);
    case.ask("a", "a again").await.expect("an answer");
    case.turn_of("a again");
    // Without a token, the response tells it.
    let both = (Lost::Request, 2);
    let (case, _) = QueueCase::released_with("queue/asks otherwise", both).await;
    let asked = case.leases.acquire(case.request("a")).await;
    let lease = asked.expect("an answer").granted().expect("its own").lease;
    case.shows("a", MISSING);
    case.calls.expire_token(&case.token("a"));
    case.pass(STALE + MARGIN + STALE);
    case.sweep().await;
    case.prove(&lease).await;
    // So does another request of the same holder, by its own token.
    let (case, _) = QueueCase::released_with("queue/asks reentrantly", both).await;
    let other = case
        .request("a")
        .request_id(make::request_id("another"))
        .reentrant();
    let asked = case.leases.acquire_queued(other, case.queue("x", WAIT));
    assert_eq!(asked.await.expect("an answer"), Queued::Acquired);
    let lease = case.turn_of("x").lease;
    case.prove(&lease).await;
}

/// Between the read of its item and the call, so that it is told by its old token first.
#[tokio::test]
async fn asking_just_before_uses_new_token() {
    let (case, holder) = QueueCase::held("queue/asked just before", &["a", "b"]).await;
    let old = case.waiter("a").await.expect("an item");
    case.pass(MS);
    case.calls.expire_token(&case.token("a"));
    let new = leasehold::waiter::TokenItem {
        task_token: case.queue("a again", WAIT).task_token,
        ..old.clone()
    };
    let (leases, key) = (case.leases.clone(), case.address.key.clone());
    case.calls.before(&case.token("a"), async move {
        let limit = Duration::from_secs(1);
        let read = (&new, Some(&old.task_token));
        let stored = leases.store().update_task_token(&key, read, limit);
        assert!(matches!(stored.await, Ok(Renewed::Done(_))));
    });
    case.release(&holder).await;
    case.turn_of("a again");
    case.has_waiting(&["b"]).await;
}

/// Between the grant and the call of the one that wrote it, whose token is dead or answered by then.
#[tokio::test]
async fn grant_told_by_others_stays() {
    for by in [
        "sweep",
        "acquire",
        "another attempt",
        "another request",
        "a set",
        "a set with others",
    ] {
        let key = format!("queue/told by {by}");
        let (case, holder) = QueueCase::held(&key, &["a", "b"]).await;
        let other = case.request("a").request_id(make::request_id("other"));
        let (leases, own) = (case.leases.clone(), case.request("a"));
        let (key, queue) = (case.address.key.clone(), case.queue("x", WAIT));
        let (calls, token) = (case.calls.clone(), case.token("a"));
        let clock = case.clock.clone();
        case.calls.before(&case.token("a"), async move {
            match by {
                "sweep" => {
                    clock.advance(Settings::default().first_call);
                    drop(leases.sweep(SweepBounds::Schedule).await.expect("swept"));
                }
                "acquire" => {
                    let asked = leases.acquire(own).await;
                    drop(asked.expect("an answer").granted().expect("its own"));
                }
                "another attempt" | "another request" => {
                    let is_own = by == "another attempt";
                    let asking = if is_own { own } else { other.reentrant() };
                    let asked = leases.acquire_queued(asking, queue).await;
                    assert_eq!(asked.expect("an answer"), Queued::Acquired);
                }
                _ => {
                    let beside = make::key(format!("{key}, and beside"));
                    let beside = (by != "a set").then_some(beside);
                    let keys = make::keys([key].into_iter().chain(beside).collect());
                    let set = AcquireAll::new(keys, other.holder, other.lifetime);
                    let asked = leases.acquire_all(set.reentrant()).await;
                    drop(asked.expect("an answer").granted().expect("its own"));
                }
            }
            calls.expire_token(&token);
        });
        case.release(&holder).await;
        let row = case.row().await;
        assert_eq!(row.request, QueueCase::digest("a"), "{by}");
        assert!(row.holding().is_some(), "{by}");
        drop(case.answers());
    }
}

#[tokio::test]
async fn dead_token_is_looked_up_later() {
    let both = (Lost::Request, 2);
    let (case, holder) = QueueCase::released_with("queue/dead token", both).await;
    // Its task times out, and its execution runs on without the lease.
    case.calls.expire_token(&case.token("a"));
    case.shows("a", MISSING);
    case.swept_later().await;
    case.expect_no_answers();
    let row = case.row().await;
    assert!(row.holding().is_some(), "somebody may have told it before");
    assert_eq!(case.waiter("a").await, None, "nobody can tell it any more");
    case.pass((STALE + MARGIN).saturating_sub(MS));
    case.sweep().await;
    case.expect_no_answers();
    case.pass(MS);
    case.sweep().await;
    let turn = case.turn_of("b");
    assert_eq!(turn.lease.fencing_token, plus(holder.fencing_token, 2));
    assert_eq!(turn.output["previous"]["holder"], "holder");

    // Whose history cannot be read keeps it until the execution ends.
    let (case, _) = QueueCase::released_with("queue/unread", both).await;
    case.calls.expire_token(&case.token("a"));
    case.shows("a", Receipt::Unreadable);
    for _ in 0..3 {
        case.sweep().await;
        case.pass(STALE + MARGIN);
    }
    case.expect_no_answers();
    case.is("a", over(&case, true));
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.turn_of("b");
}

/// A second, re-entrant request of the same execution is sent the lease too, and its token is dead as well: that the first one
/// was found dead stays known, although its item is gone.
#[tokio::test]
async fn other_request_keeps_token_dead() {
    let both = (Lost::Request, 2);
    let (case, _) = QueueCase::released_with("queue/dead twice", both).await;
    case.calls.expire_token(&case.token("a"));
    case.shows("a", MISSING);
    case.sweep().await;
    case.calls.expire_token(&case.token("x"));
    let other = case.request("a").request_id(make::request_id("other"));
    let asked = case
        .leases
        .acquire_queued(other.reentrant(), case.queue("x", WAIT));
    refused!(asked.await, Unavailable);
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.expect_no_answers();
    // As late as this one may have been told.
    case.pass(Duration::from_mins(1));
    case.sweep().await;
    case.turn_of("b");
}

fn over(case: &QueueCase, all_answered: bool) -> Execution {
    Execution::Ended {
        stopped_at: case.now(),
        redrivable: true,
        all_answered,
    }
}

#[tokio::test]
async fn holder_showing_receipt_keeps_grant() {
    let response = (Lost::Response, 2);
    let (case, _) = QueueCase::released_with("queue/knows", response).await;
    let lease = case.turn_of("a").lease;
    case.shows("a", Receipt::Shown);
    case.swept_later().await;
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.expect_no_answers();
    let row = case.row().await;
    let held = row.holding().expect("held");
    assert_eq!((held.notification, &held.lease_id), (None, &lease.lease_id));
    assert_eq!(
        row.to_item().keys().find(|name| name.contains("notif")),
        None
    );
    // A proof shows it as well.
    let (case, _) = QueueCase::released_with("queue/proves", response).await;
    let lease = case.turn_of("a").lease;
    case.swept_later().await;
    case.prove(&lease).await;
    case.shows("a", MISSING);
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.expect_no_answers();
    case.prove(&lease).await;
}

/// The call of acquire that granted it died before it could tell anybody.
#[tokio::test]
async fn untold_immediate_grant_is_taken_back() {
    let case = QueueCase::new("queue/at once and untold");
    case.calls.lose(&case.token("a"), Lost::Request, 2);
    refused!(case.ask("a", "a").await, Unavailable);
    case.join("b").await;
    case.shows("a", Receipt::Missing { waits: true });
    case.pass(STALE + MARGIN);
    case.sweep().await;
    case.expect_no_answers();
    case.shows("a", MISSING);
    case.sweep().await;
    case.turn_of("b");
    // It was redriven since, and waits for what it has.
    let case = QueueCase::new("queue/at once and redriven");
    case.calls.lose(&case.token("a"), Lost::Request, 2);
    refused!(case.ask("a", "a").await, Unavailable);
    case.join("b").await;
    case.shows("a", Receipt::Missing { waits: true });
    let redrives = Redrives {
        stands: Stands::Runs,
        count: 1,
        at: Some(case.now()),
    };
    case.calls
        .set_redrives(make::execution("a").as_str(), redrives);
    case.pass(STALE + MARGIN);
    case.sweep().await;
    // Whoever is to tell it may do so within a minute.
    case.expect_no_answers();
    case.pass(Duration::from_mins(1));
    case.sweep().await;
    case.turn_of("b");
    // Its workflow repeats the call.
    let case = QueueCase::new("queue/at once and repeated");
    case.calls.lose(&case.token("a"), Lost::Request, 2);
    refused!(case.ask("a", "a").await, Unavailable);
    case.pass(MS);
    let turn = case.acquires("a", "a again").await;
    assert_eq!(turn.output["grant"], "replayed");
    assert_eq!(case.waiter("a").await, None);
    case.prove(&turn.lease).await;
}

#[tokio::test]
async fn ended_execution_never_told_keeps_nothing() {
    let known = [(Receipt::Shown, true), (MISSING, false)];
    // Kept for a redrive, or for what may be at work.
    let keeps = [(100 * TTL, true), (Duration::ZERO, false)];
    for ((receipt, kept), (keep, all_answered)) in known
        .into_iter()
        .flat_map(|one| keeps.map(|keep| (one, keep)))
    {
        let case = QueueCase::new(&format!("queue/kept {kept} {all_answered}"));
        let holder = case.lease("holder").await;
        let mut asked = case.request("a");
        asked.lifetime = leasehold::Lifetime::Execution {
            keep: leasehold::KeepTime::new(keep).expect("valid"),
        };
        let queued = case.leases.acquire_queued(asked, case.queue("a", WAIT));
        queued.await.expect("queued");
        case.join("b").await;
        case.release(&holder).await;
        case.turn_of("a");
        case.shows("a", receipt);
        case.is("a", over(&case, all_answered));
        case.pass(STALE + MARGIN);
        case.sweep().await;
        if kept {
            case.expect_no_answers();
        } else {
            case.turn_of("b");
        }
    }
}

#[tokio::test]
async fn holder_from_queue_looks_ordinary() {
    let (case, turn) = QueueCase::handed_over("queue/seen", &["seen a", "seen b"]).await;
    let key = &case.address.key;
    let holder = &turn.lease.holder;
    let (first, permits) = case.inspected().await;
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
    let listed = case.leases.held_by(holder, 100, None).await;
    assert_eq!(
        listed.expect("a list").leases,
        std::slice::from_ref(&first.lease)
    );
    let behind = make::execution("seen b");
    let listed = case.leases.held_by(&behind, 100, None).await;
    assert_eq!(listed.expect("a list").leases, []);
    let everything = case.leases.list(10_000, None).await.expect("a list");
    let of_key = everything.leases.iter().filter(|view| view.key == *key);
    assert!(of_key.eq([&first.lease]));
    let held = case.contention("x").await.held;
    assert_eq!(
        (&held.holder, held.waiting, held.by_you),
        (holder, 1, false)
    );
    assert_eq!(case.release(&turn.lease).await, ReleaseOutcome::Released);
}
