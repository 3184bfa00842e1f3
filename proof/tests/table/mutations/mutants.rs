//! Every way in which a condition says a little less, or more, than it should; and every way in which an update leaves
//! something out.

use std::{fmt, iter};

use super::condition::{Condition, Operand};

/// A condition that is wrong in one place, and where.
pub struct Mutant {
    pub what: String,
    pub condition: Condition,
}

/// All of them, in an order that rests on nothing but the tree's shape.
pub fn of_condition(condition: &Condition) -> Vec<Mutant> {
    let mut texts = vec![condition.to_string()];
    let mut mutants = Vec::new();
    let nothing = mutant("no condition at all", Condition::Constant(true));
    for mutant in iter::once(nothing).chain(within(condition)) {
        let condition = mutant.condition.simple();
        // Nothing ever passes that: there is no need to try.
        if condition == Condition::Constant(false) {
            continue;
        }
        let text = condition.to_string();
        if !texts.contains(&text) {
            texts.push(text);
            mutants.push(self::mutant(mutant.what, condition));
        }
    }
    mutants
}

fn mutant(what: impl Into<String>, condition: Condition) -> Mutant {
    Mutant {
        what: what.into(),
        condition,
    }
}

fn within(condition: &Condition) -> Vec<Mutant> {
    match condition {
        Condition::And(parts) => in_group(parts, Condition::And, Condition::Or, "AND becomes OR"),
        Condition::Or(parts) => in_group(parts, Condition::Or, Condition::And, "OR becomes AND"),
        Condition::Not(part) => {
            let bare = mutant(format!("`{condition}` without NOT"), (**part).clone());
            let not = |inner: Mutant| mutant(inner.what, Condition::Not(Box::new(inner.condition)));
            iter::once(bare)
                .chain(within(part).into_iter().map(not))
                .collect()
        }
        leaf => of_leaf(leaf),
    }
}

fn in_group(
    parts: &[Condition],
    group: fn(Vec<Condition>) -> Condition,
    other: fn(Vec<Condition>) -> Condition,
    swapped: &str,
) -> Vec<Mutant> {
    let whole = group(parts.to_vec());
    let mut mutants = vec![mutant(
        format!("{swapped} in `{whole}`"),
        other(parts.to_vec()),
    )];
    for (place, part) in parts.iter().enumerate() {
        let constant = |holds| {
            mutant(
                format!("`{part}` always {holds}"),
                Condition::Constant(holds),
            )
        };
        for inner in [true, false].map(constant).into_iter().chain(within(part)) {
            let mut parts = parts.to_vec();
            parts[place] = inner.condition;
            mutants.push(mutant(inner.what, group(parts)));
        }
    }
    mutants
}

fn of_leaf(leaf: &Condition) -> Vec<Mutant> {
    let others = match leaf {
        Condition::Compare(a, operator, b) => {
            let operators: &[&str] = match *operator {
                "=" if is_number(a) => &["<=", ">="],
                "<" => &["<="],
                "<=" => &["<"],
                ">" => &[">="],
                ">=" => &[">"],
                _ => &[],
            };
            let compare = |other: &&'static str| Condition::Compare(a.clone(), other, b.clone());
            operators.iter().map(compare).collect()
        }
        Condition::Between(a, low, high) => [(">=", low), ("<=", high)]
            .map(|(operator, end)| Condition::Compare(a.clone(), operator, end.clone()))
            .into(),
        Condition::In(a, these) => {
            let without = |place| {
                let mut fewer = these.clone();
                fewer.remove(place);
                Condition::In(a.clone(), fewer)
            };
            (0..these.len()).map(without).collect()
        }
        _ => Vec::new(),
    };
    let negated = Condition::Not(Box::new(leaf.clone()));
    let negated = mutant(format!("`{leaf}` negated"), negated);
    let others = others.into_iter();
    let others = others.map(|other| mutant(format!("`{leaf}` as `{other}`"), other));
    iter::once(negated).chain(others).collect()
}

/// Of names nobody asks which is the larger.
fn is_number(operand: &Operand) -> bool {
    let numbers = ["fencing_token", "version"];
    matches!(operand, Operand::Path(name, None) if numbers.contains(&name.as_str()))
}

/// An update expression: what it sets (`#name = …`), and what it removes (`#name`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    set: Vec<String>,
    remove: Vec<String>,
}

impl Update {
    pub fn parse(text: &str) -> Self {
        let (set, remove) = text.split_once("REMOVE ").unwrap_or((text, ""));
        let set = set.trim().strip_prefix("SET ").unwrap_or_default();
        Self {
            set: parts(set),
            remove: parts(remove),
        }
    }

    /// Without one of its parts, and which, each in turn.
    pub fn mutants(&self) -> Vec<(String, Self)> {
        let without = |place| {
            let mut rest = self.clone();
            let part = match usize::checked_sub(place, self.set.len()) {
                None => format!("without SET {}", rest.set.remove(place)),
                Some(place) => format!("without REMOVE {}", rest.remove.remove(place)),
            };
            (part, rest)
        };
        (0..self.set.len() + self.remove.len())
            .map(without)
            .collect()
    }
}

/// The first attribute that a text is about.
pub fn attribute(part: &str) -> &str {
    let name = part.split_once('#').map_or("", |(_, rest)| rest);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    &name[..end.unwrap_or(name.len())]
}

/// What is between the commas that are in no brackets.
fn parts(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let split = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    let parts = text.split(split).map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (set, remove) = (self.set.join(", "), self.remove.join(", "));
        match (set.is_empty(), remove.is_empty()) {
            // There is no empty update; this one changes no item of ours.
            (true, true) => f.write_str("REMOVE #nothing"),
            (false, true) => write!(f, "SET {set}"),
            (true, false) => write!(f, "REMOVE {remove}"),
            (false, false) => write!(f, "SET {set} REMOVE {remove}"),
        }
    }
}
