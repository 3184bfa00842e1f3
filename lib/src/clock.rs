//! Instants and the only place that reads the clock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::{
    OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339, macros::format_description,
};

/// An instant: whole milliseconds since the epoch.
///
/// In JSON it is RFC 3339 in UTC with milliseconds (so that a Wait state can take it as its
/// timestamp), in items a number of milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last millisecond of the year 9999, the end of what RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The instant `millis` milliseconds after the epoch, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up: the unit of the table's DynamoDB TTL.
    #[must_use]
    pub const fn as_seconds_rounded_up(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// This instant plus `length`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(length)))
    }

    /// This instant minus `length`, at least the epoch.
    #[must_use]
    pub fn minus(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(millis(length)))
    }

    /// How long after `earlier` this is; zero if it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

pub(crate) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .map_err(|_| fmt::Error)?
            .format(&format)
            .map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = time::error::Parse;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at = OffsetDateTime::parse(text, &Rfc3339)?.to_offset(UtcOffset::UTC);
        let millis = u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
        Ok(Self::from_millis(millis))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(|_| de::Error::custom("expected an instant such as 2026-11-21T03:00:00.123Z"))
    }
}

/// The source of the time.
///
/// The rules read it once per call and never keep it, because a sandbox may sleep for hours between two invocations.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns when `length` has passed.
    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads the ambient clock"
    )]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(millis(since))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is how the machine's clock waits"
    )]
    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(length))
    }
}

/// A clock that moves only when it is set or advanced: for tests and simulations.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `at`.
    #[must_use]
    pub const fn at(at: Timestamp) -> Self {
        Self(AtomicU64::new(at.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, length: Duration) {
        self.set(self.now().plus(length));
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Advances the clock instead of waiting.
    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.advance(length);
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_round_trips_to_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_795_230_000_120, "2026-11-21T03:00:00.120Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(at.to_string(), text);
            assert_eq!(text.parse(), Ok(at));
        }
    }

    #[test]
    fn instant_accepts_offset_and_more_digits() {
        let at: Timestamp = "2026-11-21T04:00:00.1239999+01:00".parse().expect("valid");
        assert_eq!(at.as_millis(), 1_795_230_000_123);
    }

    #[test]
    fn arithmetic_stays_in_writable_range() {
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(5).minus(Duration::from_secs(1)).0, 0);
        assert_eq!(Timestamp::from_millis(1).as_seconds_rounded_up(), 1);
    }
}

/// Real time, not a lease's time: the limits of requests use it, as the SDK's own limits do.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "measures only how long a request has taken"
)]
pub fn stopwatch() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// For tests of calls that have to end in time.
#[cfg(test)]
pub(crate) mod slow {
    use std::{
        future::Future,
        pin::Pin,
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use super::{Clock, Timestamp};

    /// A clock that advances by this many milliseconds at every reading.
    pub(crate) struct Slow {
        now: AtomicU64,
        look: u64,
    }

    impl Slow {
        pub(crate) fn by(look: u64) -> Self {
            Self {
                now: AtomicU64::new(1_800_000_000_000),
                look,
            }
        }
    }

    impl Clock for Slow {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.now.fetch_add(self.look, Ordering::Relaxed))
        }

        fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            let millis = u64::try_from(length.as_millis()).expect("short");
            self.now.fetch_add(millis, Ordering::Relaxed);
            Box::pin(std::future::ready(()))
        }
    }
}

/// Tokio's virtual time. It stops while a task runs and jumps when all tasks sleep.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
pub(crate) mod paused {
    use std::{
        future::Future,
        pin::Pin,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tokio::time::{Instant, sleep};

    use super::{Clock, Timestamp};

    /// Tokio's virtual time, with a record of every pause.
    pub(crate) struct Paused {
        start: Instant,
        pub(crate) pauses: Mutex<Vec<Duration>>,
    }

    impl Paused {
        pub(crate) fn new() -> Arc<Self> {
            let (start, pauses) = (Instant::now(), Mutex::default());
            Arc::new(Self { start, pauses })
        }
    }

    impl Clock for Paused {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1_800_000_000_000).plus(Instant::now() - self.start)
        }

        fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            self.pauses.lock().expect("no panic").push(length);
            Box::pin(sleep(length))
        }
    }
}
