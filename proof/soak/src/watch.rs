//! The one clock of the soak: it orders the history, and says what the wrong clocks are wrong by.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history::{Micros, Millis};

/// More than a millisecond's rounding and what is corrected in the machine's clock during a round.
pub const BLUR: Millis = 15;

/// A stopwatch that knows what time it is.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    started: Instant,
    /// The machine's time when the watch showed the other.
    anchor: (Millis, Micros),
}

impl Watch {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        let mut watch = Self {
            started: Instant::now(),
            anchor: (0, 0),
        };
        watch.set();
        watch
    }

    /// Sets its time by the machine's, whose clock may have been corrected since.
    pub fn set(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        self.anchor = (Millis::try_from(millis).unwrap_or(Millis::MAX), self.now());
    }

    /// How long it has been running.
    #[must_use]
    pub fn now(&self) -> Micros {
        Micros::try_from(self.started.elapsed().as_micros()).unwrap_or(Micros::MAX)
    }

    /// What it showed at that instant.
    #[must_use]
    pub fn shown(&self, at: Instant) -> Micros {
        let since = at.saturating_duration_since(self.started);
        Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
    }

    /// The time of day when it showed `at`.
    #[must_use]
    pub fn time(&self, at: Micros) -> Millis {
        let (time, shown) = self.anchor;
        let signed = |micros| i64::try_from(micros).unwrap_or(i64::MAX);
        time + (signed(at) - signed(shown)).div_euclid(1000)
    }

    /// What it shows at that time of day.
    #[must_use]
    pub fn at(&self, time: Millis) -> Micros {
        let (then, shown) = self.anchor;
        let since = (time - then).saturating_mul(1000);
        shown.saturating_add_signed(since)
    }

    /// Between which times a clock that is `ahead` was read, if it was between these instants.
    #[must_use]
    pub fn read_between(&self, begin: Micros, end: Micros, ahead: Millis) -> (Millis, Millis) {
        let (from, to) = (self.time(begin), self.time(end));
        (from + ahead - BLUR, to + ahead + BLUR)
    }
}

/// Waits; nothing else in the soak does.
pub async fn sleep_ms(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
