//! The crate `dynamodb-lease`: an item that exists while it is held, extended by a task in the background.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_lease::Client;
use leasehold_local::{Fault, create_table};

use super::ours::{Ours, found, in_time};

/// Its table.
pub const LEASES: &str = "leases";
/// The shortest lease that it takes.
const TTL: u32 = 2;
/// A client as a process of its own would have one: the SDK's and its own defaults, and a short lease.
pub async fn client(world: &Ours) -> Client {
    let dynamodb = world.stack.dynamodb();
    let created = create_table(&dynamodb, LEASES, &["key"], Some("lease_expiry")).await;
    created.unwrap();
    let built = Client::builder()
        .lease_ttl_seconds(TTL)
        .extend_every(Duration::from_millis(300))
        .build_and_check_db(dynamodb);
    built.await.unwrap()
}

/// A number in its row, if there is one.
pub async fn number(world: &Ours, key: &str, name: &str) -> Option<u64> {
    let attribute = world.attribute(LEASES, ("key", key), name).await?;
    Some(attribute.as_n().unwrap().parse().unwrap())
}

async fn version(world: &Ours, key: &str) -> Option<AttributeValue> {
    world.attribute(LEASES, ("key", key), "lease_version").await
}

/// The fault, how often it strikes, and what ours says to it at once.
const FAILURES: [(Fault, u32, Result<&str, &str>); 2] = [
    (Fault::LoseAnswer, 1, Ok("extended")),
    (Fault::Throttle, 3, Err("Lease.Throttled")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failed_extend_is_the_last() {
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for (fault, times, ours) in FAILURES {
        let world = Ours::start().await;
        let (first, second) = (client(&world).await, client(&world).await);
        let proxy = world.stack.proxy();
        proxy.reset();
        proxy.inject(fault, "UpdateItem", times);
        let lease = first.acquire("orders/42").await.unwrap();
        let next = in_time(second.acquire("orders/42")).await;
        let next = next.unwrap();
        // Two leases at once; the first would know by now, if it asked.
        let known = in_time(async {
            while lease.is_healthy() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        known.await;
        assert!(next.is_healthy());
        assert_eq!(proxy.pending_faults(), 0);
        there.push(format!(
            "{fault:?} × {times}: not extended any more, and a second client got it while the first had it"
        ));
        drop((lease, next));

        let lease = world.acquire("orders/42", "us", 60).await.unwrap();
        world.requests();
        proxy.inject(fault, "UpdateItem", times);
        let extended = world.extend(&lease["lease"]).await;
        let requests = world.requests();
        let outcome = match extended {
            Ok(answer) => Ok(answer["outcome"].as_str().unwrap().to_owned()),
            Err(name) => Err(name),
        };
        assert_eq!(outcome.as_deref().map_err(String::as_str), ours);
        let again = world.extend(&lease["lease"]).await.unwrap();
        assert_eq!(again["outcome"], "extended");
        let other = world.acquire("orders/42", "others", 60).await;
        assert_eq!(other.unwrap_err(), "Lease.Held");
        let first = ours.unwrap_or_else(|name| name);
        here.push(format!(
            "{fault:?} × {times}: {first} after {requests} requests, extended by the next call, others Lease.Held"
        ));
    }
    found(there.join("; "), here.join("; "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_in_drop_at_end() {
    let world = Ours::start().await;
    let held = client(&world).await;
    let after = client(&world).await;
    let proxy = world.stack.proxy();
    proxy.reset();
    let dynamodb = world.stack.dynamodb();
    // A program whose last line drops the lease: its runtime ends with it.
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let client = Client::builder()
                .lease_ttl_seconds(TTL)
                .build_and_check_db(dynamodb);
            let lease = client.await.unwrap().acquire("orders/42").await.unwrap();
            drop(lease);
        });
    });
    tokio::task::spawn_blocking(|| program.join())
        .await
        .unwrap()
        .unwrap();
    drop(held);
    assert_eq!(proxy.counts().of("DeleteItem"), 0, "the release was sent");
    assert!(version(&world, "orders/42").await.is_some());
    let refused = after.try_acquire("orders/42").await.unwrap();
    assert!(refused.is_none(), "the next one got it at once");
    let expiry = number(&world, "orders/42", "lease_expiry").await.unwrap();
    let got = after.acquire("orders/42").await.unwrap();
    let renewed = number(&world, "orders/42", "lease_expiry").await.unwrap();
    assert!(
        renewed > expiry + u64::from(TTL),
        "the next one got it before it had run out"
    );
    drop(got);

    let lease = world.acquire("orders/42", "us", 60).await.unwrap();
    let released = world.release(&lease["lease"]).await.unwrap();
    assert_eq!(released["outcome"], "released");
    let next = world.acquire("orders/42", "others", 60).await.unwrap();
    assert_eq!(next["previous"]["ended"], "released");
    found(
        "no DeleteItem was sent; the next caller waited until the lease had run out",
        "released by a call that is waited for; the next caller got it at once",
    );
}
