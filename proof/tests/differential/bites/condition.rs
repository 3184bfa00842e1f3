//! A condition expression as a tree, out of its text and back into it.

use std::fmt;

/// A condition, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Operand, Operator, Operand),
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
    Value(String),
    Size(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Operator {
    const ALL: [(&'static str, Self); 6] = [
        ("=", Self::Equal),
        ("<>", Self::Differs),
        ("<", Self::Less),
        ("<=", Self::AtMost),
        (">", Self::Greater),
        (">=", Self::AtLeast),
    ];

    fn from_text(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(known, _)| *known == text).map(|found| found.1)
    }

    fn text(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, known)| *known == self).unwrap().0
    }
}

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
        match self {
            Self::And(parts) => f.write_str(&group(parts, " AND ")),
            Self::Or(parts) => f.write_str(&group(parts, " OR ")),
            Self::Not(part) => write!(f, "NOT ({part})"),
            Self::Compare(a, operator, b) => write!(f, "{a} {} {b}", operator.text()),
            Self::Between(a, low, high) => write!(f, "{a} BETWEEN {low} AND {high}"),
            Self::In(a, these) => write!(f, "{a} IN ({})", list(these)),
            Self::Call(name, operands) => write!(f, "{name}({})", list(operands)),
            Self::Constant(true) => {
                f.write_str("attribute_exists(#pk) OR attribute_not_exists(#pk)")
            }
            Self::Constant(false) => {
                f.write_str("attribute_exists(#pk) AND attribute_not_exists(#pk)")
            }
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name, None) => write!(f, "#{name}"),
            Self::Path(name, Some(place)) => write!(f, "#{name}[{place}]"),
            Self::Value(name) => write!(f, ":{name}"),
            Self::Size(name) => write!(f, "size(#{name})"),
        }
    }
}

fn list(operands: &[Operand]) -> String {
    let texts = operands.iter().map(ToString::to_string);
    texts.collect::<Vec<_>>().join(", ")
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
        let is_next = self.0.last().is_some_and(|next| next == word);
        if is_next {
            self.0.pop();
        }
        is_next
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
        let operator = self.next();
        let operator = Operator::from_text(&operator).unwrap_or_else(|| panic!("{operator}"));
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
