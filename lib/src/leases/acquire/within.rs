//! Waiting for a lease, in a process that can afford to wait.

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
/// Between two attempts the call waits for a random time below a limit. The limit starts at `initial_backoff` and
/// doubles each time, up to `max_backoff`. The random times spread contenders that started together. If the lease
/// expires during a pause, the pause ends then, or up to `initial_backoff` later. A limit below 10 ms counts as 10 ms,
/// because every attempt is a write; a limit above one day counts as one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// When to give up, counted from the call.
    pub budget: Duration,
    /// The first pause is at most this long.
    pub initial_backoff: Duration,
    /// No later pause is longer than this.
    pub max_backoff: Duration,
}

impl RetryPolicy {
    /// Attempts for `budget`, with pauses of at most 100 ms at first and 5 s later.
    #[must_use]
    pub const fn with_budget(budget: Duration) -> Self {
        Self {
            budget,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
        }
    }
}

/// The outcome of the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the budget may have run out"]
pub enum AcquireOutcome {
    /// The lease is the caller's.
    Granted(Granted),
    /// The budget ran out; this is who held the key then.
    TimedOut(Contention),
}

impl<S: Store> Leases<S> {
    /// Asks repeatedly until the lease is granted or the budget runs out. The last attempt starts when the budget
    /// runs out, so the call takes at most the budget plus one attempt. In an invocation ([`Leases::for_call`]) the
    /// last attempt starts while its response can still arrive in time.
    ///
    /// Throttling and lost responses are retried too. The request keeps its id, so a grant whose response was lost is
    /// found again. Nothing continues when the future is dropped, but a grant may have been made by then. To find
    /// out, acquire again with the same request id (set one for that), or let the lease expire. In Lambda waiting
    /// costs money; let the workflow wait.
    ///
    /// # Errors
    /// Those of [`Leases::acquire`]; [`Error::Throttled`] and [`Error::Unavailable`] only if the last attempt failed
    /// with them.
    pub async fn acquire_within(
        &self,
        request: Acquire,
        patience: RetryPolicy,
    ) -> Result<AcquireOutcome, Error> {
        let own = self.now().plus(patience.budget);
        // The invocation must still run when the last response arrives, because it may be a grant.
        let last = |deadline: Timestamp| deadline.minus(Connection::OPERATION);
        let end = self
            .deadline()
            .map_or(own, |deadline| own.min(last(deadline)));
        let mut limit = within_reason(patience.initial_backoff);
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
            limit = within_reason((limit * 2).min(patience.max_backoff));
        }
    }

    /// The holder may have crashed. A pause therefore ends at most the first limit after `retry_at`. If `retry_at`
    /// has passed already, because somebody is in the queue or the key is frozen, it does not shorten the pause.
    fn to_its_end(
        &self,
        contention: &Contention,
        patience: RetryPolicy,
        pause: Duration,
    ) -> Duration {
        let retry_at = contention.retry.map(|retry| retry.retry_at);
        match retry_at.map_or(Duration::ZERO, |at| at.since(self.now())) {
            Duration::ZERO => pause,
            left => pause.min(left + up_to(within_reason(patience.initial_backoff))),
        }
    }
}

fn within_reason(limit: Duration) -> Duration {
    limit.clamp(Duration::from_millis(10), Duration::from_hours(24))
}

#[cfg(test)]
mod tests;
