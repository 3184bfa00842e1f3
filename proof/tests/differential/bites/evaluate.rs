//! Whether a condition holds of an item, so that one need not ask the table of every item for every mutant. Nothing
//! rests on it but time: what it finds is tried on the table, and what it does not find counts as not noticed.

use std::{borrow::Cow, cmp::Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::row::Item;

use super::condition::{Condition, Operand, Operator};

pub struct Evaluation<'a> {
    pub item: &'a Item,
    /// By name, without the colon.
    pub values: &'a Item,
}

impl<'a> Evaluation<'a> {
    pub fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::And(parts) => parts.iter().all(|part| self.holds(part)),
            Condition::Or(parts) => parts.iter().any(|part| self.holds(part)),
            Condition::Not(part) => !self.holds(part),
            Condition::Constant(holds) => *holds,
            Condition::Compare(a, operator, b) => self.compare(a, *operator, b),
            Condition::Between(a, low, high) => {
                self.compare(a, Operator::AtLeast, low) && self.compare(a, Operator::AtMost, high)
            }
            Condition::In(a, these) => {
                let is = |b| self.compare(a, Operator::Equal, b);
                these.iter().any(is)
            }
            Condition::Call(name, operands) => self.call(name, operands),
        }
    }

    fn call(&self, name: &str, operands: &[Operand]) -> bool {
        use AttributeValue::{L, S};
        let first = self.value(&operands[0]);
        let second = operands.get(1).and_then(|operand| self.value(operand));
        match (name, first.as_deref(), second.as_deref()) {
            ("attribute_exists", first, _) => first.is_some(),
            ("attribute_not_exists", first, _) => first.is_none(),
            ("attribute_type", Some(value), Some(S(name))) => type_of(value) == name,
            ("contains", Some(L(list)), Some(wanted)) => list.contains(wanted),
            ("contains", Some(S(text)), Some(S(wanted))) => text.contains(wanted),
            ("attribute_type" | "contains", _, _) => false,
            _ => panic!("{name} is not known here"),
        }
    }

    fn compare(&self, a: &Operand, operator: Operator, b: &Operand) -> bool {
        use AttributeValue::{N, S};
        let (a, b) = (self.value(a), self.value(b));
        let order = match (a.as_deref(), b.as_deref()) {
            (Some(N(a)), Some(N(b))) => {
                let [a, b] = [a, b].map(|n| n.parse::<i128>().ok());
                a.zip(b).map(|(a, b)| a.cmp(&b))
            }
            (Some(S(a)), Some(S(b))) => Some(a.cmp(b)),
            _ => None,
        };
        match operator {
            Operator::Equal => a.is_some() && a == b,
            Operator::Differs => a != b,
            Operator::Less => order == Some(Ordering::Less),
            Operator::AtMost => order.is_some_and(Ordering::is_le),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }

    fn value(&self, operand: &Operand) -> Option<Cow<'a, AttributeValue>> {
        let known = match operand {
            Operand::Value(name) => self.values.get(name),
            Operand::Path(name, None) => self.item.get(name),
            Operand::Path(name, Some(place)) => self.item.get(name)?.as_l().ok()?.get(*place),
            Operand::Size(name) => {
                let size = match self.item.get(name)? {
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

fn type_of(value: &AttributeValue) -> &'static str {
    match value {
        AttributeValue::S(_) => "S",
        AttributeValue::N(_) => "N",
        AttributeValue::L(_) => "L",
        AttributeValue::M(_) => "M",
        AttributeValue::Bool(_) => "BOOL",
        AttributeValue::Null(_) => "NULL",
        _ => "another",
    }
}
