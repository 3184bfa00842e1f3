//! What is drawn from the seed before anything happens: a seed and a purpose make the same numbers each time. How the processes
//! meet is up to the machine, and differs from run to run.

use fastrand::Rng;
use leasehold_local::Fault;

use crate::world::FLEETS;

/// What may go wrong on the wire, each as likely as the others.
const FAULTS: &[Fault] = &[
    Fault::LoseAnswer,
    Fault::ResetAnswer,
    Fault::HalfAnswer,
    Fault::FailAnswer,
    Fault::HangAnswer,
    Fault::LoseRequest,
    Fault::LateRequest,
    Fault::Throttle,
    Fault::Conflict,
    Fault::ServerError,
    Fault::Hang,
];

/// The generator for a purpose, which is a path of numbers such as round, client, section.
pub fn seeded(seed: u64, purpose: &[u64]) -> Rng {
    let step = |mut rng: Rng, part: &u64| {
        Rng::with_seed(rng.u64(..) ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    purpose.iter().fold(Rng::with_seed(seed), step)
}

/// One of these.
pub fn choose<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

/// Whether it is one of so many cases out of a hundred.
pub fn percent(rng: &mut Rng, cases: u64) -> bool {
    rng.u64(..100) < cases
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Whose processes do it.
    pub fleet: usize,
    /// What goes wrong on the wire.
    pub fault: Option<Fault>,
    /// How long it waits before, in milliseconds.
    pub after: u64,
}

impl Step {
    /// By what is shipped, at once and undisturbed.
    pub const CLEAN: Self = Self {
        fleet: 0,
        fault: None,
        after: 0,
    };

    /// One that waits for as long as this at most, in one of twelve cases with a fault.
    pub fn draw(rng: &mut Rng, longest: u64) -> Self {
        Self {
            fleet: rng.usize(..FLEETS.len()),
            fault: percent(rng, 8).then(|| choose(rng, FAULTS)),
            after: rng.u64(..longest),
        }
    }

    /// So many copies at the same time, each by another fleet, and the fault for the first.
    pub fn copies(self, copies: usize) -> impl Iterator<Item = Self> {
        (0..copies).map(move |copy| Self {
            fleet: (self.fleet + copy) % FLEETS.len(),
            fault: self.fault.filter(|_| copy == 0),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::seeded;

    #[test]
    fn each_purpose_has_own_repeatable_numbers() {
        let numbers = |seed, purpose: &[u64]| {
            let mut rng = seeded(seed, purpose);
            [rng.u64(..), rng.u64(..), rng.u64(..)]
        };
        assert_eq!(numbers(7, &[1, 2]), numbers(7, &[1, 2]));
        assert_ne!(numbers(7, &[1, 2]), numbers(7, &[2, 1]));
        assert_ne!(numbers(7, &[1, 2]), numbers(8, &[1, 2]));
    }
}
