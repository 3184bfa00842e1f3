//! `leasehold-model`: goes through every order of events in small worlds, by the library's own transition
//! function and its own readers of refusals; and through broken designs, until it finds them out.

mod clients;
mod design;
mod explore;
mod invariants;
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
use explore::{Explored, explore, name_of};
use scope::Scope;

/// Every order of events in small worlds: what must never happen does not, and broken designs are found out.
#[derive(Parser)]
#[command(name = "leasehold-model")]
struct Arguments {
    /// Larger worlds, of one call more each: a hundred million states and more, in an hour and eight gigabytes.
    #[arg(long)]
    deep: bool,
    /// Only worlds whose name contains this, and no broken designs.
    #[arg(long, value_name = "WORLD", conflicts_with = "broken")]
    only: Option<String>,
    /// Only broken designs whose words contain this, and no worlds of ours.
    #[arg(long, value_name = "WORDS")]
    broken: Option<String>,
}

/// How many steps are taken in a world at most, in larger worlds.
const DEEP: usize = 100_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut states, mut violations) = (0, 0);
    let (worlds, flaws): (Vec<_>, Vec<_>) =
        (arguments.worlds().collect(), arguments.flaws().collect());
    if worlds.is_empty() && flaws.is_empty() {
        eprintln!("nothing has that in its name: {}", names());
        return ExitCode::from(2);
    }
    for scope in worlds {
        let explored = arguments.goes_through(scope);
        states += explored.states;
        violations += explored.broken.len();
    }
    let rejected = flaws.iter().filter(|broken| rejects(broken)).count();
    let flaws = flaws.len();
    println!(
        "model: {states} states, {violations} violations, {rejected} of {flaws} broken designs rejected"
    );
    if violations == 0 && rejected == flaws {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Arguments {
    /// Which worlds to go through.
    fn worlds(&self) -> impl Iterator<Item = Scope> {
        let all = if self.broken.is_some() {
            &[][..]
        } else {
            &scope::ALL
        };
        let wanted = |scope: &&Scope| {
            self.only
                .as_ref()
                .is_none_or(|only| scope.name.contains(only))
        };
        all.iter().filter(wanted).map(|scope| Scope {
            calls: scope.calls + u8::from(self.deep),
            ..*scope
        })
    }

    /// Which designs to find out.
    fn flaws(&self) -> impl Iterator<Item = &Broken> {
        let all = if self.only.is_some() { &[][..] } else { FLAWS };
        let wanted = |broken: &&Broken| {
            self.broken
                .as_ref()
                .is_none_or(|only| broken.1.contains(only))
        };
        all.iter().filter(wanted)
    }

    fn goes_through(&self, scope: Scope) -> Explored {
        let most = self.deep.then_some(DEEP);
        let explored = explore(scope, Design::Ours, None, most);
        let (rows, writes, refusals) = explored.rows;
        println!(
            "{:<10} {:>9} states{}, {} steps deep; {rows} rows, {writes} writes, {refusals} refusals; {} broken: {}",
            scope.name,
            explored.states,
            if explored.cut_off { " (of more)" } else { "" },
            explored.depth,
            explored.broken.len(),
            scope.about
        );
        for (name, steps) in &explored.broken {
            println!("VIOLATED: {name}");
            print(steps);
        }
        explored
    }
}

fn rejects((flaw, words, breaks, scope): &Broken) -> bool {
    let design = Design::Broken(*flaw);
    let explored = explore(*scope, design, Some(*breaks), None);
    let states = explored.states;
    let mut found = explored.broken.iter();
    let Some((name, steps)) = found.find(|(name, _)| *name == name_of(*breaks)) else {
        println!("NOT REJECTED: {words}; {states} states");
        return false;
    };
    let long = steps.len();
    println!("rejected: {words}: not {name}, after {long} steps; {states} states");
    print(steps);
    true
}

/// What there is to choose from.
fn names() -> String {
    let worlds: Vec<_> = scope::ALL.iter().map(|scope| scope.name).collect();
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
