//! Rules about the state machines.

use crate::tree::{Report, Tree, words};
use serde_json::Value;

/// What the machines themselves end with; every other name is the library's.
const MACHINE_ERRORS: &[&str] = &["Lease.StepTimeout"];

/// What Lambda may answer instead of running a function. None of it says that the function did not run,
/// which our functions bear: each of them may be called twice.
const SERVICE_EXCEPTIONS: &[&str] = &[
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
];

pub fn error_names(tree: &Tree, report: &mut Report) {
    // As a string literal; a comment that speaks of a name does not make it one.
    let raised = |name: &str| {
        tree.files("lib/src/", ".rs")
            .any(|(_, content)| content.contains(&format!("\"{name}\"")))
    };
    for (path, content) in tree.files("statemachines/", ".asl.json") {
        for name in words(content, "Lease.") {
            if !raised(&name) && !MACHINE_ERRORS.contains(&name.as_str()) {
                report.error(format!("{path}: nobody raises {name}"));
            }
        }
    }
}

pub fn comments(tree: &Tree, report: &mut Report) {
    each_state(tree, report, |place, state, _, report| {
        if state["Comment"]
            .as_str()
            .is_none_or(|comment| comment.trim().is_empty())
        {
            report.error(format!("{place}: no Comment"));
        }
    });
}

pub fn retries(tree: &Tree, report: &mut Report) {
    let ours: Vec<String> = tree
        .resources(report)
        .into_iter()
        .map(|(id, _)| format!("${{{id}}}"))
        .collect();
    each_state(tree, report, |place, state, siblings, report| {
        let arguments = if state["Arguments"].is_null() {
            &state["Parameters"]
        } else {
            &state["Arguments"]
        };
        // A protected step is its author's: only he knows whether it may run twice.
        let calls_ours = arguments["FunctionName"]
            .as_str()
            .is_some_and(|name| ours.iter().any(|id| id == name));
        if !calls_ours {
            return;
        }
        // The delays of a Retry do not look at what is left of a lease; a Wait that leads back here does.
        let name = place.rsplit(": ").next();
        let comes_back = |catcher: &&Value| {
            let next = catcher["Next"].as_str().map(|next| &siblings[next]);
            next.is_some_and(|next| next["Type"] == "Wait" && next["Next"].as_str() == name)
        };
        let retried: Vec<&str> = list(&state["Retry"])
            .iter()
            .chain(list(&state["Catch"]).iter().filter(comes_back))
            .flat_map(|retrier| list(&retrier["ErrorEquals"]))
            .filter_map(Value::as_str)
            .collect();
        for exception in SERVICE_EXCEPTIONS
            .iter()
            .filter(|exception| !retried.contains(exception))
        {
            report.error(format!("{place}: no Retry for {exception}"));
        }
    });
}

/// Calls `look` with every state of every machine, also inside Parallel and Map, with its place for a message, and
/// with the states beside it.
fn each_state(tree: &Tree, report: &mut Report, look: impl Fn(&str, &Value, &Value, &mut Report)) {
    for (path, content) in tree.files("statemachines/", ".asl.json") {
        match serde_json::from_str::<Value>(content) {
            Ok(machine) => states_of(&machine, path, report, &look),
            Err(error) => report.error(format!("{path}: {error}")),
        }
    }
}

fn states_of(
    machine: &Value,
    place: &str,
    report: &mut Report,
    look: &impl Fn(&str, &Value, &Value, &mut Report),
) {
    for (name, state) in machine["States"].as_object().into_iter().flatten() {
        let place = format!("{place}: {name}");
        look(&place, state, &machine["States"], report);
        for inner in list(&state["Branches"])
            .iter()
            .chain([&state["ItemProcessor"], &state["Iterator"]])
        {
            states_of(inner, &place, report, look);
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    #[test]
    fn an_error_name_has_to_exist() {
        let lib = ("lib/src/error.rs", "\"Lease.Held\" => …");
        let machine = |names| [lib, ("statemachines/x.asl.json", names)];
        assert!(
            errors(
                error_names,
                &machine("Lease.Held $lease.key Lease.StepTimeout WithLease.Odd")
            )
            .is_empty()
        );
        assert_eq!(
            errors(error_names, &machine("\"Lease.Hold\"")),
            ["statemachines/x.asl.json: nobody raises Lease.Hold"]
        );
    }

    #[test]
    fn a_state_without_a_reason_is_found_inside_branches_and_maps() {
        let machine = r#"{"States": {
            "Both": {"Comment": "why", "Branches": [{"States": {"Bare": {}}}]},
            "Each": {"Comment": "why", "ItemProcessor": {"States": {"Empty": {"Comment": " "}}}}}}"#;
        assert_eq!(
            errors(comments, &[("statemachines/x.asl.json", machine)]),
            [
                "statemachines/x.asl.json: Both: Bare: no Comment",
                "statemachines/x.asl.json: Each: Empty: no Comment"
            ]
        );
    }

    #[test]
    fn a_machine_that_does_not_parse_is_an_error() {
        assert_eq!(
            errors(comments, &[("statemachines/x.asl.json", "{")]).len(),
            1
        );
    }

    #[test]
    fn a_call_of_ours_is_retried_and_a_step_of_others_need_not_be() {
        let template = ("template.yaml", "Resources: {ExtendFunction: {}}");
        let machine = r#"{"States": {
            "Extend": {"Arguments": {"FunctionName": "${ExtendFunction}"}, "Retry": [{"ErrorEquals": ["Lambda.ServiceException"]}]},
            "Work": {"Parameters": {"FunctionName": "${StepFunction}"}}}}"#;
        let found = errors(retries, &[template, ("statemachines/x.asl.json", machine)]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|error| {
            error.starts_with("statemachines/x.asl.json: Extend: no Retry for Lambda.")
        }));
    }

    #[test]
    fn a_call_that_is_caught_and_made_again_after_a_wait_is_retried_too() {
        let template = ("template.yaml", "Resources: {ExtendFunction: {}}");
        let machine = |next: &str| {
            let names = format!("{SERVICE_EXCEPTIONS:?}");
            format!(
                r#"{{"States": {{
                    "Extend": {{"Arguments": {{"FunctionName": "${{ExtendFunction}}"}},
                        "Catch": [{{"ErrorEquals": {names}, "Next": "Again"}}]}},
                    "Again": {{"Type": "Wait", "Next": "{next}"}}}}}}"#
            )
        };
        let found = |next| {
            let machine = machine(next);
            errors(retries, &[template, ("statemachines/x.asl.json", &machine)]).len()
        };
        assert_eq!((found("Extend"), found("Elsewhere")), (0, 5));
    }
}
