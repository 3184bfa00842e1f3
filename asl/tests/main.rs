//! Reading, checking and weaving, each on whole definitions.
#![allow(clippy::unwrap_used, missing_docs)]

mod check;
mod random;
mod weave;

use leasehold_asl::{Checked, Node, Options, Source};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file, by its path in the repository.
fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn node(definition: &Value) -> Node {
    let source = Source::new("x.asl.json", definition.to_string());
    source.read().unwrap()
}

fn checked(definition: &Value) -> Checked {
    leasehold_asl::check(&node(definition), &Options::default())
}

/// The rule and state of each finding.
fn found(definition: &Value) -> Vec<String> {
    let findings = checked(definition).findings.into_iter();
    findings
        .map(|finding| format!("{} {}", finding.rule.id(), finding.state))
        .collect()
}

/// Sets the value at a JSON pointer. In a list it inserts the value there. Null removes the old value.
fn set(definition: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match definition.pointer_mut(parent).unwrap() {
        Value::Array(list) if value.is_null() => _ = list.remove(key.parse().unwrap()),
        Value::Array(list) => list.insert(key.parse().unwrap(), value.clone()),
        fields if value.is_null() => _ = fields.as_object_mut().unwrap().remove(key).unwrap(),
        fields => fields[key] = value.clone(),
    }
}
