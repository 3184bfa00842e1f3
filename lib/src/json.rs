//! Reading an event: JSON text into a request, strictly, with the name of the field at fault and
//! without ever repeating what was given.
//!
//! The text goes through a tree of our own, since serde's errors repeat values and a ready-made
//! tree drops duplicate fields.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, SeqAccess, Visitor},
};

use crate::error::Error;

mod reader;

use reader::Reader;

/// Reads a request.
///
/// # Errors
/// [`Error::Invalid`], naming the field if one is at fault.
pub(crate) fn read<T: DeserializeOwned>(event: &Json) -> Result<T, Error> {
    T::deserialize(Reader(event)).map_err(|fault| Error::Invalid {
        message: match fault.path.as_str() {
            "" => fault.problem,
            path => format!("{path}: {}", fault.problem),
        },
        field: Some(fault.path).filter(|path| !path.is_empty()),
    })
}

/// A JSON value with everything that was written, duplicates included.
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses `text`, at most 128 levels deep.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the place where it stops being JSON.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| Error::Invalid {
            field: None,
            message: format!("the event cannot be read: {error}"),
        })
    }

    /// The value at a path of fields, if it is a string.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        match self.at(path)? {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value at a path of fields, if it is a list.
    pub(crate) fn list_at(&self, path: &[&str]) -> Option<&[Json]> {
        match self.at(path)? {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The value at a path of fields, if it is a whole number.
    pub(crate) fn number_at(&self, path: &[&str]) -> Option<u64> {
        match self.at(path)? {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// The keys that an event about several leases names.
    pub(crate) fn keys(&self) -> Option<Vec<&str>> {
        let (items, inner): (_, &[&str]) = match (self.at(&["keys"]), self.at(&["leases"])) {
            (Some(Self::Array(keys)), _) => (keys, &[]),
            (_, Some(Self::Array(leases))) => (leases, &["key"]),
            _ => return None,
        };
        Some(
            items
                .iter()
                .filter_map(|item| item.text_at(inner))
                .collect(),
        )
    }

    /// Whether there is a field of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.at(&[name]).is_some()
    }

    /// Whether the field of that name is true.
    #[cfg(feature = "lambda")]
    pub(crate) fn says(&self, name: &str) -> bool {
        matches!(self.at(&[name]), Some(Self::Bool(true)))
    }

    fn at(&self, path: &[&str]) -> Option<&Self> {
        match (self, path) {
            (found, []) => Some(found),
            (Self::Object(fields), [name, rest @ ..]) => {
                let (_, value) = fields.iter().find(|(field, _)| field == name)?;
                value.at(rest)
            }
            _ => None,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Of an event the kind of each field: what is in it may be a secret.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name, value));
                f.debug_map().entries(fields).finish()
            }
            other => f.write_str(other.kind()),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Build)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Request {
        key: String,
        inner: Option<Inner>,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        map: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Inner {
        secret: String,
    }

    fn fault(text: &str) -> (Option<String>, String) {
        let read = Json::parse(text).and_then(|event| read::<Request>(&event));
        match read {
            Err(Error::Invalid { field, message }) => (field, message),
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn the_field_at_fault_is_named_and_its_value_is_not_repeated() {
        for (text, field) in [
            (r"{}", Some("key")),
            (r#"{"key":5}"#, Some("key")),
            (r#"{"key":null}"#, Some("key")),
            (r#"{"key":"k","inner":"hunter2"}"#, Some("inner")),
            (
                r#"{"key":"k","inner":{"secret":["hunter2"]}}"#,
                Some("inner.secret"),
            ),
            (
                r#"{"key":"k","inner":{"secret":"hunter2","more":"hunter2"}}"#,
                Some("inner.more"),
            ),
            (r#"{"key":"k","inner":{}}"#, Some("inner.secret")),
            (r#"{"key":"k","flag":"hunter2"}"#, Some("flag")),
            (r#"{"key":"k","key":"k"}"#, Some("key")),
            (r#"{"key":"k","map":{"a":"1","a":"2"}}"#, Some("map.a")),
            (r#"{"key":"k","other":"hunter2"}"#, Some("other")),
            (r#"{"key":"k","":"hunter2"}"#, Some("\"\"")),
            (r#"{"key":"k","\u0000":"hunter2"}"#, Some("\"\"")),
            (r#"{"key":"k","inner":{"":"hunter2"}}"#, Some("inner.\"\"")),
            (r#"["hunter2"]"#, None),
            (r#""hunter2""#, None),
            ("", None),
            ("hunter2", None),
            (r#"{"key":NaN}"#, None),
        ] {
            let (found, message) = fault(text);
            assert_eq!(found.as_deref(), field, "{text}: {message}");
            assert!(!message.contains("hunter2"), "{text}: {message}");
        }
    }

    #[test]
    fn an_event_is_shown_without_its_values() {
        let event = Json::parse(r#"{"lease":{"lease_id":"hunter2"},"keys":["hunter2",7]}"#);
        let shown = format!("{:?}", event.expect("JSON"));
        assert_eq!(
            shown,
            r#"{"lease": {"lease_id": a string}, "keys": [a string, a number]}"#
        );
    }

    #[test]
    fn depth_and_size_are_survived() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(fault(&deep).0, None);
        let wide = format!(r#"{{"key":"k","{}":1}}"#, "x".repeat(6_000_000));
        assert!(fault(&wide).1.len() < 200);
    }
}
