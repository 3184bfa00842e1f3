//! Sweep's maintenance of a queue.

use std::time::Duration;

use serde_json::Value;

use super::{
    Bench, Lost, MS, TTL, make,
    queue::{Answer, QueueCase, WAIT},
};

pub(super) async fn all<B: Bench>(bench: &B) {
    whoever_has_waited_long_enough_is_sent_away(bench).await;
    whoever_lost_his_place_is_told(bench).await;
    what_is_left_of_those_who_were_served_is_cleared_up(bench).await;
    whoever_lost_its_lease_before_it_was_told_is_told_so(bench).await;
}

/// Asserts that the only answer since the last call is this error.
#[track_caller]
fn only_error<B: Bench>(line: &QueueCase<'_, B>, who: &str, error: &str) {
    let answers = line.answers();
    assert_eq!(answers.len(), 1, "{answers:?}");
    is_error(&answers[0], who, error, line.address.key.as_str());
}

/// Asserts that the answer is an error, in the shape of a function's own errors.
fn is_error(answer: &(String, Answer), who: &str, error: &str, key: &str) {
    let (token, Err((name, cause))) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((token.as_str(), name.as_str()), (who, error));
    let cause = cause.as_object().expect("an object");
    assert_eq!(
        cause.keys().collect::<Vec<_>>(),
        ["errorMessage", "errorType"]
    );
    assert_eq!(cause["errorType"], error);
    let message = cause["errorMessage"].as_str().expect("text");
    let message: Value = serde_json::from_str(message).expect("JSON once more");
    assert_eq!(message["key"], key);
    assert!(message["message"].is_string(), "{message}");
}

async fn whoever_has_waited_long_enough_is_sent_away<B: Bench>(bench: &B) {
    let line = QueueCase::new(bench, "line/too long");
    let holder = line.lease("holder").await;
    let wait = TTL / 2;
    line.join("a").await;
    line.join_for("b", wait).await;
    line.join("c").await;
    line.pass(wait.saturating_sub(MS));
    line.sweep().await;
    line.expect_no_answers();
    line.pass(MS);
    line.sweep().await;
    only_error(&line, "b", "Lease.QueueTimeout");
    line.has_waiting(&["a", "c"]).await;
    assert!(line.waiter("b").await.is_none(), "no ghost");
    line.sweep().await;
    line.expect_no_answers();
    line.release(&holder).await;
    line.release(&line.turn_of("a").lease).await;
    line.turn_of("c");

    // A waiter that timed out may come again by the same request, and joins at the end.
    let line = QueueCase::new(bench, "line/too long for both");
    let holder = line.lease("holder").await;
    line.join_for("a", Duration::ZERO).await;
    line.join("b").await;
    line.sweep().await;
    assert_eq!(line.answers().len(), 1);
    line.calls.renew_token(&line.token("a"));
    line.join("a").await;
    line.has_waiting(&["b", "a"]).await;
    line.sweep().await;
    line.expect_no_answers();
    // A waiter whose notification fails leaves the queue nevertheless, and is notified later.
    line.calls.lose(&line.token("b"), Lost::Request, 1);
    let options = make::extend_by(2 * WAIT);
    let held = line.leases.extend(&holder, options).await;
    drop(held.expect("extended"));
    line.pass(WAIT);
    let elsewhere = make::key("line/too long for both, and elsewhere");
    for who in ["holder", "c"] {
        let request = make::of_execution(elsewhere.clone(), who);
        let queue = line.queue(who, Duration::ZERO);
        let asked = line.leases.acquire_queued(request, queue);
        asked.await.expect("an answer");
    }
    let answers = || -> std::collections::BTreeSet<_> {
        line.answers().into_iter().map(|(who, _)| who).collect()
    };
    answers();
    line.sweep().await;
    let others = ["a", "c"].map(str::to_owned);
    assert_eq!(answers(), others.into(), "b's trouble is b's alone");
    line.sweep().await;
    assert_eq!(answers(), ["b".to_owned()].into());
    line.has_waiting(&[]).await;
    assert!(line.waiter("b").await.is_none());
}

async fn whoever_lost_his_place_is_told<B: Bench>(bench: &B) {
    let key = "line/deleted";
    let (line, _) = QueueCase::held(bench, key, &["a", "b"]).await;
    line.delete().await;
    line.sweep().await;
    let mut answers = line.answers();
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(answers.len(), 2);
    for (answer, who) in answers.iter().zip(["a", "b"]) {
        is_error(answer, who, "Lease.Unavailable", key);
        assert!(line.waiter(who).await.is_none());
    }
    // A grant to somebody else in the meantime changes nothing.
    let (line, _) = QueueCase::held(bench, "line/deleted and granted", &["a"]).await;
    line.delete().await;
    line.pass(TTL);
    let lease = line.granted("x").await.lease;
    line.sweep().await;
    only_error(&line, "a", "Lease.Unavailable");
    assert_eq!(line.row().await.version, lease.version);
    // A waiter without an item cannot be told, so it is passed over.
    let (line, holder) = QueueCase::held(bench, "line/no item", &["a", "b"]).await;
    let (key, limit) = (&line.address.key, Duration::from_secs(1));
    let waiter = line.waiter("a").await.expect("an item");
    let store = line.leases.store();
    crate::store::Store::delete_waiter(store, key, &waiter, limit)
        .await
        .expect("forgotten");
    line.release(&holder).await;
    line.turn_of("b");
}

/// Items that were left by calls that died.
async fn what_is_left_of_those_who_were_served_is_cleared_up<B: Bench>(bench: &B) {
    use crate::store::Store as _;
    let (line, _) = QueueCase::held(bench, "line/served", &["a", "b"]).await;
    let (store, key) = (line.leases.store(), &line.address.key);
    let limit = Duration::from_secs(1);
    let left = line.waiter("a").await.expect("an item");
    line.force(None).await;
    let lease = line.turn_of("a").lease;
    let put_back = async || {
        let again = store.update_task_token(key, &left, limit).await;
        again.expect("an answer");
    };
    // It proved that it knows.
    line.prove(&lease).await;
    put_back().await;
    let version = line.row().await.version;
    line.sweep().await;
    assert!(line.waiter("a").await.is_none());
    assert!(line.waiter("b").await.is_some());
    line.expect_no_answers();
    assert_eq!(line.row().await.version, version, "untouched");
    // Its lease has ended.
    line.release(&lease).await;
    line.turn_of("b");
    put_back().await;
    line.sweep().await;
    assert!(line.waiter("a").await.is_none());
    line.expect_no_answers();
}

async fn whoever_lost_its_lease_before_it_was_told_is_told_so<B: Bench>(bench: &B) {
    let lost = (Lost::Request, 2);
    let (line, _) = QueueCase::released_with(bench, "line/forced before", lost).await;
    line.force(None).await;
    line.turn_of("b");
    line.sweep().await;
    only_error(&line, "a", "Lease.Consumed");
    assert!(line.waiter("a").await.is_none());
}
