//! A holder that wakes up after its lease: what it writes with a guard is refused, and without one an update is lost.
use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::types::{ReturnValue, TransactWriteItem, Update};
use leasehold::{
    Clock as _, Lease, ManualClock, SweepBounds, SystemClock, fence::condition, row::Item,
};

use leasehold_proof::fixture::{TABLE, Table, n, request, s, without_executions};

/// What keeps a late write out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Guard {
    /// The item remembers the largest token. It is shown the holder's when it is read, and when it is written.
    Fence,
    /// The lease row is checked in the transaction of the write.
    Lease,
    Nothing,
}

/// The lease of a holder that is asleep, and that of its successor.
async fn two_generations(table: &Table) -> (Lease, Lease) {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let leases = table.leases().with_clock(clock.clone());
    let grant = async |holder| {
        let acquired = leases.acquire(request("k", holder, holder)).await.unwrap();
        acquired.granted().unwrap().lease
    };
    let old = grant("sleeper").await;
    clock.advance(Duration::from_secs(62));
    (old, grant("successor").await)
}

fn count(item: Option<Item>) -> u64 {
    let count = item.and_then(|item| item.get("visits")?.as_n().ok()?.parse().ok());
    count.unwrap_or(0)
}

/// A counter in an item that happens to live in the same table, as somebody without a guard reads it.
async fn counter(table: &Table) -> u64 {
    let get = table.client.get_item().table_name(TABLE);
    let get = get.key("pk", s("resource")).key("sk", s("STATE"));
    count(get.consistent_read(true).send().await.unwrap().item)
}

async fn read(table: &Table, guard: Guard, lease: &Lease) -> u64 {
    if guard != Guard::Fence {
        return counter(table).await;
    }
    let fence = condition(lease.fencing_token);
    let update = table.client.update_item().table_name(TABLE);
    let update = update.key("pk", s("resource")).key("sk", s("STATE"));
    let shown = update
        .condition_expression(fence.condition)
        .update_expression(format!("SET {}", fence.assignment))
        .set_expression_attribute_names(Some(fence.names))
        .set_expression_attribute_values(Some(fence.values))
        .return_values(ReturnValue::AllNew);
    count(shown.send().await.unwrap().attributes)
}

/// Whether the write was let through.
async fn write(table: &Table, guard: Guard, lease: &Lease, value: u64) -> bool {
    let update = Update::builder().table_name(TABLE);
    let mut update = update.key("pk", s("resource")).key("sk", s("STATE"));
    let mut assignments = "SET visits = :visits".to_owned();
    let mut transaction = table.client.transact_write_items();
    match guard {
        Guard::Fence => {
            let fence = condition(lease.fencing_token);
            assignments = format!("{assignments}, {}", fence.assignment);
            update = update
                .condition_expression(fence.condition)
                .set_expression_attribute_names(Some(fence.names))
                .set_expression_attribute_values(Some(fence.values));
        }
        Guard::Lease => {
            let check = lease.condition_check(TABLE).unwrap();
            let check = TransactWriteItem::builder().condition_check(check);
            transaction = transaction.transact_items(check.build());
        }
        Guard::Nothing => {}
    }
    let update = update
        .update_expression(assignments)
        .expression_attribute_values(":visits", n(value));
    let update = TransactWriteItem::builder().update(update.build().unwrap());
    match transaction.transact_items(update.build()).send().await {
        Ok(_) => true,
        Err(error) => {
            let error = error.into_service_error();
            assert!(error.is_transaction_canceled_exception(), "{error:?}");
            false
        }
    }
}

/// Both holders count a visit. The first one sleeps before its write until the other has written, or has only read.
/// Whether the late write was let through, and the counter in the end.
async fn late(guard: Guard, the_other_has_written: bool) -> (bool, u64) {
    let table = Table::start().await;
    let (old, new) = two_generations(&table).await;
    let visits = read(&table, guard, &old).await + 1;
    assert_eq!(read(&table, guard, &new).await + 1, visits);
    let mut late = false;
    if !the_other_has_written {
        late = write(&table, guard, &old, visits).await;
    }
    assert!(write(&table, guard, &new, visits).await);
    if the_other_has_written {
        late = write(&table, guard, &old, visits).await;
    }
    (late, counter(&table).await)
}

#[tokio::test]
async fn guards_refuse_late_writes() {
    for guard in [Guard::Fence, Guard::Lease] {
        for the_other_has_written in [true, false] {
            let end = late(guard, the_other_has_written).await;
            assert_eq!(end, (false, 1), "{guard:?} {the_other_has_written}");
        }
    }
}

/// Two visits were counted, and the counter shows one: the danger is real.
#[tokio::test]
async fn without_guard_update_is_lost() {
    for the_other_has_written in [true, false] {
        let end = late(Guard::Nothing, the_other_has_written).await;
        assert_eq!(end, (true, 1), "{the_other_has_written}");
    }
}

#[tokio::test]
async fn the_fence_refuses_an_older_token() {
    let table = Table::start().await;
    let (old, new) = two_generations(&table).await;
    assert!(write(&table, Guard::Fence, &old, 1).await);
    for value in [2, 3] {
        assert!(write(&table, Guard::Fence, &new, value).await);
    }
    assert!(!write(&table, Guard::Fence, &old, 4).await);
    assert_eq!(counter(&table).await, 3);
}

#[tokio::test]
async fn transaction_after_lease_is_refused() {
    let table = Table::start().await;
    let (old, new) = two_generations(&table).await;
    assert!(write(&table, Guard::Lease, &new, 1).await);
    assert!(!write(&table, Guard::Lease, &old, 2).await);
    let _ = table.leases().release(&new).await.unwrap();
    assert!(!write(&table, Guard::Lease, &new, 3).await);
    assert_eq!(counter(&table).await, 1);
}

/// Nobody else can have read or written anything: the write is late and does no harm.
#[tokio::test]
async fn untaken_expired_lease_guards_transaction() {
    let table = Table::start().await;
    let past = SystemClock.now().minus(Duration::from_hours(1));
    let leases = table.leases().with_clock(Arc::new(ManualClock::at(past)));
    let acquired = leases.acquire(request("k", "sleeper", "1")).await.unwrap();
    let lease = acquired.granted().unwrap().lease;
    assert!(write(&table, Guard::Lease, &lease, 1).await);
    // Sweep has ended it, though nobody was granted it since.
    without_executions(&table.leases())
        .sweep(SweepBounds::Schedule)
        .await
        .unwrap();
    assert!(!write(&table, Guard::Lease, &lease, 2).await);
}
