//! An answer is lost in each of the five ways that the proxy knows, in one run for both sides.
//!
//! Counts are judged; times are told only, as they depend on the machine.

use std::time::{Duration, Instant};

use leasehold::{Clock as _, SystemClock};
use leasehold_local::Fault;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::dynamodb_lease::{self as peer, LEASES};
use super::ours::{Answer, Ours, found, in_time};

/// When a call that meets silence counts as one that waits for ever: twice the peer's lease.
const SILENCE: Duration = Duration::from_secs(4);
/// Ours are measured one at a time.
static MEASURING: Mutex<()> = Mutex::const_new(());

/// How long a call of the peer is waited for.
fn patience(fault: Fault) -> Duration {
    if fault == Fault::HangAnswer {
        SILENCE
    } else {
        Duration::from_secs(60)
    }
}

/// What one call cost.
#[derive(Clone, Copy)]
struct Cost {
    fault: Fault,
    requests: u64,
    /// None: no result after all that patience.
    time: Option<Duration>,
}

impl Cost {
    fn told(self) -> String {
        let Self {
            fault,
            requests,
            time,
        } = self;
        let time = time.map_or_else(
            || format!("no result after {SILENCE:?}"),
            |time| format!("{} ms", time.as_millis()),
        );
        format!("{fault:?} {requests} requests, {time}")
    }
}

fn told(costs: &[Cost]) -> String {
    let costs: Vec<_> = costs.iter().map(|cost| cost.told()).collect();
    costs.join("; ")
}

/// Five worlds at once, one per way.
async fn in_five_ways<F>(run: fn(Fault) -> F) -> (Vec<Cost>, Vec<Cost>)
where
    F: Future<Output = (Cost, Cost)> + Send + 'static,
{
    let runs = Fault::LOST_ANSWERS.map(|fault| tokio::spawn(run(fault)));
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for run in runs {
        let costs = run.await.unwrap();
        there.push(costs.0);
        here.push(costs.1);
    }
    (there, here)
}

/// Ours, with everything warm: how a call ended, and what it cost.
async fn here(ours: &Ours, fault: Fault, call: impl Future<Output = Answer>) -> (Value, Cost) {
    let _alone = MEASURING.lock().await;
    ours.requests();
    ours.stack.proxy().inject(fault, "UpdateItem", 1);
    let began = Instant::now();
    let answer = call.await;
    let time = Some(began.elapsed());
    let requests = ours.requests();
    assert!(requests <= 2, "{fault:?}: {requests} requests");
    let cost = Cost {
        fault,
        requests,
        time,
    };
    (answer.unwrap(), cost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_acquire() {
    let (there, here) = in_five_ways(acquiring).await;
    found(told(&there), told(&here));
}

async fn acquiring(fault: Fault) -> (Cost, Cost) {
    let world = Ours::start().await;
    let client = peer::client(&world).await;
    let proxy = world.stack.proxy();
    proxy.reset();
    proxy.inject(fault, "PutItem", 1);
    let began = Instant::now();
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
    let acquired = timeout(patience(fault), acquiring).await;
    let time = acquired.is_ok().then(|| began.elapsed());
    if let Ok(acquired) = acquired {
        let lease = acquired.unwrap().unwrap();
        // Its first lease was there from the first request on, and nobody else has been here.
        let now = SystemClock.now().as_millis() / 1000;
        assert!(
            now > expiry,
            "{fault:?}: not locked out by its own lease any more"
        );
        lease.release().await.unwrap();
    } else {
        // Its settings have no time limit: silence is waited for.
        assert_eq!(
            fault,
            Fault::HangAnswer,
            "locked out for longer than its lease"
        );
    }
    let requests = proxy.counts().of("PutItem");
    assert!(
        requests > 2 || time.is_none(),
        "{fault:?}: {requests} requests"
    );
    let there = Cost {
        fault,
        requests,
        time,
    };

    world.acquire("warm", "somebody", 60).await.unwrap();
    let (answer, here) = here(&world, fault, world.acquire("orders/42", "us", 60)).await;
    assert_eq!(answer["outcome"], "acquired", "{fault:?}: {answer}");
    (there, here)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_release() {
    let (there, here) = in_five_ways(releasing).await;
    found(
        format!("the row is gone, told as an error: {}", told(&there)),
        told(&here),
    );
}

async fn releasing(fault: Fault) -> (Cost, Cost) {
    let world = Ours::start().await;
    let client = peer::client(&world).await;
    let lease = client.acquire("orders/42").await.unwrap();
    let proxy = world.stack.proxy();
    proxy.reset();
    proxy.inject(fault, "DeleteItem", 1);
    let began = Instant::now();
    let released = timeout(patience(fault), lease.release()).await;
    let time = released.is_ok().then(|| began.elapsed());
    match released {
        Ok(released) => {
            let error = format!("{:?}", released.expect_err("told as a success"));
            assert!(error.contains("ConditionalCheckFailed"), "{error}");
        }
        Err(_) => assert_eq!(fault, Fault::HangAnswer),
    }
    let gone = peer::number(&world, "orders/42", "lease_expiry").await;
    assert_eq!(gone, None, "{fault:?}: the release was not applied");
    let there = Cost {
        fault,
        requests: proxy.counts().of("DeleteItem"),
        time,
    };

    let warm = world.acquire("warm", "us", 60).await.unwrap();
    world.release(&warm["lease"]).await.unwrap();
    let lease = world.acquire("orders/42", "us", 60).await.unwrap();
    let (answer, here) = here(&world, fault, world.release(&lease["lease"])).await;
    // It is released; a lost answer makes that "already".
    assert_eq!(answer["outcome"], "already_released", "{fault:?}: {answer}");
    assert_eq!(answer["expired"], false);
    (there, here)
}

/// What the peer does with a lost answer to extend is an entry of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_extend_costs_one_more_request() {
    let world = Ours::start().await;
    let warm = world.acquire("warm", "us", 60).await.unwrap();
    world.extend(&warm["lease"]).await.unwrap();
    for fault in Fault::LOST_ANSWERS {
        let key = format!("{LEASES}/{fault:?}");
        let lease = world.acquire(&key, "us", 60).await.unwrap();
        let (answer, cost) = here(&world, fault, world.extend(&lease["lease"])).await;
        assert_eq!(answer["outcome"], "extended", "{fault:?}: {answer}");
        println!("extend: {}", cost.told());
    }
}
