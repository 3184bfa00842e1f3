//! A condition expression as a tree: out of its text and back into it, and whether it holds of an item.

use std::{borrow::Cow, cmp::Ordering, fmt};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::row::Item;

/// A condition, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    /// With one of [`OPERATORS`] between.
    Compare(Operand, &'static str, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
    Call(String, Vec<Operand>),
    /// What a mutant puts in the place of a part: it holds of every row, or of none.
    Constant(bool),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// An attribute, or an entry of a list.
    Path(String, Option<usize>),
    /// A field of a map.
    Field(String, String),
    Value(String),
    Size(String),
}

const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

impl Condition {
    /// # Panics
    /// If it is none that the library writes.
    pub fn parse(text: &str) -> Self {
        let mut words = Words::of(text);
        let condition = words.any();
        assert!(words.0.is_empty(), "{text}: {:?} is left", words.0);
        condition
    }

    /// Without constants, unless it is one; and without groups of one, or in others of their kind.
    pub fn simple(self) -> Self {
        let group = |parts: Vec<Self>, or: bool| {
            let mut left = Vec::new();
            for part in parts.into_iter().map(Self::simple) {
                match part {
                    Self::Constant(holds) if holds == or => return Self::Constant(or),
                    Self::Constant(_) => {}
                    Self::And(parts) if !or => left.extend(parts),
                    Self::Or(parts) if or => left.extend(parts),
                    part => left.push(part),
                }
            }
            match (left.len(), or) {
                (0, _) => Self::Constant(!or),
                (1, _) => left.remove(0),
                (_, true) => Self::Or(left),
                (_, false) => Self::And(left),
            }
        };
        match self {
            Self::And(parts) => group(parts, false),
            Self::Or(parts) => group(parts, true),
            Self::Not(part) => match part.simple() {
                Self::Constant(holds) => Self::Constant(!holds),
                Self::Not(part) => *part,
                part => Self::Not(Box::new(part)),
            },
            leaf => leaf,
        }
    }

    /// Whether it holds, with values by name, without the colon. It saves asking the table of every item for every mutant,
    /// and nothing else rests on it: what it finds is tried on the table, and what it does not find counts as not noticed.
    pub fn holds(&self, item: &Item, values: &Item) -> bool {
        let value = |operand: &Operand| operand.value(item, values).map(Cow::into_owned);
        let compare = |a, operator, b| compare(value(a).as_ref(), operator, value(b).as_ref());
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(item, values)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(item, values)),
            Self::Not(part) => !part.holds(item, values),
            Self::Constant(holds) => *holds,
            Self::Compare(a, operator, b) => compare(a, operator, b),
            Self::Between(a, low, high) => compare(a, ">=", low) && compare(a, "<=", high),
            Self::In(a, these) => these.iter().any(|b| compare(a, "=", b)),
            Self::Call(name, operands) => {
                let second = operands.get(1).and_then(value);
                call(name, value(&operands[0]).as_ref(), second.as_ref())
            }
        }
    }
}

fn call(name: &str, first: Option<&AttributeValue>, second: Option<&AttributeValue>) -> bool {
    use AttributeValue::{L, S};
    match (name, first, second) {
        ("attribute_exists", first, _) => first.is_some(),
        ("attribute_not_exists", first, _) => first.is_none(),
        ("attribute_type", Some(value), Some(S(name))) => type_of(value) == name,
        ("contains", Some(L(list)), Some(wanted)) => list.contains(wanted),
        ("contains", Some(S(text)), Some(S(wanted))) => text.contains(wanted),
        ("attribute_type" | "contains", _, _) => false,
        _ => panic!("{name} is not known here"),
    }
}

fn compare(a: Option<&AttributeValue>, operator: &str, b: Option<&AttributeValue>) -> bool {
    use AttributeValue::{N, S};
    let order = match (a, b) {
        (Some(N(a)), Some(N(b))) => {
            let [a, b] = [a, b].map(|n| n.parse::<i128>().ok());
            a.zip(b).map(|(a, b)| a.cmp(&b))
        }
        (Some(S(a)), Some(S(b))) => Some(a.cmp(b)),
        _ => None,
    };
    match operator {
        "=" => a.is_some() && a == b,
        "<>" => a != b,
        "<" => order == Some(Ordering::Less),
        "<=" => order.is_some_and(Ordering::is_le),
        ">" => order == Some(Ordering::Greater),
        _ => order.is_some_and(Ordering::is_ge),
    }
}

fn type_of(value: &AttributeValue) -> &'static str {
    match value {
        AttributeValue::S(_) => "S",
        AttributeValue::B(_) => "B",
        AttributeValue::N(_) => "N",
        AttributeValue::L(_) => "L",
        AttributeValue::M(_) => "M",
        AttributeValue::Bool(_) => "BOOL",
        AttributeValue::Null(_) => "NULL",
        _ => "another",
    }
}

impl Operand {
    fn value<'a>(&self, item: &'a Item, values: &'a Item) -> Option<Cow<'a, AttributeValue>> {
        let known = match self {
            Self::Value(name) => values.get(name),
            Self::Path(name, None) => item.get(name),
            Self::Path(name, Some(place)) => item.get(name)?.as_l().ok()?.get(*place),
            Self::Field(name, field) => item.get(name)?.as_m().ok()?.get(field),
            Self::Size(name) => {
                let size = match item.get(name)? {
                    AttributeValue::L(list) => list.len(),
                    AttributeValue::M(map) => map.len(),
                    AttributeValue::S(text) => text.len(),
                    _ => return None,
                };
                return Some(Cow::Owned(AttributeValue::N(size.to_string())));
            }
        };
        known.map(Cow::Borrowed)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |parts: &[Self], word: &str| {
            let texts = parts.iter().map(|part| match part {
                Self::And(_) | Self::Or(_) => format!("({part})"),
                part => part.to_string(),
            });
            texts.collect::<Vec<_>>().join(word)
        };
        let list = |operands: &[Operand]| {
            let texts = operands.iter().map(ToString::to_string);
            texts.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::And(parts) => f.write_str(&group(parts, " AND ")),
            Self::Or(parts) => f.write_str(&group(parts, " OR ")),
            Self::Not(part) => write!(f, "NOT ({part})"),
            Self::Compare(a, operator, b) => write!(f, "{a} {operator} {b}"),
            Self::Between(a, low, high) => write!(f, "{a} BETWEEN {low} AND {high}"),
            Self::In(a, these) => write!(f, "{a} IN ({})", list(these)),
            Self::Call(name, operands) => write!(f, "{name}({})", list(operands)),
            Self::Constant(holds) => {
                let word = if *holds { "OR" } else { "AND" };
                write!(f, "attribute_exists(#pk) {word} attribute_not_exists(#pk)")
            }
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name, None) => write!(f, "#{name}"),
            Self::Path(name, Some(place)) => write!(f, "#{name}[{place}]"),
            Self::Field(name, field) => write!(f, "#{name}.#{field}"),
            Self::Value(name) => write!(f, ":{name}"),
            Self::Size(name) => write!(f, "size(#{name})"),
        }
    }
}

/// The words of an expression that are not read yet, the next one last.
struct Words(Vec<String>);

impl Words {
    fn of(text: &str) -> Self {
        let spaced = text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace(',', " , ");
        Self(spaced.split_whitespace().rev().map(str::to_owned).collect())
    }

    fn next(&mut self) -> String {
        self.0.pop().expect("a condition that ends too early")
    }

    fn eat(&mut self, word: &str) -> bool {
        self.0.pop_if(|next| next == word).is_some()
    }

    fn expect(&mut self, word: &str) {
        assert!(self.eat(word), "{word} was expected before {:?}", self.0);
    }

    fn any(&mut self) -> Condition {
        let mut parts = vec![self.all()];
        while self.eat("OR") {
            parts.push(self.all());
        }
        Condition::Or(parts).simple()
    }

    fn all(&mut self) -> Condition {
        let mut parts = vec![self.one()];
        while self.eat("AND") {
            parts.push(self.one());
        }
        Condition::And(parts).simple()
    }

    fn one(&mut self) -> Condition {
        if self.eat("NOT") {
            return Condition::Not(Box::new(self.one()));
        }
        if self.eat("(") {
            let inner = self.any();
            self.expect(")");
            return inner;
        }
        let first = self.next();
        if first != "size" && self.eat("(") {
            return Condition::Call(first, self.operands());
        }
        let left = self.operand(&first);
        if self.eat("BETWEEN") {
            let low = self.next_operand();
            self.expect("AND");
            return Condition::Between(left, low, self.next_operand());
        }
        if self.eat("IN") {
            self.expect("(");
            return Condition::In(left, self.operands());
        }
        let word = self.next();
        let operator = OPERATORS.into_iter().find(|known| *known == word);
        let operator = operator.unwrap_or_else(|| panic!("{word}"));
        Condition::Compare(left, operator, self.next_operand())
    }

    fn operands(&mut self) -> Vec<Operand> {
        let mut operands = vec![self.next_operand()];
        while self.eat(",") {
            operands.push(self.next_operand());
        }
        self.expect(")");
        operands
    }

    fn next_operand(&mut self) -> Operand {
        let word = self.next();
        self.operand(&word)
    }

    fn operand(&mut self, word: &str) -> Operand {
        if word == "size" {
            self.expect("(");
            let Operand::Path(name, None) = self.next_operand() else {
                panic!("the size of what?");
            };
            self.expect(")");
            return Operand::Size(name);
        }
        if let Some((name, field)) = word.split_once(".#") {
            let name = name.strip_prefix('#').unwrap();
            return Operand::Field(name.to_owned(), field.to_owned());
        }
        match (word.strip_prefix('#'), word.strip_prefix(':')) {
            (Some(name), _) => match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
                Some((name, place)) => Operand::Path(name.to_owned(), Some(place.parse().unwrap())),
                None => Operand::Path(name.to_owned(), None),
            },
            (_, Some(name)) => Operand::Value(name.to_owned()),
            _ => panic!("{word} is neither a name nor a value"),
        }
    }
}
