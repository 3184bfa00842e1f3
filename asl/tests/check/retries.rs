//! The retriers of the shipped machines come from one list, `retries.json`. Each is there once, with all its states. A deviating
//! retrier is another entry, for review. To accept it: `UPDATE_RETRIES=1 cargo test -p leasehold-asl`.

use crate::{root, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "asl/tests/check/retries.json";

/// The machines of the stack, by name.
fn machines() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(root().join("statemachines")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let read = |name: String| {
        let machine = serde_json::from_str(&text(&format!("statemachines/{name}"))).unwrap();
        (name.replace(".asl.json", ""), machine)
    };
    names.map(read).collect()
}

/// Every retrier without its comment, with its states.
fn listed(machines: &BTreeMap<String, Value>) -> Value {
    let mut entries: Vec<(Value, BTreeSet<String>)> = Vec::new();
    for (name, machine) in machines {
        walk(machine, &mut |state, retrier| {
            let mut retrier = retrier.clone();
            retrier.as_object_mut().unwrap().remove("Comment");
            let state = format!("{name}/{state}");
            match entries.iter_mut().find(|(known, _)| *known == retrier) {
                Some((_, states)) => drop(states.insert(state)),
                None => entries.push((retrier, BTreeSet::from([state]))),
            }
        });
    }
    let entries = entries.into_iter();
    entries
        .map(|(retrier, states)| json!({"retrier": retrier, "states": states}))
        .collect()
}

/// Calls `look` with each state and each of its retriers, also inside Parallel and Map.
fn walk(scope: &Value, look: &mut impl FnMut(&str, &Value)) {
    for (name, state) in scope["States"].as_object().into_iter().flatten() {
        for retrier in state["Retry"].as_array().into_iter().flatten() {
            look(name, retrier);
        }
        let branches = state["Branches"].as_array().into_iter().flatten();
        for inner in branches.chain([&state["ItemProcessor"]]) {
            walk(inner, look);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no setting of a program's")]
fn every_retrier_of_the_shipped_machines_is_in_the_one_list() {
    let found = listed(&machines());
    if std::env::var_os("UPDATE_RETRIES").is_some() {
        let list = serde_json::to_string_pretty(&found).unwrap() + "\n";
        std::fs::write(root().join(LIST), list).unwrap();
    }
    let list: Value = serde_json::from_str(&text(LIST)).unwrap();
    let only = |one: &Value, other: &Value| -> Vec<String> {
        let known = other.as_array().unwrap();
        let entries = one.as_array().unwrap().iter();
        let only = entries.filter(|entry| !known.contains(entry));
        only.map(Value::to_string).collect()
    };
    let (new, gone) = (only(&found, &list), only(&list, &found));
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}"
    );
}

#[test]
fn a_retrier_that_differs_in_one_machine_is_noticed() {
    let mut machines = machines();
    let before = listed(&machines);
    let retry = "/States/Release/Retry/0/MaxAttempts";
    let machine = machines.get_mut("observe").unwrap();
    *machine.pointer_mut(retry).unwrap() = json!(60);
    let after = listed(&machines);
    let count = |list: &Value| list.as_array().unwrap().len();
    assert_eq!(count(&after), count(&before) + 1);
}
