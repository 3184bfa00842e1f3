//! How much there is to go through: about as much as there is to read. Counted, since time is the machine's.

use leasehold_check::{Options, Rule, Source, check};
use serde_json::{Value, json};

fn work(next: &str, limit: u64) -> Value {
    json!({"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": limit,
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "GiveBack"}], "Next": next})
}

/// A section with so many states in it, which fork and meet again with different times all the way, between extends.
fn forks(count: usize) -> Value {
    let mut states = serde_json::Map::new();
    let call = |function: &str, payload: Value, next: &str| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 10,
            "Arguments": {"FunctionName": function, "Payload": payload},
            "Assign": {"lease": "{% $states.result.Payload.lease %}"}, "Next": next})
    };
    let id = "{% $states.context.State.EnteredTime %}";
    let acquire = json!({"key": "k", "holder": "{% $states.context.Execution.Id %}", "request_id": id, "ttl_seconds": 86000});
    states.insert("Acquire".into(), call("acquire", acquire, "C0"));
    let handle = json!({"lease": "{% $lease %}"});
    for nth in 0..count / 3 {
        let next = if nth + 1 == count / 3 {
            "GiveBack".to_owned()
        } else {
            format!("C{}", nth + 1)
        };
        let choices = json!([{"Condition": "{% $states.input.x %}", "Next": format!("A{nth}")}]);
        states.insert(
            format!("C{nth}"),
            json!({"Type": "Choice", "Choices": choices, "Default": format!("B{nth}")}),
        );
        states.insert(format!("A{nth}"), work(&next, 1 + nth as u64));
        states.insert(format!("B{nth}"), work(&next, 200));
    }
    states.insert("GiveBack".into(), call("release", handle, "Done"));
    states.insert("Done".into(), json!({"Type": "Succeed"}));
    json!({"QueryLanguage": "JSONata", "StartAt": "Acquire", "States": states})
}

fn visited(definition: &Value) -> (usize, usize) {
    let source = Source::new("x.asl.json", definition.to_string());
    let checked = check(&source.read().expect("JSON"), &Options::default());
    assert_eq!(checked.findings, []);
    (checked.states, checked.visited)
}

#[test]
fn positions_grow_with_the_states_and_not_with_the_paths() {
    for count in [30, 90, 300] {
        let (states, visited) = visited(&forks(count));
        assert!(states >= count);
        assert!(
            visited <= 4 * states,
            "{visited} positions for {states} states"
        );
    }
}

#[test]
fn loops_are_gone_through_a_few_times() {
    let mut definition = forks(300);
    // Back to the start from each fork, by way of nothing that takes time: the first has seen the worst already, or it is a loop.
    let states = definition["States"].as_object_mut().unwrap();
    for nth in 0..100 {
        let back = json!({"Condition": "{% $states.input.again %}", "Next": "C0"});
        states[&format!("C{nth}")]["Choices"]
            .as_array_mut()
            .unwrap()
            .push(back);
    }
    let source = Source::new("x.asl.json", definition.to_string());
    let checked = check(&source.read().expect("JSON"), &Options::default());
    assert!(!checked.findings.is_empty());
    assert!(
        checked.visited <= 20 * checked.states,
        "{} positions",
        checked.visited
    );
}

#[test]
fn what_cannot_be_gone_through_is_said_to_be_too_large() {
    // Each of them is tried again as a whole, ten times within each of the ten times of the one around it.
    let mut inner =
        json!({"StartAt": "W", "States": {"W": work("X", 1), "X": {"Type": "Pass", "End": true}}});
    inner["States"]["W"]["Catch"] = json!([]);
    for nth in 0..12 {
        let name = format!("P{nth}");
        let retry = json!([{"ErrorEquals": ["States.ALL"], "MaxAttempts": 10}]);
        inner = json!({"StartAt": name, "States": {&name: {"Type": "Parallel", "Branches": [inner], "Retry": retry, "End": true}}});
    }
    let mut definition = forks(3);
    let states = definition["States"].as_object_mut().expect("an object");
    let mut around = inner["States"]["P11"].clone();
    around["Next"] = "C0".into();
    around["End"] = false.into();
    states.insert("P".into(), around);
    states["Acquire"]["Next"] = "P".into();
    let source = Source::new("x.asl.json", definition.to_string());
    let checked = check(&source.read().expect("JSON"), &Options::default());
    let gave_up = checked
        .findings
        .iter()
        .any(|finding| finding.rule == Rule::TooLarge);
    assert!(gave_up, "{} positions", checked.visited);
    // What was not come to by then may well be reached.
    let unreachable = checked
        .findings
        .iter()
        .find(|finding| finding.rule == Rule::Unreachable);
    assert_eq!(unreachable, None);
}
