//! The writes of items that are no rows, as DynamoDB expressions.

use std::collections::HashMap;

use super::{Act, Expressions};
use crate::{
    row::attributes as at,
    row::n,
    store::write::{Effect, ItemPlan, Test},
};

/// The texts of a plan: what it tests has the value `:if_name`, and what it sets `:name`.
pub(super) fn of(plan: ItemPlan) -> Expressions {
    let mut names = HashMap::new();
    let mut values = HashMap::new();
    let mut name = |name: &str| {
        let placeholder = format!("#{name}");
        names.insert(placeholder.clone(), name.to_owned());
        placeholder
    };
    let mut test = |test| match test {
        Test::Absent => format!("attribute_not_exists({})", name(at::PK)),
        Test::Has(attribute) => format!("attribute_exists({})", name(attribute)),
        Test::Lacks(attribute) => format!("attribute_not_exists({})", name(attribute)),
        Test::Is(attribute, value) => {
            values.insert(format!(":if_{attribute}"), value);
            format!("{} = :if_{attribute}", name(attribute))
        }
        Test::AtMost(attribute, most) => {
            values.insert(format!(":if_{attribute}"), n(most));
            format!("{} <= :if_{attribute}", name(attribute))
        }
    };
    let any = plan.any_of.into_iter().map(|all| {
        let all: Vec<_> = all.into_iter().map(&mut test).collect();
        all.join(" AND ")
    });
    let condition = any.collect::<Vec<_>>().join(" OR ");
    let act = match plan.effect {
        Effect::Delete => Act::Delete,
        Effect::Update(update) => {
            let mut set = Vec::new();
            for (attribute, value) in update.set {
                set.push(format!("{} = :{attribute}", name(attribute)));
                values.insert(format!(":{attribute}"), value);
            }
            let remove: Vec<_> = update.remove.into_iter().map(name).collect();
            let parts = [("SET", set), ("REMOVE", remove)].into_iter();
            let parts = parts.filter(|(_, what)| !what.is_empty());
            let parts: Vec<_> = parts
                .map(|(verb, what)| format!("{verb} {}", what.join(", ")))
                .collect();
            Act::Update(parts.join(" "))
        }
    };
    Expressions {
        condition,
        act,
        names,
        values,
    }
}
