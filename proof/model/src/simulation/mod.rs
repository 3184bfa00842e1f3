//! The rules under all faults at once: functions that die between any two steps,
//! calls and answers that are lost, late or duplicated, clocks that differ, executions that are stopped,
//! or fail while one of their functions is at work, and are redriven while reap looks at them, operators
//! who interfere, a table that is restored, floors; and a queue, sets and permits side by side. A seed
//! decides: `LEASEHOLD_SEED=n` replays one run, `LEASEHOLD_RUNS=n` sets the number of runs.

mod oracle;
mod schedule;
mod shared;
mod starts;
mod step_functions;
mod store;
mod tasks;
mod workflow;
mod world;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

use leasehold::{Key, Lease, store::Address};
use shared::Broken;

/// The row that a handle is of.
fn address_of(lease: &Lease) -> Address {
    Address {
        key: lease.key.clone(),
        permit: lease.permit,
    }
}

/// A key's first row, which has its queue.
fn first_of(key: &Key) -> Address {
    Address {
        key: key.clone(),
        permit: 0,
    }
}

/// What went wrong in the run of this seed, and all that happened in it.
fn failure(seed: u64, broken: Option<Broken>) -> String {
    let again = schedule::run(seed, broken, true);
    let trace = again.shared.get().trace.take().unwrap_or_default();
    let wrong = again.wrong().unwrap_or_default();
    format!("{trace}LEASEHOLD_SEED={seed}: {wrong}")
}

/// A number that somebody at a terminal gives.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The first failure in the runs of these seeds, made side by side.
fn first_failure(seeds: Range<u64>, broken: Option<Broken>) -> Option<String> {
    const SIDE_BY_SIDE: usize = 4;
    let first = AtomicU64::new(seeds.end);
    let fails = |seed: &u64| schedule::run(*seed, broken, false).wrong().is_some();
    thread::scope(|scope| {
        for share in seeds.clone().take(SIDE_BY_SIDE) {
            let (first, fails) = (&first, &fails);
            scope.spawn(move || {
                let open = |seed: &u64| *seed < first.load(SeqCst);
                let mut seeds = (share..).step_by(SIDE_BY_SIDE).take_while(open);
                if let Some(seed) = seeds.find(fails) {
                    first.fetch_min(seed, SeqCst);
                }
            });
        }
    });
    let first = first.into_inner();
    (first < seeds.end).then(|| failure(first, broken))
}

#[test]
fn nobody_overtakes_and_nobody_is_lost() {
    if let Some(seed) = given("LEASEHOLD_SEED") {
        let sim = schedule::run(seed, None, true);
        println!("{}", sim.shared.get().trace.take().unwrap_or_default());
        assert_eq!(sim.wrong(), None, "LEASEHOLD_SEED={seed}");
        return;
    }
    let runs = given("LEASEHOLD_RUNS").unwrap_or(1000);
    if let Some(failed) = first_failure(0..runs, None) {
        panic!("{failed}");
    }
}

#[test]
fn broken_queue_is_found_out() {
    // With the seed from which it is looked for: some are rare.
    for (broken, from) in [
        (Broken::TokenReused, 0),
        (Broken::OrderIgnored, 0),
        (Broken::QueueIgnored, 0),
        (Broken::NoFailureNotification, 0),
        (Broken::DropsNextWaiter, 0),
        (Broken::ForgottenWhenRead, 0),
        (Broken::TakesBackWithoutCheck, 0),
        (Broken::NoMargin, 100),
        (Broken::NoFloor, 0),
        (Broken::ReapEnds, 500),
        (Broken::ReapLate, 1_700),
        (Broken::ReapTrusts, 850),
        (Broken::SweepStops, 0),
    ] {
        let found = first_failure(from..from + 5_000, Some(broken));
        let found = found.unwrap_or_else(|| panic!("{broken:?} went unnoticed"));
        println!("{broken:?}: {}", found.lines().last().unwrap_or_default());
    }
}

#[test]
fn a_failing_run_repeats_itself() {
    let broken = Some(Broken::QueueIgnored);
    let mut seeds = 0..5_000;
    let fails = |seed: &u64| schedule::run(*seed, broken, false).wrong().is_some();
    let seed = seeds.find(fails).expect("a run that fails");
    let [once, again] = [(); 2].map(|()| {
        let sim = schedule::run(seed, broken, true);
        let trace = sim.shared.get().trace.take().unwrap_or_default();
        (sim.wrong(), trace)
    });
    assert!(once.0.is_some(), "LEASEHOLD_SEED={seed}");
    assert!(once.1.contains("WRONG"), "{}", once.1);
    assert_eq!(once, again);
}

/// A simulation in which little happens finds little.
#[test]
fn runs_see_all_queue_events() {
    let mut seen = BTreeMap::<String, u64>::new();
    for seed in 0..1500 {
        let sim = schedule::run(seed, None, false);
        for (what, times) in &sim.shared.get().seen {
            *seen.entry(what.clone()).or_default() += times;
        }
    }
    println!("{seen:?}");
    for what in [
        "ShortenDeadline",
        "End expired",
        "End released",
        "Extend",
        "Grant",
        "Leave",
        "Look",
        "Prove",
        "Release",
        "ReplaceIfUnchanged",
        "Join",
        "answered success",
        "nobody's token",
        "Lease.Frozen",
        "Lease.Lost",
        "Lease.QueueFull",
        "answered Lease.QueueTimeout",
        "answered Lease.Unavailable",
        "a floor",
        "a set",
        "redriven",
        "redriven to what was kept",
        "restored",
        "carries on",
        "granted from the queue",
        "ended and granted to the next",
        "taken back",
        "told again",
        "a refusal noted",
        "Shown",
        "a stay",
        "Missing { waits: false }",
        "Unreadable",
    ] {
        let times = seen.get(what).copied().unwrap_or(0);
        // A success shortens no deadline, and of the others most leases end sooner than the grace.
        let least = if what == "ShortenDeadline" { 1 } else { 3 };
        assert!(times >= least, "{what}: {times} times");
    }
}
