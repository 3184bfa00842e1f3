//! What the pages and the examples show passes `leasehold check`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::fixture::{LEASEHOLD, Ran};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(directory: &Path, ends: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                found.extend(files(&path, ends));
            }
        } else if path.to_string_lossy().ends_with(ends) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn check(machine: &Path) -> Ran {
    Command::new(LEASEHOLD)
        .arg("check")
        .arg(machine)
        .output()
        .unwrap()
        .into()
}

/// The states of a block, or none if it shows something else.
fn states(block: &str) -> Option<Map<String, Value>> {
    let whole: Value = serde_json::from_str(block)
        .or_else(|_| serde_json::from_str(&format!("{{{block}}}")))
        .ok()?;
    let states = whole.get("States").unwrap_or(&whole).as_object()?;
    let is_state = |state: &Value| state.get("Type").is_some();
    (!states.is_empty() && states.values().all(is_state)).then(|| states.clone())
}

fn targets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for name in ["Next", "Default"] {
                found.extend(fields.get(name).and_then(Value::as_str).map(str::to_owned));
            }
            fields.values().for_each(|value| targets(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| targets(value, found)),
        _ => {}
    }
}

/// A machine of these states, in which what they lead to is a step with a time limit.
fn machine(block: &str) -> Option<Value> {
    let mut states = states(block)?;
    let first = block
        .split('"')
        .nth(1)
        .filter(|name| states.contains_key(*name));
    let whole: Option<Value> = serde_json::from_str(block).ok();
    let begins = whole
        .as_ref()
        .and_then(|whole| whole["StartAt"].as_str())
        .or(first)?
        .to_owned();
    let language = if block.contains("Arguments") || block.contains("{%") {
        "JSONata"
    } else {
        "JSONPath"
    };
    let mut leads_to = Vec::new();
    states
        .values()
        .for_each(|state| targets(state, &mut leads_to));
    // What is left out leads to what nothing else leads to.
    let mut rest = states
        .keys()
        .filter(|name| **name != begins && !leads_to.contains(name));
    let (field, next) = match rest.next() {
        Some(next) => ("Next", json!(next)),
        None => ("End", json!(true)),
    };
    for name in leads_to {
        states.entry(name).or_insert_with(|| {
            json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 60,
                "Arguments": {"FunctionName": "StepFunction", "Payload": {}}, field: next})
        });
    }
    // What an excerpt leaves out has the handle.
    let before = "Before the excerpt";
    let given = json!({"Type": "Pass", "QueryLanguage": "JSONata", "Assign": {"lease": "{% $states.input %}"}, "Next": begins});
    states.insert(before.to_owned(), given);
    Some(json!({"QueryLanguage": language, "StartAt": before, "States": states}))
}

/// Nothing was found.
fn is_sound(ran: &Ran, shown: &Path) {
    assert!(
        ran.code == Some(0),
        "{}: {}{}",
        shown.display(),
        ran.out,
        ran.err
    );
}

#[test]
fn every_shown_snippet_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = files(&root().join("docs"), ".md");
    pages.push(root().join("README.md"));
    pages.extend(files(&root().join("examples"), ".md"));
    let mut shown = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```json\n").skip(1) {
            let block = block.split("\n```").next().unwrap();
            let Some(machine) = machine(block) else {
                continue;
            };
            shown += 1;
            let file = directory.path().join("snippet.asl.json");
            std::fs::write(&file, serde_json::to_string_pretty(&machine).unwrap()).unwrap();
            is_sound(&check(&file), &page);
        }
    }
    assert!(shown >= 3, "{shown}");
}

#[test]
fn every_example_passes_the_check() {
    let examples = files(&root().join("examples"), ".asl.json");
    assert!(examples.len() > 5);
    for example in examples {
        is_sound(&check(&example), &example);
    }
}
