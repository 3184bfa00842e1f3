//! Several keys at once.

use std::collections::HashSet;

use serde::Deserialize;

use super::{BadValue, Key, digest};

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
    /// [`BadValue`] for none, too many, or one that is there twice.
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
pub struct KeysDigest(String);

impl KeysDigest {
    /// The digest of several keys; none of a single one.
    #[must_use]
    pub fn of(keys: &Keys) -> Option<Self> {
        let mut keys: Vec<_> = keys.as_slice().iter().map(Key::as_str).collect();
        keys.sort_unstable();
        (keys.len() > 1).then(|| Self(digest(keys)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
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
    use super::*;

    #[test]
    fn a_digest_tells_sets_apart_and_orders_not() {
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
    fn keys_are_distinct_and_not_too_many() {
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
        // What looks the same is not the same.
        read(&["\u{e9}", "e\u{301}"].map(String::from)).expect("two keys");
    }
}
