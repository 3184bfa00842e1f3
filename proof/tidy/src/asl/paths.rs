//! Ways through a machine: each leads somewhere, every state is on one, and from every state one leads to an end.

use super::{Scope, list, machines, scopes};
use crate::tree::{Report, Tree};
use serde_json::Value;
use std::collections::BTreeSet;

pub fn ways(tree: &Tree, report: &mut Report) {
    for machine in machines(tree, report) {
        for scope in scopes(&machine) {
            for problem in problems_of(&scope) {
                report.error(format!("{}: {problem}", scope.place));
            }
        }
    }
}

fn problems_of(scope: &Scope) -> Vec<String> {
    let Some(states) = scope.states["States"].as_object() else {
        return vec!["no States".to_owned()];
    };
    let mut problems = Vec::new();
    let start = scope.states["StartAt"].as_str().unwrap_or_default();
    if !states.contains_key(start) {
        problems.push(format!("StartAt {start:?} does not exist"));
    }
    for (name, state) in states {
        for next in nexts(state) {
            if !states.contains_key(next) {
                problems.push(format!("{name}: {next} does not exist"));
            }
        }
        let kind = state["Type"].as_str().unwrap_or_default();
        let ends = state["End"] == true;
        match kind {
            "Choice" if state["Default"].is_null() => problems.push(format!(
                "{name}: no Default, so that it may end as States.NoChoiceMatched"
            )),
            "Choice" | "Succeed" | "Fail" => {}
            _ if ends == state["Next"].is_string() => {
                problems.push(format!("{name}: not one of Next and End"));
            }
            _ => {}
        }
    }
    let reached = closure([start].into(), |from| {
        states.get(from).map(nexts).unwrap_or_default()
    });
    let ends = states
        .iter()
        .filter(|(_, state)| {
            state["End"] == true || state["Type"] == "Succeed" || state["Type"] == "Fail"
        })
        .map(|(name, _)| name.as_str());
    let leads_out = closure(ends.collect(), |to| {
        let before = states
            .iter()
            .filter(|(_, state)| nexts(state).contains(&to));
        before.map(|(name, _)| name.as_str()).collect()
    });
    for name in states.keys().map(String::as_str) {
        if !reached.contains(name) {
            problems.push(format!("{name}: never reached"));
        }
        if !leads_out.contains(name) {
            problems.push(format!("{name}: no way to an end"));
        }
    }
    problems
}

/// Where a state may go on to.
fn nexts(state: &Value) -> Vec<&str> {
    let of_its_own = [&state["Next"], &state["Default"]];
    let of_lists = list(&state["Choices"])
        .iter()
        .chain(list(&state["Catch"]))
        .map(|rule| &rule["Next"]);
    of_its_own
        .into_iter()
        .chain(of_lists)
        .filter_map(Value::as_str)
        .collect()
}

/// Whatever can be come to from these, themselves included.
fn closure<'a>(
    from: BTreeSet<&'a str>,
    steps: impl Fn(&'a str) -> Vec<&'a str>,
) -> BTreeSet<&'a str> {
    let mut open: Vec<&str> = from.iter().copied().collect();
    let mut found = from;
    while let Some(next) = open.pop() {
        for to in steps(next) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(states: &Value) -> Vec<String> {
        problems_of(&Scope {
            place: String::new(),
            states,
        })
    }

    #[test]
    fn a_ring_without_an_exit_is_found_and_one_with_it_is_not() {
        let ring = |end: &str| {
            serde_json::json!({"StartAt": "A", "States": {
                "A": {"Type": "Pass", "Next": "B"},
                "B": {"Type": "Choice", "Choices": [{"Next": end}], "Default": "A"},
                "Done": {"Type": "Succeed"}}})
        };
        assert_eq!(problems(&ring("Done")), [""; 0]);
        assert_eq!(
            problems(&ring("A")),
            [
                "A: no way to an end",
                "B: no way to an end",
                "Done: never reached"
            ]
        );
    }

    /// Being named is not being reached: by a state that is not reached itself, or in another scope.
    #[test]
    fn what_only_the_unreached_lead_to_is_not_reached() {
        let island = serde_json::json!({"StartAt": "A", "States": {
            "A": {"Type": "Succeed"},
            "B": {"Type": "Pass", "Next": "C"},
            "C": {"Type": "Pass", "Next": "B", "End": false}}});
        assert_eq!(
            problems(&island),
            [
                "B: never reached",
                "B: no way to an end",
                "C: never reached",
                "C: no way to an end"
            ]
        );
    }
}
