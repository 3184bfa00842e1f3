//! The line as the table has it, read from its items.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::{Error, Stack};

use super::super::resource::{self, Item};
use super::cast::KEY;

/// Who stands in line, and what else there is of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// ARNs of those in line, first come first.
    pub(super) order: Vec<String>,
    /// ARNs of those of whom there is an item, in line or not.
    pub(super) items: Vec<String>,
    /// Whether somebody holds the key.
    pub(super) held: bool,
    /// Whether it is kept for somebody.
    pub(super) kept: bool,
}

impl Line {
    /// Looks at the table.
    pub(super) async fn look(stack: &Stack) -> Result<Self, Error> {
        let table = stack.tables().first().copied().unwrap_or_default();
        let items = resource::items(&stack.dynamodb(), table, KEY).await?;
        Ok(Self::read(&items))
    }

    fn read(items: &[Item]) -> Self {
        let waits = |item: &&Item| resource::text(item, "sk").starts_with("WAIT#");
        let holder = |digest: &str| {
            let sk = format!("WAIT#{digest}");
            let item = items.iter().find(|item| resource::text(item, "sk") == sk);
            // Whoever stands in line without an item is somebody all the same.
            item.map_or_else(|| digest.to_owned(), |item| resource::text(item, "holder"))
        };
        let row = items
            .iter()
            .find(|item| resource::text(item, "sk") == "LEASE#0000");
        let line = row.and_then(|row| row.get("line")?.as_l().ok());
        let digests = line.into_iter().flatten().filter_map(|one| one.as_s().ok());
        let claimed = |row: &Item| matches!(row.get("claim"), Some(AttributeValue::S(_)));
        Self {
            order: digests.map(|digest| holder(digest)).collect(),
            items: items
                .iter()
                .filter(waits)
                .map(|item| resource::text(item, "holder"))
                .collect(),
            held: row.is_some_and(|row| row.contains_key("holder")),
            kept: row.is_some_and(claimed),
        }
    }

    /// Whether somebody certainly has no place in line: it is not there, and everybody who is there is known.
    pub(super) fn is_without(&self, arn: &str) -> bool {
        let mut order = self.order.iter();
        order.all(|one| one != arn && self.items.contains(one))
    }

    /// Whether nothing is left of anybody.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn item(sk: &str, attributes: &[(&str, AttributeValue)]) -> Item {
        let mut item = HashMap::from([("sk".to_owned(), text(sk))]);
        let own = attributes.iter();
        item.extend(own.map(|(name, value)| ((*name).to_owned(), value.clone())));
        item
    }

    fn text(value: &str) -> AttributeValue {
        AttributeValue::S(value.to_owned())
    }

    #[test]
    fn the_order_is_the_lists_and_not_that_of_the_items() {
        let line = AttributeValue::L(vec![text("b"), text("a")]);
        let row = item("LEASE#0000", &[("line", line), ("holder", text("me"))]);
        let waits = ["a", "b", "c"].map(|digest| {
            let holder = ("holder", text(&digest.to_uppercase()));
            item(&format!("WAIT#{digest}"), &[holder])
        });
        let seen = Line::read(&[&[row][..], &waits].concat());
        assert_eq!(seen.order, ["B", "A"]);
        assert_eq!(seen.items, ["A", "B", "C"]);
        assert!(seen.held && !seen.kept);
    }

    #[test]
    fn a_place_is_gone_once_nobody_in_line_may_be_its_owner() {
        let seen = |order: &[&str]| Line {
            order: order.iter().map(|one| (*one).to_owned()).collect(),
            items: vec!["A".to_owned(), "B".to_owned()],
            ..Line::default()
        };
        assert!(seen(&["B"]).is_without("A"));
        assert!(!seen(&["B", "A"]).is_without("A"));
        assert!(!seen(&["B", "a digest"]).is_without("A"));
    }

    #[test]
    fn a_free_key_is_left_with_an_empty_line_and_kept_for_nobody() {
        let nobody = ("claim", AttributeValue::Null(true));
        let empty = ("line", AttributeValue::L(Vec::new()));
        let row = |claim| item("LEASE#0000", &[empty.clone(), claim]);
        assert!(Line::read(&[row(nobody)]).is_empty());
        assert!(!Line::read(&[row(("claim", text("a")))]).is_empty());
    }
}
