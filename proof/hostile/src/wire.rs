//! Items in DynamoDB's JSON.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use leasehold::row::Item;
use serde_json::{Map, Value, json};

/// An item as text somebody can read and a test can change.
#[must_use]
pub fn to_json(item: &Item) -> Value {
    let fields = item.iter();
    Value::Object(
        fields
            .map(|(name, value)| (name.clone(), value_to_json(value)))
            .collect(),
    )
}

fn value_to_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::Bool(yes) => json!({"BOOL": yes}),
        // A byte is a letter of the same number: simpler for a mutator than base64.
        AttributeValue::B(blob) => {
            json!({"B": blob.as_ref().iter().copied().map(char::from).collect::<String>()})
        }
        AttributeValue::L(items) => {
            json!({"L": items.iter().map(value_to_json).collect::<Vec<_>>()})
        }
        AttributeValue::M(fields) => json!({"M": to_json(fields)}),
        AttributeValue::Ss(texts) => json!({"SS": texts}),
        AttributeValue::Ns(numbers) => json!({"NS": numbers}),
        _ => json!({"NULL": true}),
    }
}

/// The item that such a text says; none if it says none.
#[must_use]
pub fn to_item(value: &Value) -> Option<Item> {
    read_fields(value.as_object()?)
}

fn read_fields(fields: &Map<String, Value>) -> Option<Item> {
    let fields = fields.iter();
    fields
        .map(|(name, value)| Some((name.clone(), read(value)?)))
        .collect()
}

fn read(value: &Value) -> Option<AttributeValue> {
    let (kind, value) = value.as_object()?.iter().next()?;
    let text = || value.as_str().map(str::to_owned);
    let texts = || {
        let texts = value.as_array()?.iter();
        let texts: Option<Vec<_>> = texts.map(|text| text.as_str().map(str::to_owned)).collect();
        texts
    };
    Some(match kind.as_str() {
        "S" => AttributeValue::S(text()?),
        "N" => AttributeValue::N(text()?),
        "B" => AttributeValue::B(Blob::new(
            text()?.chars().map(|c| c as u8).collect::<Vec<_>>(),
        )),
        "BOOL" => AttributeValue::Bool(value.as_bool()?),
        "NULL" => AttributeValue::Null(value.as_bool()?),
        "L" => AttributeValue::L(value.as_array()?.iter().map(read).collect::<Option<_>>()?),
        "M" => AttributeValue::M(read_fields(value.as_object()?)?),
        "SS" => AttributeValue::Ss(texts()?),
        "NS" => AttributeValue::Ns(texts()?),
        _ => return None,
    })
}

/// The items of a key by their sort keys.
pub fn items(key: &str, json: &Value) -> Option<Vec<(String, String, Item)>> {
    let items = json.as_object()?.iter();
    let placed = |(sk, item): (&String, &Value)| Some((key.to_owned(), sk.clone(), to_item(item)?));
    items.map(placed).collect()
}
