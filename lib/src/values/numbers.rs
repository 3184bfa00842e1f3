//! The numbers among the values: lengths of time and counters.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::BadValue;

/// The length of a lease: 1 to 86 400 seconds, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The longest lease, in milliseconds: one day.
    pub const MAX_MILLIS: u64 = 86_400_000;

    const RANGE: &str = "a number of seconds from 1 to 86400";

    /// Checks `length`; a fraction of a millisecond is dropped.
    ///
    /// # Errors
    /// [`BadValue`] outside of 1 to 86 400 seconds.
    pub fn new(length: Duration) -> Result<Self, BadValue> {
        u32::try_from(length.as_millis())
            .ok()
            .filter(|&millis| millis >= 1000 && u64::from(millis) <= Self::MAX_MILLIS)
            .map(Self)
            .ok_or_else(|| BadValue(format!("expected {}", Self::RANGE)))
    }

    /// The length.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 as u64
    }

    /// From an item. Ours has 1 ms to [`Ttl::MAX_MILLIS`].
    pub(crate) fn stored(millis: u64) -> Option<Self> {
        u32::try_from(millis)
            .ok()
            .filter(|&millis| millis >= 1 && u64::from(millis) <= Self::MAX_MILLIS)
            .map(Self)
    }
}

/// In JSON a number of seconds.
macro_rules! as_seconds {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize_seconds(self.0, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let seconds = deserializer.deserialize_any(Number(Self::RANGE))?;
                to_the_millisecond(seconds)
                    .ok_or_else(|| BadValue(format!("expected {}", Self::RANGE)))
                    .and_then(Self::new)
                    .map_err(de::Error::custom)
            }
        }
    };
}

as_seconds!(Ttl);

/// Any JSON number, as a float.
pub(super) struct Number(pub(super) &'static str);

impl de::Visitor<'_> for Number {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "far outside of the range anyway"
    )]
    fn visit_u64<E>(self, n: u64) -> Result<f64, E> {
        Ok(n as f64)
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "far outside of the range anyway"
    )]
    fn visit_i64<E>(self, n: i64) -> Result<f64, E> {
        Ok(n as f64)
    }
    fn visit_f64<E>(self, n: f64) -> Result<f64, E> {
        Ok(n)
    }
}

/// A small whole number, which a workflow engine may have written as a float.
pub(crate) fn small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    const RANGE: &str = "a whole number from 0 to 65535";
    let n = deserializer.deserialize_any(Number(RANGE))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    if n.fract() == 0.0 && (0.0..=65_535.0).contains(&n) {
        return Ok(n as u16);
    }
    Err(de::Error::custom(format!("expected {RANGE}")))
}

/// A counter in a row: a fencing token or a version, from 1 to [`Counter::MAX`].
///
/// Workflow engines keep numbers as floats: `1795228800125.0` is read as the whole number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Counter(u64);

impl Counter {
    /// Far above any number that a clock gives, and so far below 2^53 that additions stay exact in every JSON reader.
    /// An item with a larger number is not ours.
    pub const MAX: u64 = 1 << 52;

    /// The smallest.
    pub const MIN: Self = Self(1);

    /// The highest floor. There is room above it for more grants than anybody makes. It has 15 digits, as many as
    /// JSONata's `$string` writes, which workflows use to put tokens into items.
    pub const HIGHEST_FLOOR: Self = Self(500_000_000_000_000);

    const RANGE: &str = "a whole number from 1 to 2^52";

    /// Checks `n`.
    #[must_use]
    pub fn new(n: u64) -> Option<Self> {
        (1..=Self::MAX).contains(&n).then_some(Self(n))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This plus `step`. No counter that started from a clock reaches [`Counter::MAX`].
    pub(crate) const fn plus(self, step: u64) -> Self {
        Self(self.0 + step)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Counter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole(deserializer, Self::RANGE, 1).map(Self)
    }
}

/// A whole number from `least` to 2^52. Floats are exact up to there, so every accepted number is exact.
fn whole<'de, D: Deserializer<'de>>(
    deserializer: D,
    range: &'static str,
    least: u64,
) -> Result<u64, D::Error> {
    let n = deserializer.deserialize_any(Number(range))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    if n.fract() == 0.0 && (0.0..=4_503_599_627_370_496.0).contains(&n) && n as u64 >= least {
        return Ok(n as u64);
    }
    Err(de::Error::custom(format!("expected {range}")))
}

/// The version of a lease when it was last seen, or 0 for "not seen yet". A takeover by observation compares it. No
/// row has version 0, so 0 takes nothing over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObservedVersion(u64);

impl ObservedVersion {
    /// Nothing has been observed yet.
    pub const NONE: Self = Self(0);

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Counter> for ObservedVersion {
    fn from(version: Counter) -> Self {
        Self(version.get())
    }
}

impl<'de> Deserialize<'de> for ObservedVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole(deserializer, "a whole number from 0 to 2^52", 0).map(Self)
    }
}

/// How many may hold a key at once: 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Permits(u16);

impl Permits {
    const RANGE: &str = "a whole number from 1 to 1000";

    /// The least number.
    pub(crate) const LEAST: Self = Self(1);

    /// Checks `n`.
    ///
    /// # Errors
    /// [`BadValue`] outside of 1 to 1000.
    pub fn new(n: u16) -> Result<Self, BadValue> {
        if (1..=1000).contains(&n) {
            return Ok(Self(n));
        }
        Err(BadValue(format!("expected {}", Self::RANGE)))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// One of a semaphore's permits: 0 to 999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permit(u16);

impl Permit {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Permit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match small(deserializer)? {
            n @ 0..=999 => Ok(Self(n)),
            _ => Err(de::Error::custom("expected a whole number from 0 to 999")),
        }
    }
}

impl<'de> Deserialize<'de> for Permits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let n = whole(deserializer, Self::RANGE, 1)?;
        u16::try_from(n)
            .map_err(|_| BadValue(format!("expected {}", Self::RANGE)))
            .and_then(Self::new)
            .map_err(de::Error::custom)
    }
}

/// How long a waiter stays in the queue: at most 365 days, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitTime(Duration);

impl WaitTime {
    /// The longest wait: the longest time that an execution may run.
    pub const LONGEST: Duration = Duration::from_hours(365 * 24);

    /// How long a start waits if nothing else is said.
    pub const DAY: Self = Self(Duration::from_hours(24));

    const RANGE: &str = "a number of seconds from 0 to 31536000";

    /// Checks `length`.
    ///
    /// # Errors
    /// [`BadValue`] above [`WaitTime::LONGEST`].
    pub fn new(length: Duration) -> Result<Self, BadValue> {
        if length > Self::LONGEST {
            return Err(Self::out_of_range());
        }
        Ok(Self(length))
    }

    /// The length.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    fn out_of_range() -> BadValue {
        BadValue(format!("expected {}", Self::RANGE))
    }
}

impl<'de> Deserialize<'de> for WaitTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = deserializer.deserialize_any(Number(Self::RANGE))?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Self::out_of_range())
            .and_then(Self::new)
            .map_err(de::Error::custom)
    }
}

/// A length of time from 0 to a longest one, in whole milliseconds.
macro_rules! length_of_time {
    ($(#[$doc:meta])* $name:ident, $longest:literal, $range:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The longest, in milliseconds.
            pub const MAX_MILLIS: u64 = $longest;

            const RANGE: &str = $range;

            /// Checks `length`; a fraction of a millisecond is dropped.
            ///
            /// # Errors
            /// [`BadValue`] if it is longer than the longest.
            pub fn new(length: Duration) -> Result<Self, BadValue> {
                u64::try_from(length.as_millis())
                    .ok()
                    .and_then(Self::stored)
                    .ok_or_else(|| BadValue(format!("expected {}", Self::RANGE)))
            }

            /// The length.
            #[must_use]
            pub const fn as_duration(self) -> Duration {
                Duration::from_millis(self.0 as u64)
            }

            /// The length in milliseconds.
            #[must_use]
            pub const fn as_millis(self) -> u64 {
                self.0 as u64
            }

            /// From an item.
            pub(crate) fn stored(millis: u64) -> Option<Self> {
                u32::try_from(millis)
                    .ok()
                    .filter(|&millis| u64::from(millis) <= Self::MAX_MILLIS)
                    .map(Self)
            }
        }

        as_seconds!($name);
    };
}

length_of_time! {
    /// How long an execution lease stays after its execution failed, was stopped or timed out, so that a redrive finds it:
    /// at most 14 days, the time within which an execution can be redriven. In whole milliseconds.
    KeepTime, 1_209_600_000, "a number of seconds from 0 to 1209600"
}

length_of_time! {
    /// A cooldown: for how long after a grant a key is not granted again, even if it is released before. At most a day, in whole milliseconds.
    AtLeast, 86_400_000, "a number of seconds from 0 to 86400"
}

/// A limit that an operator sets: how many may hold a key at once, 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedTo(u16);

impl LimitedTo {
    const RANGE: &str = "a whole number from 0 to 1000";

    /// Checks `n`.
    ///
    /// # Errors
    /// [`BadValue`] above 1000.
    pub fn new(n: u16) -> Result<Self, BadValue> {
        if n <= 1000 {
            return Ok(Self(n));
        }
        Err(BadValue(format!("expected {}", Self::RANGE)))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl<'de> Deserialize<'de> for LimitedTo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let n = whole(deserializer, Self::RANGE, 0)?;
        u16::try_from(n)
            .map_err(|_| BadValue(format!("expected {}", Self::RANGE)))
            .and_then(Self::new)
            .map_err(de::Error::custom)
    }
}

/// Milliseconds as seconds: a whole number where they are whole.
fn serialize_seconds<S: Serializer>(millis: u32, serializer: S) -> Result<S::Ok, S::Error> {
    if millis.is_multiple_of(1000) {
        serializer.serialize_u32(millis / 1000)
    } else {
        serializer.serialize_f64(f64::from(millis) / 1000.0)
    }
}

/// To the nearest millisecond, because 1.001 has no exact binary form. None for NaN and what is negative or too large.
fn to_the_millisecond(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .map(|length| Duration::from_micros(500).saturating_add(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_ttl_is_within_bounds() {
        let stored = |millis| Ttl::stored(millis).map(Ttl::as_millis);
        let longest = Ttl::MAX_MILLIS;
        assert_eq!((stored(1), stored(longest)), (Some(1), Some(longest)));
        for other in [0, longest + 1, u64::MAX] {
            assert_eq!(stored(other), None);
        }
    }

    /// Asserts that a value is read from these texts as these numbers, and from the others not at all.
    fn reads<T: de::DeserializeOwned>(get: fn(T) -> u64, good: &[(&str, u64)], bad: &[&str]) {
        let read = |text: &str| serde_json::from_str(text).map(get).ok();
        for (text, number) in good {
            assert_eq!(read(text), Some(*number), "{text}");
        }
        for text in ["-1", "1e300", "null", "true", "\"7\""].iter().chain(bad) {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn any_notation_is_read_within_range() {
        let fraction = &[("300", 300_000), ("1.001", 1_001), ("86400", 86_400_000)];
        let bad = &["0", "0.999", "86400.001", "18446744073709551615"];
        reads(Ttl::as_millis, fraction, bad);
        let write = |text: &str| {
            serde_json::to_string(&serde_json::from_str::<Ttl>(text).expect("valid")).expect("json")
        };
        assert_eq!((write("300.0"), write("1.5")), ("300".into(), "1.5".into()));

        let token = 1_795_228_800_125;
        let good = ["1795228800125", "1795228800125.0", "1.795228800125e12"];
        let bad = &["0", "1.5", "4503599627370497"];
        reads(Counter::get, &good.map(|text| (text, token)), bad);
        assert_eq!(Counter::MIN.to_string(), "1");

        let bad = &["0.5", "4503599627370497"];
        reads(ObservedVersion::get, &[("0", 0), ("7.0", 7)], bad);
        let good = &[("0", 0), ("7", 7), ("7.0", 7), ("999", 999)];
        reads(
            |permit: Permit| permit.get().into(),
            good,
            &["1000", "65536", "0.5"],
        );
        let bad = &["0", "1001", "65537", "1.5"];
        reads(
            |permits: Permits| permits.get().into(),
            &[("1000.0", 1000)],
            bad,
        );
        let bad = &["-1", "31536000.001", "null"];
        let good = &[("0", 0), ("1.5", 1), ("31536000", 31_536_000)];
        reads(|wait: WaitTime| wait.as_duration().as_secs(), good, bad);
        let bad = &["-1", "1209600.001", "null"];
        let good = &[("0", 0), ("1.5", 1), ("1209600", 1_209_600)];
        reads(|keep: KeepTime| keep.as_duration().as_secs(), good, bad);
    }

    #[test]
    fn wait_time_error_says_range_once() {
        for bad in ["-1", "31536000.001", "1e300", "\"5\"", "null"] {
            let error = serde_json::from_str::<WaitTime>(bad).expect_err(bad);
            let error = error.to_string();
            assert!(error.contains(WaitTime::RANGE), "{bad}: {error}");
            assert_eq!(error.matches("expected").count(), 1, "{bad}: {error}");
        }
    }
}
