//! The part about scale, on a tiny scale.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_bench::scale::figures::Figures;
use leasehold_bench::scale::load::client::Name;
use leasehold_bench::scale::load::{self, Load};
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
    // The row, and what the index has of it: an extend leaves that alone.
    let write = |what| step(what).units.write;
    let [acquire, extend, release] = ["acquire, new key", "extend", "release"].map(write);
    assert!(
        (acquire - 2.0).abs() < 1e-9 && (extend - 1.0).abs() < 1e-9 && (release - 2.0).abs() < 1e-9
    );
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
    assert_eq!(judged.count(), 2 * 3 + 1, "{measures:?}");
}

#[tokio::test]
async fn a_deeper_line_takes_more_bytes_and_the_same_requests() {
    let depths = lines::measure(&[1, 6, 7, 32]).await.unwrap();
    for depth in &depths {
        assert_eq!(depth.join.operations(), "TransactWriteItems");
        assert_eq!(depth.leave.operations(), "GetItem, Query, UpdateItem");
        assert_eq!(depth.hand_over.operations(), "GetItem, UpdateItem");
        assert_eq!(depth.confirm.operations(), "UpdateItem");
    }
    let answered = |look: fn(&lines::Depth) -> u64| depths.iter().map(look).collect::<Vec<_>>();
    assert!(answered(|depth| depth.hand_over.answered).is_sorted_by(|less, more| less < more));
    // Until the row is more than a kilobyte, a transaction takes two units for it and two for the item beside it, and one
    // for the index.
    let joining = depths.iter().map(|depth| depth.join.units.write);
    let joining: Vec<String> = joining.map(|units| units.to_string()).collect();
    assert_eq!(joining, ["5", "5", "7", "7"]);
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

#[tokio::test]
async fn no_two_processes_are_inside_at_once() {
    let program = Path::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    for name in Name::value_variants() {
        let load = Load {
            name: *name,
            processes: 2,
            tasks: 3,
            sections: 20,
            // So few that they get in each other's way.
            keys: 3,
            exponent: 1.0,
            latency: Duration::from_millis(1),
        };
        let loaded = load::run(program, load).await.unwrap();
        println!("{loaded:?}");
        assert_eq!((loaded.sections, loaded.failed()), (120, 0), "{loaded:?}");
        assert_eq!((loaded.overlaps, loaded.tokens_back), (0, 0), "{loaded:?}");
        assert!(loaded.refused > 0, "{loaded:?}");
        let requests = name.per_section() * loaded.sections + loaded.refused;
        assert_eq!(loaded.cost.requests, requests, "{loaded:?}");
        // At least one for each that was not refused.
        let written = loaded.cost.requests - loaded.refused;
        assert!(
            loaded.cost.units.write >= leasehold_bench::ratio(written, 1),
            "{loaded:?}"
        );
    }
}
