//! How long a run takes: the same for every contestant, and bounded however many wait.

use std::time::Duration;

/// What a contestant is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// How many clients want the key.
    pub waiters: usize,
    /// How long each holds it.
    pub hold: Duration,
    /// How long each rests between releasing it and asking again.
    pub rest: Duration,
    /// What is added to the way of each request, as a stand-in for a network.
    pub latency: Duration,
    /// Time that is not counted.
    pub warm_up: Duration,
    /// Time that is.
    pub window: Duration,
}

impl Course {
    /// To measure waits: the warm-up is longer than a round, in which each client holds the key once, and the window
    /// longer than two; quickly, longer than one.
    #[must_use]
    pub fn of_rounds(waiters: usize, hold: Duration, quick: bool) -> Self {
        let round = hold * u32::try_from(waiters).unwrap_or(u32::MAX);
        let (start, seconds, rounds) = if quick { (300, 1, 1) } else { (500, 2, 2) };
        Self {
            waiters,
            hold,
            rest: Duration::ZERO,
            latency: Duration::ZERO,
            warm_up: Duration::from_millis(start) + round * 13 / 10,
            window: Duration::from_secs(seconds) + round * rounds,
        }
    }

    /// The same, with a rest.
    #[must_use]
    pub fn resting(self, rest: Duration) -> Self {
        Self { rest, ..self }
    }

    /// The same, with `latency` on the way of each request, and time for the five or so that a client waits for in a
    /// round.
    #[must_use]
    pub fn from_afar(self, latency: Duration) -> Self {
        let more = latency * 5 * u32::try_from(self.waiters).unwrap_or(u32::MAX);
        Self {
            latency,
            warm_up: self.warm_up + more * 13 / 10,
            window: self.window + more * 2,
            ..self
        }
    }

    /// To count requests while the key is held for long. Nobody need have waited a whole round for that, only
    /// everybody have asked.
    #[must_use]
    pub fn of_holds(waiters: usize, hold: Duration, quick: bool) -> Self {
        let cycles = if quick { 4 } else { 5 };
        Self {
            waiters,
            hold,
            rest: Duration::ZERO,
            latency: Duration::ZERO,
            warm_up: Duration::from_secs(1) + hold,
            window: (hold * cycles).max(Duration::from_secs(if quick { 2 } else { 6 })),
        }
    }
}
