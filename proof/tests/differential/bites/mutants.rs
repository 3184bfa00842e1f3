//! Every way in which a condition says a little less, or more, than it should; and every way in which an update leaves
//! something out.

use super::{
    condition::{Condition, Operand, Operator},
    update::Update,
};

/// A condition that is wrong in one place, and where.
pub struct Mutant {
    pub what: String,
    pub condition: Condition,
}

/// All of them, in an order that rests on nothing but the tree's shape.
pub fn of_condition(condition: &Condition) -> Vec<Mutant> {
    let mut texts = vec![condition.to_string()];
    let mut mutants = Vec::new();
    let nothing = Mutant {
        what: "no condition at all".to_owned(),
        condition: Condition::Constant(true),
    };
    for mutant in std::iter::once(nothing).chain(within(condition)) {
        let condition = mutant.condition.simple();
        // Nothing ever passes that: there is no need to try.
        if condition == Condition::Constant(false) {
            continue;
        }
        let text = condition.to_string();
        if !texts.contains(&text) {
            texts.push(text);
            mutants.push(Mutant {
                condition,
                ..mutant
            });
        }
    }
    mutants
}

fn within(condition: &Condition) -> Vec<Mutant> {
    match condition {
        Condition::And(parts) => in_group(parts, Condition::And, Condition::Or, "AND becomes OR"),
        Condition::Or(parts) => in_group(parts, Condition::Or, Condition::And, "OR becomes AND"),
        Condition::Not(part) => {
            let not = |part| Condition::Not(Box::new(part));
            let bare = Mutant {
                what: format!("`{condition}` without NOT"),
                condition: (**part).clone(),
            };
            let inner = within(part).into_iter().map(|mutant| Mutant {
                condition: not(mutant.condition),
                ..mutant
            });
            std::iter::once(bare).chain(inner).collect()
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
    let mut mutants = vec![Mutant {
        what: format!("{swapped} in `{whole}`"),
        condition: other(parts.to_vec()),
    }];
    for (place, part) in parts.iter().enumerate() {
        let constants = [true, false].map(|holds| Mutant {
            what: format!("`{part}` always {holds}"),
            condition: Condition::Constant(holds),
        });
        for mutant in constants.into_iter().chain(within(part)) {
            let mut parts = parts.to_vec();
            parts[place] = mutant.condition;
            mutants.push(Mutant {
                what: mutant.what,
                condition: group(parts),
            });
        }
    }
    mutants
}

fn of_leaf(leaf: &Condition) -> Vec<Mutant> {
    let mut mutants = vec![Mutant {
        what: format!("`{leaf}` negated"),
        condition: Condition::Not(Box::new(leaf.clone())),
    }];
    let mut add = |condition: Condition| {
        mutants.push(Mutant {
            what: format!("`{leaf}` as `{condition}`"),
            condition,
        });
    };
    match leaf {
        Condition::Compare(a, operator, b) => {
            let compare = |operator| Condition::Compare(a.clone(), operator, b.clone());
            match operator {
                Operator::Equal if is_number(a) => {
                    add(compare(Operator::AtMost));
                    add(compare(Operator::AtLeast));
                }
                Operator::Equal | Operator::Differs => {}
                Operator::Less => add(compare(Operator::AtMost)),
                Operator::AtMost => add(compare(Operator::Less)),
                Operator::Greater => add(compare(Operator::AtLeast)),
                Operator::AtLeast => add(compare(Operator::Greater)),
            }
        }
        Condition::Between(a, low, high) => {
            let one =
                |operator, end: &_| Condition::Compare(a.clone(), operator, Clone::clone(end));
            add(one(Operator::AtLeast, low));
            add(one(Operator::AtMost, high));
        }
        Condition::In(a, these) => {
            for place in 0..these.len() {
                let mut fewer = these.clone();
                fewer.remove(place);
                add(Condition::In(a.clone(), fewer));
            }
        }
        _ => {}
    }
    mutants
}

/// Of names nobody asks which is the larger.
fn is_number(operand: &Operand) -> bool {
    let numbers = ["fencing_token", "version", "claim_tries"];
    matches!(operand, Operand::Path(name, None) if numbers.contains(&name.as_str()))
}

/// An update without one of its parts, and which.
pub fn of_update(update: &Update) -> Vec<(String, Update)> {
    (0..update.parts())
        .map(|place| {
            let (left_out, update) = update.without(place);
            (format!("without {left_out}"), update)
        })
        .collect()
}
