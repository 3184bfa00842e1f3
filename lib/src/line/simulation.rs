//! The line under everything that can go wrong at once: functions that die between any two steps,
//! calls and answers that are lost, late or doubled, workflows that are stopped, operators who
//! interfere, clocks that differ. Chance decides, and repeats itself: `LEASEHOLD_SEED=n` replays one
//! run, `LEASEHOLD_RUNS=n` makes so many.

mod calls;
mod chance;
mod dice;
mod ground;
mod remembered;
mod single;
mod steps;
mod tasks;
mod witness;
mod workflow;
mod world;

use std::{collections::BTreeMap, thread};

use ground::Broken;

/// What went wrong in the run of this seed, and all that happened in it.
fn failure(seed: u64, broken: Option<Broken>) -> Option<String> {
    let wrong = chance::run(seed, broken, false).wrong()?;
    let again = chance::run(seed, broken, true);
    let trace = again.ground.get().trace.take().unwrap_or_default();
    Some(format!("{trace}LEASEHOLD_SEED={seed}: {wrong}"))
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
    const SIDE_BY_SIDE: u64 = 4;
    thread::scope(|scope| {
        let shares = (0..SIDE_BY_SIDE).map(|share| {
            let mut seeds = (0..runs).filter(move |seed| seed % SIDE_BY_SIDE == share);
            scope.spawn(move || seeds.find_map(|seed| failure(seed, broken)))
        });
        let shares: Vec<_> = shares.collect();
        let failed = shares.into_iter().map(thread::ScopedJoinHandle::join);
        failed
            .map(|failed| failed.expect("no panic"))
            .find_map(|failed| failed)
    })
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
    ] {
        let found = first_failure(300, Some(broken));
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
        "Expire",
        "Extend",
        "Grant",
        "Leave",
        "Pass",
        "Release",
        "Reserve",
        "Swap",
        "Take",
        "TryAgain",
        "join",
        "told success",
        "nobody's token",
        "Lease.Frozen",
        "Lease.Lost",
        "Lease.QueueFull",
        "told Lease.QueueTimeout",
        "told Lease.Unavailable",
    ] {
        let times = seen.get(what).copied().unwrap_or(0);
        assert!(times >= 3, "{what}: {times} times");
    }
}
