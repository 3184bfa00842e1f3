//! What serves the functions, with a clock that is wrong by [`OFFSET`] milliseconds.
//!
//! The proof of real processes builds the functions' own sources on this crate, under the name `leasehold_lambda`. Nothing else depends on
//! it, so that what is shipped has no way to get another time.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use leasehold::{Clock, SystemClock, Timestamp};
pub use leasehold_lambda::*;

/// The variable that says by how much the clock is ahead, in milliseconds; behind, if negative.
pub const OFFSET: &str = "REAL_CLOCK_OFFSET_MS";

/// What the functions' `main` calls: the real one, with the wrong clock.
#[derive(Debug)]
#[non_exhaustive]
pub struct Function;

impl Function {
    /// A function whose clock is wrong.
    ///
    /// # Panics
    /// For an offset that is no number.
    #[expect(clippy::new_ret_no_self, reason = "it stands in for the real one")]
    pub fn new(operation: &'static str) -> leasehold_lambda::Function {
        leasehold_lambda::Function::new(operation).with_clock(Arc::new(WrongClock::from_env()))
    }
}

#[derive(Clone, Copy)]
struct WrongClock {
    ahead: i64,
}

impl WrongClock {
    fn from_env() -> Self {
        let ahead = std::env::var(OFFSET).expect("an offset");
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
