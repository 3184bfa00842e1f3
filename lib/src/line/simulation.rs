//! The rules under everything that can go wrong at once: functions that die between any two steps,
//! calls and answers that are lost, late or doubled, clocks that differ, executions that are stopped,
//! or fail while a function of theirs is at work, and are redriven while reap looks at them, operators
//! who interfere, a table that is restored, floors; and a line, sets and permits side by side. Chance
//! decides, and repeats itself: `LEASEHOLD_SEED=n` replays one run, `LEASEHOLD_RUNS=n` makes so many.

mod calls;
mod chance;
mod dice;
mod ground;
mod remembered;
mod steps;
mod tasks;
mod witness;
mod workflow;
mod world;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

use ground::Broken;

/// What went wrong in the run of this seed, and all that happened in it.
fn failure(seed: u64, broken: Option<Broken>) -> String {
    let again = chance::run(seed, broken, true);
    let trace = again.ground.get().trace.take().unwrap_or_default();
    let wrong = again.wrong().unwrap_or_default();
    format!("{trace}LEASEHOLD_SEED={seed}: {wrong}")
}

/// A number that somebody at a terminal gives.
#[expect(
    clippy::disallowed_methods,
    reason = "which runs to make is not the library's setting"
)]
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The first failure of so many runs, made side by side.
fn first_failure(runs: u64, broken: Option<Broken>) -> Option<String> {
    const SIDE_BY_SIDE: usize = 4;
    let first = AtomicU64::new(runs);
    let fails = |seed: &u64| chance::run(*seed, broken, false).wrong().is_some();
    thread::scope(|scope| {
        for share in (0..runs).take(SIDE_BY_SIDE) {
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
    (first < runs).then(|| failure(first, broken))
}

#[test]
fn nobody_overtakes_and_nobody_is_lost_in_a_thousand_runs() {
    if let Some(seed) = given("LEASEHOLD_SEED") {
        let world = chance::run(seed, None, true);
        println!("{}", world.ground.get().trace.take().unwrap_or_default());
        assert_eq!(world.wrong(), None, "LEASEHOLD_SEED={seed}");
        return;
    }
    let runs = given("LEASEHOLD_RUNS").unwrap_or(1000);
    if let Some(failed) = first_failure(runs, None) {
        panic!("{failed}");
    }
}

#[test]
fn a_line_that_is_broken_is_found_out() {
    for broken in [
        Broken::TokenKept,
        Broken::OrderIgnored,
        Broken::Barging,
        Broken::Silence,
        Broken::Forgetful,
        Broken::NoMargin,
        Broken::NoFloor,
        Broken::ReapEnds,
        Broken::ReapLate,
        Broken::ReapTrusts,
        Broken::SweepStops,
    ] {
        let found = first_failure(1000, Some(broken));
        let found = found.unwrap_or_else(|| panic!("{broken:?} went unnoticed"));
        println!("{broken:?}: {}", found.lines().last().unwrap_or_default());
    }
}

#[test]
fn a_run_repeats_itself() {
    let traces = [(); 2].map(|()| {
        let world = chance::run(7, None, true);
        world.ground.get().trace.take()
    });
    assert!(
        traces[0]
            .as_ref()
            .is_some_and(|trace| trace.lines().count() > 100)
    );
    assert_eq!(traces[0], traces[1]);
}

/// A simulation in which little happens finds little.
#[test]
fn the_runs_see_all_that_can_happen_to_a_line() {
    let mut seen = BTreeMap::<String, u64>::new();
    for seed in 0..300 {
        let world = chance::run(seed, None, false);
        for (what, times) in &world.ground.get().seen {
            *seen.entry(what.clone()).or_default() += times;
        }
    }
    println!("{seen:?}");
    for what in [
        "Cut",
        "End expired",
        "End released",
        "Extend",
        "Grant",
        "Leave",
        "Pass",
        "Release",
        "Reserve",
        "Swap",
        "Take",
        "TryAgain",
        "Join",
        "told success",
        "nobody's token",
        "Lease.Frozen",
        "Lease.Lost",
        "Lease.QueueFull",
        "told Lease.QueueTimeout",
        "told Lease.Unavailable",
        "a floor",
        "a set",
        "redriven",
        "restored",
    ] {
        let times = seen.get(what).copied().unwrap_or(0);
        assert!(times >= 3, "{what}: {times} times");
    }
}
