//! Whose a function is, by its name and by what it is given.

use leasehold_asl::{Options, Source, check};
use serde_json::{Value, json};

/// A publication that is asked for until it is there: whose name ends as one of ours does.
fn published(function: &str, payload: Option<(&str, Value)>) -> Vec<String> {
    let mut definition = json!({"StartAt": "Publish", "States": {
        "Publish": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": function}, "Next": "Done?"},
        "Done?": {"Type": "Choice", "Choices": [{"Variable": "$.done", "BooleanEquals": true, "Next": "Done"}], "Default": "Later"},
        "Later": {"Type": "Wait", "Seconds": 5, "Next": "Publish"},
        "Done": {"Type": "Succeed"},
    }});
    if let Some((key, value)) = payload {
        definition["States"]["Publish"]["Parameters"][key] = value;
    }
    let source = Source::new("x.asl.json", definition.to_string());
    let checked = check(&source.read().unwrap(), &Options::default());
    let findings = checked.findings.iter();
    findings
        .map(|finding| format!("{} {}", finding.rule.id(), finding.state))
        .collect()
}

#[test]
fn a_function_of_others_may_have_a_name_like_ours() {
    let all = || Some(("Payload.$", json!("$")));
    for function in [
        "${CreateReleaseFunction}",
        "press-release",
        "data-acquire",
        "${TrialExtendFunction.Arn}",
    ] {
        assert_eq!(published(function, all()), [""; 0], "{function}");
        assert_eq!(published(function, None), [""; 0], "{function}");
    }
    let object = || Some(("Payload", json!({"bucket.$": "$.bucket", "key.$": "$.key"})));
    assert_eq!(published("data-acquire", object()), [""; 0]);
    // By the name alone, and by what it is given.
    let loops = "too-many-events Publish";
    assert_eq!(published("${ReleaseFunction}", all()), [loops]);
    assert_eq!(published("my-leases-extend", all()), [loops]);
    let handle = Some(("Payload", json!({"lease.$": "$.lease"})));
    assert_eq!(published("${CreateReleaseFunction}", handle), [loops]);
    let request = json!({"key": "k", "holder.$": "$$.Execution.Id", "ttl_seconds": 60});
    assert!(published("data-acquire", Some(("Payload", request))).len() > 1);
}
