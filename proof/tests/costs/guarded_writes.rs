//! A holder that wakes up after its lease: what it writes with a guard is refused.
use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::{
    operation::{transact_write_items::TransactWriteItemsError, update_item::UpdateItemError},
    types::{Put, TransactWriteItem},
};
use leasehold::{Clock as _, Lease, ManualClock, SweepBounds, SystemClock, fence};

use leasehold_proof::fixture::{TABLE, Table, request, s};

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

/// Writes to a resource that happens to live in the same table.
async fn write(table: &Table, who: &str, guard: fence::Fence) -> Result<(), UpdateItemError> {
    let update = table.client.update_item().table_name(TABLE);
    let update = update.key("pk", s("resource")).key("sk", s("STATE"));
    let sent = update
        .condition_expression(guard.condition)
        .update_expression(format!("SET {}, writer = :who", guard.assignment))
        .set_expression_attribute_names(Some(guard.names))
        .set_expression_attribute_values(Some(guard.values))
        .expression_attribute_values(":who", s(who))
        .send()
        .await;
    sent.map(drop)
        .map_err(aws_sdk_dynamodb::error::SdkError::into_service_error)
}

async fn writer(table: &Table) -> String {
    let get = table
        .client
        .get_item()
        .table_name(TABLE)
        .consistent_read(true);
    let get = get.key("pk", s("resource")).key("sk", s("STATE")).send();
    get.await.unwrap().item.unwrap()["writer"]
        .as_s()
        .unwrap()
        .clone()
}

/// Writes in a transaction with the lease row.
async fn write_under(
    table: &Table,
    lease: &Lease,
    who: &str,
) -> Result<(), TransactWriteItemsError> {
    let put = Put::builder().table_name(TABLE);
    let put = put.item("pk", s("resource")).item("sk", s("STATE"));
    let put = put.item("writer", s(who)).build().unwrap();
    let check = lease.condition_check(TABLE).unwrap();
    let transaction = table
        .client
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().condition_check(check).build())
        .transact_items(TransactWriteItem::builder().put(put).build());
    let sent = transaction.send().await;
    sent.map(drop)
        .map_err(aws_sdk_dynamodb::error::SdkError::into_service_error)
}

#[tokio::test]
async fn the_fence_refuses_an_older_token() {
    let table = Table::start().await;
    let (old, new) = two_generations(&table).await;
    write(&table, "sleeper", fence::condition(old.fencing_token))
        .await
        .unwrap();
    for _ in 0..2 {
        write(&table, "successor", fence::condition(new.fencing_token))
            .await
            .unwrap();
    }
    let late = write(&table, "sleeper", fence::condition(old.fencing_token)).await;
    assert!(late.unwrap_err().is_conditional_check_failed_exception());
    assert_eq!(writer(&table).await, "successor");
}

#[tokio::test]
async fn a_transaction_is_refused_once_its_lease_is_over() {
    let table = Table::start().await;
    let (old, new) = two_generations(&table).await;
    write_under(&table, &new, "successor").await.unwrap();
    let late = write_under(&table, &old, "sleeper").await;
    assert!(late.unwrap_err().is_transaction_canceled_exception());
    assert_eq!(writer(&table).await, "successor");
    let _ = table.leases().release(&new).await.unwrap();
    let after = write_under(&table, &new, "released").await;
    assert!(after.unwrap_err().is_transaction_canceled_exception());
}

/// Nobody else can have read or written anything: the write is late and does no harm.
#[tokio::test]
async fn a_lease_that_ran_out_and_was_not_taken_still_guards_a_transaction() {
    let table = Table::start().await;
    let past = SystemClock.now().minus(Duration::from_hours(1));
    let leases = table.leases().with_clock(Arc::new(ManualClock::at(past)));
    let acquired = leases.acquire(request("k", "sleeper", "1")).await.unwrap();
    let lease = acquired.granted().unwrap().lease;
    write_under(&table, &lease, "sleeper").await.unwrap();
    // Sweep has ended it, though nobody was granted it since.
    table.leases().sweep(SweepBounds::Schedule).await.unwrap();
    let late = write_under(&table, &lease, "sleeper").await;
    assert!(late.unwrap_err().is_transaction_canceled_exception());
}
