//! Fields that the contract names and this release does not have.

use serde::{Deserialize, Deserializer, de};

/// A field that is refused, whatever its value: better than to ignore what the caller relies on.
#[derive(Debug)]
pub enum NotYet {}

impl<'de> Deserialize<'de> for NotYet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        de::IgnoredAny::deserialize(deserializer)?;
        Err(de::Error::custom("is not available in this release"))
    }
}

/// The size of a semaphore, as long as there are none: 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnePermit;

impl<'de> Deserialize<'de> for OnePermit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match crate::values::small(deserializer)? {
            1 => Ok(Self),
            0 => Err(de::Error::custom("must be at least 1")),
            _ => Err(de::Error::custom(
                "more than 1 permit is not available in this release",
            )),
        }
    }
}
