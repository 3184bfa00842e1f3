//! The part about scale, on a tiny scale.

use leasehold_bench::scale::figures::Figures;
use leasehold_bench::scale::rows::{self, InUse};
use leasehold_bench::scale::{lines, permits, several};

const FEW: InUse = InUse {
    held: 20,
    lines: 2,
    waiting: 4,
};

#[tokio::test]
async fn free_rows_cost_nothing_but_to_who_scans() {
    let alone = rows::measure(1, FEW).await.unwrap();
    let among = rows::measure(10_000, FEW).await.unwrap();
    assert_eq!(alone.steps.len(), among.steps.len());
    for (alone, among) in alone.steps.iter().zip(&among.steps) {
        assert_eq!(alone.cost, among.cost, "{}", alone.what);
    }
    // A page is a megabyte of rows.
    assert_eq!(alone.scan.requests, 1);
    assert!(among.scan.requests > 2, "{:?}", among.scan);

    let step = |what| alone.step(what).unwrap();
    for what in ["acquire, new key", "extend", "release", "release again"] {
        assert_eq!(step(what).operations(), "UpdateItem", "{what}");
    }
    // Four pages, and a look at each key with a line.
    assert_eq!(step(rows::SWEEP).operations(), "2 GetItem, 4 Scan");
    assert_eq!(
        step("sweep, nothing held").operations(),
        "4 Scan",
        "clean afterwards"
    );

    let rows = vec![alone, among];
    let figures = Figures {
        rows,
        ..Figures::default()
    };
    let measures = figures.measures();
    let missed: Vec<_> = measures.iter().filter(|measure| measure.missed()).collect();
    assert!(missed.is_empty(), "{missed:?}");
    let judged = measures.iter().filter(|measure| measure.met.is_some());
    assert_eq!(judged.count(), 6, "{measures:?}");
}

#[tokio::test]
async fn a_deeper_line_takes_more_bytes_and_the_same_requests() {
    let depths = lines::measure(&[1, 8, 32]).await.unwrap();
    for depth in &depths {
        assert_eq!(depth.join.operations(), "TransactWriteItems");
        assert_eq!(depth.leave.operations(), "GetItem, Query, UpdateItem");
        assert_eq!(depth.hand_over.operations(), "GetItem, UpdateItem");
        assert_eq!(depth.confirm.operations(), "UpdateItem");
    }
    let answered = |look: fn(&lines::Depth) -> u64| depths.iter().map(look).collect::<Vec<_>>();
    assert!(answered(|depth| depth.hand_over.answered).is_sorted_by(|less, more| less < more));
    assert!(answered(|depth| depth.join.bytes()).is_sorted_by(|less, more| less == more));
}

#[tokio::test]
async fn a_permit_takes_one_query_and_one_write_however_many_there_are() {
    for found in permits::measure(&[2, 10]).await.unwrap() {
        for granted in [&found.first, &found.last, &found.free] {
            assert_eq!(granted.operations(), "Query, UpdateItem");
        }
        assert_eq!(found.full.operations(), "Query");
        assert!(found.last.answered > found.first.answered);
    }
}

#[tokio::test]
async fn a_set_is_acquired_at_two_requests_and_released_at_one_a_key() {
    for set in several::measure(&[1, 2, 10]).await.unwrap() {
        let both = "TransactGetItems, TransactWriteItems";
        assert_eq!(set.acquire.operations(), both, "{}", set.keys);
        assert_eq!(set.held.operations(), "TransactWriteItems", "{}", set.keys);
        let keys = u64::try_from(set.keys).unwrap();
        assert_eq!((set.extend.requests, set.release.requests), (keys, keys));
    }
}
