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
