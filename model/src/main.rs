//! `leasehold-model`: goes through every order of events in small worlds, by the library's own transition
//! function and its own readers of refusals; and through broken designs, until it finds them out.

mod clients;
mod design;
mod explore;
mod invariants;
mod keeper;
mod message;
mod names;
mod reading;
mod rows;
mod scope;
mod table;
mod told;
mod witness;
mod world;

use std::{process::ExitCode, time::Instant};

use clap::Parser;

use design::{Design, FLAWS};
use explore::{explore, name_of};

/// Every order of events in small worlds: what must never happen does not, and broken designs are found out.
#[derive(Parser)]
#[command(name = "leasehold-model")]
struct Arguments {
    /// Larger worlds: a hundred million states and more, and an hour.
    #[arg(long)]
    deep: bool,
    /// Only worlds whose name contains this, and no broken designs.
    #[arg(long)]
    only: Option<String>,
    /// Only broken designs whose words contain this, and no worlds of ours.
    #[arg(long)]
    broken: Option<String>,
    /// Calls to make in each world, instead of its own number.
    #[arg(long)]
    calls: Option<u8>,
    /// Threads; as many as there are processors if left out.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = arguments.threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    });
    let (mut states, mut violations, mut rejected) = (0, 0, 0);
    for mut scope in scope::ALL {
        let wanted = |only: &String| !scope.name.contains(only);
        if arguments.broken.is_some() || arguments.only.as_ref().is_some_and(wanted) {
            continue;
        }
        if let Some(calls) = arguments.calls {
            scope.calls = calls;
        }
        let start = Instant::now();
        let explored = explore(scope, Design::Ours, None, threads);
        println!(
            "{:<10} {:>11} states, depth {:>2}, {} rows, {} writes, {} refusals, {} broken, {:.1} s: {}",
            scope.name,
            explored.states,
            explored.depth,
            explored.rows.0,
            explored.rows.1,
            explored.rows.2,
            explored.broken.len(),
            start.elapsed().as_secs_f32(),
            scope.about
        );
        states += explored.states;
        violations += explored.broken.len();
        for (name, steps) in explored.broken {
            println!("VIOLATED: {name}");
            steps.iter().for_each(|step| println!("    {step}"));
        }
    }
    if arguments.only.is_none() {
        for (flaw, words, invariant, mut scope) in FLAWS {
            if arguments
                .broken
                .as_ref()
                .is_some_and(|only| !words.contains(only))
            {
                continue;
            }
            if let Some(calls) = arguments.calls {
                scope.calls = calls;
            }
            let start = Instant::now();
            let explored = explore(scope, Design::Broken(flaw), Some(invariant), threads);
            let found = explored
                .broken
                .into_iter()
                .find(|(name, _)| *name == name_of(invariant));
            match found {
                Some((name, steps)) => {
                    rejected += 1;
                    println!(
                        "rejected: {words}: not {name}, after {} steps of {} states, {:.1} s",
                        steps.len(),
                        explored.states,
                        start.elapsed().as_secs_f32()
                    );
                    steps.iter().for_each(|step| println!("    {step}"));
                }
                None => println!("NOT REJECTED: {words}, {} states", explored.states),
            }
        }
    }
    let flaws = FLAWS.len();
    println!(
        "model: {states} states, {violations} violations, {rejected} of {flaws} broken designs rejected"
    );
    if violations == 0 && (rejected == flaws || arguments.only.is_some()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
