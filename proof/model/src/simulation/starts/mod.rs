//! Starts under all faults at once, with the whole library: calls and events that are duplicated, lost, late and out of order,
//! functions that die or are suspended at any request, `StartExecution` that arrives minutes later, answers that are out of date,
//! operators, and a machine that comes and goes; beside waiters with task tokens.
//!
//! A module of its own, because what judges it is another: the truth is what Step Functions runs, and not what a row says.
//! Table, clocks, task tokens and the steps of functions are in the modules beside this one. A seed decides:
//! `LEASEHOLD_SEED=n` replays one run, `LEASEHOLD_RUNS=n` sets the number of runs.

mod judge;
mod plan;
mod pool;
mod redriven;
mod results;
mod schedule;
mod service;
mod world;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use super::{given, shared::Broken};
pub use judge::Judge;
pub use results::CALLERS;
pub use service::{SIGNATURE, Starts};

const SIDE_BY_SIDE: usize = 4;

/// What went wrong in a run, and all that happened in it.
fn failure(seed: u64) -> String {
    let world = schedule::run(seed, None, true);
    let trace = world.shared.get().trace.take().unwrap_or_default();
    let wrong = world.wrong().join("\n");
    format!("{trace}{wrong}\nLEASEHOLD_SEED={seed}")
}

/// What went wrong in which of the runs of these seeds, made side by side; or in one of them.
fn failures(seeds: Range<u64>, broken: Option<Broken>) -> BTreeMap<u64, Vec<String>> {
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            let wrong = schedule::run(seed, broken, false).wrong();
            if !wrong.is_empty() {
                failed.lock().expect("no panic").insert(seed, wrong);
                if broken.is_some() {
                    next.store(seeds.end, Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(work);
        }
    });
    failed.into_inner().expect("no panic")
}

#[test]
fn starts_keep_their_promises() {
    if let Some(seed) = given("LEASEHOLD_SEED") {
        println!("{}", failure(seed));
        assert_eq!(schedule::run(seed, None, false).wrong(), [""; 0]);
        return;
    }
    let failed = failures(0..given("LEASEHOLD_RUNS").unwrap_or(300), None);
    for (seed, wrong) in &failed {
        println!("{seed}: {}", wrong.join(" | "));
    }
    if let Some(seed) = failed.keys().next() {
        panic!(
            "{} runs failed; the first:\n{}",
            failed.len(),
            failure(*seed)
        );
    }
}

#[test]
fn broken_starts_are_found_out() {
    // With the seed from which it is looked for: some are rare.
    for (broken, from) in [
        (Broken::SettledAlone, 250),
        (Broken::BeginsUnseen, 0),
        (Broken::OrderIgnored, 0),
        (Broken::QueueIgnored, 40),
        (Broken::DropsNextWaiter, 0),
        (Broken::TakesBackWithoutCheck, 150),
        (Broken::NotesNothing, 0),
        (Broken::NoteForgotten, 0),
        (Broken::CountsAhead, 0),
        (Broken::StopsWhoAcquires, 740),
        (Broken::StopsNothing, 20),
        (Broken::RuleIgnored, 0),
        (Broken::ResultForgotten, 0),
        (Broken::ResultGuessed, 0),
        (Broken::CalledRunsOn, 0),
        (Broken::CallerSeemsOver, 0),
        (Broken::PoolIgnored, 0),
        (Broken::PoolNeverLeft, 0),
        (Broken::EntryEnds, 0),
        (Broken::EntryNotedLate, 0),
        (Broken::PoolNotServed, 0),
        (Broken::PoolOrderIgnored, 270),
    ] {
        let failed = failures(from..from + 5_000, Some(broken));
        let first = failed.iter().next();
        let (seed, wrong) = first.unwrap_or_else(|| panic!("{broken:?} went unnoticed"));
        println!("{broken:?}: {seed}: {}", wrong.join(" | "));
    }
}

#[test]
fn a_run_of_starts_repeats_itself() {
    let traces = [(); 2].map(|()| {
        let world = schedule::run(7, None, true);
        world.shared.get().trace.take().unwrap_or_default()
    });
    assert!(traces[0].lines().count() > 100, "little happened");
    assert_eq!(traces[0], traces[1]);
}

/// A simulation in which little happens finds little.
#[test]
fn runs_see_all_that_befalls_starts() {
    let mut seen = BTreeMap::<String, u64>::new();
    for seed in 0..300 {
        let world = schedule::run(seed, None, false);
        for (what, times) in &world.shared.get().seen {
            *seen.entry(what.clone()).or_default() += times;
        }
    }
    println!("{seen:?}");
    for what in [
        "begins",
        "a result",
        "a failure as a result",
        "a refusal as a result",
        "a caller is stopped",
        "stopped with its caller",
        "started",
        "queued",
        "a stay",
        "skipped",
        "superseded",
        "Lease.NotStarted",
        "Lease.Frozen",
        "Lease.Held",
        "Lease.QueueFull",
        "Lease.Invalid",
        "Lease.Unavailable",
        "Join",
        "Leave",
        "Look",
        "Release",
        "End released",
        "End expired",
        "ReplaceIfUnchanged",
        "answered success",
        "denied",
        "refused",
        "redriven",
        "redriven to what was kept",
        "redriven with its key",
        "redriven, and acquires for itself",
        "has its key again",
        "stopped beside others",
        "counted beside others",
        "given back early",
        "ended and granted to the next",
        "a row is deleted",
        "served by the pool",
        "served while others wait in the pool",
        "redriven, and in the pool again",
    ] {
        let times = seen.get(what).copied().unwrap_or(0);
        assert!(times >= 3, "{what}: {times} times");
    }
}
