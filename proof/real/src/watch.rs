//! The one clock of the observer: it orders what is observed, and says what the wrong clocks are wrong by.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::promises::At;

/// In milliseconds: more than a millisecond's rounding and what is corrected in the machine's clock during a round.
pub const BLUR: i64 = 15;

/// A stopwatch that knows what time it was when it was started.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    started: Instant,
    time: Duration,
}

impl Watch {
    pub fn start() -> Self {
        let started = Instant::now();
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default();
        Self { started, time }
    }

    pub fn now(&self) -> At {
        self.shown(Instant::now())
    }

    /// What it showed at that instant.
    pub fn shown(&self, at: Instant) -> At {
        let since = at.saturating_duration_since(self.started);
        At::try_from(since.as_micros()).unwrap_or(At::MAX)
    }

    /// What it shows when a clock that is so many milliseconds ahead shows this time, in milliseconds.
    pub fn at(&self, time: i64, ahead: i64) -> At {
        let started = i64::try_from(self.time.as_micros()).unwrap_or(i64::MAX);
        let since = (time - ahead).saturating_mul(1000) - started;
        At::try_from(since).unwrap_or(0)
    }
}

/// Waits; nothing else here does.
pub async fn sleep_ms(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
