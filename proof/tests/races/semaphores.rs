//! Permits of one key: copies of one request are one permit, and a lowered number takes effect.

use std::sync::Arc;
use std::time::Duration;

use leasehold::row::Stored;
use leasehold::store::Store as _;
use leasehold::{GrantKind, Key, Lease, Permits};
use leasehold_proof::fixture::{Table, request};

const PLACES: u16 = 5;
const LOWERED: u16 = 2;

async fn permit(table: &Table, key: &str, holder: &str, id: &str) -> Option<(Lease, GrantKind)> {
    permit_of(table, PLACES, key, holder, id).await
}

async fn permit_of(
    table: &Table,
    number: u16,
    key: &str,
    holder: &str,
    id: &str,
) -> Option<(Lease, GrantKind)> {
    let request = request(key, holder, id).permits(Permits::new(number).unwrap());
    let granted = table.leases().acquire(request).await.unwrap().granted();
    let granted = granted.ok()?;
    Some((granted.lease, granted.grant))
}

/// How many permits of the key are held.
async fn permits_held(table: &Table, key: &str) -> usize {
    let rows = table
        .store()
        .read_key(&Key::new(key).unwrap(), Duration::from_secs(1))
        .await;
    let held = |stored: &Stored| matches!(stored, Stored::Row(row) if row.holding().is_some());
    rows.unwrap().iter().filter(|(_, row)| held(row)).count()
}

/// What so many copies of one request got, all sent at once.
async fn copies(table: &Arc<Table>, key: &str, copies: usize) -> Vec<Lease> {
    let copies: Vec<_> = (0..copies)
        .map(|_| {
            let (table, key) = (table.clone(), key.to_owned());
            tokio::spawn(async move { permit(&table, &key, "a", "copied").await })
        })
        .collect();
    let mut leases = Vec::new();
    for copy in copies {
        leases.push(copy.await.unwrap().unwrap().0);
    }
    leases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_of_one_request_hold_one_permit() {
    let table = Arc::new(Table::start().await);
    for others in 0..usize::from(PLACES) {
        for round in 0..5 {
            let key = format!("{others} others {round}");
            for n in 0..others {
                permit(&table, &key, "other", &n.to_string()).await.unwrap();
            }
            let leases = copies(&table, &key, 16).await;
            assert!(leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
            assert_eq!(permits_held(&table, &key).await, others + 1);
        }
    }
}

/// Copies that come one after the other find the same permit, whatever others do in between.
#[tokio::test]
async fn late_copies_find_their_permit_among_those_that_come_and_go() {
    let table = Table::start().await;
    let mut others = Vec::new();
    for n in 0..PLACES - 1 {
        let other = permit(&table, "k", "other", &n.to_string()).await;
        others.push(other.unwrap().0);
    }
    let (first, kind) = permit(&table, "k", "a", "copied").await.unwrap();
    assert_eq!(kind, GrantKind::New);
    for n in 0..16_usize {
        let (lease, kind) = permit(&table, "k", "a", "copied").await.unwrap();
        assert_eq!((&lease, kind), (&first, GrantKind::Replayed));
        assert_eq!(permits_held(&table, "k").await, usize::from(PLACES));
        assert_eq!(permit(&table, "k", "late", &n.to_string()).await, None);
        // Another permit goes from hand to hand, and is free while a copy asks.
        let released = others.remove(n % others.len());
        let _ = table.leases().release(&released).await.unwrap();
        let (lease, _) = permit(&table, "k", "a", "copied").await.unwrap();
        assert_eq!(lease, first);
        let next = permit(&table, "k", "next", &n.to_string()).await;
        others.push(next.unwrap().0);
    }
}

/// A lowered number counts every permit that is out, whichever it is.
#[tokio::test]
async fn a_lowered_number_takes_effect_as_permits_come_back() {
    let table = Table::start().await;
    let mut out = Vec::new();
    for n in 0..PLACES {
        let (lease, _) = permit(&table, "k", "a", &n.to_string()).await.unwrap();
        out.push(lease);
    }
    out.sort_by_key(|lease| lease.permit);
    // The lowest come back first, and are free for nobody as long as two others are out.
    for (n, lease) in out.iter().enumerate() {
        let id = format!("lowered {n}");
        let granted = permit_of(&table, LOWERED, "k", "b", &id).await;
        assert_eq!(granted.is_some(), out.len() - n < usize::from(LOWERED));
        let _ = table.leases().release(lease).await.unwrap();
    }
    assert_eq!(permits_held(&table, "k").await, 1);
}
