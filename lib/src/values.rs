//! The values that a request is made of. Each is checked when it is built, so that nothing
//! malformed gets any further.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// Why a value was refused. It never repeats the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub(crate) String);

fn sized(text: String, longest: usize) -> Result<String, BadValue> {
    match text.len() {
        0 => Err(BadValue("must not be empty".into())),
        n if n > longest => Err(BadValue(format!("must be at most {longest} bytes, is {n}"))),
        _ => Ok(text),
    }
}

/// A checked string: its `TryFrom`, and what every one of them can do.
macro_rules! text_value {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text`.
            ///
            /// # Errors
            /// [`BadValue`], saying what is wrong.
            pub fn new(text: impl Into<String>) -> Result<Self, BadValue> {
                let check: fn(String) -> Result<String, BadValue> = $check;
                check(text.into()).map(Self)
            }

            /// The text, byte for byte as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Text that comes out of an item: whatever it is, it is shown as it is.
            #[allow(dead_code, reason = "not every value is stored in clear")]
            pub(crate) fn stored(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadValue;
            fn try_from(text: String) -> Result<Self, BadValue> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_value!(
    /// What to lease: 1 to 1024 bytes of UTF-8 without control characters. Keys that differ in
    /// any byte are different keys; nothing is normalised.
    Key,
    |text| {
        let text = sized(text, 1024)?;
        if text.chars().any(char::is_control) {
            return Err(BadValue("must not contain control characters".into()));
        }
        Ok(text)
    }
);

text_value!(
    /// Who asks: 1 to 1024 bytes. In a workflow the bare ARN of the execution.
    Holder,
    |text| sized(text, 1024)
);

text_value!(
    /// The idempotency key of one logical acquire: 1 to 1024 bytes. The same holder with the same
    /// request id always gets the same lease back.
    RequestId,
    |text| sized(text, 1024)
);

impl RequestId {
    /// A request id that nobody else has.
    #[must_use]
    pub fn random() -> Self {
        Self(random_hex())
    }
}

/// Proof of ownership, one per grant: a secret. It is never shown by `Debug` and has no `Display`;
/// [`LeaseId::expose`] and serialization are the only ways out.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct LeaseId(String);

impl LeaseId {
    /// A new one: 128 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(random_hex())
    }

    /// The secret itself, for a condition of your own on the lease row.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl TryFrom<String> for LeaseId {
    type Error = BadValue;
    fn try_from(text: String) -> Result<Self, BadValue> {
        sized(text, 256).map(Self)
    }
}

impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(redacted)")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one home of ambient randomness"
)]
fn random_hex() -> String {
    let mut bits = [0_u8; 16];
    getrandom::fill(&mut bits).expect("the operating system gives random bytes");
    hex(&bits)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Holder and request id in 128 bits: what a row remembers of a request. Each part goes in with
/// its length before it, so that no two pairs share their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestDigest(String);

impl RequestDigest {
    /// The digest of one logical request.
    #[must_use]
    pub fn of(holder: &Holder, request_id: &RequestId) -> Self {
        let mut sha = Sha256::new();
        for part in [holder.as_str(), request_id.as_str()] {
            sha.update((part.len() as u64).to_be_bytes());
            sha.update(part.as_bytes());
        }
        Self(hex(&sha.finalize()[..16]))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The length of a lease: 1 to 86 400 seconds, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The longest lease, in milliseconds: one day.
    pub const MAX_MILLIS: u64 = 86_400_000;

    const RANGE: &str = "a number of seconds from 1 to 86400";

    /// Checks `length`; less than a millisecond of it is dropped.
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

    /// From an item, where anything up to [`Ttl::MAX_MILLIS`] is ours.
    pub(crate) fn stored(millis: u64) -> Option<Self> {
        u32::try_from(millis)
            .ok()
            .filter(|&millis| millis >= 1 && u64::from(millis) <= Self::MAX_MILLIS)
            .map(Self)
    }
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) {
            serializer.serialize_u32(self.0 / 1000)
        } else {
            serializer.serialize_f64(f64::from(self.0) / 1000.0)
        }
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = deserializer.deserialize_any(Number(Self::RANGE))?;
        // To the nearest millisecond: 1.001 has no exact binary form. Not a number fails `from`.
        Duration::try_from_secs_f64(seconds)
            .map(|length| Duration::from_micros(500).saturating_add(length))
            .map_err(|_| BadValue(format!("expected {}", Self::RANGE)))
            .and_then(Self::new)
            .map_err(de::Error::custom)
    }
}

/// Any JSON number, as a float.
struct Number(&'static str);

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

/// A counter that a row carries: a fencing token or a version, from 1 to [`Counter::MAX`].
///
/// Engines of workflows keep numbers as floats: `1795228800125.0` is read as the whole number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Counter(u64);

impl Counter {
    /// Far above what any clock seeds, and so far below 2^53 that adding to it stays exact in
    /// every JSON reader. An item with more is not ours.
    pub const MAX: u64 = 1 << 52;

    /// The least.
    pub(crate) const MIN: Self = Self(1);

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

    /// `step` more. [`Counter::MAX`] is out of reach for anything that started from a clock.
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
        let n = deserializer.deserialize_any(Number(Self::RANGE))?;
        // Up to 2^52 a float is exact, so the detour loses nothing that could be accepted.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and in range"
        )]
        if n.fract() == 0.0 && (1.0..=4_503_599_627_370_496.0).contains(&n) {
            return Ok(Self(n as u64));
        }
        Err(de::Error::custom(format!("expected {}", Self::RANGE)))
    }
}

/// What a holder wants others to see: strings by name, at most 4096 bytes in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Checks `entries`.
    ///
    /// # Errors
    /// [`BadValue`] for an empty name or more than 4096 bytes of names and values together.
    pub fn new(entries: BTreeMap<String, String>) -> Result<Self, BadValue> {
        let bytes: usize = entries.iter().map(|(k, v)| k.len() + v.len()).sum();
        if bytes > 4096 {
            return Err(BadValue(format!(
                "must be at most 4096 bytes in all, is {bytes}"
            )));
        }
        if entries.contains_key("") {
            return Err(BadValue("must not contain an empty name".into()));
        }
        Ok(Self(entries))
    }

    /// The entries, by name.
    #[must_use]
    pub const fn entries(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) const fn stored(entries: BTreeMap<String, String>) -> Self {
        Self(entries)
    }

    /// As many whole entries, in order of their names, as fit into `bytes`.
    #[must_use]
    pub fn cut_to(&self, bytes: usize) -> Self {
        let mut left = bytes;
        Self(
            self.0
                .iter()
                .take_while(|(k, v)| {
                    let fits = k.len() + v.len() <= left;
                    left = left.saturating_sub(k.len() + v.len());
                    fits
                })
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    }
}

impl TryFrom<BTreeMap<String, String>> for Metadata {
    type Error = BadValue;
    fn try_from(entries: BTreeMap<String, String>) -> Result<Self, BadValue> {
        Self::new(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_free_of_control_characters() {
        assert!(Key::new("orders/42").is_ok());
        assert!(Key::new("k".repeat(1024)).is_ok());
        for bad in [
            String::new(),
            "k".repeat(1025),
            "a\nb".into(),
            "\u{85}".into(),
        ] {
            assert!(Key::new(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_two_pairs_of_holder_and_request_share_a_digest() {
        let digest = |h: &str, r: &str| {
            RequestDigest::of(
                &Holder::new(h).expect("valid"),
                &RequestId::new(r).expect("valid"),
            )
        };
        assert_ne!(digest("ab", "c"), digest("a", "bc"));
        assert_eq!(digest("ab", "c"), digest("ab", "c"));
        assert_eq!(digest("ab", "c").as_str().len(), 32);
    }

    #[test]
    fn a_lease_id_stays_out_of_debug() {
        let id = LeaseId::random();
        assert!(!format!("{id:?}").contains(id.expose()));
        assert_ne!(id, LeaseId::random());
    }

    #[test]
    fn a_ttl_takes_fractions_and_refuses_the_rest() {
        let read = |text: &str| serde_json::from_str::<Ttl>(text).map(Ttl::as_millis).ok();
        assert_eq!(read("300"), Some(300_000));
        assert_eq!(read("1.001"), Some(1_001));
        assert_eq!(read("86400"), Some(86_400_000));
        for bad in [
            "0",
            "0.999",
            "-1",
            "86400.001",
            "1e300",
            "18446744073709551615",
            "\"5\"",
            "null",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let write = |text: &str| {
            serde_json::to_string(&serde_json::from_str::<Ttl>(text).expect("valid")).expect("json")
        };
        assert_eq!((write("300.0"), write("1.5")), ("300".into(), "1.5".into()));
    }

    #[test]
    fn a_counter_is_read_from_a_float_only_when_it_is_whole() {
        let read = |text: &str| serde_json::from_str::<Counter>(text).map(Counter::get).ok();
        assert_eq!(read("1795228800125"), Some(1_795_228_800_125));
        assert_eq!(read("1795228800125.0"), Some(1_795_228_800_125));
        assert_eq!(read("1.795228800125e12"), Some(1_795_228_800_125));
        for bad in ["0", "-1", "1.5", "4503599627370497", "1e300", "\"7\""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn metadata_is_bounded_and_cut_by_whole_entries() {
        let of = |pairs: &[(&str, &str)]| {
            Metadata::new(
                pairs
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect(),
            )
        };
        assert!(of(&[("k", &"v".repeat(4095))]).is_ok());
        assert!(of(&[("k", &"v".repeat(4096))]).is_err());
        assert!(of(&[("", "v")]).is_err());
        let three = of(&[("a", "1"), ("b", &"2".repeat(50)), ("c", "3")]).expect("valid");
        assert_eq!(three.cut_to(10), of(&[("a", "1")]).expect("valid"));
        assert_eq!(three.cut_to(1000), three);
    }
}
