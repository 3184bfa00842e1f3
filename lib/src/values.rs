//! The values in a request. Each is checked when it is built, so nothing malformed gets any further.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    time::Duration,
};

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

mod numbers;

pub(crate) use numbers::small;
pub use numbers::{
    AtLeast, Counter, KeepTime, LimitedTo, ObservedVersion, Permit, Permits, Ttl, WaitTime,
};

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

fn plain(text: String, longest: usize) -> Result<String, BadValue> {
    let text = sized(text, longest)?;
    if text.chars().any(char::is_control) {
        return Err(BadValue("must not contain control characters".into()));
    }
    Ok(text)
}

/// A checked string: its `TryFrom`, and the methods that all of them have.
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
            /// [`BadValue`] says what is wrong.
            pub fn new(text: impl Into<String>) -> Result<Self, BadValue> {
                let check: fn(String) -> Result<String, BadValue> = $check;
                check(text.into()).map(Self)
            }

            /// The text, byte for byte as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Text from an item, unchecked, so that it is shown as it is.
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
    /// any byte are different keys; nothing is normalised. Those that begin with `leasehold pool ` are refused: pools have them.
    Key,
    |text| {
        if text.starts_with(POOLS) {
            return Err(BadValue(format!("must not begin with \"{POOLS}\", as the rows of pools do")));
        }
        plain(text, 1024)
    }
);

/// Pools have a name space of their own, and so do their rows.
const POOLS: &str = "leasehold pool ";

impl Key {
    /// That of the pool with this name.
    #[must_use]
    pub fn of_pool(name: &Self) -> Self {
        Self(format!("{POOLS}{name}"))
    }

    /// The name of the pool, if it is one's.
    #[must_use]
    pub fn pool_name(&self) -> Option<&str> {
        self.0.strip_prefix(POOLS)
    }

    /// For people: of a pool "pool NAME".
    #[must_use]
    pub fn label(&self) -> std::borrow::Cow<'_, str> {
        match self.pool_name() {
            Some(name) => format!("pool {name}").into(),
            None => self.as_str().into(),
        }
    }

    /// That of a row by its partition key; it may be a pool's. None if no row of a lease can have it.
    #[must_use]
    pub fn of_row(pk: &str) -> Option<Self> {
        match pk.strip_prefix(POOLS) {
            Some(name) => Self::new(name).ok().map(|name| Self::of_pool(&name)),
            None => Self::new(pk).ok(),
        }
    }
}

text_value!(
    /// Who asks: 1 to 1024 bytes. In a workflow the bare ARN of the execution.
    Holder,
    |text| sized(text, 1024)
);

text_value!(
    /// The idempotency key of one logical acquire: 1 to 1024 bytes. The same holder with the same request id always
    /// gets the same lease back.
    RequestId,
    |text| sized(text, 1024)
);

text_value!(
    /// Who operates: 1 to 128 bytes without control characters. It is stored in the row and shown.
    Operator,
    |text| plain(text, 128)
);

text_value!(
    /// Whose credentials signed an operator's act, as STS names them: 1 to 2048 bytes without control characters.
    Caller,
    |text| plain(text, 2048)
);

text_value!(
    /// Why an operator acts: 1 to 512 bytes without control characters. It is stored in the row and shown.
    Reason,
    |text| plain(text, 512)
);

impl From<&Operator> for Holder {
    fn from(operator: &Operator) -> Self {
        Self(operator.0.clone())
    }
}

impl RequestId {
    /// A unique request id: 128 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(random_hex())
    }
}

/// A checked string that `Debug` never shows and that has no `Display`.
macro_rules! secret_value {
    ($(#[$doc:meta])* $name:ident, $longest:literal, $(#[$exposed:meta])*) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            $(#[$exposed])*
            #[must_use]
            pub fn expose(&self) -> &str {
                &self.0
            }

            pub(crate) fn stored(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadValue;
            fn try_from(text: String) -> Result<Self, BadValue> {
                sized(text, $longest).map(Self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(redacted)"))
            }
        }
    };
}

secret_value!(
    /// Proof of ownership, one per grant: a secret. `Debug` never shows it, and there is no `Display`; only
    /// [`LeaseId::expose`] and serialization return it.
    LeaseId,
    256,
    /// The secret itself, for a condition of your own on the lease row.
);

secret_value!(
    /// The token that Step Functions gives a task that waits for a callback: anybody who has it can end the task. A
    /// secret: `Debug` never shows it, there is no `Display`, and it is not serialized.
    TaskToken,
    2048,
    /// The secret itself, for the service that sends the callback.
);

/// The id that Lambda gives a callback of a durable execution, in base64: anybody who has it and the right to call can end the
/// wait. As secret as the [`TaskToken`] that it is in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct CallbackId(TaskToken);

impl TryFrom<String> for CallbackId {
    type Error = BadValue;

    /// Anything but base64 is no callback's, and would only wait without effect.
    fn try_from(text: String) -> Result<Self, BadValue> {
        let text = sized(text, 1024)?;
        let digits = text.trim_end_matches('=');
        let known = |c: char| c.is_ascii_alphanumeric() || "+/".contains(c);
        if digits.is_empty() || text.len() - digits.len() > 2 || !digits.chars().all(known) {
            let problem = "must be the id of a callback, in base64";
            return Err(BadValue(problem.to_owned()));
        }
        Ok(Self(TaskToken(text)))
    }
}

impl From<CallbackId> for TaskToken {
    fn from(id: CallbackId) -> Self {
        id.0
    }
}

impl LeaseId {
    /// A new one: 128 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(random_hex())
    }
}

impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl TaskToken {
    /// Checks `text`: 1 to 2048 bytes.
    ///
    /// # Errors
    /// [`BadValue`] says what is wrong.
    pub fn new(text: impl Into<String>) -> Result<Self, BadValue> {
        Self::try_from(text.into())
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

/// A random length of time, from nothing to `longest`.
#[expect(
    clippy::disallowed_methods,
    reason = "the one home of ambient randomness"
)]
pub(crate) fn up_to(longest: Duration) -> Duration {
    let bits = getrandom::u32().expect("the operating system gives random bytes");
    longest.mul_f64(f64::from(bits) / f64::from(u32::MAX))
}

/// The same for the same parts only.
fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    Sha256::digest(framed(parts))[..16].to_vec()
}

/// Each part is preceded by its length, so that the parts can be read back from the whole.
fn framed<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut frame = Vec::new();
    for part in parts {
        frame.extend((part.len() as u64).to_be_bytes());
        frame.extend(part.as_bytes());
    }
    frame
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Holder and request id in 128 bits: what a row remembers of a request. Each part goes in with
/// its length before it, so that no two pairs share their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestDigest(Vec<u8>);

impl RequestDigest {
    /// The digest of one logical request.
    #[must_use]
    pub fn of(holder: &Holder, request_id: &RequestId) -> Self {
        Self(digest([holder.as_str(), request_id.as_str()]))
    }

    /// The digest of the start of an execution: one byte longer than that of a request.
    #[must_use]
    pub fn of_start(execution: &Holder) -> Self {
        let mut digest = digest([execution.as_str()]);
        digest.push(b's');
        Self(digest)
    }

    /// Whether it is a start that waits for the key, or holds it.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.0.len() == 17
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn stored(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }

    /// A number that is the same for copies of the request, and any number for others.
    pub(crate) fn number(&self) -> u64 {
        self.0
            .first_chunk()
            .map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }
}

impl fmt::Display for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
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
        let metadata = Self(entries);
        let bytes = metadata.bytes();
        if bytes > 4096 {
            return Err(BadValue(format!(
                "must be at most 4096 bytes in all, is {bytes}"
            )));
        }
        if metadata.0.contains_key("") {
            return Err(BadValue("must not contain an empty name".into()));
        }
        Ok(metadata)
    }

    /// The length of all names and values together.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(k, v)| k.len() + v.len()).sum()
    }

    /// The entries, by name.
    #[must_use]
    pub const fn entries(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) const fn stored(entries: BTreeMap<String, String>) -> Self {
        Self(entries)
    }

    /// As many whole entries, in the order of their names, as fit into `bytes`.
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

/// What to lease together: 1 to 100 keys, no two the same.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Keys(Vec<Key>);

impl Keys {
    /// As many as one transaction of `DynamoDB` takes.
    pub const MOST: usize = 100;

    /// Checks `keys`.
    ///
    /// # Errors
    /// [`BadValue`] for none, too many, or a duplicate.
    pub fn new(keys: Vec<Key>) -> Result<Self, BadValue> {
        one_to_a_hundred(keys.len())?;
        let mut seen = HashSet::new();
        match keys.iter().position(|key| !seen.insert(key)) {
            Some(at) => Err(BadValue(format!("key {at} of the list is there twice"))),
            None => Ok(Self(keys)),
        }
    }

    /// The keys, in the order given.
    #[must_use]
    pub fn as_slice(&self) -> &[Key] {
        &self.0
    }
}

/// Which keys a request asked for, in whatever order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeysDigest(Vec<u8>);

impl KeysDigest {
    /// The digest of several keys; none of a single one.
    #[must_use]
    pub fn of(keys: &Keys) -> Option<Self> {
        let mut keys: Vec<_> = keys.as_slice().iter().map(Key::as_str).collect();
        keys.sort_unstable();
        (keys.len() > 1).then(|| Self(digest(keys)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn stored(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }
}

pub(crate) fn one_to_a_hundred(n: usize) -> Result<(), BadValue> {
    match n {
        1..=Keys::MOST => Ok(()),
        _ => Err(BadValue(format!("expected 1 to 100 of them, found {n}"))),
    }
}

impl TryFrom<Vec<String>> for Keys {
    type Error = BadValue;

    fn try_from(keys: Vec<String>) -> Result<Self, BadValue> {
        let checked = keys.into_iter().enumerate().map(|(at, key)| {
            Key::new(key).map_err(|BadValue(problem)| BadValue(format!("key {at}: {problem}")))
        });
        Self::new(checked.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        row::attributes as at,
        store::{Address, ItemAddress},
    };

    #[test]
    fn keys_have_no_control_characters() {
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
    fn debug_shows_no_lease_id() {
        let id = LeaseId::random();
        assert_eq!(format!("{id:?}"), "LeaseId(redacted)");
        assert_ne!(id, LeaseId::random());
        let token = TaskToken::stored("secret");
        assert_eq!(format!("{token:?}"), "TaskToken(redacted)");
    }

    #[test]
    fn metadata_is_cut_between_entries() {
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
        let one = of(&[("a", "12345")]).expect("valid");
        assert_eq!((one.cut_to(5), one.cut_to(6)), (Metadata::default(), one));
        let two = of(&[("aaa", "1"), ("b", "22")]).expect("valid");
        assert_eq!(two.cut_to(6), of(&[("aaa", "1")]).expect("valid"));
        assert_eq!(two.cut_to(7), two);
    }

    #[test]
    fn digest_ignores_order_of_keys() {
        let of = |keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
            KeysDigest::of(&Keys::try_from(keys).expect("valid"))
        };
        assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
        assert_ne!(of(&["a", "b"]), of(&["a", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["a"]), None);
    }

    #[test]
    fn keys_are_distinct_and_bounded() {
        let read = |keys: &[String]| Keys::try_from(keys.to_vec()).map_err(|e| e.to_string());
        let many = |n: usize| (0..n).map(|n| format!("k{n}")).collect::<Vec<_>>();
        assert_eq!(read(&many(100)).expect("valid").as_slice().len(), 100);
        for (bad, problem) in [
            (many(0), "expected 1 to 100 of them, found 0"),
            (many(101), "expected 1 to 100 of them, found 101"),
            (
                ["a", "b", "a"].map(String::from).to_vec(),
                "key 2 of the list is there twice",
            ),
            (
                ["a", ""].map(String::from).to_vec(),
                "key 1: must not be empty",
            ),
        ] {
            assert_eq!(read(&bad), Err(problem.to_owned()));
        }
        // Keys that look the same are not the same.
        read(&["\u{e9}", "e\u{301}"].map(String::from)).expect("two keys");
    }

    /// Texts that look like each other, like a separator or a length, or like nothing; short, so that collisions are
    /// likely.
    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a",
            "b",
            "\u{e9}",
            "e\u{301}",
            "\u{202e}",
            "\u{200b}",
            "\u{feff}",
            "\u{0}",
            "\u{1}",
            "\u{8}",
            "\n",
            "\u{7f}",
            "#",
            "/",
            "|",
            "\"",
            "\\",
            "LEASE#",
            "WAIT#",
            "0000",
            "\u{10ffff}",
            "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{1}",
        ]);
        let parts = prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat());
        prop_oneof![8 => parts, 1 => any::<String>(), 1 => Just("\u{e9}".repeat(512)), 1 => Just("k".repeat(1024))]
    }

    /// The parts of a frame; none if it is not one.
    fn unframed(mut frame: &[u8]) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        while let Some((length, rest)) = frame.split_first_chunk() {
            let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
            let (part, rest) = rest.split_at_checked(length)?;
            parts.push(String::from_utf8(part.to_vec()).ok()?);
            frame = rest;
        }
        frame.is_empty().then_some(parts)
    }

    proptest! {
        // A frame that can be read back belongs to one list of parts only, and the digest is taken of the frame.
        #[test]
        fn frame_reads_back_its_parts(parts in prop::collection::vec(text(), 0..5)) {
            let frame = framed(parts.iter().map(String::as_str));
            prop_assert_eq!(unframed(&frame), Some(parts));
        }

        #[test]
        fn each_request_has_own_digest(one in [text(), text()], other in [text(), text()], cut in 0_usize..9) {
            // The other list, or one's own text, split elsewhere.
            let whole = one.concat();
            let parted = whole.char_indices().map(|(at, _)| whole.split_at(at)).nth(cut);
            for other in [Some((other[0].as_str(), other[1].as_str())), parted].into_iter().flatten() {
                let digest = |holder: &str, id: &str| {
                    Some(RequestDigest::of(&Holder::new(holder).ok()?, &RequestId::new(id).ok()?))
                };
                let (ours, theirs) = (digest(&one[0], &one[1]), digest(other.0, other.1));
                if ours.is_some() && theirs.is_some() {
                    prop_assert_eq!(ours == theirs, (one[0].as_str(), one[1].as_str()) == other);
                }
            }
        }

        #[test]
        fn address_identifies_its_item(key in text(), permit in 0_u16..1000, id in text()) {
            let Ok(key) = Key::new(key) else { return Ok(()) };
            let address = Address { key: key.clone(), permit };
            let row = ItemAddress::Row(address);
            prop_assert_eq!(ItemAddress::of(key.as_str(), &at::lease_sk(permit)), Some(row));
            let (Ok(holder), Ok(id)) = (Holder::new(id.clone()), RequestId::new(id)) else { return Ok(()) };
            let request = RequestDigest::of(&holder, &id);
            let waiter = ItemAddress::Waiter(key.clone(), request.clone());
            prop_assert_eq!(ItemAddress::of(key.as_str(), &at::wait_sk(&request)), Some(waiter));
        }

        // Otherwise one lease could have two items.
        #[test]
        fn address_is_written_as_read(
            sk in prop_oneof![
                "LEASE#[0-9+ \\-a]{0,6}", "WAIT#[0-9a-fA-F]{31,33}", "WAIT#[0-9a-f]{32}\\PC{0,1}", "(LEASE|WAIT)#\\PC{0,5}",
                text(),
            ],
        ) {
            if let Some(address) = ItemAddress::of("k", &sk) {
                prop_assert_eq!(address.keys().1, sk);
            }
        }
    }
}
