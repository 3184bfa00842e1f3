//! Calls of functions: what is asked again, what never is, and what a protected step gets to know.

use super::{Site, called, error_equals, list, machines, our_functions, sites};
use crate::tree::{Report, Tree};
use serde_json::Value;

/// What Lambda may answer instead of running a function. None of it says that the function did not run,
/// which our functions bear: each of them may be called twice.
const SERVICE_EXCEPTIONS: &[&str] = &[
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
];

/// After which of them a step may still be at work. Of too many requests Lambda runs none.
const MAY_RUN: &[&str] = &[
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.Unknown",
    "States.Timeout",
];

/// What asking again cannot change, and what has some of it in it.
const FINAL: &[&str] = &[
    "Lease.Consumed",
    "Lease.Corrupt",
    "Lease.Denied",
    "Lease.Expired",
    "Lease.Invalid",
    "Lease.Lost",
    "Lease.Misconfigured",
    "Lease.QueueTimeout",
    "States.ALL",
    "States.TaskFailed",
];

pub fn retries(tree: &Tree, report: &mut Report) {
    each_call(tree, report, |site, is_ours, report| {
        // A protected step is its author's: only he knows whether it may run twice.
        if !is_ours {
            return;
        }
        let retried: Vec<&str> = asked_again(site).flat_map(error_equals).collect();
        for exception in SERVICE_EXCEPTIONS
            .iter()
            .filter(|exception| !retried.contains(exception))
        {
            report.error(format!("{}: no Retry for {exception}", site.place));
        }
    });
}

/// What is over stays over: a Retry would ask the same thing until it gives up, under a lease that others may have.
pub fn final_errors(tree: &Tree, report: &mut Report) {
    each_call(tree, report, |site, is_ours, report| {
        for name in asked_again(site).flat_map(error_equals) {
            if FINAL.contains(&name) && (is_ours || name.starts_with("Lease.")) {
                report.error(format!(
                    "{}: {name} is final, or has what is, and is retried",
                    site.place
                ));
            }
        }
    });
}

/// Whether a step still works is unknown after these: its lease must not be given to somebody else.
pub fn steps_that_may_run(tree: &Tree, report: &mut Report) {
    let mut steps = 0;
    each_call(tree, report, |site, is_ours, report| {
        if is_ours {
            return;
        }
        steps += 1;
        for error in MAY_RUN {
            let catcher = list(&site.state["Catch"])
                .iter()
                .find(|catcher| error_equals(catcher).any(|name| name == *error));
            let Some(next) = catcher.and_then(|catcher| catcher["Next"].as_str()) else {
                report.error(format!(
                    "{}: {error} is not caught apart, and the step may still run",
                    site.place
                ));
                continue;
            };
            if called(&site.beside[next]) == Some("ReleaseFunction") {
                report.error(format!(
                    "{}: {error} leads to {next}, which lets others in beside a step that may still run",
                    site.place
                ));
            }
        }
    });
    if steps == 0 {
        report.error("statemachines/: no protected step to look at");
    }
}

/// Who has the handle can end the lease: a step gets the token and the deadline out of it.
pub fn secrets(tree: &Tree, report: &mut Report) {
    each_call(tree, report, |site, is_ours, report| {
        if is_ours {
            return;
        }
        let mut texts = Vec::new();
        strings(&site.state["Arguments"], &mut texts);
        for text in texts {
            let bare = text.trim_matches(['{', '%', '}', ' ']);
            if text.contains("lease_id") || bare == "$lease" || bare == "$leases" {
                report.error(format!(
                    "{}: the step gets the lease's secret: {text}",
                    site.place
                ));
            }
        }
    });
}

fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

/// What makes a state ask again: its Retry; and a Catch that leads to a Wait which leads back, since the delays of a
/// Retry do not look at what is left of a lease.
fn asked_again<'a>(site: &'a Site) -> impl Iterator<Item = &'a Value> {
    let comes_back = |catcher: &&Value| {
        let next = catcher["Next"].as_str().map(|next| &site.beside[next]);
        next.is_some_and(|next| next["Type"] == "Wait" && next["Next"].as_str() == Some(site.name))
    };
    list(&site.state["Retry"])
        .iter()
        .chain(list(&site.state["Catch"]).iter().filter(comes_back))
}

/// Calls `look` with every call of a function, and whether it is one of ours. There have to be some of ours.
fn each_call(tree: &Tree, report: &mut Report, mut look: impl FnMut(&Site, bool, &mut Report)) {
    let ours = our_functions(tree, report);
    let machines = machines(tree, report);
    let mut calls = 0;
    for site in sites(&machines) {
        if let Some(called) = site.called() {
            let is_ours = ours.iter().any(|id| id == called);
            calls += usize::from(is_ours);
            look(&site, is_ours, report);
        }
    }
    if calls == 0 {
        report.error("statemachines/: no call of our functions to look at");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const TEMPLATE: (&str, &str) = (
        "template.yaml",
        "Resources: {ExtendFunction: {Type: 'AWS::Serverless::Function'}}",
    );

    #[test]
    fn a_call_of_ours_is_retried_and_a_step_of_others_need_not_be() {
        let machine = r#"{"States": {
            "Extend": {"Arguments": {"FunctionName": "${ExtendFunction}"}, "Retry": [{"ErrorEquals": ["Lambda.ServiceException"]}]},
            "Work": {"Parameters": {"FunctionName": "${StepFunction}"}}}}"#;
        let found = errors(retries, &[TEMPLATE, ("statemachines/x.asl.json", machine)]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|error| {
            error.starts_with("statemachines/x.asl.json: Extend: no Retry for Lambda.")
        }));
    }

    #[test]
    fn a_call_that_is_caught_and_made_again_after_a_wait_is_retried_too() {
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
            errors(retries, &[TEMPLATE, ("statemachines/x.asl.json", &machine)]).len()
        };
        assert_eq!((found("Extend"), found("Elsewhere")), (0, 5));
    }
}
