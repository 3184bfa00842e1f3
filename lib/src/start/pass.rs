//! What an execution that was started under a lease finds of its lease in its input.

use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Deserializer, de};

use crate::row::s;

/// What is added to the input of an execution, as `leasehold`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PassLease {
    /// Nothing: the input is as it was given.
    #[default]
    Nothing,
    /// `key` and `fencing_token`, to guard writes; of one of several permits also `permit`.
    Token,
    /// Also the handle, as `lease`, to give the key back before the execution ends.
    Handle,
}

const HANDLE: &str = "handle";

impl PassLease {
    /// As an attribute.
    pub(crate) fn stored(self) -> AttributeValue {
        match self {
            Self::Nothing => AttributeValue::Bool(false),
            Self::Token => AttributeValue::Bool(true),
            Self::Handle => s(HANDLE),
        }
    }

    pub(crate) fn read(stored: &AttributeValue) -> Option<Self> {
        match stored {
            AttributeValue::Bool(passes) => Some(Self::from(*passes)),
            AttributeValue::S(word) if word == HANDLE => Some(Self::Handle),
            _ => None,
        }
    }
}

impl From<bool> for PassLease {
    fn from(passes: bool) -> Self {
        if passes { Self::Token } else { Self::Nothing }
    }
}

impl<'de> Deserialize<'de> for PassLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOfThree;

        impl de::Visitor<'_> for OneOfThree {
            type Value = PassLease;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or \"handle\"")
            }

            fn visit_bool<E>(self, passes: bool) -> Result<PassLease, E> {
                Ok(passes.into())
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<PassLease, E> {
                if word == HANDLE {
                    return Ok(PassLease::Handle);
                }
                Err(E::invalid_value(de::Unexpected::Str(word), &self))
            }
        }

        deserializer.deserialize_any(OneOfThree)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PassLease {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PassLease".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"enum": [false, true, HANDLE]})
    }
}
