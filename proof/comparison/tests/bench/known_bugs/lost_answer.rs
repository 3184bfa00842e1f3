//! An answer is lost in each of the five ways that the proxy knows, on both sides. Five worlds at once, one per way.

use std::time::Duration;

use leasehold::{Clock as _, SystemClock};
use leasehold_local::Fault;
use serde_json::Value;
use tokio::time::timeout;

use super::dynamodb_lease::{self as peer, LEASES};
use super::ours::{Answer, Ours, found, in_time};

/// When a call that meets silence counts as one that waits for ever: twice the peer's lease.
const SILENCE: Duration = Duration::from_secs(4);

/// How long a call of the peer is waited for.
fn patience(fault: Fault) -> Duration {
    if fault == Fault::HangAnswer {
        SILENCE
    } else {
        Duration::from_secs(60)
    }
}

/// The requests of the peer, one way after the other; nothing where it waits for ever.
async fn in_five_ways<F>(run: fn(Fault) -> F) -> String
where
    F: Future<Output = Option<u64>> + Send + 'static,
{
    let mut results = Vec::new();
    for (fault, run) in Fault::LOST_ANSWERS
        .into_iter()
        .zip(Fault::LOST_ANSWERS.map(|fault| tokio::spawn(run(fault))))
    {
        let requests = run.await.unwrap();
        results.push(requests.map_or_else(
            || format!("{fault:?}: no result"),
            |sent| format!("{fault:?}: {sent} requests"),
        ));
    }
    results.join("; ")
}

/// How a call of ours ends that takes one more request at the most.
async fn here(ours: &Ours, fault: Fault, call: impl Future<Output = Answer>) -> Value {
    ours.requests();
    ours.stack.proxy().inject(fault, "UpdateItem", 1);
    let answer = call.await;
    let requests = ours.requests();
    assert!(requests <= 2, "{fault:?}: {requests} requests");
    answer.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_acquire() {
    let there = in_five_ways(acquiring).await;
    found(there, "acquired with 2 requests in each way");
}

async fn acquiring(fault: Fault) -> Option<u64> {
    let world = Ours::start().await;
    let client = peer::client(&world).await;
    let proxy = world.stack.proxy();
    proxy.reset();
    proxy.inject(fault, "PutItem", 1);
    let acquiring = tokio::spawn(async move { client.acquire("orders/42").await });
    let expiry = in_time(async {
        loop {
            if let Some(expiry) = peer::number(&world, "orders/42", "lease_expiry").await {
                break expiry;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let expiry = expiry.await;
    let acquired = timeout(patience(fault), acquiring).await.ok();
    let requests = acquired.is_some().then(|| proxy.counts().of("PutItem"));
    if let Some(acquired) = acquired {
        let lease = acquired.unwrap().unwrap();
        // Its first lease was there from the first request on, and nobody else has been here.
        let now = SystemClock.now().as_millis() / 1000;
        assert!(
            now > expiry,
            "{fault:?}: not locked out by its own lease any more"
        );
        assert!(requests > Some(2), "{fault:?}: {requests:?}");
        lease.release().await.unwrap();
    } else {
        // Its settings have no time limit: silence is waited for.
        assert_eq!(
            fault,
            Fault::HangAnswer,
            "locked out for longer than its lease"
        );
    }

    world.acquire("warm", "somebody", 60).await.unwrap();
    let answer = here(&world, fault, world.acquire("orders/42", "us", 60)).await;
    assert_eq!(answer["outcome"], "acquired", "{fault:?}: {answer}");
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_release() {
    let there = in_five_ways(releasing).await;
    found(
        format!("the row is gone, reported as an error: {there}"),
        "released with 2 requests in each way",
    );
}

async fn releasing(fault: Fault) -> Option<u64> {
    let world = Ours::start().await;
    let client = peer::client(&world).await;
    let lease = client.acquire("orders/42").await.unwrap();
    let proxy = world.stack.proxy();
    proxy.reset();
    proxy.inject(fault, "DeleteItem", 1);
    let released = timeout(patience(fault), lease.release()).await.ok();
    let requests = released.is_some().then(|| proxy.counts().of("DeleteItem"));
    match released {
        Some(released) => {
            let error = format!("{:?}", released.expect_err("reported as a success"));
            assert!(error.contains("ConditionalCheckFailed"), "{error}");
        }
        None => assert_eq!(fault, Fault::HangAnswer),
    }
    let gone = peer::number(&world, "orders/42", "lease_expiry").await;
    assert_eq!(gone, None, "{fault:?}: the release was not applied");

    let warm = world.acquire("warm", "us", 60).await.unwrap();
    world.release(&warm["lease"]).await.unwrap();
    let lease = world.acquire("orders/42", "us", 60).await.unwrap();
    let answer = here(&world, fault, world.release(&lease["lease"])).await;
    // It is released; a lost answer makes that "already".
    assert_eq!(answer["outcome"], "already_released", "{fault:?}: {answer}");
    assert_eq!(answer["expired"], false);
    requests
}

/// What the peer does with a lost answer to extend is a bug of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_extend_answer_costs_one_request() {
    let world = Ours::start().await;
    let warm = world.acquire("warm", "us", 60).await.unwrap();
    world.extend(&warm["lease"]).await.unwrap();
    for fault in Fault::LOST_ANSWERS {
        let key = format!("{LEASES}/{fault:?}");
        let lease = world.acquire(&key, "us", 60).await.unwrap();
        let answer = here(&world, fault, world.extend(&lease["lease"])).await;
        assert_eq!(answer["outcome"], "extended", "{fault:?}: {answer}");
    }
}
