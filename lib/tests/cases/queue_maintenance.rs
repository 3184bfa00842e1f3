//! Sweep's maintenance of a queue.

use std::time::Duration;

use serde_json::Value;

use super::{
    Lost, MS, TTL, make,
    queue::{Answer, QueueCase, WAIT},
};

/// Asserts that the only answer since the last call is this error. Returns its message.
#[track_caller]
fn only_error(case: &QueueCase, who: &str, error: &str) -> String {
    let answers = case.answers();
    assert_eq!(answers.len(), 1, "{answers:?}");
    is_error(&answers[0], who, error, case.address.key.as_str())
}

/// Asserts that the answer is an error, in the shape of a function's own errors.
fn is_error(answer: &(String, Answer), who: &str, error: &str, key: &str) -> String {
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
    let message = message["message"].as_str().expect("a message");
    message.to_owned()
}

#[tokio::test]
async fn timed_out_waiter_is_sent_away() {
    let case = QueueCase::new("queue/too long");
    let holder = case.lease("holder").await;
    let wait = TTL / 2;
    case.join("a").await;
    case.join_for("b", wait).await;
    case.join("c").await;
    case.pass(wait.saturating_sub(MS));
    case.sweep().await;
    case.expect_no_answers();
    case.pass(MS);
    case.sweep().await;
    let message = only_error(&case, "b", "Lease.QueueTimeout");
    assert!(message.ends_with(": holder had it"), "{message}");
    case.has_waiting(&["a", "c"]).await;
    assert!(case.waiter("b").await.is_none(), "no ghost");
    case.sweep().await;
    case.expect_no_answers();
    case.release(&holder).await;
    case.release(&case.turn_of("a").lease).await;
    case.turn_of("c");

    // A waiter that timed out may come again by the same request, and joins at the end.
    let case = QueueCase::new("queue/too long for both");
    let holder = case.lease("holder").await;
    case.join_for("a", Duration::ZERO).await;
    case.join("b").await;
    case.sweep().await;
    assert_eq!(case.answers().len(), 1);
    case.calls.renew_token(&case.token("a"));
    case.join("a").await;
    case.has_waiting(&["b", "a"]).await;
    case.sweep().await;
    case.expect_no_answers();
    // A waiter whose notification fails leaves the queue nevertheless, and is notified later.
    case.calls.lose(&case.token("b"), Lost::Request, 1);
    let options = make::extend_by(2 * WAIT);
    let held = case.leases.extend(&holder, options).await;
    drop(held.expect("extended"));
    case.pass(WAIT);
    let elsewhere = make::key("queue/too long for both, and elsewhere");
    for who in ["holder", "c"] {
        let request = make::of_execution(elsewhere.clone(), who);
        let queue = case.queue(who, Duration::ZERO);
        let asked = case.leases.acquire_queued(request, queue);
        asked.await.expect("an answer");
    }
    let answers = || -> std::collections::BTreeSet<_> {
        case.answers().into_iter().map(|(who, _)| who).collect()
    };
    answers();
    case.sweep().await;
    let others = ["a", "c"].map(str::to_owned);
    assert_eq!(answers(), others.into(), "b's trouble is b's alone");
    case.sweep().await;
    assert_eq!(answers(), ["b".to_owned()].into());
    case.has_waiting(&[]).await;
    assert!(case.waiter("b").await.is_none());
}

#[tokio::test]
async fn whoever_lost_his_place_is_told() {
    let key = "queue/deleted";
    let (case, _) = QueueCase::held(key, &["a", "b"]).await;
    case.delete();
    case.sweep().await;
    let mut answers = case.answers();
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(answers.len(), 2);
    for (answer, who) in answers.iter().zip(["a", "b"]) {
        is_error(answer, who, "Lease.Unavailable", key);
        assert!(case.waiter(who).await.is_none());
    }
    // A grant to somebody else in the meantime changes nothing.
    let (case, _) = QueueCase::held("queue/deleted and granted", &["a"]).await;
    case.delete();
    case.pass(TTL);
    let lease = case.granted("x").await.lease;
    case.sweep().await;
    only_error(&case, "a", "Lease.Unavailable");
    assert_eq!(case.row().await.version, lease.version);
    // A waiter without an item cannot be told, so it is passed over.
    let (case, holder) = QueueCase::held("queue/no item", &["a", "b"]).await;
    let (key, limit) = (&case.address.key, Duration::from_secs(1));
    let waiter = case.waiter("a").await.expect("an item");
    let store = case.leases.store();
    leasehold::store::Operations::delete_waiter(store, key, &waiter, limit)
        .await
        .expect("forgotten");
    case.release(&holder).await;
    case.turn_of("b");
}

/// As its first token is failed, it asks again by another.
#[tokio::test]
async fn rejoined_waiter_keeps_its_item() {
    let (case, holder) = QueueCase::held("queue/rejoined", &[]).await;
    case.join_for("a", MS).await;
    case.pass(MS);
    let (leases, asks, again) = (
        case.leases.clone(),
        case.request("a"),
        case.queue("a again", WAIT),
    );
    case.calls.before(&case.token("a"), async move {
        leases.acquire_queued(asks, again).await.expect("it waits");
    });
    case.sweep().await;
    only_error(&case, "a", "Lease.QueueTimeout");
    case.release(&holder).await;
    case.turn_of("a again");
}

/// Items that were left by calls that died.
#[tokio::test]
async fn served_waiters_items_are_cleared() {
    use leasehold::store::{Operations as _, Renewed};
    let (case, _) = QueueCase::held("queue/served", &["a", "b"]).await;
    let (store, key) = (case.leases.store(), &case.address.key);
    let limit = Duration::from_secs(1);
    let left = case.waiter("a").await.expect("an item");
    case.force(None).await;
    let lease = case.turn_of("a").lease;
    let put_back = async || {
        let again = store.update_task_token(key, (&left, None), limit).await;
        assert!(matches!(again, Ok(Renewed::Done(_))));
    };
    // It proved that it knows.
    case.prove(&lease).await;
    put_back().await;
    let version = case.row().await.version;
    case.sweep().await;
    assert!(case.waiter("a").await.is_none());
    assert!(case.waiter("b").await.is_some());
    case.expect_no_answers();
    assert_eq!(case.row().await.version, version, "untouched");
    // Its lease has ended.
    case.release(&lease).await;
    case.turn_of("b");
    put_back().await;
    case.sweep().await;
    assert!(case.waiter("a").await.is_none());
    case.expect_no_answers();
}

#[tokio::test]
async fn untold_waiter_learns_lease_was_lost() {
    let lost = (Lost::Request, 2);
    let (case, _) = QueueCase::released_with("queue/forced before", lost).await;
    case.force(None).await;
    case.turn_of("b");
    case.sweep().await;
    only_error(&case, "a", "Lease.Lost");
    assert!(case.waiter("a").await.is_none());
}
