//! What is in the table, attribute by attribute: beside what the row says, and as a stranger leaves it.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
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

/// The same of what is in the table. Where the expressions say in two attributes what a row says in one, it is one.
pub fn plain(row: &Row, item: &Item) -> Item {
    let mut item = item.clone();
    // Reserved for the first waiter, when there was none: the rest of it says nothing.
    if item.get("claim").is_some_and(AttributeValue::is_null) && row.holding().is_none() {
        item.retain(|name, _| !["claim_id", "claim_until", "claim_tries"].contains(&name.as_str()));
    }
    item.retain(|name, value| !value.is_null() && name != "pk" && name != "sk");
    if let Some(last) = item.remove("previous_last_fencing_token") {
        item.insert("previous_fencing_token".to_owned(), last);
    }
    // Nobody is to be notified while it is held, or reserved for somebody.
    if row.holding().is_none() && row.reserved().is_none() {
        item.remove("heir");
    }
    item
}

/// The digest by which the stream is filtered.
pub fn successor(item: &Item) -> Option<Blob> {
    match item.get("heir")? {
        AttributeValue::B(digest) => Some(digest.clone()),
        AttributeValue::Null(true) => None,
        strange => panic!("{strange:?}"),
    }
}

/// The first waiter in the queue of a row that is free, and reserved for nobody.
pub fn successor_of(row: &Row) -> Option<Blob> {
    let free = row.holding().is_none() && row.reserved().is_none();
    let item = row.to_item();
    let queue = item.get("line").filter(|_| free)?.as_l().unwrap();
    queue.first().map(|head| head.as_b().unwrap().clone())
}

/// Joining and leaving do not: they move nobody to the front of a row that was not reserved for somebody already, or
/// whose first in the queue has been notified.
pub fn sets_the_successor(change: &Change) -> bool {
    !matches!(
        change,
        Change::Extend(_)
            | Change::Prove(_)
            | Change::Look(_)
            | Change::ShortenDeadline(_)
            | Change::Leave(_)
            | Change::RenewReservation(_)
    )
}

/// The attributes that a stranger writes.
#[rustfmt::skip]
pub const ATTRIBUTES: [&str; 35] = [
    "holder", "lease_id", "ttl_ms", "acquired_at", "extended_at", "expires_at", "metadata", "sweep_after",
    "fencing_token", "version", "granted_to", "request", "past_request_1", "past_request_2", "past_request_3",
    "previous_holder", "previous_fencing_token", "ended", "purge_at", "request_keys", "operator", "line",
    "claim", "claim_id", "claim_until", "claim_tries", "last_fencing_token", "colour", "frozen",
    "keep_ms", "looked_at", "look_again_at",
    "past_release_1", "past_release_2", "past_release_3",
];

pub fn attribute(name: &str) -> u8 {
    let place = ATTRIBUTES.iter().position(|known| *known == name);
    u8::try_from(place.unwrap()).unwrap()
}

/// How many values [`strange`] knows.
pub const STRANGE: u8 = 12;

/// What a stranger writes. No fraction, and no list of anything but strings: a condition cannot see
/// one, and docs/explanation/design.md says so.
pub fn strange(value: u8) -> Option<AttributeValue> {
    let n = |text: &str| AttributeValue::N(text.to_owned());
    Some(match value {
        0 => return None,
        1 => AttributeValue::S("released".to_owned()),
        2 => AttributeValue::S("h1".to_owned()),
        3 => n("-1"),
        4 => n("0"),
        5 => n("99999999999999999999999999999999999999"),
        6 => n("7"),
        7 => AttributeValue::Bool(true),
        8 => AttributeValue::Null(true),
        9 => AttributeValue::L(Vec::new()),
        10 => AttributeValue::L(vec![AttributeValue::B(Blob::new("somebody"))]),
        12 => AttributeValue::B(Blob::new("somebody")),
        _ => AttributeValue::M([("a".to_owned(), AttributeValue::S("b".to_owned()))].into()),
    })
}

/// Puts a strange value into an item. An index's key can only be written as a string: then nothing is done.
pub fn tamper(mut item: Item, attribute: u8, value: u8) -> Option<Item> {
    let name = ATTRIBUTES[usize::from(attribute)];
    match strange(value) {
        Some(value) if name == "holder" && !value.is_s() => return None,
        Some(value) => drop(item.insert(name.to_owned(), value)),
        None => drop(item.remove(name)),
    }
    Some(item)
}
