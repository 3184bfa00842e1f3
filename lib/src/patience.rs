//! Waiting for a lease in a process that can afford to wait.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    outcomes::{Acquired, Contention, Granted},
    requests::Acquire,
    store::Store,
    values::{RequestId, up_to},
};

/// How long to keep asking, and how often.
///
/// Between two attempts passes a random time, up to a limit that starts at `period` and doubles
/// each time, at most to `longest`: contenders that began together do not stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// When to give up, counted from the call.
    pub budget: Duration,
    /// The first pause is at most this long.
    pub period: Duration,
    /// And no later one longer than this.
    pub longest: Duration,
}

impl Patience {
    /// Patience for `budget`, with pauses of at most 100 ms at first and 5 s at last.
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
pub enum Waited {
    /// The lease is the caller's.
    Granted(Granted),
    /// The budget ran out; this is who held it when it did.
    TimedOut(Contention),
}

impl<S: Store> Leases<S> {
    /// Asks again and again, until it is granted or the budget has run out. The last attempt is
    /// made when it runs out, so that the call takes the budget and one attempt at most.
    ///
    /// Throttling and lost answers are asked through as well: the request keeps its id, so that a
    /// grant whose answer was lost is found again. Nothing goes on when the future is dropped, but
    /// a grant may have been made by then: acquire again with the same request id to find out, or
    /// let it run out. In Lambda waiting costs money; let the workflow wait.
    ///
    /// # Errors
    /// Those of [`Leases::acquire`]. [`Error::Throttled`] and [`Error::Unavailable`] only if the
    /// last attempt ended so.
    pub async fn acquire_within(
        &self,
        mut request: Acquire,
        patience: Patience,
    ) -> Result<Waited, Error> {
        request.request_id.get_or_insert_with(RequestId::random);
        let own = self.now().plus(patience.budget);
        let end = self.deadline().map_or(own, |deadline| own.min(deadline));
        let mut pause = patience.period;
        loop {
            let refused = match self.acquire(request.clone()).await {
                Ok(Acquired::Granted(granted)) => return Ok(Waited::Granted(granted)),
                Ok(Acquired::Held(contention)) => Ok(Waited::TimedOut(contention)),
                Err(passing @ (Error::Throttled { .. } | Error::Unavailable { .. })) => {
                    Err(passing)
                }
                Err(error) => return Err(error),
            };
            let left = end.since(self.now());
            if left.is_zero() {
                return refused;
            }
            self.sleep(up_to(pause).min(left)).await;
            pause = (pause * 2).min(patience.longest);
        }
    }
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
mod tests {
    use std::{future::Future, pin::Pin, sync::Arc};

    use tokio::time::Instant;

    use super::*;
    use crate::{Clock, ExtendOptions, Holder, Key, Memory, Settings, Standing, Ttl};

    /// Tokio's clock, which stands still while anybody computes and jumps while all sleep.
    struct Virtual(Instant);

    impl Clock for Virtual {
        #[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1_800_000_000_000).plus(Instant::now() - self.0)
        }

        #[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
        fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(tokio::time::sleep(length))
        }
    }

    #[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
    fn leases() -> Leases<Memory> {
        let clock = Arc::new(Virtual(Instant::now()));
        Leases::new(Memory::new(), Settings::default()).with_clock(clock)
    }

    fn request(holder: &str) -> Acquire {
        let ttl = Ttl::new(Duration::from_secs(9)).expect("valid");
        let (key, holder) = (Key::new("k"), Holder::new(holder));
        Acquire::new(key.expect("valid"), holder.expect("valid"), ttl)
    }

    #[tokio::test(start_paused = true)]
    async fn every_budget_is_kept_among_32_contenders() {
        let leases = leases();
        let contenders: Vec<_> = (1..=32_u64)
            .map(|n| {
                let leases = leases.clone();
                tokio::spawn(async move {
                    let budget = Duration::from_secs(n);
                    let start = leases.now();
                    let waited = leases
                        .acquire_within(request(&format!("h{n}")), Patience::of(budget))
                        .await
                        .expect("an answer");
                    let took = leases.now().since(start);
                    assert!(took <= budget, "{took:?} of {budget:?}");
                    match waited {
                        Waited::Granted(granted) => {
                            leases.sleep(Duration::from_millis(1500)).await;
                            leases.release(&granted.lease).await.expect("released");
                            true
                        }
                        Waited::TimedOut(last) => {
                            assert_eq!(took, budget, "not a moment before it ran out");
                            assert_ne!(last.held.holder.as_str(), format!("h{n}"));
                            false
                        }
                    }
                })
            })
            .collect();
        let mut granted = 0;
        for contender in contenders {
            granted += u32::from(contender.await.expect("no panic"));
        }
        assert!(
            (2..32).contains(&granted),
            "{granted} were granted: some, and not all"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_holder_is_waited_for_and_an_invocations_end_is_not_passed() {
        let leases = leases();
        let start = leases.now();
        let dead = leases.acquire(request("dead")).await.expect("an answer");
        let dead = dead.granted().expect("a grant").lease;
        let short = leases.for_call(start.plus(Duration::from_secs(3)));
        let patience = Patience::of(Duration::from_secs(60));
        let waited = short.acquire_within(request("b"), patience).await;
        assert!(matches!(waited, Ok(Waited::TimedOut(_))), "{waited:?}");
        assert_eq!(leases.now(), start.plus(Duration::from_secs(3)));
        let waited = leases.acquire_within(request("b"), patience).await;
        let Ok(Waited::Granted(granted)) = waited else {
            panic!("{waited:?}");
        };
        assert!(granted.lease.acquired_at >= dead.expires_at.plus(Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_extend_is_due_when_the_lease_is_in_danger() {
        let leases = leases();
        let granted = leases.acquire(request("a")).await.expect("an answer");
        let lease = granted.granted().expect("a grant").lease;
        let just_before = lease.extend_due().minus(Duration::from_millis(1));
        leases.sleep(just_before.since(leases.now())).await;
        assert_eq!(leases.standing(&lease), Standing::Safe);
        leases.sleep(Duration::from_millis(1)).await;
        assert_eq!(leases.standing(&lease), Standing::Danger);
        assert_eq!(lease.remaining(leases.now()), lease.ttl.as_duration() / 3);
        leases.sleep(lease.remaining(leases.now())).await;
        assert_eq!(leases.standing(&lease), Standing::Stop);
        let extended = leases
            .extend(&lease, ExtendOptions::default())
            .await
            .expect("extended");
        assert_eq!(leases.standing(&extended.into_lease()), Standing::Safe);
    }
}
