//! Round after round, until the time is up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::promises::{Broken, Event, What};
use crate::round::Round;
use crate::world::World;

/// A round lasts as long as this, or what is left.
const ROUND: Duration = Duration::from_secs(25);
/// The time around a round, without the half minute in which the history of an execution may be late.
const BESIDES: Duration = Duration::from_secs(12);
/// As many broken promises of a kind are printed; more of the same help nobody.
const PRINTED: usize = 8;
/// As many events are printed with each.
const AROUND: usize = 12;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Draws the plan.
    pub seed: u64,
    /// How long it takes, roughly; at least one round is played.
    pub length: Duration,
    /// The first round's number.
    pub first: u64,
    /// The margin in the functions' settings: anything but [`MARGIN`](crate::MARGIN) is sabotage, to be found out.
    pub margin: i64,
}

/// The result of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Calls of functions.
    pub operations: u64,
    /// What happened, and the faults, by kind.
    pub counts: BTreeMap<String, u64>,
    /// Faults of all kinds.
    pub faults: u64,
    /// Broken promises.
    pub violations: Vec<Broken>,
}

impl Totals {
    /// Counts one of this kind.
    pub(crate) fn count(&mut self, kind: impl Into<String>) {
        *self.counts.entry(kind.into()).or_default() += 1;
    }

    /// Counts what happened.
    pub(crate) fn see(&mut self, events: &[Event]) {
        for event in events {
            match event.what {
                What::Entered { .. } => self.count("inside"),
                What::Began(_) => self.count("begun"),
                What::Told(_) => self.count("told"),
                _ => {}
            }
        }
    }

    /// Writes down broken promises, and prints them with what happened around each.
    pub(crate) fn find(&mut self, broken: Vec<Broken>, events: &[Event]) {
        for broken in broken {
            let alike = |other: &&Broken| other.promise == broken.promise;
            if self.violations.iter().filter(alike).count() < PRINTED {
                println!("VIOLATION {broken}");
                // Some are of an execution or an answer, and not of a key.
                let has_place = events.iter().any(|event| event.place == broken.place);
                let of_it = |event: &&Event| {
                    let is_named = !event.who.is_empty() && broken.what.contains(&event.who);
                    is_named && (event.place == broken.place || !has_place)
                };
                let mut around: Vec<_> = events.iter().filter(of_it).collect();
                around.sort_by_key(|event| event.at);
                for event in around.iter().rev().take(AROUND).rev() {
                    println!("    {} us, {}: {:?}", event.at, event.who, event.what);
                }
            }
            self.violations.push(broken);
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, faults) = (self.operations, self.faults);
        let violations = self.violations.len();
        write!(
            f,
            "{operations} operations, {faults} faults, {violations} violations"
        )
    }
}

impl Run {
    /// Runs it, until `enough` is, and prints a line per round and every violation.
    pub async fn until(self, enough: impl Fn(&Totals) -> bool) -> Totals {
        let world = Arc::new(World::start(self.margin).await);
        let (started, mut total) = (Instant::now(), Totals::default());
        for number in self.first.. {
            let left = self.length.saturating_sub(started.elapsed());
            let length = ROUND.min(left.saturating_sub(BESIDES));
            let is_late = number > self.first && length < Duration::from_secs(5);
            if is_late || enough(&total) {
                break;
            }
            let length = length.max(Duration::from_secs(3));
            let round = Arc::new(Round::new(Arc::clone(&world), self.seed, number, length));
            round.play(&mut total).await;
            let seconds = started.elapsed().as_secs();
            println!(
                "round {number}, {seconds} s: {total} so far, {:?}",
                total.counts
            );
            if !total.violations.is_empty() {
                let seed = self.seed;
                println!("replay: make -C proof real REAL_SEED={seed} REAL_ROUND={number}");
            }
        }
        world.host.stop().await;
        println!("real: {total}, seed {}", self.seed);
        total
    }
}
