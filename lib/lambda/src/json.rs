//! Reads an event: JSON text into a request. It is strict, names the path of the field at fault, and never repeats a
//! value.

use std::{cell::Cell, fmt};

use leasehold::Error;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};
use serde_path_to_error::{Path, Segment, Track};

/// How many values an event may contain, fields and list entries each counted. A value of two letters takes hundreds
/// of bytes of memory as an object, so that six megabytes of them would take more than a function has. The largest
/// request is a release of 100 leases, each with metadata of 2112 short names: 212,402 values.
const MOST_VALUES: u32 = 250_000;

/// Parses `text`, at most 128 levels deep and with at most [`MOST_VALUES`] values, and refuses a field that is given
/// twice.
///
/// # Errors
/// [`Error::Invalid`] with the position at which the JSON is malformed, or with the field.
pub(crate) fn parse(text: &str) -> Result<Value, Error> {
    let unreadable = |error: &serde_json::Error| Error::Invalid {
        field: None,
        message: format!("the event cannot be read: {error}"),
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let (mut track, left) = (Track::new(), Cell::new(MOST_VALUES));
    let strict = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let value = Strict(&left).deserialize(strict).map_err(|error| {
        if error.is_data() {
            invalid(&serde_path_to_error::Error::new(track.path(), error))
        } else {
            unreadable(&error)
        }
    })?;
    json.end().map_err(|error| unreadable(&error))?;
    Ok(with_input_as_it_came(text, value))
}

/// What is passed on as `input` is the text of its JSON from here on: read and written, a number of many digits would be another.
fn with_input_as_it_came(text: &str, mut event: Value) -> Value {
    #[derive(Deserialize)]
    struct Passed<'a> {
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    if let Some(input) = event.get_mut("input").filter(|input| !input.is_null())
        && let Ok(Passed { input: Some(raw) }) = serde_json::from_str(text)
    {
        *input = raw.get().into();
    }
    event
}

/// Reads a request. No field accepts null in place of a value: it does not mean that a field is left out.
///
/// # Errors
/// [`Error::Invalid`], naming the field if one is at fault.
pub(crate) fn read<T: DeserializeOwned>(event: &Value) -> Result<T, Error> {
    if !event.is_object() {
        return Err(Error::Invalid {
            field: None,
            message: format!("expected an object, found {}", kind(event)),
        });
    }
    if let Some(path) = null_field(event) {
        return Err(Error::invalid(&path, "expected a value, found null"));
    }
    if let Some(path) = list_for_handle(event) {
        return Err(Error::invalid(&path, "expected an object, found a list"));
    }
    read_event(event)
}

/// The same for an event of AWS's own, which may contain nulls.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_event<T: DeserializeOwned>(event: &Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(event).map_err(|fault| invalid(&fault))
}

/// The text at a path such as `/lease/key`.
pub(crate) fn text<'a>(event: &'a Value, path: &str) -> Option<&'a str> {
    event.pointer(path)?.as_str()
}

/// The path of a handle that is given as a list of its values. Serde would accept such a list as a struct.
fn list_for_handle(event: &Value) -> Option<String> {
    if event.get("lease").is_some_and(Value::is_array) {
        return Some("lease".to_owned());
    }
    let handles = event.get("leases").and_then(Value::as_array)?;
    let at = handles.iter().position(Value::is_array)?;
    Some(format!("leases.{at}"))
}

/// The path of the first null.
/// What is passed on as `input` may contain nulls, and an operator's `permits` may be one.
fn null_field(event: &Value) -> Option<String> {
    let fields = event.as_object()?.iter();
    let mut own = fields.filter(|(name, value)| match name.as_str() {
        "input" => value.is_null(),
        "permits" => event.get("operation").is_none(),
        _ => true,
    });
    own.find_map(|(name, value)| null_within(name, value))
}

fn null(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| null_within(&at.to_string(), item))
        }
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| null_within(name, value)),
        _ => None,
    }
}

fn null_within(name: &str, value: &Value) -> Option<String> {
    null(value).map(|path| match path.as_str() {
        "" => shown(name),
        inner => format!("{}.{inner}", shown(name)),
    })
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn invalid(fault: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let (field, problem) = problem(&fault.inner().to_string());
    let mut path = names(fault.path());
    path.extend(field);
    let path = path.join(".");
    Error::Invalid {
        message: match path.as_str() {
            "" => problem,
            path => format!("{path}: {problem}"),
        },
        field: Some(path).filter(|path| !path.is_empty()),
    }
}

fn names(path: &Path) -> Vec<String> {
    let name = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(shown(key)),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

/// A field name for a message. It is the caller's text, so show only a part; if nothing can be shown, a pair of
/// quotes.
fn shown(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    if shown.is_empty() {
        return "\"\"".to_owned();
    }
    shown
}

/// The name that begins most like this one.
fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = |name: &str| {
        let pairs = name.chars().zip(given.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    let nearest = known.max_by_key(|name| alike(name));
    nearest.filter(|name| alike(name) >= 3)
}

/// Serde's message without the value, in the words of somebody who writes events, and the field that it names below
/// the path. The text after the last `expected` is always our own.
fn problem(text: &str) -> (Option<String>, String) {
    let named = |prefix| {
        let (name, _) = text.strip_prefix(prefix)?.rsplit_once('`')?;
        Some(shown(name))
    };
    if let Some(field) = named("missing field `") {
        return (Some(field), "is required".to_owned());
    }
    if let Some(field) = named("duplicate field `") {
        return (Some(field), "is given twice".to_owned());
    }
    if let Some(rest) = text.strip_prefix("unknown field `") {
        let near = rest.rsplit_once("`, expected ").and_then(|(given, known)| {
            // What is between backticks is our own.
            nearest(given, known.split('`').skip(1).step_by(2))
        });
        let near = near.map_or_else(String::new, |near| format!("; {near}?"));
        return (None, format!("there is no such field{near}"));
    }
    let expected = || {
        let (_, expected) = text.rsplit_once(", expected ")?;
        Some(match expected {
            "a map" => "an object".to_owned(),
            "a sequence" => "a list".to_owned(),
            "u8" | "u16" | "u32" | "u64" => "a whole number".to_owned(),
            other if other.starts_with("struct ") => "an object".to_owned(),
            other => other.replace('`', ""),
        })
    };
    let problem = if let Some(found) = text.strip_prefix("invalid type: ") {
        let found = [
            ("boolean", "a boolean"),
            ("floating point", "a number with a fraction"),
            ("integer", "a number"),
            ("map", "an object"),
            ("null", "null"),
            ("sequence", "a list"),
            ("string", "a string"),
        ]
        .into_iter()
        .find_map(|(word, kind)| found.starts_with(word).then_some(kind));
        expected().map(|e| format!("expected {e}, found {}", found.unwrap_or("something else")))
    } else if ["invalid value: ", "invalid length ", "unknown variant `"]
        .iter()
        .any(|prefix| text.starts_with(prefix))
    {
        expected().map(|expected| format!("expected {expected}"))
    } else {
        // The message of the type that refused it.
        Some(text.to_owned())
    };
    (
        None,
        problem.unwrap_or_else(|| "has an unexpected value".to_owned()),
    )
}

/// A value in which no object has a field twice, and how many values may still come. Of two fields, [`Value`] by itself
/// would keep the last.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<u32>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| {
            de::Error::custom(format_args!(
                "the event contains more than {MOST_VALUES} values, which no request needs"
            ))
        })?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            fields.insert(name, map.next_value_seed(self)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn input_stays_as_it_came() {
        let input = r#"{ "n": 18446744073709551616, "d": 0.1234567890123456789, "n2": [1.50] }"#;
        let event = parse(&format!(r#"{{"key": "k", "input": {input}}}"#)).expect("JSON");
        assert_eq!(event["input"], input);
        let nothing = parse(r#"{"input": null}"#).expect("JSON");
        assert_eq!(nothing["input"], Value::Null);
    }

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
        kind: Option<Kind>,
        number: Option<u8>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Inner {
        secret: String,
    }

    fn fault(text: &str) -> (Option<String>, String) {
        let read = parse(text).and_then(|event| read::<Request>(&event));
        match read {
            Err(Error::Invalid { field, message }) => (field, message),
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn bad_field_hides_its_value() {
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
            (
                r#"{"key":"k","map":{"hunter2, expected x":5}}"#,
                Some("map.hunter2, expected x"),
            ),
            (r#"{"key":"k","map":{"a":null}}"#, Some("map.a")),
            (
                r#"{"key":"k","flag":"hunter2, expected hunter3"}"#,
                Some("flag"),
            ),
            (r#"{"key":"k","inner":null}"#, Some("inner")),
            (
                r#"{"key":"k","kind":"hunter2`, expected `a"}"#,
                Some("kind"),
            ),
            (r#"{"key":"k","kind":{"one":null}}"#, Some("kind.one")),
            (r#"{"key":"k","number":-77123}"#, Some("number")),
            (r#"{"key":"k","number":77123.5}"#, Some("number")),
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
            let value = field.map_or(message.clone(), |field| message.replace(field, ""));
            for secret in ["hunter", "77123"] {
                assert!(!value.contains(secret), "{text}: {message}");
            }
        }
    }

    #[test]
    fn unknown_field_names_the_near_one() {
        for (text, message) in [
            (
                r#"{"key":"k","numb":5}"#,
                "numb: there is no such field; number?",
            ),
            (
                r#"{"key":"k","hunter2":5}"#,
                "hunter2: there is no such field",
            ),
        ] {
            assert_eq!(fault(text).1, message, "{text}");
        }
    }

    #[test]
    fn list_of_values_is_no_handle() {
        for (text, field) in [
            (r#"{"lease":[["a","b"]]}"#, "lease"),
            (r#"{"leases":[{},["a","b"]]}"#, "leases.1"),
        ] {
            assert_eq!(fault(text).0.as_deref(), Some(field), "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_survived() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(fault(&deep).0, None);
        let wide = format!(r#"{{"key":"k","{}":1}}"#, "x".repeat(6_000_000));
        assert!(fault(&wide).1.len() < 200);
    }

    #[test]
    fn too_many_values_are_refused() {
        let list = |values: usize| format!(r#"{{"x":[{}0]}}"#, "[],".repeat(values - 3));
        let most = MOST_VALUES as usize;
        parse(&list(most)).expect("as many as there may be");
        let (field, message) = fault(&list(most + 1));
        assert_eq!(field.as_deref(), Some("x.249998"));
        assert!(message.contains("more than 250000 values"), "{message}");
    }
}
