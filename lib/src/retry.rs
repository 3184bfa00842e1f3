//! Waiting for a lease in a process that can afford to wait.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    outcomes::{Acquired, Contention, Granted},
    requests::Acquire,
    store::{Connection, Store},
    values::up_to,
};

/// How long to keep asking, and how often.
///
/// Between two attempts passes a random time, up to a limit that starts at `period` and doubles
/// each time, at most to `longest`: contenders that began together do not stay together. A pause that
/// would outlast the lease ends when that has run out, or up to `period` later. A limit
/// below 10 ms counts as 10 ms, since every attempt is a write; one above a day as a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// When to give up, counted from the call.
    pub budget: Duration,
    /// The first pause is at most this long.
    pub period: Duration,
    /// And no later one longer than this.
    pub longest: Duration,
}

impl RetryPolicy {
    /// Attempts for `budget`, with pauses of at most 100 ms at first and 5 s at last.
    #[must_use]
    pub const fn of(budget: Duration) -> Self {
        Self {
            budget,
            period: Duration::from_millis(100),
            longest: Duration::from_secs(5),
        }
    }
}

/// What became of the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the budget may have run out"]
pub enum AcquireOutcome {
    /// The lease is the caller's.
    Granted(Granted),
    /// The budget ran out; this is who held it when it did.
    TimedOut(Contention),
}

impl<S: Store> Leases<S> {
    /// Asks again and again, until it is granted or the budget has run out. The last attempt is
    /// made when it runs out, so that the call takes the budget and one attempt at most; in an
    /// invocation ([`Leases::for_call`]) no later than it can still be answered.
    ///
    /// Throttling and lost answers are asked through as well: the request keeps its id, so that a
    /// grant whose answer was lost is found again. Nothing goes on when the future is dropped, but
    /// a grant may have been made by then: acquire again with the same request id to find out (give
    /// one for that), or let it run out. In Lambda waiting costs money; let the workflow wait.
    ///
    /// # Errors
    /// Those of [`Leases::acquire`]. [`Error::Throttled`] and [`Error::Unavailable`] only if the
    /// last attempt ended so.
    pub async fn acquire_within(
        &self,
        request: Acquire,
        patience: RetryPolicy,
    ) -> Result<AcquireOutcome, Error> {
        let own = self.now().plus(patience.budget);
        // An invocation has to live to hear the last answer: it may be a grant.
        let last = |deadline: Timestamp| deadline.minus(Connection::OPERATION);
        let end = self
            .deadline()
            .map_or(own, |deadline| own.min(last(deadline)));
        let mut limit = within_reason(patience.period);
        loop {
            let refused = match self.acquire(request.clone()).await {
                Ok(Acquired::Granted(granted)) => return Ok(AcquireOutcome::Granted(granted)),
                Ok(Acquired::Held(contention)) => Ok(AcquireOutcome::TimedOut(contention)),
                Err(passing @ (Error::Throttled { .. } | Error::Unavailable { .. })) => {
                    Err(passing)
                }
                Err(error) => return Err(error),
            };
            let left = end.since(self.now());
            if left.is_zero() {
                return refused;
            }
            let pause = up_to(limit).min(left);
            self.sleep(match &refused {
                Ok(AcquireOutcome::TimedOut(contention)) => {
                    self.to_its_end(contention, patience, pause)
                }
                _ => pause,
            })
            .await;
            limit = within_reason((limit * 2).min(patience.longest));
        }
    }

    /// Whoever holds it may have crashed: a pause goes on for at most the first one's limit after the instant at which
    /// that would show. An instant that has passed, because somebody is in line or the key is frozen, says nothing.
    fn to_its_end(
        &self,
        contention: &Contention,
        patience: RetryPolicy,
        pause: Duration,
    ) -> Duration {
        match contention.retry_at.since(self.now()) {
            Duration::ZERO => pause,
            left => pause.min(left + up_to(within_reason(patience.period))),
        }
    }
}

fn within_reason(limit: Duration) -> Duration {
    limit.clamp(Duration::from_millis(10), Duration::from_hours(24))
}

impl crate::Lease {
    /// The instant at which the next extend is due: when a third of the ttl is left, so that two
    /// attempts may fail before the holder has to stop.
    #[must_use]
    pub fn extend_due(&self) -> Timestamp {
        self.safe_until.minus(self.ttl.as_duration() / 3)
    }
}

#[cfg(test)]
mod tests;
