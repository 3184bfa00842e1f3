//! Waiters of a queue in a real table: what something else put in their place, and what DynamoDB's own
//! TTL takes of them.
use std::{sync::Arc, time::Duration};

use leasehold::{
    Clock as _, DynamoDb, Error, Leases, Queue, Queued, SystemClock, TaskToken, WaitTime,
    conformance::FakeStepFunctions, row::Item,
};

use leasehold_proof::fixture::{TABLE, Table, request, s};

const WAIT: Duration = Duration::from_hours(1);

async fn join(leases: &Leases<DynamoDb>, key: &str, who: &str) -> Result<Queued, Error> {
    let queue = Queue {
        task_token: TaskToken::new(format!("{key}: {who}")).unwrap(),
        wait: WaitTime::new(WAIT).unwrap(),
    };
    leases.acquire_queued(request(key, who, "1"), queue).await
}

/// The items of the waiters for a key.
async fn waiters(table: &Table, key: &str) -> Vec<Item> {
    let query = table.client.query().table_name(TABLE);
    let query = query
        .key_condition_expression("pk = :pk AND begins_with(sk, :wait)")
        .expression_attribute_values(":pk", s(key))
        .expression_attribute_values(":wait", s("WAIT#"));
    query.send().await.unwrap().items.unwrap()
}

#[tokio::test]
async fn a_stranger_in_the_place_of_one_who_waits_is_left_alone() {
    let table = Table::start().await;
    let calls = Arc::new(FakeStepFunctions::default());
    let leases = table.leases().with_workflows(calls.clone());
    let holder = table.grant("k", "holder", "1").await.lease;
    table.grant("elsewhere", "holder", "1").await;
    join(&leases, "elsewhere", "a").await.unwrap();
    let mut stranger = waiters(&table, "elsewhere").await.remove(0);
    for (name, value) in [
        ("pk", "k"),
        ("request", "somebody else's"),
        ("colour", "blue"),
    ] {
        stranger.insert(name.to_owned(), s(value));
    }
    let put = table.client.put_item().table_name(TABLE);
    put.set_item(Some(stranger.clone())).send().await.unwrap();

    let refused = join(&leases, "k", "a").await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(table.row("k").await.waiting().is_empty(), "both or neither");
    // Others are none the worse for it.
    join(&leases, "k", "b").await.unwrap();
    let _ = leases.release(&holder).await.unwrap();
    assert_eq!(calls.take_answers().len(), 1);
    let found = waiters(&table, "k").await;
    assert!(found.contains(&stranger), "untouched");
}

#[tokio::test]
async fn dynamodb_purges_nobody_who_still_waits() {
    let now = SystemClock.now().as_millis() / 1000;
    let clock = leasehold_local::ManualClock::new(now);
    let server = leasehold_local::DynamoDb::start_with_clock(&clock).await;
    let table = Table::on(server.unwrap()).await;
    leasehold::table::create(&table.client, TABLE)
        .await
        .unwrap();
    let leases = table
        .leases()
        .with_workflows(Arc::new(FakeStepFunctions::default()));
    table.grant("k", "holder", "1").await;
    join(&leases, "k", "a").await.unwrap();
    clock.tick(WAIT.saturating_sub(Duration::from_secs(1)));
    assert_eq!(table.server.sweep_ttl().unwrap(), 0);
    // Sweep sends it away at its time: this is for tables that nobody sweeps.
    clock.tick(Duration::from_secs(7 * 86_400 - 1));
    assert_eq!(
        table.server.sweep_ttl().unwrap(),
        0,
        "kept for seven days more"
    );
    clock.tick(Duration::from_mins(1));
    assert_eq!(
        table.server.sweep_ttl().unwrap(),
        1,
        "and the row that has the line never"
    );
    assert_eq!(waiters(&table, "k").await, []);
    assert_eq!(table.row("k").await.waiting().len(), 1);
}
