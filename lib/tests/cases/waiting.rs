//! Joining the queue, and its effect on others.

use serde_json::{json, to_value};

use super::observing::reentered;
use super::{
    MS, TTL, contention, grant, invalid, make,
    queue::{QueueCase, WAIT},
    with,
};
use leasehold::{
    AcquireAll, AcquiredAll, Contention, Ended, Error, Holder, Queued, ReleaseOutcome, Settings,
    SweepBounds,
    row::Row,
    store::{Applied, Joined, Operations as _},
    transition::{Change, Join, JoinRule, Leave, LeaveReason, TakeoverRule},
    waiter::TokenItem,
};

#[tokio::test]
async fn free_key_is_granted_at_once() {
    let case = QueueCase::new("queue/at once");
    let mut before: Option<leasehold::Lease> = None;
    for who in ["a", "b"] {
        let turn = case.acquires(who, who).await;
        // Exactly the result of acquire for the same request.
        let asked = case.leases.acquire(case.request(who)).await;
        let mut answer = to_value(asked.expect("an answer")).expect("JSON");
        answer["grant"] = json!("new");
        // It shows that the holder knows of its grant, which is written.
        answer["lease"]["version"] = json!(turn.lease.version);
        assert_eq!(turn.output, answer);
        let previous = before.map(|lease| {
            json!({
                "holder": lease.holder,
                "fencing_token": lease.fencing_token,
                "ended": Ended::Released,
            })
        });
        assert_eq!(turn.output["previous"], json!(previous));
        assert_eq!(turn.lease.deadline, None);
        assert!(case.waiter(who).await.is_none(), "it does not wait");

        // On a repeated call, the other token gets the same lease.
        let again = case.acquires(who, "another token").await;
        assert_eq!(again.lease.lease_id, turn.lease.lease_id);
        assert_eq!(again.output["grant"], "replayed");
        case.release(&turn.lease).await;
        case.calls.renew_token("queue/at once: another token");
        before = Some(turn.lease);
    }
    // A holder does not wait for its own lease, and gives nothing back that it had before.
    let case = QueueCase::new("queue/reentrant");
    let lease = grant(&case.leases, case.request("a")).await.lease;
    let other = case
        .request("a")
        .request_id(make::request_id("another"))
        .reentrant();
    let asked = case.leases.acquire_queued(other, case.queue("a", WAIT));
    assert_eq!(asked.await.expect("an answer"), Queued::Acquired);
    let inner = case.turn().lease;
    assert_eq!(inner, reentered(&lease));
    assert_eq!(case.release(&inner).await, ReleaseOutcome::Kept);
    // By a request that does not say so it would wait until its own end.
    let other = case.request("a").request_id(make::request_id("plain"));
    let asked = case.leases.acquire_queued(other, case.queue("a", WAIT));
    match asked.await {
        Err(Error::Held(contention)) => assert!(contention.held.by_you),
        other => panic!("{other:?}"),
    }
    case.expect_no_answers();
    case.has_waiting(&[]).await;
    // Nobody waits for a lease that has expired by the clock.
    case.release(&lease).await;
    case.lease("short").await;
    case.expire();
    let turn = case.acquires("b", "b").await;
    assert_eq!(turn.output["grant"], "takeover");
    assert_eq!(turn.output["previous"]["ended"], "expired");
}

#[tokio::test]
async fn what_is_held_is_waited_for() {
    let case = QueueCase::new("queue/held");
    case.lease("holder").await;
    let before = case.row().await;
    for (n, who) in ["a", "b", "c"].into_iter().enumerate() {
        case.pass(MS);
        assert_eq!(case.join(who).await, case.now().as_millis());
        assert_eq!(case.row().await.waiting().len(), n + 1);
        let waiter = case.waiter(who).await.expect("an item");
        assert_eq!(waiter.request.holder, make::execution(who));
        assert_eq!(waiter.task_token.expose(), case.token(who));
        assert_eq!(waiter.deadline, case.now().plus(WAIT));
        assert!(waiter.purge_at > waiter.deadline.as_millis() / 1000);
    }
    case.expect_no_answers();
    case.has_waiting(&["a", "b", "c"]).await;
    // Observers of the holder do not mistake new waiters for an extend.
    let row = case.row().await;
    let queue = row.queue.clone();
    assert_eq!(Row { queue, ..before }, row);
}

#[tokio::test]
async fn asking_again_keeps_place() {
    let (case, lease) = QueueCase::held("queue/repeated", &["a", "b"]).await;
    let first = case.waiter("a").await.expect("an item");
    for token in ["a 2", "a 3"] {
        case.pass(TTL / 10);
        let again = case.ask("a", token).await.expect("an answer");
        let ticket = first.ticket;
        assert_eq!(again, Queued::Queued { ticket });
        let waiter = case.waiter("a").await.expect("an item");
        assert_eq!(waiter.task_token.expose(), case.token(token));
        assert_eq!(
            waiter.deadline, first.deadline,
            "it waits since the first call"
        );
    }
    case.has_waiting(&["a", "b"]).await;
    case.release(&lease).await;
    case.turn_of("a 3");

    // It was granted the key, and its workflow asks once more, with another token.
    let turn = case.acquires("a", "a 4").await;
    let lease = case.prove(&turn.lease).await;
    // And again once it has shown that it knows.
    let again = case.ask("a", "a 5").await.expect("an answer");
    assert_eq!(again, Queued::Acquired);
    let turn = case.turn();
    assert_eq!((turn.who.as_str(), &turn.lease), ("a 5", &lease));
    case.has_waiting(&["b"]).await;
}

/// Of two attempts of a task one waits. A write of the other, delayed on its way, finds another token than was read.
#[tokio::test]
async fn overtaken_call_does_not_rejoin() {
    let (case, _) = QueueCase::held("queue/overtaken", &["a"]).await;
    let store = case.leases.store();
    let (limit, request) = (std::time::Duration::from_secs(1), QueueCase::digest("a"));
    let first = case.waiter("a").await.expect("an item");
    let leave = Change::Leave(Leave {
        request: request.clone(),
        place: 0,
        because: LeaveReason::GaveUp,
    });
    let left = store.apply(&case.address, &leave, limit).await;
    assert!(matches!(left, Ok(Applied::Done { .. })), "{left:?}");
    let join = Change::Join(Join {
        request,
        rule: JoinRule::IfTaken(TakeoverRule::by_clock(case.now())),
        cap: 1,
    });
    let asking = |token: &str| TokenItem {
        task_token: case.queue(token, WAIT).task_token,
        ..first.clone()
    };
    let (late, again) = (asking("late"), asking("again"));
    for read in [None, Some(&late.task_token)] {
        let joined = store.put_token(&case.address, &join, (&late, read), limit);
        let found = Joined::Found(Some(first.clone()));
        assert_eq!(joined.await.expect("an answer"), found);
        case.has_waiting(&[]).await;
        assert_eq!(case.waiter("a").await, Some(first.clone()));
    }
    let read = Some(&first.task_token);
    let joined = store.put_token(&case.address, &join, (&again, read), limit);
    assert_eq!(joined.await.expect("an answer"), Joined::Done);
    assert_eq!(case.waiter("a").await, Some(again));
}

/// Its message was delivered late: by then its attempt is over, and another waits.
#[tokio::test]
async fn earlier_call_takes_no_place() {
    let (case, lease) = QueueCase::held("queue/earlier", &["a"]).await;
    case.calls.expire_token(&case.token("a 0"));
    case.pass(TTL / 10);
    refused!(case.ask("a", "a 0").await, Unavailable);
    case.release(&lease).await;
    case.turn_of("a");
}

/// It did wait when it asked. Before it writes its token a later attempt does, and its own is over.
#[tokio::test]
async fn latest_token_is_notified() {
    let (case, lease) = QueueCase::held("queue/latest", &["a"]).await;
    let (leases, calls, second) = (case.leases.clone(), case.calls.clone(), case.token("a 2"));
    let (asks, third) = (case.request("a"), case.queue("a 3", WAIT));
    case.calls.before(&case.token("a 2"), async move {
        leases.acquire_queued(asks, third).await.expect("it waits");
        calls.expire_token(&second);
    });
    refused!(case.ask("a", "a 2").await, Unavailable);
    case.release(&lease).await;
    case.turn_of("a 3");
}

/// Sweep removes it from the queue as it asks again, so that it must not believe that it waits.
#[tokio::test]
async fn removed_while_asking_may_rejoin() {
    let (case, lease) = QueueCase::held("queue/removed", &[]).await;
    case.join_for("a", MS).await;
    case.pass(MS);
    let leases = case.leases.clone();
    case.calls.before(&case.token("a 2"), async move {
        drop(leases.sweep(SweepBounds::Schedule).await.expect("swept"));
    });
    refused!(case.ask("a", "a 2").await, Unavailable);
    assert_eq!(case.answers().len(), 1, "of its first wait");
    case.ask("a", "a 3").await.expect("it waits");
    case.release(&lease).await;
    case.turn_of("a 3");
}

#[tokio::test]
async fn nobody_passes_those_who_wait() {
    let (case, lease) = QueueCase::held("queue/no passing", &["a", "b"]).await;
    let version = lease.version;
    let held_by = async |waiting: u64, holder: &Holder| {
        let plain = case.case.request("x", "by x");
        let observing = plain.clone().observed_version(version);
        let several = plain.clone().permits(make::permits(1));
        for request in [plain, observing, several] {
            let Contention { held, .. } = contention(&case.leases, request).await;
            assert_eq!((held.waiting, &held.holder), (waiting, holder));
            assert_eq!(held.key, case.address.key);
        }
        let other = make::key("queue/no passing/beside");
        let keys = make::keys(vec![other, case.address.key.clone()]);
        let holder_of_set = make::holder("x");
        let set = AcquireAll::new(keys, holder_of_set, make::ttl(TTL));
        let answer = case.leases.acquire_all(set).await.expect("an answer");
        let AcquiredAll::Held(Contention { held, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!((held.waiting, &held.holder), (waiting, holder));
    };
    held_by(2, &lease.holder).await;
    case.expire();
    held_by(2, &lease.holder).await;
    // A new request joins behind the others.
    case.join("c").await;
    held_by(3, &lease.holder).await;
    case.release(&lease).await;
    let lease = case.turn().lease;
    held_by(2, &make::execution("a")).await;
    case.pass(WAIT / 2);
    held_by(2, &make::execution("a")).await;
    // Freed by a client that cannot tell anybody.
    case.release_silently(&lease).await;
    case.expect_no_answers();
    held_by(2, &make::execution("b")).await;
    assert!(case.hand_over().await);
    case.turn_of("b");
}

#[tokio::test]
async fn a_full_queue_takes_nobody() {
    let with_cap = |key, queue_cap| {
        let settings = with(Settings::default(), |settings| {
            settings.queue_cap = queue_cap;
        });
        QueueCase::with(key, settings)
    };
    let case = with_cap("queue/full", 2);
    let lease = case.lease("holder").await;
    case.join("a").await;
    case.join("b").await;
    refused!(case.ask("c", "c").await, QueueFull);
    assert!(case.waiter("c").await.is_none());
    case.has_waiting(&["a", "b"]).await;
    // Requests that are in the queue stay there.
    case.join("b").await;
    case.release(&lease).await;
    case.join("c").await;
    let full = case.ask("d", "d").await;
    assert!(matches!(full, Err(Error::QueueFull { waiting: 2, .. })));
    // A queue with a cap of 0 still grants a free key.
    let case = with_cap("queue/none", 0);
    case.acquires("a", "a").await;
    let full = case.ask("b", "b").await;
    assert!(matches!(full, Err(Error::QueueFull { waiting: 0, .. })));
}

#[tokio::test]
async fn nobody_waits_for_frozen_or_consumed() {
    let case = QueueCase::new("queue/consumed");
    let lease = grant(&case.leases, case.request("a")).await.lease;
    case.release(&lease).await;
    case.lease("holder").await;
    refused!(case.ask("a", "a").await, Consumed);
    case.join("b").await;
    case.freeze().await;
    refused!(case.ask("c", "c").await, Frozen);
    case.join("b").await;
    let reentrant = case.request("b").reentrant();
    let queue = case.queue("b: another token", WAIT);
    let again = case.leases.acquire_queued(reentrant, queue).await;
    let again = again.expect("it waits already");
    assert!(matches!(again, Queued::Queued { .. }), "{again:?}");
    case.expect_no_answers();
    case.has_waiting(&["b"]).await;
}

#[tokio::test]
async fn what_has_no_queue_is_refused() {
    let case = QueueCase::new("queue/invalid");
    case.lease("holder").await;
    let observing = case.request("a").observed_version(case.row().await.version);
    let mut timed = case.request("a");
    timed.lifetime = make::ttl(TTL).into();
    let mut a_process = case.request("a");
    a_process.holder = make::holder("a process");
    for (request, named) in [
        (timed, "ttl_seconds"),
        (a_process, "holder"),
        (observing, "observed_version"),
    ] {
        let answer = case.leases.acquire_queued(request, case.queue("a", WAIT));
        invalid(answer.await, named);
    }
    case.has_waiting(&[]).await;
}
