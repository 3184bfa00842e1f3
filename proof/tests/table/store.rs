//! The DynamoDB store: the suite of every store, what each call costs, who wins a race, and what DynamoDB itself does to
//! items: it purges them, bounds their size, and reads them page by page.

use std::{collections::HashSet, sync::Arc, time::Duration};

use leasehold::{
    Acquire, Acquired, Clock as _, Error, ExtendOptions, GrantKind, Holder, KeepTime, Key,
    Lifetime, RequestDigest, RequestId, TaskToken, Wait, WaitTime,
    store::{Address, Operations as _, Store as _},
    test_support::FakeStepFunctions,
};
use leasehold_local::Fault;

use leasehold_proof::fixture::{TABLE, Table, request, s};

/// The request of an execution that waits with a task token.
fn queued(key: &str, token: &str) -> (Acquire, Wait) {
    let holder = "arn:aws:states:eu-west-1:123456789012:execution:orders:42";
    let keep = KeepTime::default();
    let request = Acquire::new(
        Key::new(key).unwrap(),
        Holder::new(holder).unwrap(),
        Lifetime::Execution { keep },
    );
    let queue = Wait {
        task_token: TaskToken::new(token).unwrap(),
        wait: WaitTime::new(Duration::from_secs(60)).unwrap(),
        latest: false,
    };
    (request.request_id(RequestId::new(token).unwrap()), queue)
}

/// The requests since the last look, all of them updates.
fn updates(table: &Table) -> u64 {
    let mut requests = table.requests();
    let updates = requests.remove("UpdateItem").unwrap_or_default();
    assert!(requests.is_empty(), "nothing but updates: {requests:?}");
    updates
}

#[tokio::test]
async fn table_does_as_pure_function_says() {
    Box::pin(leasehold_conformance::all(Table::patient().await, 0..30)).await;
}

#[tokio::test]
async fn each_call_costs_one_request() {
    let table = Table::start().await;
    let leases = table.leases();
    let lease = table.grant("k", "a", "1").await.lease;
    assert_eq!(updates(&table), 1, "acquire");
    let held = leases.acquire(request("k", "b", "2")).await.unwrap();
    assert!(matches!(held, Acquired::Held(_)));
    assert_eq!(updates(&table), 1, "a refusal brings everything with it");
    let lease = leases
        .extend(&lease, ExtendOptions::default())
        .await
        .unwrap()
        .into_lease();
    assert_eq!(updates(&table), 1, "extend");
    let _ = leases.release(&lease).await.unwrap();
    assert_eq!(updates(&table), 1, "release");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_wins() {
    let table = Table::patient().await;
    for round in 0..5 {
        let key = format!("k{round}");
        let asking: Vec<_> = (0..32)
            .map(|n| {
                let (leases, request) = (table.leases(), request(&key, &format!("h{n}"), "1"));
                tokio::spawn(async move { leases.acquire(request).await })
            })
            .collect();
        let mut won = 0;
        for answer in asking {
            won += usize::from(matches!(
                answer.await.unwrap().unwrap(),
                Acquired::Granted(_)
            ));
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn request_copies_get_one_grant() {
    let table = Table::start().await;
    let asking: Vec<_> = (0..32)
        .map(|_| {
            let leases = table.leases();
            tokio::spawn(async move { leases.acquire(request("k", "a", "1")).await })
        })
        .collect();
    let mut tokens = HashSet::new();
    for answer in asking {
        tokens.insert(
            answer
                .await
                .unwrap()
                .unwrap()
                .granted()
                .unwrap()
                .lease
                .fencing_token,
        );
    }
    assert_eq!(tokens.len(), 1);
}

#[tokio::test]
async fn largest_possible_item_is_stranger() {
    let table = Table::start().await;
    let address = Address {
        key: Key::new("k").unwrap(),
        permit: 0,
    };
    let lease = table.grant("k", "a", "1").await.lease;
    let _ = table.leases().release(&lease).await.unwrap();
    let mut item = table.get(&address).await.unwrap();
    let filler = "x".repeat(409_000);
    item.insert("filler".into(), s(&filler));
    table.put(&address, item.clone()).await;
    let big = Holder::new("h".repeat(1024)).unwrap();
    let mut asked = request("k", "b", "2");
    asked.holder = big;
    let refused = table.leases().acquire(asked).await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(table.get(&address).await, Some(item), "untouched");
}

/// DynamoDB deletes whatever carries a `purge_at` that has passed, held or not.
#[tokio::test]
async fn only_free_rows_are_purged() {
    let table = Table::start().await;
    let address = Address {
        key: Key::new("k").unwrap(),
        permit: 0,
    };
    let always = "pk sk fencing_token version granted_to request past_request_1 past_request_2 past_request_3 \
        previous_holder previous_fencing_token previous_ended queue";
    // Written by an expression; a row that is written as a whole has it only where it differs.
    let last = "previous_last_fencing_token";
    let released = "past_release_1 past_release_2 past_release_3";
    let held = "holder lease_id ttl_ms acquired_at expires_at sweep_after metadata";
    let names = async || -> HashSet<String> {
        let item = table.get(&address).await.unwrap();
        item.into_keys().collect()
    };
    let expected = |more: &[&str]| -> HashSet<String> {
        let all = [&[always], more].concat();
        all.iter()
            .flat_map(|names| names.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let leases = table.leases();
    for round in ["1", "2", "3"] {
        let lease = table.grant("k", "a", round).await.lease;
        let before = if round == "1" { "" } else { released };
        assert_eq!(names().await, expected(&[held, before, last]));
        let extended = leases.extend(&lease, ExtendOptions::default());
        let lease = extended.await.unwrap().into_lease();
        assert_eq!(
            names().await,
            expected(&[held, before, last, "extended_at"])
        );
        let _ = leases.release(&lease).await.unwrap();
        assert_eq!(names().await, expected(&["ended purge_at", released, last]));
    }
    // An execution that was told of its grant, and then proves that it knows.
    let calls = Arc::new(FakeStepFunctions::default());
    let leases = leases.with_engine(calls.clone());
    let held = "holder lease_id keep_ms acquired_at sweep_after metadata";
    for token in ["4", "5"] {
        let (asked, queue) = queued("k", token);
        leases.acquire_queued(asked, queue).await.unwrap();
        let told = "notifications notified_at";
        assert_eq!(names().await, expected(&[held, released, told]));
        let answer = calls.take_answers().remove(0).output();
        let lease = serde_json::from_value(answer["lease"].clone()).unwrap();
        if token == "4" {
            let _ = leases
                .extend(&lease, ExtendOptions::default())
                .await
                .unwrap();
            assert_eq!(names().await, expected(&[held, released, "extended_at"]));
        }
        let _ = leases.release(&lease).await.unwrap();
        assert_eq!(names().await, expected(&["ended purge_at", released]));
    }
}

#[tokio::test]
async fn tokens_rise_above_purged_row() {
    let now = leasehold::SystemClock.now().as_millis() / 1000;
    let clock = leasehold_local::ManualClock::new(now);
    let server = leasehold_local::DynamoDb::start_with_clock(&clock).await;
    let table = Table::on(server.unwrap()).await;
    leasehold::table::create(&table.client, TABLE)
        .await
        .unwrap();
    let held = table.grant("held", "a", "1").await.lease;
    let lease = table.grant("k", "a", "1").await.lease;
    let _ = table.leases().release(&lease).await.unwrap();

    clock.tick(Duration::from_hours(7 * 24) - Duration::from_mins(1));
    assert_eq!(table.server.sweep_ttl().unwrap(), 0, "kept for seven days");
    clock.tick(Duration::from_mins(2));
    assert_eq!(table.server.sweep_ttl().unwrap(), 1, "and no held row ever");
    let next = table.grant("k", "b", "2").await;
    assert_eq!((next.grant, next.previous), (GrantKind::New, None));
    assert!(next.lease.fencing_token > lease.fencing_token);
    // What the old holder still has is worth nothing.
    let lost = table
        .leases()
        .extend(&lease, ExtendOptions::default())
        .await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    let still = table.leases().extend(&held, ExtendOptions::default()).await;
    assert!(still.is_ok(), "{still:?}");
}

/// A waiter that joins a queue writes both items in one transaction.
#[tokio::test]
async fn transaction_does_not_stop_waiters_deletion() {
    let table = Table::start().await;
    let leases = table.leases();
    let (store, limit) = (leases.store(), Duration::from_secs(1));
    let lease = table.grant("k", "a", "1").await.lease;
    let leases = leases
        .clone()
        .with_engine(Arc::new(FakeStepFunctions::default()));
    let (asked, queue) = queued("k", "1");
    let digest = RequestDigest::of(&asked.holder, &asked.request_id);
    leases.acquire_queued(asked, queue).await.unwrap();
    let waiter = store.token_item(&lease.key, &digest, limit).await.unwrap();
    table.proxy.inject(Fault::Conflict, "DeleteItem", 4);
    let waiter = waiter.expect("an item");
    store
        .delete_waiter(&lease.key, &waiter, limit)
        .await
        .unwrap();
    let gone = store.token_item(&lease.key, &digest, limit).await.unwrap();
    assert_eq!(gone, None);
}

/// Together, not each: the function has to live to answer.
#[tokio::test]
async fn pages_share_one_time_limit() {
    let table = Table::start().await;
    // More than a page holds.
    for permit in 0..6 {
        let item = [
            ("pk".to_owned(), s("k")),
            ("sk".to_owned(), s(&format!("LEASE#{permit:04}"))),
            ("text".to_owned(), s(&"x".repeat(350_000))),
        ];
        let put = table.client.put_item().table_name(TABLE);
        put.set_item(Some(item.into())).send().await.unwrap();
    }
    let leases = table.leases();
    let (key, store) = (Key::new("k").unwrap(), leases.store());
    let read = store.read_key(&key, Duration::from_millis(1500)).await;
    assert_eq!(read.unwrap().len(), 6);
    table.proxy.reset();
    table.proxy.set_latency(Duration::from_millis(300));
    let late = store.read_key(&key, Duration::from_millis(400)).await;
    assert!(matches!(late, Err(Error::Unavailable { .. })), "{late:?}");
}
