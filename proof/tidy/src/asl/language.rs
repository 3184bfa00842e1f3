//! How a machine is written: with reasons, in one query language, and with delays that the service takes.

use super::{error_equals, list, machines, sites};
use crate::tree::{Report, Tree};
use serde_json::Value;

/// What JSONata has no use for, and the service refuses beside it.
const JSONPATH: &[&str] = &[
    "CausePath",
    "ErrorPath",
    "HeartbeatSecondsPath",
    "InputPath",
    "ItemsPath",
    "Iterator",
    "MaxConcurrencyPath",
    "OutputPath",
    "Parameters",
    "ResultPath",
    "ResultSelector",
    "SecondsPath",
    "TimeoutSecondsPath",
    "TimestampPath",
    "ToleratedFailureCountPath",
    "ToleratedFailurePercentagePath",
    "Variable",
];

pub fn comments(tree: &Tree, report: &mut Report) {
    let machines = machines(tree, report);
    for site in sites(&machines).iter().filter(|site| site.shipped) {
        if site.state["Comment"]
            .as_str()
            .is_none_or(|comment| comment.trim().is_empty())
        {
            report.error(format!("{}: no Comment", site.place));
        }
    }
}

pub fn jsonata(tree: &Tree, report: &mut Report) {
    let machines = machines(tree, report);
    for machine in &machines {
        let language = machine.definition["QueryLanguage"].as_str();
        if machine.shipped && language != Some("JSONata") {
            report.error(format!(
                "{}: its QueryLanguage is not JSONata",
                machine.place
            ));
        }
    }
    // Of a machine of the examples it is its author's choice.
    let in_jsonata = machines
        .into_iter()
        .filter(|machine| machine.definition["QueryLanguage"] == "JSONata")
        .collect::<Vec<_>>();
    for site in sites(&in_jsonata) {
        let language = &site.state["QueryLanguage"];
        if !language.is_null() && language != "JSONata" {
            report.error(format!("{}: in another language, {language}", site.place));
        }
        let rules = list(&site.state["Choices"]);
        for part in rules.iter().chain([site.state]) {
            for field in part.as_object().into_iter().flatten().map(|(name, _)| name) {
                if JSONPATH.contains(&field.as_str()) {
                    report.error(format!("{}: {field} is JSONPath's", site.place));
                }
            }
        }
        no_paths(site.state, &site.place, report);
    }
}

/// Paths, however deep: as text, or announced by the name of their field.
fn no_paths(value: &Value, place: &str, report: &mut Report) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if name.ends_with(".$") {
                    report.error(format!("{place}: {name} takes a path"));
                }
                no_paths(inner, place, report);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| no_paths(item, place, report)),
        Value::String(text) if text.starts_with("$.") || text.starts_with("$$.") => {
            report.error(format!("{place}: {text:?} is a path"));
        }
        _ => {}
    }
}

/// A catcher or retrier for everything stands alone and last, or the service refuses the machine; and who asks for a
/// held key again does so at a time of his own.
pub fn handlers(tree: &Tree, report: &mut Report) {
    let machines = machines(tree, report);
    let mut retriers = 0;
    for site in sites(&machines) {
        for field in ["Retry", "Catch"] {
            let handlers = list(&site.state[field]);
            for (nth, handler) in handlers.iter().enumerate() {
                let mut names = error_equals(handler);
                let for_all = names.any(|name| name == "States.ALL");
                let alone = list(&handler["ErrorEquals"]).len() == 1;
                if for_all && !(alone && nth + 1 == handlers.len()) {
                    report.error(format!(
                        "{}: States.ALL of its {field} is not alone and last",
                        site.place
                    ));
                }
                if list(&handler["ErrorEquals"]).is_empty() {
                    report.error(format!("{}: a {field} for nothing", site.place));
                }
            }
        }
        for retrier in list(&site.state["Retry"]) {
            retriers += 1;
            for problem in problems_of(retrier) {
                report.error(format!("{}: {problem}", site.place));
            }
        }
    }
    if retriers == 0 {
        report.error("statemachines/: no Retry to look at");
    }
}

fn problems_of(retrier: &Value) -> Vec<String> {
    let number = |field: &str, otherwise: f64| match &retrier[field] {
        Value::Null => Some(otherwise),
        value => value.as_f64(),
    };
    // Not given, these are the service's own.
    let interval = number("IntervalSeconds", 1.0);
    let longest = number("MaxDelaySeconds", 31_622_400.0);
    let mut problems = Vec::new();
    let mut hold = |holds: bool, field: &str| {
        if !holds {
            problems.push(format!("{field} of a Retry is {}", retrier[field]));
        }
    };
    hold(
        interval.is_some_and(|seconds| seconds >= 1.0),
        "IntervalSeconds",
    );
    hold(
        number("BackoffRate", 2.0).is_some_and(|rate| rate >= 1.0),
        "BackoffRate",
    );
    hold(
        number("MaxAttempts", 3.0).is_some_and(|times| (1.0..=99_999_999.0).contains(&times)),
        "MaxAttempts",
    );
    hold(
        longest > interval && longest <= Some(31_622_400.0),
        "MaxDelaySeconds",
    );
    let jitter = &retrier["JitterStrategy"];
    let spread = jitter == "FULL" || jitter == "NONE" || jitter.is_null();
    let asks_for_a_key = error_equals(retrier).any(|name| name == "Lease.Held");
    hold(
        spread && (jitter == "FULL" || !asks_for_a_key),
        "JitterStrategy",
    );
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

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
    fn a_retrier_stays_within_what_the_service_takes() {
        let fine = serde_json::json!({"ErrorEquals": ["Lease.Held"], "JitterStrategy": "FULL"});
        assert_eq!(problems_of(&fine), [""; 0]);
        for (field, value) in [
            ("IntervalSeconds", serde_json::json!(0)),
            ("BackoffRate", serde_json::json!(0.5)),
            ("MaxAttempts", serde_json::json!(100_000_000)),
            ("MaxAttempts", serde_json::json!(0)),
            ("MaxDelaySeconds", serde_json::json!(1)),
            ("JitterStrategy", serde_json::json!("NONE")),
        ] {
            let mut changed = fine.clone();
            changed[field] = value.clone();
            assert_eq!(
                problems_of(&changed),
                [format!("{field} of a Retry is {value}")]
            );
        }
    }
}
