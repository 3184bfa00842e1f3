//! Reading, checking, drawing and weaving, each on whole definitions.
#![allow(clippy::unwrap_used, missing_docs)]

mod check;
mod weave;

use serde_json::Value;

/// Sets the value at a JSON pointer; in a list, inserts it there; null removes what is there.
fn set(definition: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match definition.pointer_mut(parent).unwrap() {
        Value::Array(list) if value.is_null() => _ = list.remove(key.parse().unwrap()),
        Value::Array(list) => list.insert(key.parse().unwrap(), value.clone()),
        fields if value.is_null() => _ = fields.as_object_mut().unwrap().remove(key).unwrap(),
        fields => fields[key] = value.clone(),
    }
}
