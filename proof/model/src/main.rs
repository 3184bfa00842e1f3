//! `leasehold-model`: goes through every order of events in small worlds, by the library's own transition
//! function and its own readers of refusals; and through broken designs, until it finds them out.

mod clients;
mod design;
mod executions;
mod explore;
mod invariants;
mod lists;
mod message;
mod names;
mod oracle;
mod reading;
mod render;
mod rows;
mod scope;
#[cfg(test)]
mod simulation;
mod sweeper;
mod table;
mod world;

use std::process::ExitCode;

use clap::Parser;

use design::{Broken, Design, FLAWS};
use explore::{Explored, explore};
use scope::Scope;

/// Check every order of events in small worlds against the promises, and that each broken design is rejected
#[derive(Parser)]
#[command(name = "leasehold-model")]
struct Arguments {
    /// Larger worlds: one more call in each, or one more sweep and retry; a hundred million steps in each at most, an hour, eight gigabytes.
    #[arg(long)]
    deep: bool,
    /// Only the first 30,000 states or so of each world, in minutes; all broken designs nevertheless.
    #[arg(long, conflicts_with = "deep")]
    quick: bool,
    /// Only worlds whose name contains this, and no broken designs; a name that no world has lists all.
    #[arg(long, value_name = "WORLD", conflicts_with = "broken")]
    only: Option<String>,
    /// Only broken designs whose description contains this, and no worlds.
    #[arg(long, value_name = "WORDS")]
    broken: Option<String>,
}

/// How many steps are taken in a world at most, in larger worlds.
const DEEP: usize = 100_000_000;
/// The same, for a short run.
const QUICK: usize = 30_000;

/// A world of any kind.
#[derive(Clone, Copy)]
enum Either {
    /// Of leases with a deadline.
    Deadlines(Scope),
    /// Of executions, their leases and their queue, and of those that are started.
    Executions(executions::Scope),
}

/// A broken design of any kind.
#[derive(Clone, Copy)]
enum Flawed {
    Deadlines(&'static Broken),
    Executions(&'static executions::Broken),
}

/// A promise of any kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    Deadlines(oracle::Invariant),
    Executions(executions::Invariant),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
    let rejected: Vec<_> = flaws.iter().filter(|flawed| flawed.is_rejected()).collect();
    // A promise that no design breaks would say nothing.
    let idle: Vec<_> = Promise::all()
        .filter(|promise| {
            arguments.is_for_all() && !rejected.iter().any(|it| it.breaks() == *promise)
        })
        .collect();
    for promise in &idle {
        println!("NO DESIGN BREAKS: {}", promise.words());
    }
    let (rejected, flaws) = (rejected.len(), flaws.len());
    println!(
        "model: {states} states, {violations} violations, {rejected} of {flaws} broken designs rejected"
    );
    if violations == 0 && rejected == flaws && idle.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Either {
    fn all() -> impl Iterator<Item = Self> {
        let executions = executions::ALL.into_iter();
        let executions = executions.chain(executions::STARTED.iter().copied());
        let executions = executions.chain(executions::RESULTS.iter().copied());
        let executions = executions.chain(executions::POOLED.iter().copied());
        let executions = executions.map(Self::Executions);
        scope::ALL
            .into_iter()
            .map(Self::Deadlines)
            .chain(executions)
    }

    /// Its name, and what it is about.
    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Deadlines(scope) => (scope.name, scope.about),
            Self::Executions(scope) => (scope.name, scope.about),
        }
    }
}

impl Flawed {
    fn all() -> impl Iterator<Item = Self> {
        let executions = executions::FLAWS.iter().map(Self::Executions);
        FLAWS.iter().map(Self::Deadlines).chain(executions)
    }

    const fn words(&self) -> &'static str {
        match self {
            Self::Deadlines((_, words, ..)) | Self::Executions((_, words, ..)) => words,
        }
    }

    const fn breaks(&self) -> Promise {
        match self {
            Self::Deadlines(broken) => Promise::Deadlines(broken.2),
            Self::Executions(broken) => Promise::Executions(broken.2),
        }
    }

    fn is_rejected(&self) -> bool {
        let (words, breaks) = (self.words(), self.breaks().words());
        let explored = match self {
            Self::Deadlines((flaw, _, breaks, scope)) => {
                explore(*scope, Design::Broken(*flaw), Some(*breaks), None)
            }
            Self::Executions(broken) => executions::explore(broken.3, Some(broken), None),
        };
        let states = explored.states;
        let mut found = explored.broken.iter();
        let Some((name, steps)) = found.find(|(name, _)| *name == breaks) else {
            println!("NOT REJECTED: {words}; {states} states");
            return false;
        };
        let long = steps.len();
        println!("rejected: {words}: not {name}, after {long} steps; {states} states");
        print(steps);
        true
    }
}

impl Promise {
    /// All that some design has to break.
    fn all() -> impl Iterator<Item = Self> {
        // Whoever believes in a lease that has ended breaks S12 first, and S8 only when another is granted the key.
        let executions = executions::Invariant::ALL.iter();
        let executions = executions.filter(|promise| **promise != executions::Invariant::S8);
        let deadlines = oracle::Invariant::ALL.iter().copied();
        deadlines
            .map(Self::Deadlines)
            .chain(executions.copied().map(Self::Executions))
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Deadlines(promise) => promise.words(),
            Self::Executions(promise) => promise.words(),
        }
    }
}

impl Arguments {
    /// Whether every broken design is gone through.
    const fn is_for_all(&self) -> bool {
        self.only.is_none() && self.broken.is_none()
    }

    /// Which worlds to go through.
    fn worlds(&self) -> impl Iterator<Item = Either> {
        let wanted = |world: &Either| {
            self.broken.is_none()
                && self
                    .only
                    .as_ref()
                    .is_none_or(|only| world.words().0.contains(only))
        };
        Either::all().filter(wanted).map(|world| match world {
            Either::Deadlines(scope) => Either::Deadlines(Scope {
                calls: scope.calls + u8::from(self.deep),
                ..scope
            }),
            Either::Executions(scope) if self.deep => Either::Executions(scope.deeper()),
            Either::Executions(_) => world,
        })
    }

    /// Which designs to find out.
    fn flaws(&self) -> impl Iterator<Item = Flawed> {
        let wanted = |flawed: &Flawed| {
            self.only.is_none()
                && self
                    .broken
                    .as_ref()
                    .is_none_or(|only| flawed.words().contains(only))
        };
        Flawed::all().filter(wanted)
    }

    fn goes_through(&self, world: Either) -> Explored {
        let most = self.deep.then_some(DEEP);
        let most = most.or(self.quick.then_some(QUICK));
        let (name, about) = world.words();
        let (explored, parts) = match world {
            Either::Deadlines(scope) => {
                let explored = explore(scope, Design::Ours, None, most);
                let (rows, writes, refusals) = explored.rows;
                let parts = format!("{rows} rows, {writes} writes, {refusals} refusals");
                (explored, parts)
            }
            Either::Executions(scope) => {
                let explored = executions::explore(scope, None, most);
                let (tables, steps, effects) = explored.rows;
                let parts =
                    format!("{tables} tables, {steps} steps of the library, {effects} effects");
                (explored, parts)
            }
        };
        println!(
            "{name:<10} {:>9} states{}, {} steps deep; {parts}; {} broken: {about}",
            explored.states,
            if explored.cut_off { " (of more)" } else { "" },
            explored.depth,
            explored.broken.len(),
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
    let worlds: Vec<_> = Either::all().map(|world| world.words().0).collect();
    let flaws: Vec<_> = Flawed::all().map(|flawed| flawed.words()).collect();
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
