//! What stands in the table, attribute by attribute, beside what the row says.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    row::{Item, Row},
    transition::Change,
};

/// The attributes of the row, those aside that say nothing, and `heir`, which not every write moves.
pub fn expected(row: &Row) -> Item {
    let mut item = row.to_item();
    item.retain(|_, value| !value.is_null());
    item.remove("heir");
    item
}

/// The same of what stands in the table. Where the expressions say in two attributes what a row says in one, it is one.
pub fn plain(row: &Row, item: &Item) -> Item {
    let mut item = item.clone();
    // Kept for whoever was first, when nobody was: the rest of it says nothing.
    if item.get("claim").is_some_and(AttributeValue::is_null) && row.holding().is_none() {
        item.retain(|name, _| !["claim_id", "claim_until", "claim_tries"].contains(&name.as_str()));
    }
    item.retain(|name, value| !value.is_null() && name != "pk" && name != "sk");
    if let Some(last) = item.remove("previous_last_fencing_token") {
        item.insert("previous_fencing_token".to_owned(), last);
    }
    // Nobody is to be told of while it is held, or kept for somebody.
    if row.holding().is_none() && row.reserved().is_none() {
        item.remove("heir");
    }
    item
}

/// What the stream is filtered by.
pub fn heir(item: &Item) -> Option<String> {
    match item.get("heir")? {
        AttributeValue::S(digest) => Some(digest.clone()),
        AttributeValue::Null(true) => None,
        strange => panic!("{strange:?}"),
    }
}

/// Whoever is first in line of a row that is free, and kept for nobody.
pub fn heir_of(row: &Row) -> Option<String> {
    let nobodys = row.holding().is_none() && row.reserved().is_none();
    let item = row.to_item();
    let line = item.get("line").filter(|_| nobodys)?.as_l().unwrap();
    line.first().map(|head| head.as_s().unwrap().clone())
}

/// Joining and leaving do not: they move nobody to the front of a row that was not kept for somebody
/// already, or that somebody has been told of.
pub fn sets_the_heir(change: &Change) -> bool {
    !matches!(
        change,
        Change::Extend(_) | Change::Cut(_) | Change::Leave(_) | Change::TryAgain(_)
    )
}
