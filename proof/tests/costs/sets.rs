//! What takes more than one row, against a real DynamoDB API: what semaphores and sets of keys
//! cost, and what becomes of them when answers are lost or writers collide.
use std::{collections::BTreeSet, time::Duration};

use leasehold::{
    AcquireAll, Acquired, AcquiredAll, Error, GrantKind, GrantedAll, Holder, Key, Keys, LeaseSet,
    Permits, ReleaseOutcome, RequestId, Ttl,
};
use leasehold_local::Fault;

use leasehold_proof::fixture::{Table, request};

fn permit(permits: u16, holder: &str, id: &str) -> leasehold::Acquire {
    request("k", holder, id).permits(Permits::new(permits).unwrap())
}

fn set(keys: &[&str], holder: &str, id: &str) -> AcquireAll {
    let keys = keys.iter().map(|key| Key::new(*key).unwrap()).collect();
    AcquireAll::new(
        Keys::new(keys).unwrap(),
        Holder::new(holder).unwrap(),
        Ttl::new(Duration::from_mins(1)).unwrap(),
    )
    .request_id(RequestId::new(id).unwrap())
}

async fn grant_all(table: &Table, keys: &[&str], id: &str) -> GrantedAll {
    let acquired = table.leases().acquire_all(set(keys, "h", id)).await;
    acquired.unwrap().granted().unwrap()
}

/// How many permits of `k` are held.
async fn permits_held(table: &Table) -> usize {
    let items = table.items(&Key::new("k").unwrap()).await;
    let held = items.iter().filter(|item| item.contains_key("holder"));
    held.count()
}

#[tokio::test]
async fn permit_costs_query_and_write() {
    let table = Table::start().await;
    let leases = table.leases();
    for n in 0..5 {
        let asked = permit(5, &format!("h{n}"), "1");
        drop(leases.acquire(asked).await.unwrap().granted().unwrap());
        assert_eq!(table.cost(["Query", "UpdateItem"]), [1, 1]);
    }
    for _ in 0..3 {
        let full = leases.acquire(permit(5, "late", "1")).await.unwrap();
        assert!(matches!(full, Acquired::Held(_)), "{full:?}");
        assert_eq!(table.cost(["Query"]), [1]);
    }
    let again = leases.acquire(permit(5, "h3", "1")).await.unwrap();
    assert_eq!(again.granted().unwrap().grant, GrantKind::Replayed);
    assert_eq!(table.cost(["Query"]), [1]);
}

#[tokio::test]
async fn set_costs_transaction_and_read() {
    let table = Table::start().await;
    let granted = grant_all(&table, &["a", "b", "c"], "1").await;
    assert_eq!(
        table.cost(["TransactWriteItems", "TransactGetItems"]),
        [1, 1]
    );
    let again = grant_all(&table, &["a", "b", "c"], "1").await;
    assert_eq!(
        (again.grant, &again.leases),
        (GrantKind::Replayed, &granted.leases)
    );
    assert_eq!(table.cost(["TransactWriteItems"]), [1]);
    let held = table
        .leases()
        .acquire_all(set(&["d", "c"], "x", "1"))
        .await
        .unwrap();
    assert!(matches!(held, AcquiredAll::Held(c) if c.held.key.as_str() == "c"));
    assert_eq!(table.cost(["TransactWriteItems"]), [1]);
    let leases = LeaseSet::new(granted.leases).unwrap();
    let _ = table.leases().release_all(&leases).await.unwrap();
    assert_eq!(table.cost(["UpdateItem"]), [3]);
}

#[tokio::test]
async fn observation_costs_one_acquire() {
    let table = Table::start().await;
    let lease = table.grant("k", "a", "1").await.lease;
    table.proxy.reset();
    let observing = request("k", "b", "1").observed_version(lease.version);
    let taken = table.leases().acquire(observing).await.unwrap();
    assert_eq!(taken.granted().unwrap().grant, GrantKind::Takeover);
    assert_eq!(table.cost(["UpdateItem"]), [1]);
}

#[tokio::test]
async fn lost_set_answer_costs_another_request() {
    let table = Table::start().await;
    for (n, fault) in Fault::LOST_ANSWERS.into_iter().enumerate() {
        let keys = [format!("a{n}"), format!("b{n}")];
        let keys = [keys[0].as_str(), keys[1].as_str()];
        for lost in ["TransactWriteItems", "TransactGetItems"] {
            table.proxy.inject(fault, lost, 1);
            let granted = grant_all(&table, &keys, lost).await;
            assert_eq!(table.proxy.pending_faults(), 0);
            let cost = table.cost(["TransactWriteItems", "TransactGetItems"]);
            assert_eq!(cost.iter().sum::<u64>(), 3, "{fault:?} of {lost}: {cost:?}");
            for lease in &granted.leases {
                let row = table.row(lease.key.as_str()).await;
                assert_eq!(row.fencing_token, lease.fencing_token, "{fault:?}");
            }
            let leases = LeaseSet::new(granted.leases).unwrap();
            let released = table.leases().release_all(&leases).await.unwrap();
            assert_eq!(released.outcome, ReleaseOutcome::Released);
            table.proxy.reset();
        }
        table.proxy.inject(fault, "UpdateItem", 1);
        let asked = permit(5, &format!("h{n}"), "1");
        let granted = table.leases().acquire(asked).await.unwrap().granted();
        assert_eq!(granted.unwrap().grant, GrantKind::Replayed, "{fault:?}");
        assert_eq!(table.cost(["Query", "UpdateItem"]), [1, 2], "{fault:?}");
    }
    assert_eq!(permits_held(&table).await, 5, "no permit was taken twice");
}

#[tokio::test]
async fn same_request_finds_its_set() {
    let table = Table::start().await;
    table
        .proxy
        .inject(Fault::LoseAnswer, "TransactWriteItems", 3);
    let unknown = table.leases().acquire_all(set(&["a", "b"], "h", "1")).await;
    assert!(
        matches!(unknown, Err(Error::Unavailable { .. })),
        "{unknown:?}"
    );
    let granted = grant_all(&table, &["a", "b"], "1").await;
    assert_eq!(granted.grant, GrantKind::Replayed);
    table
        .proxy
        .inject(Fault::LoseRequest, "TransactGetItems", 3);
    let unknown = table.leases().acquire_all(set(&["c", "d"], "h", "2")).await;
    assert!(
        matches!(unknown, Err(Error::Unavailable { .. })),
        "{unknown:?}"
    );
    let granted = grant_all(&table, &["c", "d"], "2").await;
    assert_eq!(granted.grant, GrantKind::Replayed);
}

/// Why a set is refused, while so many requests of an operation meet a fault.
async fn refused(table: &Table, keys: &[&str], (fault, of, times): (Fault, &str, u32)) -> Error {
    table.proxy.inject(fault, of, times);
    let refused = table.leases().acquire_all(set(keys, "h", "1")).await;
    table.proxy.reset();
    refused.unwrap_err()
}

#[tokio::test]
async fn write_conflict_is_retried_not_held() {
    const WRITE: &str = "TransactWriteItems";
    const READ: &str = "TransactGetItems";
    let table = Table::start().await;
    let blocker = table.grant("b", "x", "1").await.lease;
    table.proxy.reset();
    table.proxy.inject(Fault::Conflict, WRITE, 3);
    let held = table.leases().acquire_all(set(&["a", "b"], "h", "1")).await;
    let is_held = matches!(held, Ok(AcquiredAll::Held(_)));
    assert!(is_held, "the fourth attempt tells: {held:?}");
    assert_eq!(table.cost([WRITE]), [4]);
    let _ = table.leases().release(&blocker).await.unwrap();
    // Reading the tokens may meet a writer as well.
    table.proxy.reset();
    table.proxy.inject(Fault::Conflict, READ, 3);
    let granted = grant_all(&table, &["x", "y"], "1").await;
    assert_eq!(granted.grant, GrantKind::New);
    assert_eq!(table.cost([WRITE, READ]), [1, 4]);
    let unread = refused(&table, &["v", "w"], (Fault::Conflict, READ, 1000)).await;
    assert!(matches!(unread, Error::Throttled { .. }), "{unread:?}");
    let granted = grant_all(&table, &["v", "w"], "1").await;
    assert_eq!(granted.grant, GrantKind::Replayed);
    for (fault, times) in [(Fault::Conflict, 1000), (Fault::Throttle, 3)] {
        let busy = refused(&table, &["a", "b"], (fault, WRITE, times)).await;
        assert!(matches!(busy, Error::Throttled { .. }), "{busy:?}");
    }
    let denied = refused(&table, &["a", "b"], (Fault::Denied, WRITE, 1)).await;
    assert!(matches!(denied, Error::Denied { .. }), "{denied:?}");
    // Checking needs another permission than writing, and the refusal names it.
    drop(table.grant("own", "h", "own").await);
    let proxy = &table.proxy;
    proxy.inject_matching(Fault::Denied, WRITE, "\"ConditionCheck\"", 1);
    let reentrant = set(&["own", "b"], "h", "2").reentrant();
    let denied = table.leases().acquire_all(reentrant).await.unwrap_err();
    assert!(matches!(denied, Error::Denied { .. }), "{denied:?}");
    let named = denied.to_string();
    assert!(named.contains("ConditionCheckItem"), "{named}");
    let granted = grant_all(&table, &["a", "b"], "1").await;
    assert_eq!(granted.grant, GrantKind::New);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_get_one_set_and_permit() {
    let table = Table::patient().await;
    let asking: Vec<_> = (0..16)
        .map(|_| {
            let leases = table.leases();
            tokio::spawn(async move {
                let all = leases.acquire_all(set(&["a", "b", "c"], "h", "1"));
                let (all, one) = tokio::join!(all, leases.acquire(permit(5, "h", "1")));
                let tokens = |lease: &leasehold::Lease| (lease.key.clone(), lease.fencing_token);
                let all = all.unwrap().granted().unwrap();
                let one = one.unwrap().granted().unwrap().lease;
                let all: Vec<_> = all.leases.iter().map(tokens).collect();
                (all, one.permit, one.fencing_token)
            })
        })
        .collect();
    let mut answers = BTreeSet::new();
    for answer in asking {
        answers.insert(answer.await.unwrap());
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(permits_held(&table).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sets_in_any_order_never_deadlock() {
    let table = Table::patient().await;
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]];
    let asking: Vec<_> = (0..12)
        .map(|n| {
            let (leases, keys) = (table.leases(), orders[n % 3]);
            tokio::spawn(async move { leases.acquire_all(set(&keys, &format!("h{n}"), "1")).await })
        })
        .collect();
    let mut won = 0;
    for answer in asking {
        match answer.await.unwrap().unwrap() {
            AcquiredAll::Granted(_) => won += 1,
            AcquiredAll::Held(contention) => assert!(!contention.held.by_you),
        }
    }
    assert_eq!(won, 1);
}
