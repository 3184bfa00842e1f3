//! The timing of requests: the pauses between attempts at a write that conflicts with other writers, and how many requests
//! are sent at once.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};

use crate::{
    clock::{Clock, Timestamp},
    values::up_to,
};

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// The time that must be left for one more attempt, unless the whole limit is short.
const FOR_ANOTHER: Duration = Duration::from_millis(200);

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

/// The same by the clock of leases, within the time of one request.
pub(crate) struct ConflictBackoff {
    clock: Arc<dyn Clock>,
    end: Timestamp,
    pauses: Backoff,
}

impl ConflictBackoff {
    pub(crate) fn within(limit: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            end: clock.now().plus(limit),
            pauses: Backoff::within(limit),
            clock,
        }
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.since(self.clock.now())
    }

    /// Pauses, if there is time left for another attempt; whether there is.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(pause) = self.pauses.next(self.left()) else {
            return false;
        };
        self.clock.sleep(pause).await;
        true
    }
}

/// Requests at once. A hundred sequential requests could take longer than a short lease.
pub(crate) const AT_ONCE: usize = 10;

/// The results in the order of the requests. It takes a `Vec`, not an iterator: with the closure of an iterator the
/// future could not be sent to another thread.
pub(crate) async fn some_at_a_time<F: Future>(most: usize, requests: Vec<F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(most.max(1)).collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::ManualClock, store::Connection};

    #[test]
    fn quarter_left_for_another_attempt() {
        let kept =
            |left| Backoff::within(Duration::from_millis(40)).next(Duration::from_millis(left));
        assert!(kept(11).is_some());
        assert_eq!(kept(10), None);
    }

    #[tokio::test]
    async fn attempts_leave_time_for_another() {
        let began = Timestamp::from_millis(1_800_000_000_000);
        let clock = Arc::new(ManualClock::at(began));
        let mut backoff = ConflictBackoff::within(Connection::OPERATION, clock.clone());
        let mut took = 0;
        while backoff.wait().await {
            took += 1;
            assert!(took < 1000, "nobody waits");
        }
        // The pauses get longer, so there are few of them.
        assert!((5..100).contains(&took), "{took}");
        let waited = clock.now().since(began);
        assert_eq!(waited, Connection::OPERATION.saturating_sub(FOR_ANOTHER));
    }
}
