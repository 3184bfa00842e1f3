//! Waiting for a turn among others who write to the same rows.

use std::time::Duration;

use crate::{clock::Timestamp, error::Error, leases::Leases, store::Store, values::up_to};

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// What has to be left of the time for one more attempt.
const FOR_ANOTHER: Duration = Duration::from_millis(200);

/// As many turns as one request may take time for.
pub(crate) struct Turns {
    end: Timestamp,
    pause: Duration,
}

impl Turns {
    pub(crate) fn from<S: Store>(leases: &Leases<S>) -> Self {
        Self {
            end: leases.now().plus(leases.limit()),
            pause: FIRST_PAUSE,
        }
    }

    pub(crate) fn left<S: Store>(&self, leases: &Leases<S>) -> Duration {
        self.end.since(leases.now())
    }

    /// A pause of a random length, up to a limit that doubles; or no more time for another turn.
    pub(crate) async fn wait<S: Store>(&mut self, leases: &Leases<S>) -> Result<(), Error> {
        let left = self.left(leases);
        if left <= FOR_ANOTHER {
            return Err(leases.never_still());
        }
        let most = left.saturating_sub(FOR_ANOTHER);
        leases.sleep(up_to(self.pause).min(most)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
