//! Capacity units: the proxy requests them for the client, and reads them from the responses.

use std::ops::{Add, AddAssign, Sub};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The operations whose responses contain the consumed capacity on request.
const REPORTING: [&str; 10] = [
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
];
const ASK: &str = "\"ReturnConsumedCapacity\":\"TOTAL\",";
const CONSUMED: &str = "ConsumedCapacity";

/// Capacity units. All of them are multiples of a half, so sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Units {
    /// Write units of accepted writes, including indexes, as the database reports.
    pub write: f64,
    /// Read units, as the database reports.
    pub read: f64,
    /// Write units of refused writes. No response contains them, but the service charges them: one
    /// for each KB of the item, and at least one. The count uses the stored item if the refusal carries
    /// it, and one unit otherwise. For a cancelled transaction it is twice as much for each item, as if it had been
    /// written.
    pub refused: f64,
}

impl Units {
    /// All units that are charged as writes.
    #[must_use]
    pub fn writing(self) -> f64 {
        self.write + self.refused
    }

    /// The cost of a response to `operation`.
    pub(super) fn of(operation: &str, answer: &[u8]) -> Self {
        let Ok(answer) = serde_json::from_slice::<Answer>(answer) else {
            return Self::default();
        };
        let refused = answer.refused();
        let consumed = match answer.consumed {
            Some(Consumed::One(consumed)) => vec![consumed],
            Some(Consumed::PerTable(consumed)) => consumed,
            None => Vec::new(),
        };
        let of_reading = matches!(
            operation,
            "BatchGetItem" | "GetItem" | "Query" | "Scan" | "TransactGetItems"
        );
        let units = consumed.into_iter().map(|consumed| {
            let (read, write) = match (consumed.read, consumed.write) {
                // An operation that does not separate them only reads or only writes.
                (None, None) if of_reading => (consumed.units, 0.0),
                (None, None) => (0.0, consumed.units),
                (read, write) => (read.unwrap_or(0.0), write.unwrap_or(0.0)),
            };
            Self {
                write,
                read,
                refused: 0.0,
            }
        });
        let refused = Self {
            refused,
            ..Self::default()
        };
        units.fold(refused, Add::add)
    }
}

impl Add for Units {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            write: self.write + other.write,
            read: self.read + other.read,
            refused: self.refused + other.refused,
        }
    }
}

impl AddAssign for Units {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Units {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            write: self.write - other.write,
            read: self.read - other.read,
            refused: self.refused - other.refused,
        }
    }
}

/// The relevant fields of a response.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "ConsumedCapacity")]
    consumed: Option<Consumed>,
    #[serde(rename = "__type", default)]
    error: String,
    #[serde(rename = "Item")]
    item: Option<Map<String, Value>>,
    #[serde(rename = "CancellationReasons", default)]
    reasons: Vec<Reason>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Consumed {
    One(Capacity),
    PerTable(Vec<Capacity>),
}

#[derive(Deserialize)]
struct Capacity {
    #[serde(rename = "CapacityUnits")]
    units: f64,
    #[serde(rename = "ReadCapacityUnits")]
    read: Option<f64>,
    #[serde(rename = "WriteCapacityUnits")]
    write: Option<f64>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "Code", default)]
    code: String,
    #[serde(rename = "Item")]
    item: Option<Map<String, Value>>,
}

impl Answer {
    fn refused(&self) -> f64 {
        if self.error.ends_with("ConditionalCheckFailedException") {
            return kilobytes(self.item.as_ref());
        }
        let conditional = |reason: &Reason| reason.code == "ConditionalCheckFailed";
        if !self.reasons.iter().any(conditional) {
            return 0.0;
        }
        let items = self.reasons.iter();
        items
            .map(|reason| 2.0 * kilobytes(reason.item.as_ref()))
            .sum()
    }
}

/// The size of an item in KB, rounded up. One if it is unknown.
fn kilobytes(item: Option<&Map<String, Value>>) -> f64 {
    let bytes: usize = item.map_or(0, |item| {
        item.iter()
            .map(|(name, value)| name.len() + size(value))
            .sum()
    });
    f64::from(u32::try_from(bytes.div_ceil(1024).max(1)).unwrap_or(u32::MAX))
}

/// The size of a typed value. A number has half a byte for each digit and one more. A list or a map has three bytes, and
/// one for each member.
fn size(typed: &Value) -> usize {
    let Some((kind, value)) = typed.as_object().and_then(|typed| typed.iter().next()) else {
        return 0;
    };
    match (kind.as_str(), value) {
        ("N", Value::String(digits)) => number(digits),
        ("B", Value::String(coded)) => coded.len() / 4 * 3,
        (_, Value::String(text)) => text.len(),
        ("L", Value::Array(members)) => {
            3 + members.iter().map(|member| 1 + size(member)).sum::<usize>()
        }
        ("NS", Value::Array(members)) => {
            let numbers = members.iter().filter_map(Value::as_str);
            numbers.map(number).sum()
        }
        (_, Value::Array(members)) => members.iter().filter_map(Value::as_str).map(str::len).sum(),
        (_, Value::Object(members)) => {
            3 + members
                .iter()
                .map(|(name, member)| 1 + name.len() + size(member))
                .sum::<usize>()
        }
        _ => 1,
    }
}

fn number(digits: &str) -> usize {
    digits.len().div_ceil(2) + 1
}

/// The same request with a request for its consumed capacity. None if it has one already, or does not support it.
pub(super) fn ask(operation: &str, body: &Bytes) -> Option<Bytes> {
    let open = body.iter().position(|byte| *byte == b'{')?;
    if !REPORTING.contains(&operation) || asks(body) {
        return None;
    }
    // Inserted, so that all other bytes stay as sent.
    let (before, after) = body.split_at(open + 1);
    Some([before, ASK.as_bytes(), after].concat().into())
}

fn asks(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Asked {
        #[serde(rename = "ReturnConsumedCapacity")]
        how: Option<String>,
    }
    matches!(serde_json::from_slice(body), Ok(Asked { how: Some(_) }))
}

/// How many bytes of a response exist only because of the proxy's request.
pub(super) fn added(answer: &[u8]) -> usize {
    let Ok(answer) = serde_json::from_slice::<Map<String, Value>>(answer) else {
        return 0;
    };
    // Both are compact JSON. The name adds two quotes and a colon, and another member adds a comma.
    let comma = usize::from(answer.len() > 1);
    answer.get(CONSUMED).map_or(0, |consumed| {
        CONSUMED.len() + 3 + consumed.to_string().len() + comma
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn units(write: f64, read: f64, refused: f64) -> Units {
        Units {
            write,
            read,
            refused,
        }
    }

    fn of(operation: &str, answer: &Value) -> Units {
        Units::of(operation, answer.to_string().as_bytes())
    }

    #[test]
    fn reported_units_are_reads_or_writes() {
        let one = json!({"ConsumedCapacity": {"TableName": "rows", "CapacityUnits": 2.0}});
        assert_eq!(of("PutItem", &one), units(2.0, 0.0, 0.0));
        assert_eq!(of("Query", &one), units(0.0, 2.0, 0.0));
        let tables = json!({"ConsumedCapacity": [
            {"CapacityUnits": 4.0, "WriteCapacityUnits": 4.0},
            {"CapacityUnits": 2.0, "ReadCapacityUnits": 2.0},
        ]});
        assert_eq!(of("TransactWriteItems", &tables), units(4.0, 2.0, 0.0));
        assert_eq!(of("GetItem", &json!({"Item": {}})), Units::default());
        assert_eq!(Units::of("GetItem", b"no JSON"), Units::default());
    }

    #[test]
    fn refused_write_costs_stored_item_size() {
        let name = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        let large = json!({"pk": {"S": "a"}, "text": {"S": "x".repeat(1500)}});
        let unknown = json!({"__type": name});
        assert_eq!(of("UpdateItem", &unknown), units(0.0, 0.0, 1.0));
        let carried = json!({"__type": name, "Item": large});
        assert_eq!(of("UpdateItem", &carried), units(0.0, 0.0, 2.0));
        let cancelled = |code: &str| {
            json!({"__type": "x#TransactionCanceledException", "CancellationReasons": [
                {"Code": "None"}, {"Code": code, "Item": large},
            ]})
        };
        let refused = of("TransactWriteItems", &cancelled("ConditionalCheckFailed"));
        assert_eq!(refused, units(0.0, 0.0, 6.0));
        assert!((refused.writing() - 6.0).abs() < 1e-9);
        let conflict = of("TransactWriteItems", &cancelled("TransactionConflict"));
        assert_eq!(conflict, Units::default());
    }

    #[test]
    fn item_size_counts_names_and_values() {
        assert_eq!(size(&json!({"S": "abc"})), 3);
        assert_eq!(size(&json!({"N": "1795228800125"})), 8);
        assert_eq!(size(&json!({"BOOL": true})), 1);
        assert_eq!(size(&json!({"L": [{"S": "ab"}]})), 6);
        assert_eq!(size(&json!({"M": {"k": {"S": "ab"}}})), 7);
        assert_eq!(size(&json!({"SS": ["ab", "c"]})), 3);
    }
}
