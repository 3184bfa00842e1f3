//! One tree for JSON and YAML, with the place of every node.

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
    pub fn texts<'a>(&'a self, look: &mut impl FnMut(&'a str)) {
        match &self.value {
            Value::Text(text) => look(text),
            Value::List(list) => list.iter().for_each(|node| node.texts(look)),
            Value::Object(members) => members.iter().for_each(|member| member.value.texts(look)),
            _ => {}
        }
    }

    /// Whether some text in it satisfies this.
    #[must_use]
    pub fn any_text(&self, holds: impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.texts(&mut |text| found = found || holds(text));
        found
    }
}
