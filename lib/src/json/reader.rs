//! Deserializing from the tree, with errors that name the field and never the value.

use std::{collections::HashSet, fmt};

use serde::{
    Deserializer,
    de::{self, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

use super::Json;

/// What is wrong, and under which path of fields.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) path: String,
    pub(super) problem: String,
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

/// What is expected, in JSON's words: the authors of events do not write Rust.
fn plain(expected: &dyn de::Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "a map" => "an object".to_owned(),
        "a sequence" => "a list".to_owned(),
        "u8" | "u16" | "u32" | "u64" => "a whole number".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        _ => expected,
    }
}

/// A name as it is shown: somebody else's text, so not too much of it. Of one that leaves nothing to show, the quotes.
fn shown(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    if shown.is_empty() {
        return "\"\"".to_owned();
    }
    shown
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
        Self::at("", format!("expected {}, found {found}", plain(expected)))
    }
    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::at("", format!("expected {}", plain(expected)))
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
pub(super) struct Reader<'a>(pub(super) &'a Json);

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

    /// By its fields' names only, never as a list of their values.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Json::Object(_) => self.deserialize_any(visitor),
            other => Err(Fault::at(
                "",
                format!("expected an object, found {}", other.kind()),
            )),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
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
