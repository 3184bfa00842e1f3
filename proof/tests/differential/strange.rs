//! What a stranger does to a row.

use aws_sdk_dynamodb::types::AttributeValue;

pub const ATTRIBUTES: [&str; 29] = [
    "holder",
    "lease_id",
    "ttl_ms",
    "acquired_at",
    "extended_at",
    "expires_at",
    "metadata",
    "sweep_after",
    "fencing_token",
    "version",
    "granted_to",
    "request",
    "past_request_1",
    "past_request_2",
    "past_request_3",
    "previous_holder",
    "previous_fencing_token",
    "ended",
    "purge_at",
    "request_keys",
    "operator",
    "line",
    "claim",
    "claim_id",
    "claim_until",
    "claim_tries",
    "last_fencing_token",
    "colour",
    "frozen",
];

pub fn attribute(name: &str) -> u8 {
    let place = ATTRIBUTES.iter().position(|known| *known == name);
    u8::try_from(place.unwrap()).unwrap()
}

/// How many of them there are.
pub const STRANGE: u8 = 12;

/// What a stranger writes. No fraction, and no list of anything but strings: a condition cannot see
/// one, and docs/DESIGN.md says so.
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
        10 => AttributeValue::L(vec![AttributeValue::S("somebody".to_owned())]),
        _ => AttributeValue::M([("a".to_owned(), AttributeValue::S("b".to_owned()))].into()),
    })
}

/// `sweep_after` is the index's; `holder` its key, which must be a string.
pub fn is_writable(name: &str, value: Option<&AttributeValue>) -> bool {
    !matches!((name, value), ("holder", Some(v)) if v.as_s().is_err())
}
