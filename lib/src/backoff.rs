//! Backoff between attempts at a write that conflicts with other writers.

use std::time::Duration;

use crate::values::up_to;

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// The time that must be left for one more attempt, unless the whole limit is short.
pub(crate) const FOR_ANOTHER: Duration = Duration::from_millis(200);

/// Pauses of random length. Each has a limit, which doubles, and they go on while there is time for another attempt.
pub(crate) struct Backoff {
    longest: Duration,
    for_another: Duration,
}

impl Backoff {
    /// For attempts that may take this long together.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            longest: FIRST_PAUSE,
            for_another: FOR_ANOTHER.min(limit / 4),
        }
    }

    /// The next pause, if there is time for it.
    pub(crate) fn next(&mut self, left: Duration) -> Option<Duration> {
        let most = left
            .checked_sub(self.for_another)
            .filter(|most| !most.is_zero())?;
        let pause = up_to(self.longest).min(most);
        self.longest = (self.longest * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}
