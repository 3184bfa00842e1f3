//! The conditional writes in a request's body, to be looked at and to be changed.

use std::collections::HashMap;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use aws_smithy_types::base64;
use leasehold::row::Item;
use serde_json::{Map, Value};

use super::{condition::Condition, mutants::Update};

/// Partition key and sort key.
pub type Place = (String, String);

/// A conditional write, as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub place: Place,
    pub condition: Condition,
    pub update: Update,
    /// By name, without the colon.
    pub values: Item,
    /// Which request it was part of.
    pub request: usize,
}

impl Sent {
    pub fn form(&self) -> String {
        form(&self.condition)
    }
}

/// What is the same of all writes of a kind: the condition, whichever place in the queue it asks for.
pub fn form(condition: &Condition) -> String {
    any_place(&condition.to_string())
}

/// The text without the place at which somebody is to stand.
pub fn any_place(text: &str) -> String {
    let mut parts = text.split("#queue[");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once(']').unwrap();
        let place = if rest.starts_with(" = :request") {
            "n"
        } else {
            place
        };
        whole.extend(["#queue[", place, "]", rest]);
    }
    whole
}

/// A mistake to be made in every write of one form.
#[derive(Clone, Debug)]
pub struct Mistake {
    pub form: String,
    pub what: String,
    pub kind: Kind,
    /// Which steps make such writes.
    pub steps: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// Other conditions in the place of those that were sent, by their text.
    Condition(HashMap<String, Condition>),
    /// The update without this part.
    Update,
}

/// Changes the writes of a body by `change`, which returns whether it has changed anything.
pub fn rewritten(
    operation: &str,
    body: &[u8],
    mut change: impl FnMut(&mut Sent) -> bool,
) -> Option<Vec<u8>> {
    if !["UpdateItem", "DeleteItem", "TransactWriteItems"].contains(&operation) {
        return None;
    }
    let mut request: Value = serde_json::from_slice(body).unwrap();
    let mut changed = false;
    for write in writes(&mut request) {
        if let Some(mut sent) = read(write)
            && change(&mut sent)
        {
            put(write, &sent);
            changed = true;
        }
    }
    changed.then(|| serde_json::to_vec(&request).unwrap())
}

/// The body as a client would send it that makes this mistake.
pub fn mistaken(operation: &str, body: &[u8], mistake: &Mistake) -> Option<Vec<u8>> {
    rewritten(operation, body, |sent| {
        if sent.form() != mistake.form {
            return false;
        }
        match &mistake.kind {
            Kind::Condition(others) => match others.get(&sent.condition.to_string()) {
                Some(other) => sent.condition = other.clone(),
                None => return false,
            },
            Kind::Update => {
                let mut without = sent.update.mutants().into_iter();
                match without.find(|(what, _)| *what == mistake.what) {
                    Some((_, update)) => sent.update = update,
                    None => return false,
                }
            }
        }
        true
    })
}

fn writes(request: &mut Value) -> Vec<&mut Map<String, Value>> {
    if request.get("TransactItems").is_none() {
        return request.as_object_mut().into_iter().collect();
    }
    let items = request["TransactItems"].as_array_mut();
    let items = items.into_iter().flatten();
    let items = items.filter_map(|item| item.as_object_mut());
    let writes = items.flat_map(|item| item.values_mut());
    writes.filter_map(Value::as_object_mut).collect()
}

fn read(write: &Map<String, Value>) -> Option<Sent> {
    let text = |name: &str| write.get(name)?.as_str().map(within_limits);
    let condition = Condition::parse(text("ConditionExpression")?);
    let key = attributes(write.get("Key")?);
    let part = |name: &str| key[name].as_s().unwrap().clone();
    let values = write.get("ExpressionAttributeValues").map(attributes);
    let values = values.unwrap_or_default().into_iter();
    Some(Sent {
        place: (part("pk"), part("sk")),
        condition,
        update: Update::parse(text("UpdateExpression").unwrap_or_default()),
        values: values
            .map(|(name, value)| (name.trim_start_matches(':').to_owned(), value))
            .collect(),
        request: 0,
    })
}

/// Not every engine has DynamoDB's limits: 4 KB, and 300 operators and functions. This counts at least as many as it does.
fn within_limits(text: &str) -> &str {
    let words = [
        "AND", "OR", "NOT", "BETWEEN", "IN", "+", "=", "<", ">", "<=", ">=", "<>",
    ];
    let operators = text.split_whitespace().filter(|word| words.contains(word));
    let operators = operators.count() + text.matches('(').count();
    assert!(text.len() < 4096 && operators <= 300, "{text}");
    text
}

/// DynamoDB refuses names and values that are not mentioned.
fn put(write: &mut Map<String, Value>, sent: &Sent) {
    let condition = sent.condition.to_string();
    let mut both = condition.clone();
    write.insert("ConditionExpression".to_owned(), condition.into());
    if let Some(update) = write.get_mut("UpdateExpression") {
        let text = sent.update.to_string();
        both = format!("{both} {text}");
        *update = text.into();
    }
    let mentioned = |sigil: char| {
        let words = both.split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c)));
        words.filter(move |word| word.starts_with(sigil))
    };
    let names: Map<String, Value> = mentioned('#')
        .map(|name| (name.to_owned(), name.trim_start_matches('#').into()))
        .collect();
    write.insert("ExpressionAttributeNames".to_owned(), names.into());
    let values = write.remove("ExpressionAttributeValues");
    let values: Map<String, Value> = mentioned(':')
        .map(|name| (name.to_owned(), values.as_ref().unwrap()[name].clone()))
        .collect();
    if !values.is_empty() {
        write.insert("ExpressionAttributeValues".to_owned(), values.into());
    }
}

/// An item of a request.
pub fn attributes(object: &Value) -> Item {
    let entries = object.as_object().into_iter().flatten();
    entries
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect()
}

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let text = || value.as_str().unwrap().to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "B" => AttributeValue::B(Blob::new(base64::decode(text()).unwrap())),
        "N" => AttributeValue::N(text()),
        "BOOL" => AttributeValue::Bool(value.as_bool().unwrap()),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(attribute).collect()),
        "M" => AttributeValue::M(HashMap::from_iter(attributes(value))),
        other => panic!("{other} is not known here"),
    }
}
