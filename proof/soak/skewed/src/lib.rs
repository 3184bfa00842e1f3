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
        ExecutionEvents, FailedExecutions, Fatal, Names, Request, Response, Summary, Trigger,
    };

    use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

    use leasehold::{Clock, SystemClock, Timestamp, lambda};

    /// The real one, with the wrong clock.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct Function;

    impl Function {
        /// A function whose clock is wrong.
        ///
        /// # Panics
        /// For an offset that is no number.
        #[expect(clippy::new_ret_no_self, reason = "it stands in for the real one")]
        pub fn new(operation: &'static str) -> lambda::Function {
            lambda::Function::new(operation).with_clock(Arc::new(WrongClock::from_env()))
        }
    }

    #[derive(Clone, Copy)]
    struct WrongClock {
        ahead: i64,
    }

    impl WrongClock {
        fn from_env() -> Self {
            let ahead = std::env::var(super::OFFSET).expect("an offset");
            Self {
                ahead: ahead.parse().expect("a number"),
            }
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
