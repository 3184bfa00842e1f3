//! `docs/reference/schemas/`: what the functions take, answer and fail with, as JSON Schemas. They are written from the Rust types, agree
//! with the documents, and hold every answer that a test of the contract gets.

mod acquire;
mod page;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jsonschema::Validator;
use leasehold::{ErrorKind, Retriable};
use leasehold_proof::{
    fixture::{Answer, event, events},
    root,
};
use serde_json::{Value, json};

use crate::{malformed, read};

static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(written::schemas);

/// By name: `acquire.event`, `acquire.answer`, …, `error`.
static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let validators = SCHEMAS.iter().map(|(name, schema)| {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), validator)
    });
    validators.collect()
});

/// What is wrong with a value by a schema.
fn problems(schema: &str, value: &Value) -> Option<String> {
    let validator = VALIDATORS.get(schema);
    let validator = validator.unwrap_or_else(|| panic!("there is no schema {schema}"));
    let wrong = validator.iter_errors(value);
    let wrong: Vec<_> = wrong
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    (!wrong.is_empty()).then(|| format!("{schema}.json: {}\n{value}", wrong.join("; ")))
}

/// Checks what a function answered.
pub fn check(function: &str, answer: &Answer) {
    let wrong = match answer {
        Ok(answer) => problems(&format!("{function}.answer"), answer),
        Err((name, message)) => failure(name, message),
    };
    assert_eq!(wrong, None);
}

/// Checks what a task token got: what acquire would have answered, or a failed call.
pub fn check_notified(call: &Value) {
    let (output, cause) = (&call["output"], &call["cause"]);
    if output.is_object() {
        check("acquire", &Ok(output.clone()));
    }
    if let Some(name) = cause["errorType"].as_str() {
        check(
            "acquire",
            &Err((name.to_owned(), cause["errorMessage"].clone())),
        );
    }
}

/// Checks a failed call. No validator looks into the text of a message, so its schema is applied here.
fn failure(name: &str, message: &Value) -> Option<String> {
    let whole = json!({"errorType": name, "errorMessage": message.to_string()});
    if let Some(wrong) = problems("error", &whole) {
        return Some(wrong);
    }
    let error = &SCHEMAS["error"];
    let is_held = error["if"]["properties"]["errorType"]["const"] == name;
    let branch = &error[if is_held { "then" } else { "else" }];
    let content = &branch["properties"]["errorMessage"]["contentSchema"]["$ref"];
    let content = content.as_str().unwrap().rsplit('/').next().unwrap();
    problems(content, message)
}

fn function(event: &str) -> &str {
    event.split('-').next().unwrap()
}

#[test]
fn schemas_match_rust_types() {
    let directory = root().join("docs/reference/schemas");
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let mut old = Vec::new();
    for (name, schema) in written::files() {
        let (path, text) = (directory.join(&name), format!("{schema:#}\n"));
        if update {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            old.push(name);
        }
    }
    assert!(
        old.is_empty(),
        "{old:?} are old: UPDATE_SCHEMAS=1 cargo test --locked --workspace --test contract schemas"
    );
    let written: Vec<_> = written::files().into_iter().map(|(name, _)| name).collect();
    for file in std::fs::read_dir(directory).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(written.contains(&name), "schemas/{name} is of no type");
    }
}

/// What answers something else than what became of a request, and the one field that it has.
const WITHOUT_OUTCOME: [(&str, &str); 3] = [
    ("inspect.answer", "leases"),
    ("reap.answer", "batchItemFailures"),
    ("start.answer", "batchItemFailures"),
];

#[test]
fn every_answer_has_an_outcome() {
    fn requires(root: &Value, schema: &Value, other: Option<&str>) -> bool {
        let names = schema["required"].as_array();
        let kinds = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        let place = schema["$ref"].as_str();
        let place = place.and_then(|place| root.pointer(place.trim_start_matches('#')));
        names.is_some_and(|names| {
            names.contains(&"outcome".into()) || json!(names) == json!([other])
        }) || kinds.is_some_and(|kinds| kinds.iter().all(|kind| requires(root, kind, other)))
            || place.is_some_and(|place| requires(root, place, other))
    }
    for (name, schema) in SCHEMAS.iter().filter(|(name, _)| name.ends_with(".answer")) {
        let other = WITHOUT_OUTCOME.iter().find(|(of, _)| of == name);
        let other = other.map(|(_, field)| *field);
        assert!(requires(schema, schema, other), "{name}");
    }
}

#[test]
fn descriptions_have_no_rust_words() {
    fn walk(path: &str, value: &Value, wrong: &mut Vec<String>) {
        if let Some(text) = value["description"].as_str()
            && ["[`", "::", "crate"].iter().any(|rust| text.contains(rust))
        {
            wrong.push(format!("{path}: {text}"));
        }
        for (name, field) in value["properties"].as_object().into_iter().flatten() {
            // Of a rule, fields are described elsewhere; the outcome tells one answer from another.
            let is_rule = !field.is_object()
                || !field["const"].is_null()
                || field.get("type").is_none() && field.get("$ref").is_none();
            if !is_rule && field["description"].is_null() {
                wrong.push(format!("{path}/{name}: no description"));
            }
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields.iter().filter(|(name, _)| *name != "if") {
                    walk(&format!("{path}/{name}"), field, wrong);
                }
            }
            Value::Array(all) => {
                for (at, one) in all.iter().enumerate() {
                    walk(&format!("{path}/{at}"), one, wrong);
                }
            }
            _ => {}
        }
    }
    let mut wrong = Vec::new();
    for (name, schema) in written::files() {
        walk(&name, &schema, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_invalid_samples_misfit_schemas() {
    let list: BTreeMap<String, Value> = read("local/scenes.yaml");
    for (name, expected) in list {
        let wrong = problems(&format!("{}.event", function(&name)), &event(&name));
        let is_invalid = expected["error"] == "Lease.Invalid";
        assert_eq!(wrong.is_some(), is_invalid, "{name}: {wrong:?}");
    }
    assert!(events().join("acquire-invalid.json").exists());
}

/// So that the boundary refuses whatever key or holder is not the caller's, in whichever field it stands.
#[test]
fn request_names_all_keys_and_holders() {
    fn walk<'a>(name: &str, value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text)
                if ["key", "keys", "pool", "holder", "request_id"].contains(&name) =>
            {
                found.push(text);
            }
            Value::Object(fields) if name == "pool" => {
                found.extend(fields["name"].as_str());
            }
            Value::Array(all) => all.iter().for_each(|one| walk(name, one, found)),
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(name, _)| *name != "metadata");
                fields.for_each(|(name, field)| walk(name, field, found));
            }
            _ => {}
        }
    }
    let mut fields = BTreeSet::new();
    for (name, expected) in read::<BTreeMap<String, Value>>("local/scenes.yaml") {
        let whole_table = ["reap", "sweep"].contains(&function(&name));
        if whole_table || expected["error"] == "Lease.Invalid" {
            continue;
        }
        let event = event(&name);
        let named = written::names(function(&name), &event);
        let mut found = Vec::new();
        walk("", &event, &mut found);
        for text in found {
            assert!(
                named.contains(&format!("{text:?}")),
                "{name}: {text} is not in {named}"
            );
        }
        for flag in ["reentrant", "list"] {
            if event[flag] == true {
                fields.insert(flag);
                assert!(named.contains(&format!("{flag}: true")), "{name}: {named}");
            }
        }
        let of_function = |field: &&str| event.get(field).is_some();
        fields.extend(
            ["key", "keys", "pool", "holder", "lease", "leases"]
                .iter()
                .copied()
                .filter(of_function),
        );
    }
    // Each of them stands in some sample.
    assert_eq!(fields.len(), 8, "{fields:?}");
}

/// What only the function sees: how many bytes all metadata has, whether a ttl is longer than the guard, whether a holder is
/// an execution that may be looked up, what an input has in it, whether two handles are of the same lease, whether a key is that
/// of a pool. Function, field, and how its value begins.
const BEYOND_SCHEMAS: [&str; 14] = [
    "acquire metadata {\"a\":\"xxxxxxxxxxxxxx",
    "acquire ttl_seconds 1",
    "acquire holder \"somebody\"",
    "acquire holder \"arn:aws:states:us-e",
    "acquire ttl_seconds 1",
    "extend ttl_seconds 60",
    "extend ttl_seconds 1",
    "acquire holder \"a process\"",
    "acquire pool.name \"leasehold pool impo",
    "acquire key \"leasehold pool impo",
    "start input \"{\\\"order\\\": 1}\"",
    "start input {\"leasehold\":1}",
    "start caller \"worker 7\"",
    "extend leases [{\"acquired_at\":\"202",
];

#[test]
fn schemas_refuse_what_functions_refuse() {
    let mut beyond = Vec::new();
    for (function, request, field) in malformed::requests() {
        let Ok(event) = serde_json::from_str::<Value>(&request) else {
            continue;
        };
        if problems(&format!("{function}.event"), &event).is_none() {
            let field = field.unwrap_or_default();
            let value = event.pointer(&format!("/{}", field.replace('.', "/")));
            let shown: String = value.map(Value::to_string).unwrap_or_default();
            beyond.push(format!(
                "{function} {field} {}",
                shown.chars().take(20).collect::<String>()
            ));
        }
    }
    assert_eq!(beyond, BEYOND_SCHEMAS);
}

/// The page's table of errors, written from the library's.
#[test]
fn errors_page_has_librarys_table() {
    let row = |kind: ErrorKind| {
        let ErrorKind {
            name,
            fact,
            cure,
            exit_code,
            ..
        } = kind;
        let retry = match kind.retry {
            Retriable::No => "no",
            Retriable::Later => "later",
            Retriable::OutcomeUnknown => "yes, the same request",
        };
        format!("| `{name}` | {fact} | {cure} | {retry} | {exit_code} |\n")
    };
    let rows: String = ErrorKind::ALL.into_iter().map(row).collect();
    let path = root().join("docs/reference/errors.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("|---|---|---|---|---|\n").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let written = format!("{before}|---|---|---|---|---|\n{rows}\n{after}");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &written).unwrap();
    } else {
        assert_eq!(
            page, written,
            "docs/reference/errors.md is old: see the schemas"
        );
    }
}

#[test]
fn every_error_has_own_fact() {
    let facts = BTreeSet::from(ErrorKind::ALL.map(|kind| kind.fact));
    assert_eq!(facts.len(), ErrorKind::ALL.len());
}
