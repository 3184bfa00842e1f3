//! Round after round, until the time is up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checks::Violation;
use crate::fixture::Fixture;
use crate::history::Millis;
use crate::round::{Round, Totals};
use crate::watch::Watch;

/// A round lasts as long as this, or what is left.
const ROUND: Duration = Duration::from_secs(30);
/// The time around a round: to finish, to let everything expire, to check; without the half minute in which the history of
/// an execution may be late.
const BESIDES: Duration = Duration::from_secs(12);
/// As many of a kind are printed; more of the same help nobody.
const PRINTED: usize = 8;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Draws the plan.
    pub seed: u64,
    /// How long it takes, roughly; at least one round is played.
    pub length: Duration,
    /// The first round's number.
    pub first: u64,
    /// How many clients there are.
    pub clients: u64,
    /// The margin in the functions' settings; see [`Fixture::start`].
    pub margin: Millis,
}

impl Soak {
    /// Runs it, and prints a line per round and every violation.
    pub async fn run(self) -> Totals {
        let fixture = Arc::new(Fixture::start(self.margin).await);
        let (watch, started) = (Watch::start(), Instant::now());
        let mut total = Totals::default();
        let mut number = self.first;
        loop {
            let left = self.length.saturating_sub(started.elapsed());
            let length = ROUND.min(left.saturating_sub(BESIDES));
            if number > self.first && length < Duration::from_secs(5) {
                break;
            }
            let round = Round {
                seed: self.seed,
                number,
                length: length.max(Duration::from_secs(3)),
                clients: self.clients,
            };
            let mut totals = round.play(&fixture, watch).await;
            let (found, at) = (totals.violations.len(), started.elapsed().as_secs());
            println!("round {number}, {at} s: {totals}; {found} violations");
            for violation in totals.violations.drain(..) {
                let alike = |other: &&Violation| other.invariant == violation.invariant;
                if total.violations.iter().filter(alike).count() < PRINTED {
                    println!("{violation}");
                }
                total.violations.push(violation);
            }
            total.add(totals);
            number += 1;
        }
        fixture.host.stop().await;
        println!("all rounds: {total}");
        let (operations, faults) = (total.operations, total.faults());
        let (violations, seed) = (total.violations.len(), self.seed);
        println!(
            "soak: {operations} operations, {faults} faults, {violations} violations, seed {seed}"
        );
        total
    }
}
