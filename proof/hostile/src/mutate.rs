//! What is done to a valid event: to its tree, and to its text.

use arbitrary::{Result as Chosen, Unstructured};
use serde_json::{Map, Value, json};

use crate::{
    fixture,
    secrets::{GIVEN, MARK},
};

/// What is put where a value should be, JSON or not; one a word.
const RAW: &str = r#"null true false 0 -0 -1 1 2 0.5 1.5 300.0 86400 86400.001 999 1000 1001 65535 65536 1e3 1e22
    1e-400 1e400 -1e400 NaN Infinity -Infinity 00 0x1f 1_000 4503599627370495 4503599627370496 4503599627370497
    9007199254740993 18446744073709551615 18446744073709551616 -9223372036854775808 -9223372036854775809 [] {} [[]]
    {"":{}} [null] "\ud800" "\udc00\ud800" "\x" " undefined 1795230000125.0 0.1e1 31536000 31536001 100 101"#;

/// Texts that fit badly anywhere; one between two bars.
const TEXTS: &str = "| |a|\u{0}|a\u{0}b|\n|\r\n|\u{7f}|\u{85}|\u{2028}|\u{202e}drawkcab|\u{feff}k|\u{e9}|e\u{301}|\
    \u{212b}|\u{1d54f}|\u{10ffff}|LEASE#0000|LEASE#0001|WAIT#0123456789abcdef0123456789abcdef|null|0|-1|true|{}|[]|\
    released|expired|execution|2026-11-21T03:00:00.123Z|2026-11-21T03:00:00.123456789+14:00|9999-12-31T23:59:59.999Z|\
    +10000-01-01T00:00:00Z|-0001-01-01T00:00:00Z|1969-12-31T23:59:59Z|1970-01-01T00:00:00Z|2026-11-21T24:00:00Z|\
    2026-02-30T00:00:00Z|2026-11-21|orders/42|orders/50|orders/81|stranger|free|frozen|queue|untold|first|\
    ../../etc/passwd|' OR attribute_exists(pk) --|#pk = :pk|${jndi:ldap://x}|%s%n%p|<script>|\\|\"|force_release|\
    unfreeze|raise_floor|skip|wait|ABORTED|TIMED_OUT|SUCCEEDED|RUNNING|PENDING_REDRIVE";

/// Names that no sample event has; one between two bars.
const NAMES: &str =
    "cursor|dynamodb|Keys|pk|sk|S||Key|KEY|key |k\u{435}y|__proto__|\u{0}|a.b|lease.key";

/// Lengths at the limits of some field.
const LENGTHS: [usize; 14] = [
    128, 129, 256, 257, 512, 513, 1023, 1024, 1025, 2048, 2049, 4096, 4097, 30_000,
];

/// An event that was changed. What JSON values cannot say, such as a field that is there twice, is kept beside the tree,
/// which has a placeholder in its place.
pub struct Mutated {
    tree: Value,
    raw: Vec<String>,
}

impl Mutated {
    pub const fn new(tree: Value) -> Self {
        Self {
            tree,
            raw: Vec::new(),
        }
    }

    /// The event as it is sent.
    pub fn write(&self) -> String {
        let numbered = self.raw.iter().enumerate().rev();
        numbered.fold(self.tree.to_string(), |text, (n, raw)| {
            text.replace(&placeholder(n).to_string(), raw)
        })
    }

    /// One change.
    pub fn mutate(&mut self, choices: &mut Unstructured<'_>) -> Chosen<()> {
        let path = choose_node(&self.tree, choices)?;
        let node = self.tree.pointer(&path).cloned().unwrap_or_default();
        let changed = match choices.int_in_range(0..=15)? {
            0..=5 => self.value(choices)?,
            6 => json!(vec![
                public(&node);
                choices
                    .choose(&[1_usize, 2, 3, 99, 100, 101])
                    .copied()?
            ]),
            7 => json!({ name(choices)?: public(&node) }),
            // As text, as somebody does who has had enough of escapes.
            8 => Value::String(public(&node).to_string()),
            9 => {
                let depth = *choices.choose(&[10, 127, 128, 129, 10_000])?;
                let (open, close) = *choices.choose(&[("[", "]"), ("{\"a\":", "}")])?;
                self.raw(format!("{}1{}", open.repeat(depth), close.repeat(depth)))
            }
            10 => {
                let other = &choices.choose(fixture::samples())?.event;
                let path = choose_node(other, choices)?;
                public(other.pointer(&path).unwrap_or_default())
            }
            _ => match node {
                Value::Object(fields) if !fields.is_empty() => self.rearrange(fields, choices)?,
                Value::Array(mut items) if !items.is_empty() => {
                    items.truncate(choices.int_in_range(0..=items.len() - 1)?);
                    Value::Array(items)
                }
                _ => self.value(choices)?,
            },
        };
        if let Some(node) = self.tree.pointer_mut(&path) {
            *node = changed;
        }
        Ok(())
    }

    fn rearrange(
        &mut self,
        mut fields: Map<String, Value>,
        choices: &mut Unstructured<'_>,
    ) -> Chosen<Value> {
        let names: Vec<String> = fields.keys().cloned().collect();
        let (one, other) = (choices.choose(&names)?, choices.choose(&names)?);
        match choices.int_in_range(0..=5)? {
            0 => drop(fields.remove(one)),
            // There twice, with another value or the same.
            1 | 2 => {
                let first = fields[one].to_string();
                let again = if choices.arbitrary()? {
                    fields[one].clone()
                } else {
                    self.value(choices)?
                };
                let twice = self.raw(format!("{first},{}:{again}", json!(one)));
                fields.insert(one.clone(), twice);
            }
            3 => drop(fields.insert(name(choices)?, self.value(choices)?)),
            4 => {
                let renamed = fields.remove(one).as_ref().map(public);
                fields.insert(name(choices)?, renamed.unwrap_or_default());
            }
            _ => {
                let (a, b) = (public(&fields[one]), public(&fields[other]));
                if one != other {
                    fields.insert(one.clone(), b);
                    fields.insert(other.clone(), a);
                }
            }
        }
        Ok(Value::Object(fields))
    }

    /// A value that is wrong in most places.
    fn value(&mut self, choices: &mut Unstructured<'_>) -> Chosen<Value> {
        let length = *choices.choose(&LENGTHS)?;
        Ok(match choices.int_in_range(0..=39)? {
            0 => Value::String("x".repeat(length)),
            1 => Value::String("\u{e9}".repeat(length / 2)),
            // Each character is six in JSON.
            2 => Value::String("\u{1}".repeat(length / 2)),
            3 => Value::String("\"".repeat(length)),
            4 if choices.ratio(1, 50)? => match choices.int_in_range(0..=2)? {
                0 => Value::String("x".repeat(*choices.choose(&[300_000, 6_000_000])?)),
                // Small in the event, and large in memory.
                1 => self.raw(format!("[{}0]", "[1],".repeat(130_000))),
                _ => self.raw(format!("[{}0]", r#"{"":0},"#.repeat(130_000))),
            },
            5 => (0..length % 150).map(|n| format!("k{n}")).collect(),
            6 => json!(choices.arbitrary::<u64>()?),
            7 => json!(f64::from(choices.int_in_range(0..=100_000_000)?) / 1000.0),
            8..=11 => Value::String(GIVEN.to_owned()),
            12..=23 => {
                let words: Vec<_> = RAW.split_whitespace().collect();
                self.raw((*choices.choose(&words)?).to_owned())
            }
            _ => Value::String(part(TEXTS, choices)?),
        })
    }

    fn raw(&mut self, text: String) -> Value {
        self.raw.push(text);
        placeholder(self.raw.len() - 1)
    }
}

fn placeholder(n: usize) -> Value {
    Value::String(format!("@raw {n}@"))
}

fn name(choices: &mut Unstructured<'_>) -> Chosen<String> {
    if choices.ratio(1, 30)? {
        return Ok("n".repeat(*choices.choose(&LENGTHS)?));
    }
    if choices.ratio(1, 4)? {
        return part(NAMES, choices);
    }
    let sample = choices.choose(fixture::samples())?;
    let path = choose_node(&sample.event, choices)?;
    Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
}

/// One of the parts between bars.
pub fn part(parts: &str, choices: &mut Unstructured<'_>) -> Chosen<String> {
    let parts: Vec<_> = parts.split('|').collect();
    Ok((*choices.choose(&parts)?).to_owned())
}

/// A value that is a secret in its place is none in another's: there it may be shown.
pub fn public(value: &Value) -> Value {
    let text = value.to_string().replace(MARK, "public");
    serde_json::from_str(&text).unwrap_or_default()
}

/// The JSON pointer of this value or of one below it.
fn choose_node(value: &Value, choices: &mut Unstructured<'_>) -> Chosen<String> {
    fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
        paths.push(path.to_owned());
        match value {
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    collect(item, &format!("{path}/{n}"), paths);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    collect(value, &format!("{path}/{name}"), paths);
                }
            }
            _ => {}
        }
    }
    let mut paths = Vec::new();
    collect(value, "", &mut paths);
    Ok(choices.choose(&paths)?.clone())
}

/// A change of the text that knows nothing of what it means.
pub fn corrupt(text: &mut Vec<u8>, choices: &mut Unstructured<'_>) -> Chosen<()> {
    if text.is_empty() {
        return Ok(());
    }
    let at = choices.choose_index(text.len())?;
    let until = (at + choices.int_in_range(1..=40)?).min(text.len());
    let byte: u8 = choices.arbitrary()?;
    match choices.int_in_range(0..=7)? {
        0 => text.truncate(at),
        1 => text[at] = byte,
        2 => text[at] ^= 1 << (byte % 8),
        3 => text.insert(at, byte),
        4 => drop(text.drain(at..until)),
        5 => {
            let again = text[at..until].to_vec();
            text.splice(at..at, again);
        }
        6 => text.insert(at, *choices.choose(b"{}[]\",:\\0-.eE \n\0")?),
        _ => text.extend_from_slice(b" {}"),
    }
    Ok(())
}
