//! How long ours waits before it asks again, over many lost answers: drawn, and not measured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::Region;
use aws_sdk_dynamodb::config::{AsyncSleep, SharedAsyncSleep, Sleep};
use leasehold::{
    Acquire, Connection, DynamoDb, ExtendOptions, Holder, Key, Leases, Settings, Ttl, table,
};
use leasehold_local::{Fault, Proxy};
use leasehold_proof::fixture::config;

const TABLE: &str = "leases";
/// So many clients, as of as many sandboxes. The SDK stops all clients of a process in one Region from asking
/// again after some 50 failures with no success between them, so that an outage is not made worse: none comes near that.
const CLIENTS: u32 = 10;
/// With each, so many rounds of acquire, extend and release, all of which lose their answer.
const ROUNDS: u32 = 10;
/// What may pass between the two requests, in 99 of 100 cases.
const LIMIT: Duration = Duration::from_millis(100);
/// Time limits sleep, too: those are longer than any back-off.
const SHORTEST_TIME_LIMIT: Duration = Duration::from_millis(400);

/// Writes down every sleep that the SDK asks for. Back-offs are over at once, time limits take their time.
#[derive(Clone, Debug, Default)]
struct Drawn(Arc<Mutex<Vec<Duration>>>);

impl AsyncSleep for Drawn {
    fn sleep(&self, length: Duration) -> Sleep {
        if length < SHORTEST_TIME_LIMIT {
            self.0.lock().unwrap().push(length);
            return Sleep::new(std::future::ready(()));
        }
        Sleep::new(tokio::time::sleep(length))
    }
}

#[tokio::test]
async fn short_back_off_settles_lost_answer() {
    let server = leasehold_local::DynamoDb::start().await.unwrap();
    let proxy = Proxy::start(server.address(), 0).await.unwrap();
    let drawn = Drawn::default();
    let client = async |region: String| {
        let config = config(&proxy.url()).await.to_builder();
        let config = config
            .region(Region::new(region))
            .sleep_impl(SharedAsyncSleep::new(drawn.clone()));
        Connection::client(&config.build())
    };
    let created = table::create(&client("us-east-1".to_owned()).await, TABLE).await;
    created.unwrap();
    drawn.0.lock().unwrap().clear();
    proxy.reset();
    for number in 0..CLIENTS {
        let client = client(format!("region-{number}")).await;
        let leases = Leases::new(DynamoDb::new(client, TABLE), Settings::default());
        for round in 0..ROUNDS {
            // The fifth way, silence, has no back-off to draw: its time limit is what is waited for.
            let fault = Fault::LOST_ANSWERS[round as usize % 4];
            proxy.inject(fault, "UpdateItem", 1);
            let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
            let key = Key::new(format!("orders/{number}/{round}")).unwrap();
            let request = Acquire::new(key, Holder::new("us").unwrap(), ttl);
            let granted = leases.acquire(request).await.unwrap().granted().unwrap();
            proxy.inject(fault, "UpdateItem", 1);
            let extended = leases
                .extend(&granted.lease, ExtendOptions::default())
                .await;
            proxy.inject(fault, "UpdateItem", 1);
            let lease = extended.unwrap().into_lease();
            let _ = leases.release(&lease).await.unwrap();
        }
    }
    assert_eq!(proxy.pending_faults(), 0);
    let calls = 3 * CLIENTS * ROUNDS;
    assert_eq!(proxy.counts().total(), u64::from(2 * calls));
    let mut drawn = drawn.0.lock().unwrap().clone();
    assert_eq!(drawn.len(), calls as usize, "one back-off for each");
    drawn.sort();
    let p99 = drawn[drawn.len() * 99 / 100];
    let longest = drawn[drawn.len() - 1];
    assert!(p99 <= LIMIT, "p99 {p99:?}");
    // It is random: not one and the same for all who lost their answer at once.
    assert!(drawn[0] < longest / 2, "{:?} to {longest:?}", drawn[0]);
    println!(
        "back-off after {calls} lost answers: p50 {:?}, p99 {p99:?}, longest {longest:?}",
        drawn[drawn.len() / 2]
    );
}
