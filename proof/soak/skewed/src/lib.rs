//! The library as the functions see it, with a clock that is wrong by [`OFFSET`] milliseconds.
//!
//! The soak builds the functions' own sources on this crate, under the name `leasehold`. Nothing else depends on
//! it, so that what is shipped has no way to get another time.

pub use leasehold::*;

/// The variable that says by how much the clock is ahead, in milliseconds; behind, if negative.
pub const OFFSET: &str = "SOAK_CLOCK_OFFSET_MS";

/// What the functions' `main` calls.
pub mod lambda {
    pub use leasehold::lambda::{
        Event, ExecutionEvents, FailedExecutions, Fatal, FromEvent, Trigger,
    };

    use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

    use leasehold::{Clock, DynamoDb, Error, Leases, SystemClock, Timestamp};
    use serde::Serialize;

    /// As the real one, by the wrong clock.
    ///
    /// # Errors
    /// As the real one, and for an offset that is no number.
    pub async fn serve<Q, A, H, F>(operation: &'static str, handle: H) -> Result<(), Fatal>
    where
        Q: FromEvent,
        A: Serialize,
        H: Fn(Leases<DynamoDb>, Q) -> F,
        F: Future<Output = Result<A, Error>>,
    {
        let clock = Arc::new(WrongClock::from_env()?);
        leasehold::lambda::serve(operation, |leases, request| {
            handle(leases.with_clock(clock.clone()), request)
        })
        .await
    }

    /// As the real one, by the wrong clock.
    ///
    /// # Errors
    /// As the real one, and for an offset that is no number.
    pub async fn serve_with_workflows<Q, A, H, F>(
        operation: &'static str,
        handle: H,
    ) -> Result<(), Fatal>
    where
        Q: FromEvent,
        A: Serialize,
        H: Fn(Leases<DynamoDb>, Q) -> F,
        F: Future<Output = Result<A, Error>>,
    {
        let clock = Arc::new(WrongClock::from_env()?);
        leasehold::lambda::serve_with_workflows(operation, |leases, request| {
            handle(leases.with_clock(clock.clone()), request)
        })
        .await
    }

    /// As the real one, by the wrong clock.
    ///
    /// # Errors
    /// As the real one, and for an offset that is no number.
    pub async fn serve_with_executions<Q, A, H, F>(
        operation: &'static str,
        handle: H,
    ) -> Result<(), Fatal>
    where
        Q: FromEvent,
        A: Serialize,
        H: Fn(Leases<DynamoDb>, Q) -> F,
        F: Future<Output = Result<A, Error>>,
    {
        let clock = Arc::new(WrongClock::from_env()?);
        leasehold::lambda::serve_with_executions(operation, |leases, request| {
            handle(leases.with_clock(clock.clone()), request)
        })
        .await
    }

    #[derive(Clone, Copy)]
    struct WrongClock {
        ahead: i64,
    }

    impl WrongClock {
        fn from_env() -> Result<Self, Fatal> {
            let ahead = std::env::var(super::OFFSET)?.parse()?;
            Ok(Self { ahead })
        }
    }

    impl Clock for WrongClock {
        fn now(&self) -> Timestamp {
            let right = SystemClock.now();
            let by = Duration::from_millis(self.ahead.unsigned_abs());
            if self.ahead < 0 {
                right.minus(by)
            } else {
                right.plus(by)
            }
        }

        fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(async move { SystemClock.sleep(length).await })
        }
    }
}
