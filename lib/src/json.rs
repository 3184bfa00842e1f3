//! Reading an event: JSON text into a request, strictly, with the name of the field at fault and
//! without ever repeating what was given.
//!
//! The text goes through a tree of our own, since serde's errors repeat values and a ready-made
//! tree drops duplicate fields.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

use crate::error::Error;

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
#[derive(Debug)]
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

    /// The value at a path of fields, if it is a whole number.
    pub(crate) fn number_at(&self, path: &[&str]) -> Option<u64> {
        match self.at(path)? {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Whether there is a field of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.at(&[name]).is_some()
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

    const fn kind(&self) -> &'static str {
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

/// What is wrong, and under which path of fields.
#[derive(Debug)]
struct Fault {
    path: String,
    problem: String,
}

impl Fault {
    fn at(path: &str, problem: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    fn within(self, outer: &str) -> Self {
        let path = match self.path.as_str() {
            "" => outer.to_owned(),
            inner => format!("{outer}.{inner}"),
        };
        Self { path, ..self }
    }
}

/// A name as it is shown: somebody else's text, so not too much of it.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::at("", problem.to_string())
    }
    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Bool(_) => "a boolean",
            de::Unexpected::Unsigned(_) | de::Unexpected::Signed(_) => "a number",
            de::Unexpected::Float(_) => "a number with a fraction",
            de::Unexpected::Str(_) => "a string",
            de::Unexpected::Unit => "null",
            de::Unexpected::Seq => "a list",
            de::Unexpected::Map => "an object",
            _ => "something else",
        };
        Self::at("", format!("expected {expected}, found {found}"))
    }
    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::at("", format!("expected {expected}"))
    }
    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::at("", format!("expected one of {}", expected.join(", ")))
    }
    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::at(&shown(field), "there is no such field")
    }
    fn missing_field(field: &'static str) -> Self {
        Self::at(field, "is required")
    }
    fn duplicate_field(field: &'static str) -> Self {
        Self::at(field, "is given twice")
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Json);

impl<'a, 'de> Deserializer<'de> for Reader<'a>
where
    'a: 'de,
{
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(n), _, _) => visitor.visit_u64(n),
                (_, Some(n), _) => visitor.visit_i64(n),
                (_, _, n) => visitor.visit_f64(n.unwrap_or(f64::NAN)),
            },
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Json::Object(fields) => {
                let mut seen = HashSet::new();
                if let Some((name, _)) = fields.iter().find(|(name, _)| !seen.insert(name)) {
                    return Err(Fault::at(&shown(name), "is given twice"));
                }
                visitor.visit_map(Fields(fields.iter(), None))
            }
        }
    }

    /// What is not there is left out; null is a value like any other, and of the wrong type.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Json::String(text) => {
                let variant: de::value::StrDeserializer<'_, Fault> =
                    text.as_str().into_deserializer();
                variant.deserialize_enum(name, variants, visitor)
            }
            other => Err(Fault::at(
                "",
                format!(
                    "expected one of {}, found {}",
                    variants.join(", "),
                    other.kind()
                ),
            )),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Fields<'a>(
    std::slice::Iter<'a, (String, Json)>,
    Option<(&'a str, &'a Json)>,
);

impl<'a, 'de> MapAccess<'de> for Fields<'a>
where
    'a: 'de,
{
    type Error = Fault;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.1 = self.0.next().map(|(name, value)| (name.as_str(), value));
        self.1
            .map(|(name, _)| seed.deserialize(de::value::BorrowedStrDeserializer::new(name)))
            .transpose()
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, value) = self.1.take().expect("a key was read before its value");
        seed.deserialize(Reader(value))
            .map_err(|fault| fault.within(&shown(name)))
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Json>>);

impl<'a, 'de> SeqAccess<'de> for Items<'a>
where
    'a: 'de,
{
    type Error = Fault;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.0
            .next()
            .map(|(at, item)| {
                seed.deserialize(Reader(item))
                    .map_err(|fault| fault.within(&at.to_string()))
            })
            .transpose()
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
    fn depth_and_size_are_survived() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(fault(&deep).0, None);
        let wide = format!(r#"{{"key":"k","{}":1}}"#, "x".repeat(6_000_000));
        assert!(fault(&wide).1.len() < 200);
    }
}
