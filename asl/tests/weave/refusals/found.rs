//! What the checker finds in what would be woven, and nothing is left to try against.

use super::{FINE, chain, refusal, refused, task};
use leasehold_asl::weave::{Spec, weave};
use leasehold_asl::{Options as CheckOptions, Source};
use serde_json::json;

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
