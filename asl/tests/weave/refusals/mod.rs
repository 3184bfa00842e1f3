//! What is refused: where, and in words that say what would not be.

mod found;

use leasehold_asl::weave::{Spec, weave};
use leasehold_asl::{Options as CheckOptions, Source};
use serde_json::{Value, json};

/// A chain of tasks, each of 60 s: A, B, C.
fn chain() -> Value {
    let mut states = serde_json::Map::new();
    for (name, next) in [("A", Some("B")), ("B", Some("C")), ("C", None)] {
        states.insert(name.to_owned(), task(next));
    }
    json!({"QueryLanguage": "JSONata", "StartAt": "A", "States": states})
}

fn task(next: Option<&str>) -> Value {
    let mut task = json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 60,
        "Arguments": {"FunctionName": "f"}});
    match next {
        Some(next) => task["Next"] = next.into(),
        None => task["End"] = true.into(),
    }
    task
}

/// The refusal of a section of a machine.
fn refusal(machine: &Value, section: &str) -> String {
    let spec = format!(
        "machine: m.asl.json\nsections:\n  - {}\n",
        section.replace('\n', "\n    ")
    );
    refused(machine, &spec)
}

fn refused(machine: &Value, spec: &str) -> String {
    let source = Source::new("m.weave.yaml", spec);
    let machine = Source::new("m.asl.json", format!("{machine:#}"));
    let woven =
        Spec::read(&source).and_then(|spec| weave(&machine, &spec, &CheckOptions::default()));
    let refusal = woven.expect_err("a refusal");
    assert!(!refusal.internal, "{refusal}");
    refusal.to_string()
}

const FINE: &str = "states: [A, B]\nkey: k\nttl_seconds: 300\nname: S";

#[test]
fn a_specification_says_nothing_that_is_not_read() {
    let machine = chain();
    let cases = [
        (
            "machines: x\n",
            "1:1: a specification has no field \"machines\": expected machine, output, sections, functions",
        ),
        (
            "machine: x\n",
            "1:1: expected the field \"sections\": a list of sections",
        ),
        (
            "machine: x\nsections: []\n",
            "2:11: expected at least one section",
        ),
        (
            "machine: [x]\nsections: [{states: [A], key: k, ttl_seconds: 60}]\n",
            "1:10: expected a text",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl: 60}\n",
            "3:27: a section has no field \"ttl\": expected name, states,",
        ),
        (
            "machine: x\nsections:\n  - {states: A, key: k, ttl_seconds: 60}\n",
            "3:14: expected a list of the states' names",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 3}\n",
            "3:40: expected a number of seconds from 4 to 86400",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: '', ttl_seconds: 60}\n",
            "3:24: expected a key that is not empty",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, mode: steal}\n",
            "3:50: expected a mode of retry (ask again) or queue (wait in line)",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, mode: queue}\n",
            "3:50: expected wait_seconds beside mode: queue",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, wait_seconds: 5}\n",
            "3:44: wait_seconds is for mode: queue",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, mode: queue, wait_seconds: 5, permits: 2}\n",
            "3:74: there is no line for permits",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, bound: 5}\n",
            "3:51: expected \"lease\", or no bound at all",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, unfinished: no}\n",
            "3:56: expected wait (until the lease has run out) or leave",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, name: my section}\n",
            "3:50: expected a name of up to 30 letters and digits",
        ),
        (
            "machine: x\nsections:\n  - {states: [A], key: k, ttl_seconds: 60, metadata: {a: 1}}\n",
            "3:58: expected a text",
        ),
        (
            "machine: x\nfunctions: {aquire: f}\nsections: []\n",
            "2:13: functions has no field \"aquire\"",
        ),
        ("machine: x\n  sections:\n", "m.weave.yaml:2:"),
    ];
    for (spec, said) in cases {
        let refused = refused(&machine, spec);
        assert!(refused.contains(said), "{spec}\n{refused}");
    }
}

#[test]
fn a_section_is_of_states_that_are_there_in_one_scope() {
    let mut machine = chain();
    machine["States"]["Both"] = json!({"Type": "Parallel", "End": true, "Branches": [
        {"StartAt": "Inner", "States": {"Inner": task(None)}}]});
    machine["States"]["C"] = task(Some("Both"));
    let said = refusal(&machine, &FINE.replace("[A, B]", "[A, Inner]"));
    assert!(
        said.contains("m.weave.yaml:3:5: its states are not in one scope"),
        "{said}"
    );
    let said = refusal(&machine, &FINE.replace("[A, B]", "[A, inne]"));
    assert!(
        said.contains("3:17: there is no state \"inne\" in m.asl.json; Inner?"),
        "{said}"
    );
    let said = refusal(&machine, &FINE.replace("[A, B]", "[A, A]"));
    assert!(said.contains("A is named twice"), "{said}");
}

#[test]
fn a_section_is_entered_at_one_state() {
    let mut machine = chain();
    machine["StartAt"] = "Which".into();
    machine["States"]["Which"] = json!({"Type": "Choice", "Choices": [{"Condition": "{% $states.input.b %}", "Next": "B"}], "Default": "A"});
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("it is entered at A (from Which) and at B (from Which)"),
        "{said}"
    );
    machine["States"]["Which"] = json!({"Type": "Pass", "Next": "C"});
    let said = refusal(&machine, &FINE.replace("[A, B]", "[A]"));
    assert!(
        said.contains("no way leads to A: leave it out, or lead there"),
        "{said}"
    );
}

#[test]
fn what_ends_the_execution_is_not_inside() {
    let mut machine = chain();
    machine["States"]["C"] = json!({"Type": "Succeed"});
    let said = refusal(&machine, &FINE.replace("[A, B]", "[A, B, C]"));
    assert!(
        said.contains("C ends the execution: leave it out"),
        "{said}"
    );
}

#[test]
fn names_are_nobody_elses() {
    let mut machine = chain();
    machine["States"]["C"] = task(Some("SAcquire"));
    machine["States"]["SAcquire"] = json!({"Type": "Succeed"});
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("there is a state \"SAcquire\" already"),
        "{said}"
    );
    let mut machine = chain();
    machine["States"]["C"]["Assign"] = json!({"s_lease": 1});
    let said = refusal(&machine, FINE);
    assert!(said.contains("C assigns the variable s_lease"), "{said}");
    let said = refused(
        &chain(),
        "machine: m\nsections:\n  - {states: [A], key: k, ttl_seconds: 300, name: S}\n  - {states: [C], key: l, ttl_seconds: 300, name: s}\n",
    );
    assert!(said.contains("4:5: there is a section S already"), "{said}");
    let said = refused(
        &chain(),
        "machine: m\nsections:\n  - {states: [A, B], key: k, ttl_seconds: 300}\n  - {states: [B, C], key: l, ttl_seconds: 300}\n",
    );
    assert!(
        said.contains("4:5: B is in the section A already"),
        "{said}"
    );
}

#[test]
fn a_key_is_in_the_language_of_the_machine_and_items_do_not_share_it() {
    let said = refusal(&chain(), &FINE.replace("key: k", "key: $.order"));
    assert!(said.contains("the definition is in JSONata"), "{said}");
    let mut plain = chain();
    plain["QueryLanguage"] = "JSONPath".into();
    let said = refusal(
        &plain,
        &FINE.replace("key: k", "key: \"{% $states.input.order %}\""),
    );
    assert!(said.contains("the definition is in JSONPath"), "{said}");

    let each = json!({"QueryLanguage": "JSONata", "StartAt": "Each", "States": {"Each": {"Type": "Map", "End": true,
        "ItemProcessor": {"StartAt": "A", "States": {"A": task(None)}}}}});
    let said = refusal(&each, "states: [A]\nkey: k\nttl_seconds: 300");
    assert!(
        said.contains("all items of Each would ask for the same key"),
        "{said}"
    );

    let branch = |name: &str| json!({"StartAt": name, "States": {name: task(None)}});
    let both = json!({"QueryLanguage": "JSONata", "StartAt": "Both", "States": {"Both": {"Type": "Parallel", "End": true,
        "Branches": [branch("A"), branch("B")]}}});
    let said = refused(
        &both,
        "machine: m\nsections:\n  - {states: [A], key: k, ttl_seconds: 300}\n  - {states: [B], key: k, ttl_seconds: 300}\n",
    );
    assert!(
        said.contains("A and B ask for the same key side by side in Both"),
        "{said}"
    );
}

#[test]
fn a_machine_that_is_none_is_refused_at_its_place() {
    let mut machine = chain();
    machine["States"]["B"]["Next"] = "Nowhere".into();
    let said = refusal(&machine, FINE);
    assert!(
        said.starts_with("m.asl.json:") && said.contains("there is no state \"Nowhere\" here"),
        "{said}"
    );
    let said = refused(
        &json!([1]),
        "machine: m\nsections:\n  - {states: [A], key: k, ttl_seconds: 300}\n",
    );
    assert!(
        said.starts_with("m.asl.json:1:1: expected StartAt"),
        "{said}"
    );
}

#[test]
fn what_grows_beyond_what_the_service_takes_is_refused() {
    let mut machine = chain();
    machine["Comment"] = "x".repeat((1 << 20) - 3000).into();
    let told = refusal(&machine, FINE);
    assert!(
        told.starts_with("m.asl.json: guarded, the machine would have 10"),
        "{told}"
    );
    assert!(
        told.contains("and Step Functions takes 1048576 (1 MB)"),
        "{told}"
    );
    machine["Comment"] = "x".repeat(1 << 20).into();
    let told = refusal(&machine, FINE);
    assert!(told.starts_with("m.asl.json: has 10"), "{told}");
}
