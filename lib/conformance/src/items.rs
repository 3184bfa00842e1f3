//! What is in the table, attribute by attribute: as it is compared, and as a stranger leaves it.

use std::collections::BTreeMap;

use leasehold::{
    row::Item,
    store::{AttributeValue, Blob},
};

/// A row's item without what says nothing. Where a store says in two attributes what a row says in one, it is one.
pub fn plain(item: &Item) -> BTreeMap<String, AttributeValue> {
    let mut item: BTreeMap<_, _> = item.clone().into_iter().collect();
    item.retain(|name, value| !value.is_null() && name != "pk" && name != "sk");
    if let Some(last) = item.remove("previous_last_fencing_token") {
        item.insert("previous_fencing_token".to_owned(), last);
    }
    item
}

/// The attributes that a stranger writes.
#[rustfmt::skip]
pub const ATTRIBUTES: [&str; 40] = [
    "holder", "lease_id", "ttl_ms", "acquired_at", "extended_at", "expires_at", "metadata", "sweep_after",
    "fencing_token", "version", "granted_to", "request", "past_request_1", "past_request_2", "past_request_3",
    "previous_holder", "previous_fencing_token", "ended", "purge_at", "request_keys", "operator", "queue",
    "last_fencing_token", "colour", "frozen", "keep_ms", "looked_at", "look_again_at",
    "past_release_1", "past_release_2", "past_release_3", "notifications", "notified_at", "ticket", "refused_at",
    "limit", "kept_until", "opens_at", "permits", "pool",
];

pub fn attribute(name: &str) -> u8 {
    let place = ATTRIBUTES.iter().position(|known| *known == name);
    u8::try_from(place.unwrap()).unwrap()
}

/// How many values [`strange`] knows.
pub const STRANGE: u8 = 12;

/// What a stranger writes. No fraction, and no list of anything but strings: a condition cannot see
/// one, and docs/contributing/design.md says so.
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
