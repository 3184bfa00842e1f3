//! An item as text: each value with the letter of its type, as DynamoDB's own JSON has it.

use leasehold::store::{AttributeValue, Blob, Item};
use serde_json::{Map, Value, json};

/// The text of an item.
pub(crate) fn text(item: &Item) -> String {
    Value::Object(fields(item)).to_string()
}

/// The item of a text; an empty one if it is none.
pub(crate) fn read(text: &str) -> Item {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => item(fields),
        _ => Item::new(),
    }
}

fn fields(item: &Item) -> Map<String, Value> {
    let fields = item.iter();
    fields
        .map(|(name, value)| (name.clone(), to_json(value)))
        .collect()
}

fn item(fields: Map<String, Value>) -> Item {
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name, of_json(value)?)))
        .collect()
}

fn to_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::B(bytes) => json!({"B": bytes.as_ref()}),
        AttributeValue::L(list) => json!({"L": list.iter().map(to_json).collect::<Vec<_>>()}),
        AttributeValue::M(fields) => json!({"M": self::fields(fields)}),
        AttributeValue::Bool(truth) => json!({"BOOL": truth}),
        // Leasehold writes no sets.
        _ => json!({"NULL": true}),
    }
}

fn of_json(value: Value) -> Option<AttributeValue> {
    let Value::Object(one) = value else {
        return None;
    };
    let (kind, value) = one.into_iter().next()?;
    Some(match (kind.as_str(), value) {
        ("S", Value::String(text)) => AttributeValue::S(text),
        ("N", Value::String(number)) => AttributeValue::N(number),
        ("B", bytes) => {
            AttributeValue::B(Blob::new(serde_json::from_value::<Vec<u8>>(bytes).ok()?))
        }
        ("BOOL", Value::Bool(truth)) => AttributeValue::Bool(truth),
        ("L", Value::Array(list)) => {
            AttributeValue::L(list.into_iter().filter_map(of_json).collect())
        }
        ("M", Value::Object(fields)) => AttributeValue::M(item(fields)),
        _ => AttributeValue::Null(true),
    })
}
