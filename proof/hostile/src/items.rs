//! What a stranger does to an item of ours: to its attributes, and to their values.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use leasehold::row::Item;

use crate::{
    dice::Dice,
    marks::{MARK, is_secret},
    world::s,
};

/// Numbers as a table gives them, and as none does.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "0.5",
    "1.5",
    "1.0",
    "-7",
    "7",
    "999",
    "1000",
    "86399999",
    "86400000",
    "86400001",
    "86400000.5",
    "1795230000123",
    "1795230060000",
    "1795230060000.1",
    "253402300799999",
    "253402300800000",
    "253402300799",
    "500000000000000",
    "4503599627370495",
    "4503599627370496",
    "4503599627370497",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
    "-99999999999999999999999999999999999999",
    "1E+38",
    "1e38",
    "1E-130",
    "9.9999999999999999999999999999999999999E+125",
    "",
    " 7",
    "+7",
    "007",
    "0x7",
    "NaN",
    "Infinity",
    "1_000",
    "\u{661}",
];

const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "released",
    "expired",
    "forced",
    "RELEASED",
    "lost",
    "first",
    "second",
    "somebody",
    "\u{0}",
    "a\u{0}b",
    "\u{202e}drawkcab",
    "\u{e9}",
    "e\u{301}",
    "0123456789abcdef0123456789abcdef",
    "0123456789ABCDEF0123456789ABCDEF",
    "7",
    "null",
    "LEASE#0000",
    "tomorrow",
    "2026-11-21T03:00:00.123Z",
    "freeze",
    "force_release",
    "unfreeze",
    "raise_floor",
];

const NAMES: &[&str] = &[
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
    "request_keys",
    "past_request_1",
    "past_request_2",
    "past_request_3",
    "previous_holder",
    "previous_fencing_token",
    "previous_last_fencing_token",
    "previous_ended",
    "ended",
    "purge_at",
    "frozen",
    "operator",
    "line",
    "claim",
    "claim_id",
    "claim_until",
    "claim_tries",
    "heir",
    "last_fencing_token",
    "task_token",
    "ticket",
    "asked_at",
    "deadline",
    "colour",
    "Holder",
    "ttl",
];

/// One blow.
pub fn strike(item: &mut Item, dice: &mut Dice) {
    // In order of their names, lest a case depend on how a map hashes.
    let mut names: Vec<String> = item.keys().cloned().collect();
    names.sort();
    if names.is_empty() {
        return;
    }
    let own = dice.pick(&names).clone();
    match dice.place(12) {
        0 => drop(item.remove(&own)),
        1 => put(item, dice.word(NAMES), value(dice)),
        2 => {
            let other = dice.pick(&names).clone();
            let (a, b) = (public(item[&own].clone()), public(item[&other].clone()));
            if own != other {
                put(item, &own, b);
                put(item, &other, a);
            }
        }
        3 => {
            let moved = item.remove(&own).map(public);
            put(
                item,
                dice.word(NAMES),
                moved.unwrap_or(AttributeValue::Null(true)),
            );
        }
        4..=7 => {
            let near = near(item[&own].clone(), dice);
            put(item, &own, near);
        }
        _ => put(item, &own, value(dice)),
    }
}

/// Puts it there, and sees to it that a secret can be recognised.
fn put(item: &mut Item, name: &str, mut value: AttributeValue) {
    if let AttributeValue::S(text) = &mut value
        && is_secret(name)
        && !text.is_empty()
        && !text.contains(MARK)
    {
        *text = crate::marks::secret(&text.chars().filter(char::is_ascii).collect::<String>());
    }
    item.insert(name.to_owned(), value);
}

/// What was a secret in its place is none in another's.
fn public(value: AttributeValue) -> AttributeValue {
    match value {
        AttributeValue::S(text) => AttributeValue::S(text.replace(MARK, "public")),
        other => other,
    }
}

/// Something that is almost the same.
fn near(value: AttributeValue, dice: &mut Dice) -> AttributeValue {
    match value {
        AttributeValue::N(number) => match (dice.place(9), number.parse::<u64>()) {
            (0, Ok(n)) => AttributeValue::N(n.wrapping_add(1).to_string()),
            (1, Ok(n)) => AttributeValue::N(n.wrapping_sub(1).to_string()),
            (2, _) => AttributeValue::N(format!("-{number}")),
            (3, _) => AttributeValue::N(format!("{number}.0")),
            (4, _) => AttributeValue::N(format!("{number}.5")),
            (5, _) => AttributeValue::N(format!("{number}000")),
            (6, _) => AttributeValue::S(number),
            (7, _) => AttributeValue::Ns(vec![number]),
            _ => AttributeValue::L(vec![AttributeValue::N(number)]),
        },
        AttributeValue::S(text) => match dice.place(8) {
            0 => AttributeValue::S(format!("{text}x")),
            1 => AttributeValue::S(text.chars().skip(1).collect()),
            2 => AttributeValue::S(text.replace(MARK, "public").to_uppercase()),
            3 => AttributeValue::S(text.repeat(2)),
            4 => AttributeValue::Ss(vec![text]),
            5 => AttributeValue::B(Blob::new(text)),
            6 => AttributeValue::L(vec![AttributeValue::S(text)]),
            _ => AttributeValue::M([("S".to_owned(), AttributeValue::S(text))].into()),
        },
        AttributeValue::L(mut items) => {
            match dice.place(5) {
                0 => items.clear(),
                1 => items.push(s("0123456789abcdef0123456789abcdef")),
                2 => items.extend(items.first().cloned()),
                3 => items.push(self::value(dice)),
                _ => items.resize(
                    *dice.pick(&[127, 128, 129, 2000]),
                    s("ffffffffffffffffffffffffffffffff"),
                ),
            }
            AttributeValue::L(items)
        }
        AttributeValue::M(mut fields) => {
            let inner = if dice.one_in(2) {
                s("x")
            } else {
                self::value(dice)
            };
            fields.insert(
                (*dice.pick(&["", "a", "who", "why", "at", "act"])).to_owned(),
                inner,
            );
            AttributeValue::M(fields)
        }
        AttributeValue::Bool(yes) => AttributeValue::Bool(!yes),
        AttributeValue::Null(_) => AttributeValue::Null(dice.one_in(2)),
        _ => self::value(dice),
    }
}

/// Something altogether different.
fn value(dice: &mut Dice) -> AttributeValue {
    match dice.place(24) {
        0 => AttributeValue::Null(true),
        1 => AttributeValue::Bool(dice.one_in(2)),
        2 => AttributeValue::B(Blob::new(dice.throw().to_be_bytes())),
        3 => AttributeValue::L(Vec::new()),
        4 => AttributeValue::M([].into()),
        5 => AttributeValue::L(vec![s(dice.word(TEXTS)), AttributeValue::N("1".to_owned())]),
        6 => AttributeValue::M([("who".to_owned(), s(dice.word(TEXTS)))].into()),
        7 => AttributeValue::Ss(vec!["a".to_owned()]),
        8 => AttributeValue::Ns(vec!["1".to_owned()]),
        9 => AttributeValue::Bs(vec![Blob::new("a")]),
        10 => deep(*dice.pick(&[31, 32, 33, 1000])),
        11 if dice.one_in(20) => s(&"x".repeat(400_000)),
        12 => s(&"x".repeat(*dice.pick(&[256, 257, 1024, 1025, 2048, 2049]))),
        13..=18 => AttributeValue::N(dice.word(NUMBERS).to_owned()),
        _ => s(dice.word(TEXTS)),
    }
}

fn deep(levels: u32) -> AttributeValue {
    (0..levels).fold(s("x"), |inner, level| {
        if level % 2 == 0 {
            AttributeValue::L(vec![inner])
        } else {
            AttributeValue::M([("a".to_owned(), inner)].into())
        }
    })
}
