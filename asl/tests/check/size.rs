//! The walk visits about as many positions as a definition has states. Positions are counted, because time depends on the machine.

use crate::checked;
use leasehold_asl::{Finding, LARGEST, Options, Rule, Source, check, definitions};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn work(next: &str, limit: u64) -> Value {
    json!({"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": limit,
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "GiveBack"}], "Next": next})
}

fn call(function: &str, payload: &Value, handle: &str, next: &str) -> Value {
    json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 10,
        "Arguments": {"FunctionName": function, "Payload": payload},
        "Assign": {handle: "{% $states.result.Payload.lease %}"}, "Next": next})
}

fn acquire(key: &str, handle: &str, next: &str) -> Value {
    let id = "{% $states.context.State.Name & $states.context.State.EnteredTime %}";
    let request = json!({"key": key, "holder": "{% $states.context.Execution.Id %}", "request_id": id, "ttl_seconds": 86000});
    call("acquire", &request, handle, next)
}

fn release(handle: &str, next: &str) -> Value {
    let payload = json!({"lease": format!("{{% ${handle} %}}")});
    call("release", &payload, "answer", next)
}

/// A section with this many states between extends, which fork and meet again with different times. The order of their names
/// is not the best order of the walk.
fn forks(count: usize) -> Value {
    let mut states = serde_json::Map::new();
    states.insert("Acquire".into(), acquire("k", "lease", "C0"));
    for nth in 0..count / 3 {
        let next = if nth + 1 == count / 3 {
            "GiveBack".to_owned()
        } else {
            format!("C{}", nth + 1)
        };
        let choices = json!([{"Condition": "{% $states.input.x %}", "Next": format!("A{nth}")}]);
        states.insert(
            format!("C{nth}"),
            json!({"Type": "Choice", "Choices": choices, "Default": format!("D{nth}")}),
        );
        states.insert(format!("A{nth}"), work(&next, 1 + nth as u64));
        states.insert(format!("D{nth}"), work(&next, 200));
    }
    states.insert("GiveBack".into(), release("lease", "Done"));
    states.insert("Done".into(), json!({"Type": "Succeed"}));
    json!({"QueryLanguage": "JSONata", "StartAt": "Acquire", "States": states})
}

/// This many branches of three states each under one lease.
fn branches(count: usize) -> Value {
    let branch = |nth: usize| {
        let [work, rest, failed] = ["Work", "Rest", "Failed"].map(|name| format!("{name}{nth}"));
        json!({"StartAt": work, "States": {
            &work: {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 5,
                "Catch": [{"ErrorEquals": ["States.ALL"], "Next": failed}], "Next": rest},
            &rest: {"Type": "Wait", "Seconds": nth % 9, "End": true},
            &failed: {"Type": "Fail", "Error": format!("Branch.{nth}")}}})
    };
    let all: Vec<Value> = (0..count).map(branch).collect();
    json!({"QueryLanguage": "JSONata", "StartAt": "Acquire", "States": {
        "Acquire": acquire("k", "lease", "All"),
        "All": {"Type": "Parallel", "Branches": all, "Next": "GiveBack",
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "GiveBack"}]},
        "GiveBack": release("lease", "Done"),
        "Done": {"Type": "Succeed"}}})
}

/// This many sections, one after the other, or each within the one before.
fn sections(count: usize, within: bool) -> Value {
    let mut states = serde_json::Map::new();
    for nth in 0..count {
        let handle = format!("lease{nth}");
        let last = nth + 1 == count;
        let (inside, after) = match (within, last) {
            (true, false) => (format!("Acquire{}", nth + 1), None),
            (_, true) | (false, _) => (
                format!("Work{nth}"),
                Some(nth + 1).filter(|_| !within && !last),
            ),
        };
        let outwards = || {
            if within && nth > 0 {
                format!("Release{}", nth - 1)
            } else {
                "Done".to_owned()
            }
        };
        let next = after.map_or_else(outwards, |next| format!("Acquire{next}"));
        let mut taken = acquire(&handle, &handle, &inside);
        taken["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": outwards()}]);
        let mut given = release(&handle, &next);
        given["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": next}]);
        states.insert(format!("Acquire{nth}"), taken);
        states.insert(format!("Release{nth}"), given);
        if !within || last {
            let mut task = work(&format!("Release{nth}"), 5);
            task["Catch"][0]["Next"] = format!("Release{nth}").into();
            states.insert(format!("Work{nth}"), task);
        }
    }
    states.insert("Done".into(), json!({"Type": "Succeed"}));
    json!({"QueryLanguage": "JSONata", "StartAt": "Acquire0", "States": states})
}

/// Sections that all keep their handle in one variable. A refused one is bypassed.
fn sections_of_one_handle(count: usize) -> Value {
    let mut definition = sections(count, false);
    let states = definition["States"].as_object_mut().unwrap();
    for nth in 0..count {
        let next = if nth + 1 == count {
            "Done".to_owned()
        } else {
            format!("Acquire{}", nth + 1)
        };
        let acquire = &mut states[&format!("Acquire{nth}")];
        acquire["Catch"][0]["Next"] = next.into();
        acquire["Assign"] = json!({"lease": "{% $states.result.Payload.lease %}"});
        let release = &mut states[&format!("Release{nth}")];
        release["Arguments"]["Payload"]["lease"] = "{% $lease %}".into();
    }
    definition
}

/// Forks that each lead back to the start without taking time.
fn loops() -> Value {
    let mut definition = forks(300);
    let states = definition["States"].as_object_mut().unwrap();
    for nth in 0..100 {
        let back = json!({"Condition": "{% $states.input.again %}", "Next": "C0"});
        let choices = states[&format!("C{nth}")]["Choices"].as_array_mut();
        choices.unwrap().push(back);
    }
    definition
}

#[test]
fn positions_grow_with_states_not_paths() {
    let mut retried = branches(100);
    retried["States"]["All"]["Retry"] = json!([{"ErrorEquals": ["States.ALL"], "MaxAttempts": 5}]);
    let mut without_a_lease = loops();
    without_a_lease["StartAt"] = "C0".into();
    let states = without_a_lease["States"].as_object_mut().unwrap();
    states["GiveBack"] = json!({"Type": "Pass", "Next": "Done"});
    states.remove("Acquire");
    // Each branch six times, the other states once, or twice if an earlier Catch makes a difference. Nested sections grow by
    // the square of their depth, which is small in practice. In a loop, the first visit had the worst time, or it is a finding.
    for (name, definition, tenths, is_sound) in [
        ("forks, 30", forks(30), 40, true),
        ("forks, 90", forks(90), 40, true),
        ("forks, 300", forks(300), 40, true),
        ("branches", branches(100), 15, true),
        ("branches, retried", retried, 70, true),
        ("sections", sections(100, false), 20, true),
        ("sections within sections", sections(5, true), 30, true),
        (
            "sections of one handle",
            sections_of_one_handle(20),
            100,
            true,
        ),
        ("loops", loops(), 200, false),
        ("loops without a lease", without_a_lease, 10, true),
    ] {
        let checked = checked(&definition);
        let (states, visited) = (checked.states, checked.visited);
        assert_eq!(checked.findings.is_empty(), is_sound, "{name}");
        let is_near = visited * 10 <= states * tenths;
        assert!(is_near, "{name}: {visited} positions for {states} states");
    }
}

#[test]
fn unwalkable_machine_is_too_large() {
    // Each of them is retried as a whole, ten times in each of the ten attempts of the one around it.
    let mut inner =
        json!({"StartAt": "W", "States": {"W": work("X", 1), "X": {"Type": "Pass", "End": true}}});
    inner["States"]["W"]["Catch"] = json!([]);
    for nth in 0..12 {
        let name = format!("P{nth}");
        let retry = json!([{"ErrorEquals": ["States.ALL"], "MaxAttempts": 10}]);
        inner = json!({"StartAt": name, "States": {&name: {"Type": "Parallel", "Branches": [inner], "Retry": retry, "End": true}}});
    }
    let mut definition = forks(3);
    let states = definition["States"].as_object_mut().unwrap();
    let mut around = inner["States"]["P11"].clone();
    around["Next"] = "C0".into();
    around["End"] = false.into();
    states.insert("P".into(), around);
    states["Acquire"]["Next"] = "P".into();
    let checked = checked(&definition);
    let has = |rule: Rule| checked.findings.iter().any(|finding| finding.rule == rule);
    assert!(has(Rule::TooLarge), "{} positions", checked.visited);
    // States that the walk did not visit may still be reachable.
    assert!(!has(Rule::Unreachable));
}

/// As many fields as fit into a definition.
fn fields() -> String {
    let mut fields = String::new();
    for nth in 0.. {
        let field = format!("\"{nth:x}\":0,\n");
        if fields.len() + field.len() + 100 > LARGEST {
            break;
        }
        fields.push_str(&field);
    }
    fields
}

#[test]
fn fields_and_states_found_by_name() {
    // Ninety thousand fields, whose pairs would take minutes.
    let fields = fields();
    for (name, begin) in [("x.json", ""), ("x.yaml", "# YAML\n")] {
        let once = Source::new(name, format!("{begin}{{{fields}\"last\":0}}"));
        assert!(once.read().unwrap().members().len() > 80_000);
        let twice = Source::new(name, format!("{begin}{{{fields}\"0\":0}}"));
        let reported = twice.read().expect_err("a field twice").to_string();
        let line = fields.lines().count() + 1 + begin.lines().count();
        let said = "the field \"0\" is there a second time; the first would be ignored";
        assert_eq!(reported, format!("{name}:{line}:1: {said}"));
    }
    // Twenty thousand rules that lead to the last of forty thousand states.
    let mut states = String::new();
    for nth in 0..40_000 {
        _ = write!(states, "\"{nth}\":{{}},");
    }
    let rules = vec!["{\"Next\":\"last\"}"; 20_000].join(",");
    let text = format!(
        "{{\"StartAt\":\"first\",\"States\":{{{states}\"first\":{{\"Type\":\"Choice\",\"Choices\":[{rules}]}},\"last\":{{\"Type\":\"Succeed\"}}}}}}"
    );
    let node = Source::new("x.json", text).read().unwrap();
    assert_eq!(check(&node, &Options::default()).states, 40_002);
}

#[test]
fn definition_beyond_service_limit_is_refused() {
    let sized = |bytes: usize| {
        let mut text =
            r#"{"StartAt":"A","States":{"A":{"Type":"Succeed","Comment":""}}}"#.to_owned();
        text.insert_str(text.len() - 4, &"x".repeat(bytes - text.len()));
        text
    };
    let indented = |text: &str| text.replacen('{', "{\n", 1);
    let found = |name: &str, text: String| {
        let found = definitions(&Source::new(name, text), &Options::default(), &|_| {
            Ok(indented(&sized(LARGEST)))
        });
        let all = found.and_then(|found| found.into_iter().collect::<Result<Vec<_>, _>>());
        all.map(|found| found.len())
            .map_err(|error| error.to_string())
    };
    let refused = |name: &str, bytes: usize| {
        Err(format!(
            "{name}: has {bytes} bytes, but Step Functions refuses more than 1048576 (1 MB)"
        ))
    };
    let yaml = |text: &str| format!("# YAML\n{text}");
    // In a document any text may precede it.
    let document = |text: &str| format!("{}\n```json\n{text}\n```\n", "Words.\n".repeat(100_000));
    let template = "Resources: {M: {Type: AWS::Serverless::StateMachine, Properties: {DefinitionUri: y.json}}}";
    for (name, text, expected) in [
        ("x.json", sized(LARGEST), Ok(1)),
        ("x.json", sized(LARGEST + 1), refused("x.json", LARGEST + 1)),
        ("x.yaml", yaml(&sized(LARGEST - 7)), Ok(1)),
        (
            "x.yaml",
            yaml(&sized(LARGEST)),
            refused("x.yaml", LARGEST + 7),
        ),
        ("x.md", document(&sized(LARGEST - 1)), Ok(1)),
        (
            "x.md",
            document(&sized(LARGEST)),
            refused("x.md", LARGEST + 1),
        ),
        (
            "t.yaml",
            template.to_owned(),
            refused("y.json", LARGEST + 1),
        ),
    ] {
        assert_eq!(found(name, text), expected);
    }
}

fn findings(states: &Value) -> Vec<Finding> {
    let definition = json!({"QueryLanguage": "JSONata", "StartAt": "Acquire", "States": states});
    assert!(definition.to_string().len() <= LARGEST);
    checked(&definition).findings
}

#[test]
fn largest_machines_avoid_quadratic_work() {
    // A fault at every step of a long path. Each is reported with only the end of its path. Whole paths would take gigabytes.
    let count = 8000;
    let mut states = serde_json::Map::new();
    states.insert("Acquire".into(), acquire("k", "lease", "0"));
    for nth in 0..count {
        let next = (nth + 1).to_string();
        let task = json!({"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 1, "Next": next});
        states.insert(nth.to_string(), task);
    }
    states.insert(count.to_string(), json!({"Type": "Succeed"}));
    let found = findings(&states.into());
    assert!(found.len() > count, "{}", found.len());
    assert!(found.iter().all(|finding| finding.path.len() <= 101));
    let long = found.iter().filter(|finding| finding.path.len() == 101);
    assert!(
        long.clone()
            .all(|finding| finding.trail().starts_with("… → "))
    );
    assert!(long.count() > count - 200);

    // As many names as fit into a Catch.
    let names: Vec<String> = (0..90_000).map(|nth| format!("E{nth}")).collect();
    let mut task = work("Release", 1);
    task["Catch"] = json!([{"ErrorEquals": names, "Next": "Release"}, {"ErrorEquals": ["States.ALL"], "Next": "Release"}]);
    let states = json!({"Acquire": acquire("k", "lease", "Work"), "Work": task,
        "Release": release("lease", "Done"), "Done": {"Type": "Succeed"}});
    assert_eq!(findings(&states), []);

    // As many branches as fit, each with a failure of its own.
    let fails = |nth: usize| {
        let name = format!("F{nth}");
        json!({"StartAt": name, "States": {&name: {"Type": "Fail", "Error": format!("E{nth}")}}})
    };
    let all: Vec<Value> = (0..8000).map(fails).collect();
    let states = json!({"Acquire": {"Type": "Parallel", "Branches": all, "End": true}});
    assert_eq!(findings(&states), []);
}

/// Branches that each acquire a lease and forget it.
fn leaks(count: usize) -> Value {
    let branch = |nth: usize| {
        let over = format!("Over{nth}");
        let mut taken = acquire(&format!("k{nth}"), &format!("lease{nth}"), &over);
        taken["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": over}]);
        let name = format!("Acquire{nth}");
        json!({"StartAt": name, "States": {&name: taken, &over: {"Type": "Succeed"}}})
    };
    let all: Vec<Value> = (0..count).map(branch).collect();
    json!({"QueryLanguage": "JSONata", "StartAt": "All", "States": {
        "All": {"Type": "Parallel", "Branches": all, "Next": "Done"}, "Done": {"Type": "Succeed"}}})
}

#[test]
fn branches_are_combined_or_too_large() {
    for (count, expected) in [(4, 4), (5, 5), (12, 12)] {
        let findings = checked(&leaks(count)).findings.into_iter();
        let rules: Vec<Rule> = findings.map(|finding| finding.rule).collect();
        let leaks = rules
            .iter()
            .filter(|rule| **rule == Rule::NoRelease)
            .count();
        assert!(
            leaks >= expected || rules.contains(&Rule::TooLarge),
            "{count}: {rules:?}"
        );
    }
    assert!(
        checked(&leaks(5))
            .findings
            .iter()
            .all(|finding| finding.rule == Rule::NoRelease)
    );
}
