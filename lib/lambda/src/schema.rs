//! JSON Schemas (draft 2020-12) of the events, responses and errors of the functions; `docs/reference/schemas/` has them as files.
//!
//! They come from the Rust types. Types that read or write their JSON by hand have handwritten schemas. A schema
//! cannot say everything: lengths are in bytes and JSON Schema counts characters, and whether a ttl is longer than
//! the guard depends on the stack. So a function may refuse an event that a schema accepts.

use leasehold::{Contention, ErrorKind, HeldLease};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Map, Value, json};

mod events;
pub mod rules;

/// The schema of an event that a function takes. Fields that are not in it are refused.
#[must_use]
pub fn event<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    without_null(&mut schema);
    finished(schema, title)
}

/// The schema of a function's response. A later version may add fields, so unknown fields are accepted.
#[must_use]
pub fn answer<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    open(&mut schema);
    finished(schema, title)
}

/// The schema of a failed call: what Lambda returns, and what a Catch finds in its Cause.
#[must_use]
pub fn error() -> Value {
    let names = ErrorKind::ALL.map(|kind| {
        let description = format!("{} {}", kind.fact, kind.cure);
        json!({"const": kind.name, "description": description})
    });
    let message = json!({
        "type": "object",
        "properties": {
            "message": {"description": "What happened, as text for people.", "type": "string"},
            "key": {"description": "The key in the request, if it names one.", "type": "string"},
            "pool": {"description": "In place of the key: the pool in the request.", "type": "string"},
            "field": {"description": "Of Lease.Invalid: the field at fault, with dots between levels.", "type": "string"},
            "by": {"description": "Of Lease.Superseded: who came later and waits, or waited, instead.", "type": "string"},
        },
        "required": ["message"],
    });
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let held = generator.root_schema_for::<HeldLease>().to_value();
    let contention = generator.root_schema_for::<Contention>().to_value();
    let mut fields = held["properties"].clone();
    let required = held["required"].as_array().cloned().unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        for name in ["retry_at", "wait_seconds"] {
            fields.insert(name.to_owned(), contention["properties"][name].clone());
        }
    }
    let mut definitions = held["$defs"].clone();
    definitions["Message"] = message;
    definitions["HeldMessage"] = json!({
        "description": "Of Lease.Held: who holds the key, and when to ask again. The metadata is cut to 1 KB.",
        "$ref": "#/$defs/Message",
        "properties": fields,
        "required": required,
        "anyOf": held["anyOf"],
        "dependentRequired": {"expires_at": ["retry_at", "wait_seconds"]},
    });
    let of = |message: &str| {
        let content = json!({"$ref": format!("#/$defs/{message}")});
        json!({"properties": {"errorMessage": {"contentSchema": content}}})
    };
    let mut schema = Schema::default();
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "A call that failed. Retry and Catch of a state machine match the whole errorType.",
        "type": "object",
        "properties": {
            "errorType": {"description": "The name of the error.", "oneOf": names},
            "errorMessage": {
                "description": "One JSON object as text: parse it.",
                "type": "string",
                "contentMediaType": "application/json",
            },
        },
        "required": ["errorType", "errorMessage"],
        "if": {"properties": {"errorType": {"const": "Lease.Held"}}},
        "then": of("HeldMessage"),
        "else": of("Message"),
        "$defs": definitions,
    });
    if let Value::Object(root) = root {
        *schema.ensure_object() = root;
    }
    open(&mut schema);
    finished(schema, "error")
}

/// The schema with its title, and without what only Rust needs.
fn finished(mut schema: Schema, title: &str) -> Value {
    plain(&mut schema);
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// Null is not accepted for a field that is left out.
fn without_null(schema: &mut Schema) {
    transform_subschemas(&mut without_null, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|one| one["type"] != "null");
        if let [Value::Object(one)] = &any[..] {
            let one = one.clone();
            object.remove("anyOf");
            object.extend(one);
        }
    }
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
}

/// Accepts any further field.
fn open(schema: &mut Schema) {
    transform_subschemas(&mut open, schema);
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
}

/// Removes formats that only Rust has, and the line ends and marks of doc comments.
fn plain(schema: &mut Schema) {
    transform_subschemas(&mut plain, schema);
    let Some(object): Option<&mut Map<String, Value>> = schema.as_object_mut() else {
        return;
    };
    let is_rusts = |format: &Value| format.as_str().is_some_and(|name| name.starts_with("uint"));
    if object.get("format").is_some_and(is_rusts) {
        object.remove("format");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        *text = words.replace('`', "");
    }
}
