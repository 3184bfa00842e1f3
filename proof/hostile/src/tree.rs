//! JSON as somebody hostile writes it: fields may be there twice, and a number may be anything.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Whatever is written there, JSON or not.
    Raw(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let fields = fields.iter();
                Self::Map(
                    fields
                        .map(|(name, value)| (name.clone(), value.into()))
                        .collect(),
                )
            }
            other => Self::Raw(other.to_string()),
        }
    }
}

/// Whatever is there twice stays so.
impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Raw("null".to_owned()))
    }
    fn visit_bool<E>(self, yes: bool) -> Result<Tree, E> {
        Ok(Tree::Raw(yes.to_string()))
    }
    fn visit_i64<E>(self, n: i64) -> Result<Tree, E> {
        Ok(Tree::Raw(n.to_string()))
    }
    fn visit_u64<E>(self, n: u64) -> Result<Tree, E> {
        Ok(Tree::Raw(n.to_string()))
    }
    fn visit_f64<E>(self, n: f64) -> Result<Tree, E> {
        Ok(Tree::Raw(n.to_string()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Map(fields))
    }
}

impl Tree {
    pub fn write(&self) -> String {
        let mut text = String::new();
        self.write_to(&mut text);
        text
    }

    fn write_to(&self, text: &mut String) {
        match self {
            Self::Raw(raw) => text.push_str(raw),
            Self::Text(value) => text.push_str(&quoted(value)),
            Self::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    text.push(if at == 0 { '[' } else { ',' });
                    item.write_to(text);
                }
                text.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Self::Map(fields) => {
                for (at, (name, value)) in fields.iter().enumerate() {
                    text.push(if at == 0 { '{' } else { ',' });
                    text.push_str(&quoted(name));
                    text.push(':');
                    value.write_to(text);
                }
                text.push_str(if fields.is_empty() { "{}" } else { "}" });
            }
        }
    }

    /// This and everything below it.
    pub fn size(&self) -> usize {
        1 + match self {
            Self::Raw(_) | Self::Text(_) => 0,
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Map(fields) => fields.iter().map(|(_, value)| value.size()).sum(),
        }
    }

    /// The `nth` of this and what is below it that `wanted` wants, counted round.
    pub fn nth(&mut self, nth: usize, wanted: fn(&Self) -> bool) -> Option<&mut Self> {
        let of = self.count(wanted);
        if of == 0 {
            return None;
        }
        self.descend(&mut (nth % of), wanted)
    }

    fn count(&self, wanted: fn(&Self) -> bool) -> usize {
        usize::from(wanted(self))
            + match self {
                Self::Raw(_) | Self::Text(_) => 0,
                Self::List(items) => items.iter().map(|item| item.count(wanted)).sum(),
                Self::Map(fields) => fields.iter().map(|(_, value)| value.count(wanted)).sum(),
            }
    }

    fn descend(&mut self, left: &mut usize, wanted: fn(&Self) -> bool) -> Option<&mut Self> {
        if wanted(self) {
            if *left == 0 {
                return Some(self);
            }
            *left -= 1;
        }
        match self {
            Self::Raw(_) | Self::Text(_) => None,
            Self::List(items) => items.iter_mut().find_map(|item| item.descend(left, wanted)),
            Self::Map(fields) => fields
                .iter_mut()
                .find_map(|(_, value)| value.descend(left, wanted)),
        }
    }

    /// Its texts, and those below it.
    pub fn texts(&mut self, change: &mut impl FnMut(&mut String)) {
        match self {
            Self::Raw(text) | Self::Text(text) => change(text),
            Self::List(items) => items.iter_mut().for_each(|item| item.texts(change)),
            Self::Map(fields) => fields.iter_mut().for_each(|(_, value)| value.texts(change)),
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_and_each_part_can_be_reached() {
        let text = r#"{"a":[1,"x",{}],"b":{"c":null}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let mut tree = Tree::from(&value);
        assert_eq!(tree.write(), text);
        assert_eq!(tree.size(), 7);
        let twice = r#"{"a":1,"a":[true,-2,"x"]}"#;
        let read: Tree = serde_json::from_str(twice).unwrap();
        assert_eq!(read.write(), twice);
        for at in 0..7 {
            let mut tree = tree.clone();
            *tree.nth(at, |_| true).unwrap() = Tree::Raw("!".to_owned());
            assert_eq!(tree.write().matches('!').count(), 1, "{}", tree.write());
        }
        assert_eq!(
            tree.nth(1, |tree| matches!(tree, Tree::Map(_))),
            Some(&mut Tree::Map(Vec::new()))
        );
        assert_eq!(
            Tree::Text("a".into()).nth(0, |t| matches!(t, Tree::Map(_))),
            None
        );
    }
}
