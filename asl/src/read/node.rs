//! One tree for JSON and YAML, with the place of every node.

use crate::expr::{Expr, Language, Path};

/// A range of bytes in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// Past the last byte.
    pub end: usize,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The span of the value.
    pub span: Span,
    /// The local tag of YAML without its `!`: `GetAtt`, `Sub`, `Ref`, …
    pub tag: Option<String>,
    /// The value.
    pub value: Value,
    /// What a text computes. None if it is literal.
    expr: Option<Box<Expr>>,
}

/// The values of JSON.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "they are JSON's")]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A field of an object; the order is the source's.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The field's name.
    pub key: String,
    /// The span of the name.
    pub at: Span,
    /// The field's value.
    pub value: Node,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

impl Member {
    /// The field's name without the `.$` by which JSONPath marks a value as a path or an intrinsic.
    pub(crate) fn name(&self) -> &str {
        self.key.strip_suffix(".$").unwrap_or(&self.key)
    }
}

impl Node {
    pub(crate) fn new(span: Span, tag: Option<String>, value: Value) -> Self {
        let expr = match &value {
            Value::Text(text) => Expr::read(text).map(Box::new),
            _ => None,
        };
        Self {
            span,
            tag,
            value,
            expr,
        }
    }

    /// The field of this name, of an object. The last one counts, as it does for the service.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.value)
    }

    /// The field of this name, with the name's place.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().rev().find(|member| member.key == key)
    }

    /// The field `key`, or `key.$`, by which JSONPath inserts a path or an intrinsic.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Self> {
        self.members()
            .iter()
            .rev()
            .find(|member| member.name() == key)
            .map(|member| &member.value)
    }

    /// The fields; none unless it is an object.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The elements; none unless it is a list.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// The fields of the field of this name.
    pub(crate) fn members_of(&self, key: &str) -> &[Member] {
        self.get(key).map_or(&[], Self::members)
    }

    /// The elements of the field of this name.
    pub(crate) fn list_of(&self, key: &str) -> &[Self] {
        self.get(key).map_or(&[], Self::list)
    }

    /// The text of the field of this name.
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Self::text)
    }

    /// The number of the field of this name.
    pub(crate) fn number_of(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(Self::number)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Whether it is `true`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.value == Value::Bool(true)
    }

    /// Calls `look` with every text in it, at any depth.
    pub(crate) fn texts<'a>(&'a self, look: &mut impl FnMut(&'a Self)) {
        match &self.value {
            Value::Text(_) => look(self),
            Value::List(list) => list.iter().for_each(|node| node.texts(look)),
            Value::Object(members) => members.iter().for_each(|member| member.value.texts(look)),
            _ => {}
        }
    }

    /// What a text computes. None if it is literal.
    pub(crate) fn expr(&self) -> Option<&Expr> {
        self.expr.as_deref()
    }

    /// A literal number, also as `{% 60 %}`.
    pub(crate) fn literal_number(&self) -> Option<f64> {
        self.number().or_else(|| self.expr()?.number())
    }

    /// The place in the data, if it is a reference path.
    pub(crate) fn place(&self) -> Option<&[String]> {
        self.expr()?.place()
    }

    /// The same in a state of this language, in which an expression of the other one is a literal text.
    pub(crate) fn expr_in(&self, language: Language) -> Option<&Expr> {
        self.expr().filter(|expr| expr.language == language)
    }

    /// As a message shows it.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) if text.len() <= 40 => format!("\"{text}\""),
            Value::Text(text) => format!("of {} bytes", text.len()),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Null => "null".to_owned(),
            Value::List(items) => format!("of {} items", items.len()),
            Value::Object(_) => "as an object".to_owned(),
        }
    }

    /// Whether some expression in it satisfies this, at any depth.
    pub(crate) fn any_expr(&self, language: Language, holds: impl Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        self.texts(&mut |text| found = found || text.expr_in(language).is_some_and(&holds));
        found
    }

    /// Whether some expression in it reads such a path.
    pub(crate) fn reads(&self, language: Language, is_such: impl Fn(&Path) -> bool) -> bool {
        self.any_expr(language, |expr| expr.paths().any(&is_such))
    }
}
