//! What is done to a valid event: to its tree, and to its text.

use crate::{
    dice::Dice,
    marks::{GIVEN, MARK, found_in},
    tree::Tree,
};

/// What stands where a value should.
const RAW: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "0.5",
    "1.5",
    "300.0",
    "86400",
    "86400.001",
    "999",
    "1000",
    "1001",
    "65535",
    "65536",
    "1e3",
    "1e22",
    "1e-400",
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "00",
    "0x1f",
    "1_000",
    "4503599627370495",
    "4503599627370496",
    "4503599627370497",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "[]",
    "{}",
    "[[]]",
    "{\"\":{}}",
    "[null]",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\x\"",
    "\"\n\"",
    "\"",
    "",
    "undefined",
    "1795230000125.0",
    "0.1e1",
    "31536000",
    "31536001",
    "100",
    "101",
];

/// Texts that fit badly anywhere.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "\u{0}",
    "a\u{0}b",
    "\n",
    "\r\n",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{202e}drawkcab",
    "\u{feff}k",
    "\u{e9}",
    "e\u{301}",
    "\u{212b}",
    "\u{1d54f}",
    "\u{10ffff}",
    "LEASE#0000",
    "LEASE#0001",
    "WAIT#0123456789abcdef0123456789abcdef",
    "null",
    "0",
    "-1",
    "true",
    "{}",
    "[]",
    "released",
    "expired",
    "2026-11-21T03:00:00.123Z",
    "2026-11-21T03:00:00.123456789+14:00",
    "9999-12-31T23:59:59.999Z",
    "+10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2026-11-21T24:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-11-21",
    "orders/42",
    "orders/50",
    "orders/81",
    "stranger",
    "free",
    "frozen",
    "line",
    "promised",
    "first",
    "../../etc/passwd",
    "' OR attribute_exists(pk) --",
    "#pk = :pk",
    "${jndi:ldap://x}",
    "%s%n%p",
    "<script>",
    "\\",
    "\"",
    "force_release",
    "unfreeze",
    "raise_floor",
    "result",
    "ABORTED",
    "TIMED_OUT",
    "SUCCEEDED",
    "RUNNING",
    "PENDING_REDRIVE",
];

/// Names of fields, known and not.
const NAMES: &[&str] = &[
    "key",
    "keys",
    "holder",
    "request_id",
    "ttl_seconds",
    "permits",
    "permit",
    "metadata",
    "observed_version",
    "reentrant",
    "on_held",
    "task_token",
    "wait_seconds",
    "lease",
    "leases",
    "lease_id",
    "fencing_token",
    "version",
    "acquired_at",
    "expires_at",
    "safe_until",
    "require_unexpired",
    "strict",
    "limit",
    "cursor",
    "list",
    "operation",
    "who",
    "why",
    "floor",
    "Records",
    "dynamodb",
    "Keys",
    "pk",
    "sk",
    "S",
    "body",
    "messageId",
    "detail",
    "detail-type",
    "executionArn",
    "status",
    "error",
    "",
    "Key",
    "KEY",
    "key ",
    "k\u{435}y",
    "__proto__",
    "\u{0}",
    "a.b",
    "lease.key",
];

/// Texts that are long by how much.
const LENGTHS: &[usize] = &[
    128, 129, 256, 257, 512, 513, 1023, 1024, 1025, 2048, 2049, 4096, 4097, 30_000,
];

/// The same tree after one blow. `others` are trees to take parts from.
pub fn strike(tree: &mut Tree, dice: &mut Dice, others: &mut dyn FnMut(&mut Dice) -> Tree) {
    let any = dice.place(tree.size());
    match dice.place(16) {
        0..=4 => {
            let scalar = |tree: &Tree| matches!(tree, Tree::Raw(_) | Tree::Text(_));
            if let Some(node) = tree.nth(any, scalar) {
                *node = value(dice);
            }
        }
        5 => {
            if let Some(node) = tree.nth(any, |_| true) {
                *node = value(dice);
            }
        }
        6 => {
            if let Some(node) = tree.nth(any, |_| true) {
                let inner = node.clone();
                *node = match dice.place(3) {
                    0 => Tree::List(vec![inner; 1 + dice.place(3)]),
                    1 => Tree::Map(vec![(name(dice), public(inner))]),
                    // As text, as somebody does who has had enough of escapes.
                    _ => Tree::Text(inner.write()),
                };
            }
        }
        7 => {
            if let Some(node) = tree.nth(any, |_| true) {
                let depth = *dice.pick(&[10, 127, 128, 129, 10_000]);
                let (open, close) = *dice.pick(&[("[", "]"), ("{\"a\":", "}")]);
                *node = Tree::Raw(format!("{}1{}", open.repeat(depth), close.repeat(depth)));
            }
        }
        8 => {
            if let Some(node) = tree.nth(any, |_| true) {
                let mut other = others(dice);
                let part = dice.place(other.size());
                if let Some(part) = other.nth(part, |_| true) {
                    *node = public(part.clone());
                }
            }
        }
        9 => {
            if let Some(Tree::List(items)) = tree.nth(any, |tree| matches!(tree, Tree::List(_))) {
                resize(items, dice);
            }
        }
        _ => {
            let map = |tree: &Tree| matches!(tree, Tree::Map(fields) if !fields.is_empty());
            if let Some(Tree::Map(fields)) = tree.nth(any, map) {
                rearrange(fields, dice);
            }
        }
    }
}

fn resize(items: &mut Vec<Tree>, dice: &mut Dice) {
    match (dice.place(4), items.first().cloned()) {
        (0, _) => items.clear(),
        (1, Some(first)) => items.push(first),
        (2, Some(first)) => items.resize(*dice.pick(&[99, 100, 101]), first),
        _ => items.push(value(dice)),
    }
}

fn rearrange(fields: &mut Vec<(String, Tree)>, dice: &mut Dice) {
    let at = dice.place(fields.len());
    match dice.place(6) {
        0 => drop(fields.remove(at)),
        1 => fields.push(fields[at].clone()),
        2 => fields.push((fields[at].0.clone(), value(dice))),
        3 => fields.push((name(dice), value(dice))),
        4 => {
            fields[at].0 = name(dice);
            fields[at].1 = public(fields[at].1.clone());
        }
        _ => {
            let other = dice.place(fields.len());
            let (a, b) = (fields[at].1.clone(), fields[other].1.clone());
            if at != other {
                (fields[at].1, fields[other].1) = (public(b), public(a));
            }
        }
    }
}

/// What was a secret in its place is none in another's: there it may be shown.
fn public(mut tree: Tree) -> Tree {
    tree.texts(&mut |text| *text = text.replace(MARK, "public"));
    tree
}

fn name(dice: &mut Dice) -> String {
    match dice.place(30) {
        0 => "n".repeat(*dice.pick(LENGTHS)),
        _ => dice.word(NAMES).to_owned(),
    }
}

fn value(dice: &mut Dice) -> Tree {
    match dice.place(40) {
        0 => Tree::Text("x".repeat(*dice.pick(LENGTHS))),
        1 => Tree::Text("\u{e9}".repeat(*dice.pick(LENGTHS) / 2)),
        // Each character is six in JSON.
        2 => Tree::Text("\u{1}".repeat(*dice.pick(LENGTHS) / 2)),
        3 => Tree::Text("\"".repeat(*dice.pick(LENGTHS))),
        4 if dice.one_in(50) => Tree::Text("x".repeat(*dice.pick(&[300_000, 6_000_000]))),
        5 => Tree::Map(vec![
            (dice.word(NAMES).to_owned(), Tree::Text("x".into()));
            2
        ]),
        6 => Tree::List(
            (0..*dice.pick(&[2_usize, 100, 101]))
                .map(|n| Tree::Text(format!("k{n}")))
                .collect(),
        ),
        7 => Tree::Raw(dice.throw().to_string()),
        8 => Tree::Raw(format!(
            "{}.{}",
            dice.throw() % 100_000,
            dice.throw() % 1000
        )),
        9..=12 => Tree::Text(GIVEN.to_owned()),
        13..=24 => Tree::Raw(dice.word(RAW).to_owned()),
        _ => Tree::Text(dice.word(TEXTS).to_owned()),
    }
}

/// The same text after a blow that knows nothing of what it means.
pub fn damage(text: &mut Vec<u8>, dice: &mut Dice) {
    if text.is_empty() {
        return;
    }
    let at = dice.place(text.len());
    let many = 1 + dice.place(40);
    let until = (at + many).min(text.len());
    #[expect(clippy::cast_possible_truncation, reason = "any byte will do")]
    let byte = dice.throw() as u8;
    match dice.place(8) {
        0 => text.truncate(at),
        1 => text[at] = byte,
        2 => text[at] ^= 1 << (byte % 8),
        3 => text.insert(at, byte),
        4 => drop(text.drain(at..until)),
        5 => {
            let again = text[at..until].to_vec();
            text.splice(at..at, again);
        }
        6 => text.insert(at, *dice.pick(b"{}[]\",:\\0-.eE \n\0")),
        _ => text.extend_from_slice(b" {}"),
    }
}

/// Fields that are shown: whose key, who, what for.
const SHOWN: [&str; 12] = [
    "key",
    "keys",
    "holder",
    "metadata",
    "who",
    "why",
    "executionArn",
    "messageId",
    "SequenceNumber",
    "pk",
    "S",
    "body",
];

/// Whether the mark stands where everybody may see it, through no fault of whoever shows it: after [`damage`] a secret
/// may have become a name, or the value of a field that is shown; and a fuzzer writes down whatever we look for.
pub fn is_published(tree: &Tree, under: &str) -> bool {
    match tree {
        Tree::Text(text) => found_in(text).is_some() && SHOWN.contains(&under),
        Tree::List(items) => items.iter().any(|item| is_published(item, under)),
        Tree::Map(fields) => fields.iter().any(|(name, value)| {
            let under = if under == "metadata" { under } else { name };
            found_in(name).is_some() || is_published(value, under)
        }),
        Tree::Raw(_) => false,
    }
}

/// Whether a field is called by a value, as after [`damage`] it may be.
pub fn is_a_name(tree: &Tree, given: &str) -> bool {
    match tree {
        Tree::List(items) => items.iter().any(|item| is_a_name(item, given)),
        Tree::Map(fields) => fields
            .iter()
            .any(|(name, value)| name.contains(given) || is_a_name(value, given)),
        Tree::Raw(_) | Tree::Text(_) => false,
    }
}
