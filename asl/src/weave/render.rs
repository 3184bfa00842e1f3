//! Values as text, in the style of the target file.

use crate::read::node::{Member, Node, Value};
use crate::read::source::Source;
use std::fmt::Write as _;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON over several lines.
    Json,
    /// JSON on one line, also within YAML.
    Compact,
    /// YAML blocks.
    Yaml,
}

/// How a file is written, and its unit of indentation.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub form: Form,
    pub unit: String,
}

impl Style {
    pub(crate) fn of(&self, form: Form) -> Self {
        Self {
            form,
            unit: self.unit.clone(),
        }
    }

    /// The separator of two fields or elements at this indentation.
    pub(crate) fn separator(&self, indent: &str) -> String {
        match self.form {
            Form::Yaml => format!("\n{indent}"),
            Form::Json => format!(",\n{indent}"),
            Form::Compact => ", ".to_owned(),
        }
    }

    /// A value after its key, on a line with this indentation.
    pub(crate) fn value(&self, piece: &JsonValue, indent: &str) -> String {
        let mut text = String::new();
        match self.form {
            Form::Json => self.json(&mut text, piece, indent),
            Form::Compact => compact(&mut text, piece),
            Form::Yaml => self.yaml(&mut text, piece, indent),
        }
        text
    }

    /// A field and its value, without indentation before it.
    pub(crate) fn member(&self, key: &str, piece: &JsonValue, indent: &str) -> String {
        let value = self.value(piece, indent);
        match self.form {
            Form::Yaml if value.starts_with('\n') => format!("{}:{value}", word(key)),
            Form::Yaml => format!("{}: {value}", word(key)),
            _ => format!("{}: {value}", quoted(key)),
        }
    }

    /// An element of a block list, after its dash, which has this indentation.
    pub(crate) fn element(&self, piece: &JsonValue, indent: &str) -> String {
        let JsonValue::Object(members) = piece else {
            return self.value(piece, indent);
        };
        let inner = format!("{indent}  ");
        let members: Vec<String> = members
            .iter()
            .map(|(key, value)| self.member(key, value, &inner))
            .collect();
        members.join(&format!("\n{inner}"))
    }

    fn json(&self, text: &mut String, piece: &JsonValue, indent: &str) {
        let inner = format!("{indent}{}", self.unit);
        match piece {
            JsonValue::List(list) if list.iter().any(is_block) => {
                text.push('[');
                for (at, value) in list.iter().enumerate() {
                    text.push_str(if at == 0 { "\n" } else { ",\n" });
                    text.push_str(&inner);
                    self.json(text, value, &inner);
                }
                text.extend(["\n", indent, "]"]);
            }
            JsonValue::Object(members) if !members.is_empty() => {
                text.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    text.push_str(if at == 0 { "\n" } else { ",\n" });
                    text.extend([&inner, &quoted(key), ": "]);
                    self.json(text, value, &inner);
                }
                text.extend(["\n", indent, "}"]);
            }
            piece => compact(text, piece),
        }
    }

    fn yaml(&self, text: &mut String, piece: &JsonValue, indent: &str) {
        let inner = format!("{indent}{}", self.unit);
        match piece {
            JsonValue::List(list) if list.iter().any(is_block) => {
                for value in list {
                    text.extend(["\n", &inner, "- ", &self.element(value, &inner)]);
                }
            }
            JsonValue::Object(members) if !members.is_empty() => {
                for (key, value) in members {
                    text.extend(["\n", &inner, &self.member(key, value, &inner)]);
                }
            }
            JsonValue::List(list) => {
                let words: Vec<String> = list.iter().map(scalar).collect();
                _ = write!(text, "[{}]", words.join(", "));
            }
            piece => text.push_str(&scalar(piece)),
        }
    }
}

fn is_block(piece: &JsonValue) -> bool {
    matches!(piece, JsonValue::Object(_) | JsonValue::List(_))
}

fn compact(text: &mut String, piece: &JsonValue) {
    match piece {
        JsonValue::Null => text.push_str("null"),
        JsonValue::Bool(value) => _ = write!(text, "{value}"),
        JsonValue::Number(value) => _ = write!(text, "{value}"),
        JsonValue::Text(value) => text.push_str(&quoted(value)),
        JsonValue::Written(value, _) => text.push_str(value),
        JsonValue::List(list) => {
            text.push('[');
            for (at, value) in list.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                compact(text, value);
            }
            text.push(']');
        }
        JsonValue::Object(members) if members.is_empty() => text.push_str("{}"),
        JsonValue::Object(members) => {
            text.push_str("{ ");
            for (at, (key, value)) in members.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                text.extend([&quoted(key), ": "]);
                compact(text, value);
            }
            text.push_str(" }");
        }
    }
}

/// A YAML value on one line.
fn scalar(piece: &JsonValue) -> String {
    match piece {
        JsonValue::Text(text) => word(text),
        piece => {
            let mut text = String::new();
            compact(&mut text, piece);
            text
        }
    }
}

/// A text in YAML, without quotes if YAML cannot read it as anything else.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./ $()".contains(c) || c == '-';
    let means_else = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.chars().all(plain)
        && !means_else
            .iter()
            .any(|other| text.eq_ignore_ascii_case(other));
    if is_plain {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A text in quotes, in JSON and YAML alike.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A value without a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    /// As it is written in a source, and its value.
    Written(String, Value),
    List(Vec<JsonValue>),
    Object(Vec<(String, JsonValue)>),
}

impl JsonValue {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text.as_ref())).collect())
    }

    /// Sets a field of an object. An existing field keeps its position.
    pub(crate) fn set(&mut self, key: &str, value: Self) {
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => members.push((key.to_owned(), value)),
            }
        }
    }

    /// Sets a field of an object, as its last one.
    pub(crate) fn set_last(&mut self, key: &str, value: Self) {
        self.remove(key);
        self.set(key, value);
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if let Self::Object(members) = self {
            members.retain(|(name, _)| name != key);
        }
    }

    /// Replaces a part of every text in it.
    pub(crate) fn replace(&mut self, from: &str, to: &str) {
        match self {
            Self::Text(text) => *text = text.replace(from, to),
            Self::List(list) => list.iter_mut().for_each(|value| value.replace(from, to)),
            Self::Object(members) => {
                for (_, value) in members {
                    value.replace(from, to);
                }
            }
            _ => {}
        }
    }

    /// A value of a source. What is written there without quotes stays as it is written.
    pub(crate) fn copied(source: &Source, node: &Node) -> Self {
        let written = || source.text.get(node.span.start..node.span.end);
        match &node.value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(value) => match written() {
                Some(text) => Self::Written(text.trim_end().to_owned(), node.value.clone()),
                None => Self::Number(*value),
            },
            Value::Text(value) => match written() {
                Some(text) if text.starts_with("${") => {
                    Self::Written(text.trim_end().to_owned(), node.value.clone())
                }
                _ => Self::Text(value.clone()),
            },
            Value::List(list) => {
                Self::List(list.iter().map(|node| Self::copied(source, node)).collect())
            }
            Value::Object(members) => {
                let fields = members.iter();
                let copied =
                    |member: &Member| (member.key.clone(), Self::copied(source, &member.value));
                Self::Object(fields.map(copied).collect())
            }
        }
    }

    /// The object's field of this name.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                let found = members.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Whether the node has this value, in any order and form.
    pub(crate) fn is(&self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Number(a), Value::Number(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Value::Text(b)) => a == b,
            (Self::Written(_, a), b) => a == b,
            (Self::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b))
            }
            (Self::Object(a), Value::Object(b)) => {
                let has = |(key, value): &(String, Self)| {
                    node.get(key).is_some_and(|other| value.is(other))
                };
                a.len() == b.len() && a.iter().all(has)
            }
            _ => false,
        }
    }
}

impl From<&str> for JsonValue {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for JsonValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for JsonValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for JsonValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// An object, field by field.
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::weave::render::JsonValue::Object(vec![$(($key.to_owned(), $crate::weave::render::JsonValue::from($value))),*])
    };
}
pub(crate) use object;
