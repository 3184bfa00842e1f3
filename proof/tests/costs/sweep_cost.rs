//! What a sweep costs: the same with thousands of free rows in the table as with none.
use std::sync::Arc;

use leasehold::{Key, ManualClock, SweepBounds, Timestamp, store::Address};

use leasehold_proof::fixture::{TABLE, Table, key, request, without_executions};

#[tokio::test]
async fn sweep_costs_only_held_rows() {
    let table = Table::start().await;
    // Granted long ago, by a clock that stood then.
    let then = Timestamp::from_millis(1_600_000_000_000);
    let old = table.leases().with_clock(Arc::new(ManualClock::at(then)));
    let hold = async || {
        for n in 0..100 {
            let granted = old.acquire(request(&format!("held{n}"), "a", "1")).await;
            granted.unwrap().granted().unwrap();
        }
    };
    let cost = async || {
        table.proxy.reset();
        let swept = without_executions(&table.leases())
            .sweep(SweepBounds::Schedule)
            .await
            .unwrap();
        assert_eq!((swept.examined, swept.freed), (100, 100));
        table.proxy.counts().total()
    };
    hold().await;
    let alone = cost().await;
    fill_with_free_rows(&table, 5_000).await;
    for n in 0..100 {
        table
            .delete(&Address {
                key: Key::new(format!("held{n}")).unwrap(),
                permit: 0,
            })
            .await;
    }
    hold().await;
    assert_eq!(cost().await, alone, "five thousand free rows cost nothing");
}

/// Rows that were released, written past the library, 25 at a time.
async fn fill_with_free_rows(table: &Table, rows: usize) {
    use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
    let lease = table.grant("model", "a", "1").await.lease;
    let _ = table.leases().release(&lease).await.unwrap();
    let model = table.row("model").await.to_item();
    for batch in (0..rows).collect::<Vec<_>>().chunks(25) {
        let puts = batch.iter().map(|n| {
            let address = Address {
                key: Key::new(format!("free{n}")).unwrap(),
                permit: 0,
            };
            let mut item = model.clone();
            item.extend(key(&address));
            let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        });
        let write = table.client.batch_write_item();
        let write = write.request_items(TABLE, puts.collect());
        write.send().await.unwrap();
    }
}
