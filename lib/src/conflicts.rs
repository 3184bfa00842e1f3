//! Waits until other writers of the same rows are done.

use std::time::Duration;

use crate::{backoff::Backoff, clock::Timestamp, error::Error, leases::Leases, store::Store};

/// Attempts at a write that conflicts with other writers, within the time of one request.
pub(crate) struct ConflictBackoff {
    end: Timestamp,
    pauses: Backoff,
}

impl ConflictBackoff {
    pub(crate) fn from<S: Store>(leases: &Leases<S>) -> Self {
        let limit = leases.limit();
        Self {
            end: leases.now().plus(limit),
            pauses: Backoff::within(limit),
        }
    }

    pub(crate) fn left<S: Store>(&self, leases: &Leases<S>) -> Duration {
        self.end.since(leases.now())
    }

    /// Pauses for a random time below a limit that doubles. Fails if no time is left for another attempt.
    pub(crate) async fn wait<S: Store>(&mut self, leases: &Leases<S>) -> Result<(), Error> {
        let Some(pause) = self.pauses.next(self.left(leases)) else {
            return Err(leases.contention_error());
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
    async fn attempts_end_in_time_for_another_one() {
        let began = Timestamp::from_millis(1_800_000_000_000);
        let clock = Arc::new(ManualClock::at(began));
        let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock);
        let mut backoff = ConflictBackoff::from(&leases);
        let mut took = 0;
        while backoff.wait(&leases).await.is_ok() {
            took += 1;
            assert!(took < 1000, "nobody waits");
        }
        // The pauses get longer, so there are few of them.
        assert!((5..100).contains(&took), "{took}");
        let waited = leases.now().since(began);
        assert_eq!(
            waited,
            leases.limit().saturating_sub(crate::backoff::FOR_ANOTHER)
        );
    }
}
