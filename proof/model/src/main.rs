//! `leasehold-model`: goes through every order of events in small worlds, in which the library's own functions run; and through
//! broken designs, until it finds them out.

mod actions;
mod calls;
mod effects;
mod explore;
mod flaws;
mod invariants;
mod library;
mod lists;
mod names;
mod pools;
mod programs;
mod render;
mod results;
mod rows;
mod scope;
mod seam;
mod service;
#[cfg(test)]
mod simulation;
mod state;
mod stops;
mod walk;
mod world;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use clap::Parser;

use explore::{Explored, explore};
use flaws::{Broken, FLAWS};
use invariants::Invariant;
use scope::Scope;
use walk::{side_by_side, walk};

/// Check every order of events in small worlds against the promises, and that each broken design is rejected
#[derive(Parser)]
#[command(name = "leasehold-model")]
struct Arguments {
    /// Larger worlds: one more sweep and retry in each; a hundred million steps in each at most, an hour, eight gigabytes.
    #[arg(long)]
    deep: bool,
    /// Only the first 30,000 states or so of each world, in minutes; all broken designs nevertheless.
    #[arg(long, conflicts_with = "deep")]
    quick: bool,
    /// Only worlds whose name contains this, and no broken designs; a name that no world has lists all.
    #[arg(long, value_name = "WORLD", conflicts_with = "broken")]
    only: Option<String>,
    /// So many walks at random through each of the large worlds, instead of all states of the small ones.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["deep", "quick"])]
    walks: Option<u64>,
    /// The seed of the first walk; with --walks 1 it is taken again.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "walks")]
    seed: u64,
    /// Only broken designs whose description contains this, and no worlds.
    #[arg(long, value_name = "WORDS")]
    broken: Option<String>,
}

/// How many steps are taken in a world at most, in larger worlds.
const DEEP: usize = 100_000_000;
/// The same, for a short run.
const QUICK: usize = 30_000;
/// How many walks are taken through each large world; and in a short run.
const WALKS: u64 = 5_000;
const QUICK_WALKS: u64 = 150;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(walks) = arguments.walks {
        if arguments.walks_through().count() == 0 || arguments.flaws_asked_for().count() == 0 {
            eprintln!("nothing has that in its name: {}", names());
            return ExitCode::from(2);
        }
        return ExitCode::from(u8::from(arguments.walk(walks)));
    }
    let (mut states, mut violations) = (0, 0);
    let (worlds, flaws): (Vec<_>, Vec<_>) =
        (arguments.worlds().collect(), arguments.flaws().collect());
    if worlds.is_empty() && flaws.is_empty() {
        eprintln!("nothing has that in its name: {}", names());
        return ExitCode::from(2);
    }
    for world in worlds {
        let explored = arguments.goes_through(world);
        states += explored.states;
        violations += explored.broken.len();
    }
    let rejected: Vec<_> = flaws.iter().filter(|broken| is_rejected(broken)).collect();
    // A promise that no design breaks would say nothing. Whoever believes in a lease that has ended breaks S12 first.
    let idle: Vec<_> = Invariant::ALL
        .iter()
        .filter(|promise| {
            arguments.is_for_all() && !rejected.iter().any(|(_, _, breaks, _)| breaks == *promise)
        })
        .collect();
    for promise in &idle {
        println!("NO DESIGN BREAKS: {}", promise.words());
    }
    let (rejected, flaws) = (rejected.len(), flaws.len());
    println!(
        "model: {states} states, {violations} violations, {rejected} of {flaws} broken designs rejected"
    );
    let walked = arguments.is_for_all() && !arguments.deep;
    let strayed = walked && arguments.walk(if arguments.quick { QUICK_WALKS } else { WALKS });
    if violations == 0 && rejected == flaws && idle.is_empty() && !strayed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn is_rejected(broken: &Broken) -> bool {
    let (_, words, breaks, scope) = broken;
    let explored = explore(*scope, Some(broken), None);
    let states = explored.states;
    let mut found = explored.broken.iter();
    let Some((name, steps)) = found.find(|(name, _)| *name == breaks.words()) else {
        println!("NOT REJECTED: {words}; {states} states");
        return false;
    };
    let long = steps.len();
    println!("rejected: {words}: not {name}, after {long} steps; {states} states");
    print(steps);
    true
}

impl Arguments {
    /// Whether every broken design is gone through.
    const fn is_for_all(&self) -> bool {
        self.only.is_none() && self.broken.is_none()
    }

    /// Walks through the large worlds, in a design of which the description is asked for, or in ours. Whether a promise is broken.
    fn walk(&self, walks: u64) -> bool {
        let flaw = self.broken.as_ref().and(self.flaws_asked_for().next());
        let worlds: Vec<_> = self.walks_through().collect();
        let violations = AtomicUsize::new(0);
        side_by_side(&worlds, |world| {
            let seeds = self.seed..self.seed + walks;
            let until = flaw.map(|(_, _, promise, _)| *promise);
            let (taken, found) = walk(world, flaw.map(|(flaw, ..)| *flaw), seeds, until);
            let mut lines = vec![format!("{:<16} {taken} steps: {}", world.name, world.about)];
            if let Some(found) = found {
                violations.fetch_add(1, Relaxed);
                lines.extend(found.told());
            }
            println!("{}", lines.join("\n"));
        });
        let violations = violations.into_inner();
        println!(
            "walks: {walks} through each of {} worlds, {violations} violations",
            worlds.len()
        );
        violations > 0
    }

    /// Which worlds to go through.
    fn worlds(&self) -> impl Iterator<Item = Scope> {
        let wanted = |world: &Scope| {
            let only = self.only.as_ref();
            self.broken.is_none() && only.is_none_or(|only| world.name.contains(only))
        };
        let deep = |world: Scope| if self.deep { world.deeper() } else { world };
        scope::all().filter(wanted).map(deep)
    }

    fn walks_through(&self) -> impl Iterator<Item = Scope> {
        let only = self.only.as_ref();
        scope::walked().filter(move |world| only.is_none_or(|only| world.name.contains(only)))
    }

    /// Those of which the description is asked for, or all.
    fn flaws_asked_for(&self) -> impl Iterator<Item = &'static Broken> {
        let broken = self.broken.as_ref();
        let wanted =
            move |(_, words, ..): &&Broken| broken.is_none_or(|broken| words.contains(broken));
        FLAWS.iter().filter(wanted)
    }

    /// Which designs to find out.
    fn flaws(&self) -> impl Iterator<Item = &'static Broken> {
        self.flaws_asked_for().filter(|_| self.only.is_none())
    }

    fn goes_through(&self, world: Scope) -> Explored {
        let most = self.deep.then_some(DEEP);
        let most = most.or(self.quick.then_some(QUICK));
        let explored = explore(world, None, most);
        let (tables, steps, effects) = explored.counts;
        println!(
            "{:<10} {:>9} states{}, {} steps deep; {tables} tables, {steps} steps of the library, {effects} effects; {} broken: {}",
            world.name,
            explored.states,
            if explored.cut_off { " (of more)" } else { "" },
            explored.depth,
            explored.broken.len(),
            world.about,
        );
        for (name, steps) in &explored.broken {
            println!("VIOLATED: {name}");
            print(steps);
        }
        explored
    }
}

/// What there is to choose from.
fn names() -> String {
    let worlds = scope::all().chain(scope::walked());
    let worlds: Vec<_> = worlds.map(|world| world.name).collect();
    let flaws: Vec<_> = FLAWS.iter().map(|(_, words, ..)| *words).collect();
    format!(
        "the worlds are {}; the broken designs:\n    {}",
        worlds.join(", "),
        flaws.join("\n    ")
    )
}

fn print(steps: &[String]) {
    for step in steps {
        println!("    {step}");
    }
}
