//! Joining the queue, and its effect on others.

use serde_json::{json, to_value};

use super::{
    Bench, MS, TTL, contention, grant, invalid, make,
    queue::{QueueCase, WAIT},
};
use crate::{
    AcquireAll, AcquiredAll, Contention, Ended, Error, Holder, Queued, Settings,
    row::Row,
    store::{Joined, Store as _},
    transition::{Join, TakeoverRule},
    waiter::Waiter,
};

pub(super) async fn all<B: Bench>(bench: &B) {
    what_is_free_is_granted_and_told_at_once(bench).await;
    what_is_held_is_waited_for(bench).await;
    a_place_in_line_is_kept_however_often_it_is_asked_for(bench).await;
    a_call_that_was_overtaken_does_not_come_back_into_the_line(bench).await;
    nobody_passes_those_who_wait(bench).await;
    a_line_that_is_full_takes_nobody(bench).await;
    nobody_waits_for_what_is_frozen_or_was_had_before(bench).await;
    what_makes_no_sense_in_line_is_refused(bench).await;
}

async fn what_is_free_is_granted_and_told_at_once<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/at once");
    let mut before: Option<crate::Lease> = None;
    for who in ["a", "b"] {
        let turn = line.acquires(who, who).await;
        // Exactly the result of acquire for the same request.
        let asked = line.leases.acquire(line.request(who)).await;
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
        assert!(line.waiter(who).await.is_none(), "it does not wait");

        // On a repeated call, the other token gets the same lease.
        let again = line.acquires(who, "another token").await;
        assert_eq!(again.lease.lease_id, turn.lease.lease_id);
        assert_eq!(again.output["grant"], "replayed");
        line.release(&turn.lease).await;
        line.calls.renew_token("line/at once: another token");
        before = Some(turn.lease);
    }
    // A holder does not wait for its own lease.
    let line = QueueCase::new(bench, "line/reentrant");
    let lease = grant(&line.leases, line.request("a")).await.lease;
    let other = line
        .request("a")
        .request_id(make::request_id("another"))
        .reentrant();
    let asked = line.leases.acquire_queued(other, line.queue("a", WAIT));
    assert_eq!(asked.await.expect("an answer"), Queued::Acquired);
    assert_eq!(line.turn().lease, lease);
    line.has_waiting(&[]).await;
    // Nobody waits for a lease that has expired by the clock.
    line.release(&lease).await;
    line.lease("short").await;
    line.expire();
    let turn = line.acquires("b", "b").await;
    assert_eq!(turn.output["grant"], "takeover");
    assert_eq!(turn.output["previous"]["ended"], "expired");
}

async fn what_is_held_is_waited_for<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/held");
    line.lease("holder").await;
    let before = line.row().await;
    for (n, who) in ["a", "b", "c"].into_iter().enumerate() {
        line.pass(MS);
        assert_eq!(line.join(who).await, line.now().as_millis());
        assert_eq!(line.row().await.waiting().len(), n + 1);
        let waiter = line.waiter(who).await.expect("an item");
        assert_eq!(waiter.holder, make::execution(who));
        assert_eq!(waiter.task_token.expose(), line.token(who));
        assert_eq!(waiter.deadline, line.now().plus(WAIT));
        assert!(waiter.purge_at > waiter.deadline.as_millis() / 1000);
    }
    line.expect_no_answers();
    line.has_waiting(&["a", "b", "c"]).await;
    // Observers of the holder do not mistake new waiters for an extend.
    let row = line.row().await;
    let queue = row.queue.clone();
    assert_eq!(Row { queue, ..before }, row);
}

async fn a_place_in_line_is_kept_however_often_it_is_asked_for<B: Bench>(bench: &B) {
    let (line, lease) = QueueCase::held(bench, "line/repeated", &["a", "b"]).await;
    let first = line.waiter("a").await.expect("an item");
    for token in ["a 2", "a 3"] {
        line.pass(TTL / 10);
        let again = line.ask("a", token).await.expect("an answer");
        let ticket = first.ticket;
        assert_eq!(again, Queued::Queued { ticket });
        let waiter = line.waiter("a").await.expect("an item");
        assert_eq!(waiter.task_token.expose(), line.token(token));
        assert_eq!(
            waiter.deadline, first.deadline,
            "it waits since the first call"
        );
    }
    line.has_waiting(&["a", "b"]).await;
    line.release(&lease).await;
    line.turn_of("a 3");

    // It was granted the key, and its workflow asks once more, with another token.
    let turn = line.acquires("a", "a 4").await;
    let lease = line.prove(&turn.lease).await;
    // And again once it has shown that it knows.
    let again = line.ask("a", "a 5").await.expect("an answer");
    assert_eq!(again, Queued::Acquired);
    let turn = line.turn();
    assert_eq!((turn.who.as_str(), &turn.lease), ("a 5", &lease));
    line.has_waiting(&["b"]).await;
}

/// An older call of a waiter, delayed on its way, would store a token with which nobody waits.
async fn a_call_that_was_overtaken_does_not_come_back_into_the_line<B: Bench>(bench: &B) {
    let (line, _) = QueueCase::held(bench, "line/overtaken", &["a"]).await;
    let (store, key) = (line.leases.store(), &line.address.key);
    let (limit, request) = (
        std::time::Duration::from_secs(1),
        QueueCase::<B>::digest("a"),
    );
    let first = line.waiter("a").await.expect("an item");
    let row = line.row().await;
    let left = line.leases.leave_from(key, &request, &row).await;
    assert!(left.expect("an answer"));
    let join = Join {
        request,
        over: TakeoverRule::ExpiredBy(line.now()),
        cap: 1,
    };
    let asking = |asked_at, token: &str| Waiter {
        asked_at,
        task_token: line.queue(token, WAIT).task_token,
        ..first.clone()
    };
    let late = asking(first.asked_at.minus(MS), "late");
    let joined = store.join(key, &join, &late, limit).await;
    assert_eq!(joined.expect("an answer"), Joined::SupersededByLaterCall);
    line.has_waiting(&[]).await;
    assert_eq!(line.waiter("a").await, Some(first.clone()));
    let again = asking(first.asked_at.plus(MS), "again");
    let joined = store.join(key, &join, &again, limit).await;
    assert_eq!(joined.expect("an answer"), Joined::Done);
    assert_eq!(line.waiter("a").await, Some(again));
}

async fn nobody_passes_those_who_wait<B: Bench>(bench: &B) {
    let (line, lease) = QueueCase::held(bench, "line/no passing", &["a", "b"]).await;
    let version = lease.version;
    let in_the_way = async |waiting: u64, holder: &Holder| {
        let plain = line.case.request("x", "by x");
        let observing = plain.clone().observed_version(version);
        let several = plain.clone().permits(make::permits(1));
        for request in [plain, observing, several] {
            let Contention { held, .. } = contention(&line.leases, request).await;
            assert_eq!((held.waiting, &held.holder), (waiting, holder));
            assert_eq!(held.key, line.address.key);
        }
        let other = make::key("line/no passing/beside");
        let keys = make::keys(vec![other, line.address.key.clone()]);
        let holder_of_set = make::holder("x");
        let set = AcquireAll::new(keys, holder_of_set, make::ttl(TTL));
        let answer = line.leases.acquire_all(set).await.expect("an answer");
        let AcquiredAll::Held(Contention { held, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!((held.waiting, &held.holder), (waiting, holder));
    };
    in_the_way(2, &lease.holder).await;
    line.expire();
    in_the_way(2, &lease.holder).await;
    // A new request joins behind the others.
    line.join("c").await;
    in_the_way(3, &lease.holder).await;
    line.release(&lease).await;
    let lease = line.turn().lease;
    in_the_way(2, &make::execution("a")).await;
    line.pass(WAIT / 2);
    in_the_way(2, &make::execution("a")).await;
    // Freed by a client that cannot tell anybody.
    line.release_silently(&lease).await;
    line.expect_no_answers();
    in_the_way(2, &make::execution("b")).await;
    assert!(line.hand_over().await);
    line.turn_of("b");
}

async fn a_line_that_is_full_takes_nobody<B: Bench>(bench: &B) {
    let with_cap = |key, queue_cap| {
        let settings = Settings {
            queue_cap,
            ..Settings::default()
        };
        QueueCase::with(bench, key, settings)
    };
    let line = with_cap("line/full", 2);
    let lease = line.lease("holder").await;
    line.join("a").await;
    line.join("b").await;
    refused!(line.ask("c", "c").await, QueueFull);
    assert!(line.waiter("c").await.is_none());
    line.has_waiting(&["a", "b"]).await;
    // Requests that are in the queue stay there.
    line.join("b").await;
    line.release(&lease).await;
    line.join("c").await;
    let full = line.ask("d", "d").await;
    assert!(matches!(full, Err(Error::QueueFull { waiting: 2, .. })));
    // A queue with a cap of 0 still grants a free key.
    let line = with_cap("line/none", 0);
    line.acquires("a", "a").await;
    let full = line.ask("b", "b").await;
    assert!(matches!(full, Err(Error::QueueFull { waiting: 0, .. })));
}

async fn nobody_waits_for_what_is_frozen_or_was_had_before<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/consumed");
    let lease = grant(&line.leases, line.request("a")).await.lease;
    line.release(&lease).await;
    line.lease("holder").await;
    refused!(line.ask("a", "a").await, Consumed);
    line.join("b").await;
    line.freeze().await;
    refused!(line.ask("c", "c").await, Frozen);
    line.join("b").await;
    let reentrant = line.request("b").reentrant();
    let queue = line.queue("b: another token", WAIT);
    let again = line.leases.acquire_queued(reentrant, queue).await;
    let again = again.expect("it is in line already");
    assert!(matches!(again, Queued::Queued { .. }), "{again:?}");
    line.expect_no_answers();
    line.has_waiting(&["b"]).await;
}

async fn what_makes_no_sense_in_line_is_refused<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/invalid");
    line.lease("holder").await;
    let several = |n| line.request("a").permits(make::permits(n));
    let observing = line.request("a").observed_version(line.row().await.version);
    // Nor is a permit of 1: the queue does not count the other permits that are still held.
    let mut timed = line.request("a");
    timed.lifetime = make::ttl(TTL).into();
    let mut a_process = line.request("a");
    a_process.holder = make::holder("a process");
    for (request, named) in [
        (timed, "ttl_seconds"),
        (a_process, "holder"),
        (several(2), "permits"),
        (several(1), "permits"),
        (observing, "observed_version"),
    ] {
        let answer = line.leases.acquire_queued(request, line.queue("a", WAIT));
        invalid(answer.await, named);
    }
    let silent = crate::Leases::new(bench.store(), Settings::default());
    let asked = silent.acquire_queued(line.request("a"), line.queue("a", WAIT));
    refused!(asked.await, Misconfigured);
    line.has_waiting(&[]).await;
}
