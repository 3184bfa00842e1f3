//! Waiting for a turn among others who write to the same rows.

use std::time::Duration;

use crate::{clock::Timestamp, error::Error, leases::Leases, store::Store, values::up_to};

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// What has to be left of the time for one more attempt, unless there is little in all.
const FOR_ANOTHER: Duration = Duration::from_millis(200);

/// Pauses of random lengths, each up to a limit that doubles, as long as there is time for another attempt.
pub(crate) struct Pauses {
    longest: Duration,
    for_another: Duration,
}

impl Pauses {
    /// For attempts that may take so long together.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            longest: FIRST_PAUSE,
            for_another: FOR_ANOTHER.min(limit / 4),
        }
    }

    /// The next pause, if so much time is left.
    pub(crate) fn next(&mut self, left: Duration) -> Option<Duration> {
        let most = left
            .checked_sub(self.for_another)
            .filter(|most| !most.is_zero())?;
        let pause = up_to(self.longest).min(most);
        self.longest = (self.longest * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

/// As many turns as one request may take time for.
pub(crate) struct Turns {
    end: Timestamp,
    pauses: Pauses,
}

impl Turns {
    pub(crate) fn from<S: Store>(leases: &Leases<S>) -> Self {
        let limit = leases.limit();
        Self {
            end: leases.now().plus(limit),
            pauses: Pauses::within(limit),
        }
    }

    pub(crate) fn left<S: Store>(&self, leases: &Leases<S>) -> Duration {
        self.end.since(leases.now())
    }

    /// A pause of a random length, up to a limit that doubles; or no more time for another turn.
    pub(crate) async fn wait<S: Store>(&mut self, leases: &Leases<S>) -> Result<(), Error> {
        let Some(pause) = self.pauses.next(self.left(leases)) else {
            return Err(leases.never_still());
        };
        leases.sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Memory, Settings, clock::ManualClock};

    #[tokio::test]
    async fn turns_end_in_time_for_another_attempt() {
        let began = Timestamp::from_millis(1_800_000_000_000);
        let clock = Arc::new(ManualClock::at(began));
        let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock);
        let mut turns = Turns::from(&leases);
        let mut took = 0;
        while turns.wait(&leases).await.is_ok() {
            took += 1;
            assert!(took < 1000, "nobody waits");
        }
        // Pauses get longer, so that they are few.
        assert!((5..100).contains(&took), "{took}");
        let waited = leases.now().since(began);
        assert_eq!(waited, leases.limit().saturating_sub(FOR_ANOTHER));
    }
}
