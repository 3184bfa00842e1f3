//! What is to be written, before it has a place.

use crate::read::node::{Node, Value};

/// A value without a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Piece>),
    Object(Vec<(String, Piece)>),
}

impl Piece {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text.as_ref())).collect())
    }

    /// Sets a field of an object, in its place if it is there.
    pub(crate) fn set(&mut self, key: &str, value: Self) {
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => members.push((key.to_owned(), value)),
            }
        }
    }

    /// The field of this name, of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                let found = members.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Whether this stands there already, in whatever order and form.
    pub(crate) fn is(&self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Number(a), Value::Number(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Value::Text(b)) => a == b,
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

impl From<&Node> for Piece {
    fn from(node: &Node) -> Self {
        match &node.value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(value) => Self::Number(*value),
            Value::Text(value) => Self::Text(value.clone()),
            Value::List(list) => Self::List(list.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members
                    .iter()
                    .map(|member| (member.key.clone(), Self::from(&member.value)))
                    .collect(),
            ),
        }
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Piece {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Piece {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// An object, field by field.
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::weave::piece::Piece::Object(vec![$(($key.to_owned(), $crate::weave::piece::Piece::from($value))),*])
    };
}
pub(crate) use object;
