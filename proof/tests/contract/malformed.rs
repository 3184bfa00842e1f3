//! What no function accepts: the refusal names the field, echoes nothing, and the table is never asked.

use std::collections::BTreeMap;

use leasehold_proof::fixture::{Fixture, event};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    read,
    runner::{remove, set, texts},
    schemas,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Malformed {
    /// Of each sample event, each field and what it must not be; `<absent>` is that it is not there.
    fields: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
    others: Vec<Other>,
}

/// A request that is refused because of another field than the one that is wrong, or of none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    function: Option<String>,
    /// As it is sent.
    text: Option<String>,
    event: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    remove: Vec<String>,
    field: Option<String>,
}

/// Function, request, and the field that the refusal names.
pub fn requests() -> Vec<(String, String, Option<String>)> {
    let malformed: Malformed = read("proof/tests/contract/cases/malformed.yaml");
    let function = |event: &str| event.split('-').next().unwrap().to_owned();
    let mut all = Vec::new();
    for (name, fields) in malformed.fields {
        for (field, values) in fields {
            for value in values {
                let mut request = event(&name);
                match value.as_str() {
                    Some("<absent>") => remove(&mut request, &field),
                    _ => set(&mut request, &field, texts(&value)),
                }
                all.push((function(&name), request.to_string(), Some(field.clone())));
            }
        }
    }
    for other in malformed.others {
        let mut request = other.event.as_deref().map_or_else(|| json!({}), event);
        for path in &other.remove {
            remove(&mut request, path);
        }
        for (path, value) in &other.set {
            set(&mut request, path, texts(value));
        }
        let named = other.event.as_deref().map(function);
        let request = other.text.unwrap_or_else(|| request.to_string());
        all.push((other.function.or(named).unwrap(), request, other.field));
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    all.push(("acquire".to_owned(), deep, None));
    // As large as Lambda takes them.
    let mut large = event("extend");
    large["lease"]["lease_id"] = json!("hunter2".repeat(6 * 1024 * 1024 / 7 - 100));
    all.push((
        "extend".to_owned(),
        large.to_string(),
        Some("lease.lease_id".to_owned()),
    ));
    let keys: Vec<_> = (0..101).map(|n| format!("k{n}")).collect();
    let mut too_many = event("acquire-keys");
    too_many["keys"] = json!(keys);
    all.push((
        "acquire".to_owned(),
        too_many.to_string(),
        Some("keys".to_owned()),
    ));
    let handle = event("extend")["lease"].clone();
    for (function, request, field) in [
        ("extend", json!({"leases": [handle, handle]}), "leases"),
        (
            "extend",
            json!({"leases": [handle], "lease": handle}),
            "leases",
        ),
        (
            "extend",
            json!({"leases": [handle, {"key": "k"}]}),
            "leases.1.holder",
        ),
        ("release", json!({"leases": vec![&handle; 101]}), "leases"),
    ] {
        all.push((
            function.to_owned(),
            request.to_string(),
            Some(field.to_owned()),
        ));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_request_names_field_changes_nothing() {
    let fixture = Fixture::start().await;
    fixture.stack.proxy().reset();
    for (function, request, field) in requests() {
        let shown: String = request.chars().take(200).collect();
        let answer = fixture.call(&function, &request).await;
        schemas::check(&function, &answer);
        let (name, message) = answer.expect_err(&shown);
        assert_eq!(name, "Lease.Invalid", "{shown}");
        assert_eq!(
            message["field"].as_str(),
            field.as_deref(),
            "{shown}: {message}"
        );
        let text = message["message"].as_str().unwrap();
        assert!(!text.is_empty(), "{shown}");
        for jargon in ["struct ", "u16", "sequence", "a map", "hunter2"] {
            assert!(!message.to_string().contains(jargon), "{shown}: {message}");
        }
    }
    let requests = fixture.stack.proxy().counts().total();
    assert_eq!(requests, 0, "the table was never asked");
}
