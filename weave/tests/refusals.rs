//! What is refused: where, and in words that say what would not be.
#![allow(clippy::unwrap_used, missing_docs)]

use leasehold_weave::{CheckOptions, Source, Spec, weave};
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
fn a_task_without_a_bound_is_named_with_what_to_do() {
    let mut machine = chain();
    machine["States"]["B"]
        .as_object_mut()
        .unwrap()
        .remove("TimeoutSeconds");
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("m.weave.yaml:3:5: B has no TimeoutSeconds, and may outlast the lease it runs under: give it a time limit that fits a lease of 300 s, or say bound: lease in the section"),
        "{said}"
    );
    // With it, all is well.
    let spec = format!(
        "machine: m\nsections:\n  - {}\n",
        format!("{FINE}\nbound: lease").replace('\n', "\n    ")
    );
    let spec = Spec::read(&Source::new("s", spec)).unwrap();
    weave(
        &Source::new("m", machine.to_string()),
        &spec,
        &CheckOptions::default(),
    )
    .unwrap();
    // JSONPath computes nothing.
    machine["QueryLanguage"] = "JSONPath".into();
    for name in ["A", "B", "C"] {
        machine["States"][name]
            .as_object_mut()
            .unwrap()
            .remove("Arguments");
        machine["States"][name]["Parameters"] = json!({"FunctionName": "f"});
    }
    let said = refusal(&machine, &format!("{FINE}\nbound: lease"));
    assert!(said.contains("B is in JSONPath, which cannot compute a time limit: give it a TimeoutSeconds, or \"QueryLanguage\": \"JSONata\""), "{said}");
}

#[test]
fn a_step_longer_than_its_lease_is_told_which_ttl_would_do() {
    let mut machine = chain();
    machine["States"]["B"]["TimeoutSeconds"] = 500.into();
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("B may end ") && said.ends_with(": a ttl_seconds of 518 would do"),
        "{said}"
    );
    // What is said holds, and a second less does not.
    refusal(&machine, &FINE.replace("300", "517"));
    let spec = format!(
        "machine: m\nsections:\n  - {}\n",
        FINE.replace("300", "518").replace('\n', "\n    ")
    );
    let spec = Spec::read(&Source::new("s", spec)).unwrap();
    weave(
        &Source::new("m", machine.to_string()),
        &spec,
        &CheckOptions::default(),
    )
    .unwrap();
    machine["States"]["B"]["TimeoutSeconds"] = 90_000.into();
    let said = refusal(&machine, FINE);
    assert!(said.contains("no ttl_seconds would do"), "{said}");
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
fn a_section_that_others_abort_is_refused() {
    let branch = |name: &str| json!({"StartAt": name, "States": {name: task(None)}});
    let both = json!({"QueryLanguage": "JSONata", "StartAt": "Both", "States": {"Both": {"Type": "Parallel", "End": true,
        "Branches": [branch("A"), branch("B")]}}});
    let said = refusal(&both, "states: [A]\nkey: k\nttl_seconds: 300");
    assert!(
        said.contains("Both / B fails, and Both aborts the other branches")
            && said.contains("catch that failure inside"),
        "{said}"
    );
}

#[test]
fn a_section_that_goes_on_after_a_timeout_is_refused() {
    let mut machine = chain();
    machine["States"]["A"]["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": "B"}]);
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("after a timeout of A the section goes on"),
        "{said}"
    );
    assert!(
        said.ends_with("lead that Catch out of the section"),
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
fn a_loop_that_nothing_counts_is_refused() {
    let mut machine = chain();
    machine["States"]["B"] = json!({"Type": "Choice", "Choices": [{"Condition": "{% $states.input.more %}", "Next": "A"}], "Default": "C"});
    machine["States"]["A"]["TimeoutSeconds"] = 200.into();
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("count the rounds in a field of its own"),
        "{said}"
    );
}

#[test]
fn what_the_checker_finds_in_the_authors_own_is_refused_with_its_cure() {
    let mut machine = chain();
    machine["States"]["B"] = json!({"Type": "Choice", "Choices": [{"Condition": "{% $states.input.more %}", "Next": "C"}]});
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("B no rule that matches and no Default ends the execution here")
            && said.contains("a Choice needs a Default"),
        "{said}"
    );

    let mut machine = chain();
    machine["States"]["A"]["Catch"] = json!([{"ErrorEquals": ["Lease.Lost"], "Next": "B"}]);
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("B works on although the lease of SAcquire is lost"),
        "{said}"
    );

    let mut machine = chain();
    machine["States"]["B"] =
        json!({"Type": "Wait", "Seconds": "{% $states.input.s %}", "Next": "C"});
    let said = refusal(&machine, FINE);
    assert!(
        said.contains("give it Seconds that fit a lease of 300 s"),
        "{said}"
    );

    let each = json!({"QueryLanguage": "JSONata", "StartAt": "Each", "States": {"Each": {"Type": "Map", "End": true, "MaxConcurrency": 1,
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}, "StartAt": "A", "States": {"A": task(None)}}}}});
    let said = refusal(&each, "states: [A]\nkey: k\nttl_seconds: 300");
    assert!(said.contains("use a Standard workflow"), "{said}");
}

#[test]
fn a_section_around_another_is_refused_where_nobody_can_tell_what_is_left() {
    let both = json!({"QueryLanguage": "JSONata", "StartAt": "Both", "States": {"Both": {"Type": "Parallel", "End": true,
        "Branches": [{"StartAt": "A", "States": {"A": task(None)}}, {"StartAt": "B", "States": {"B": {"Type": "Pass", "End": true}}}]}}});
    let outer = "  - {states: [Both], key: k, ttl_seconds: 3000}\n";
    let inner = "  - {states: [A], key: l, ttl_seconds: 300}\n";
    let said = refused(&both, &format!("machine: m\nsections:\n{outer}{inner}"));
    assert!(
        said.contains(
            "3:5: a failure of Both does not tell whether something inside is still at work"
        ),
        "{said}"
    );
    // Each by itself is no trouble.
    for one in [outer, inner] {
        let spec = Spec::read(&Source::new("s", format!("machine: m\nsections:\n{one}"))).unwrap();
        weave(
            &Source::new("m", both.to_string()),
            &spec,
            &CheckOptions::default(),
        )
        .unwrap();
    }
    // The lease that would be forgotten is named, not that of the section around.
    let mut failing = both;
    failing["States"]["Both"]["Branches"][1]["States"]["B"] = task(None);
    let said = refused(&failing, &format!("machine: m\nsections:\n{outer}{inner}"));
    assert!(said.contains("4:5: Both / B fails"), "{said}");
}
