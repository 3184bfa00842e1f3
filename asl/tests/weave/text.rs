//! The text around what is woven, in the forms that files have.

use leasehold_asl::weave::{Spec, weave};
use leasehold_asl::{Node, Value, check};
use leasehold_asl::{Options as CheckOptions, Source};

fn woven(name: &str, machine: &str, sections: &str) -> String {
    let spec = Source::new("s.yaml", format!("machine: m\nsections:\n{sections}"));
    let spec = Spec::read(&spec).unwrap();
    let source = Source::new(name, machine);
    weave(&source, &spec, &CheckOptions::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// What a text means, whatever its form and order.
fn meaning(name: &str, text: &str) -> String {
    fn plain(node: &Node) -> String {
        match &node.value {
            Value::Object(members) => {
                let mut fields: Vec<String> = members
                    .iter()
                    .map(|member| format!("{:?}: {}", member.key, plain(&member.value)))
                    .collect();
                fields.sort();
                format!("{{{}}}", fields.join(", "))
            }
            Value::List(list) => format!(
                "[{}]",
                list.iter().map(plain).collect::<Vec<_>>().join(", ")
            ),
            value => format!("{value:?}"),
        }
    }
    plain(&Source::new(name, text).read().unwrap())
}

const TASK: &str = r#""Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 30, "Parameters": { "FunctionName": "f" }"#;
const ONE: &str = "  - {states: [A], key: $.k, ttl_seconds: 300, name: S}\n";

#[test]
fn what_is_in_one_line_stays_in_one_line() {
    let machine = format!(
        r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, "Next": "B"}}, "B": {{"Type": "Succeed"}}}}}}"#
    );
    let text = woven("m.json", &machine, ONE);
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with(r#"{"StartAt": "SAcquire", "States": {"A": {"Type": "Task","#),
        "{text}"
    );
    assert!(text.ends_with(r#""B": {"Type": "Succeed"}}}"#));
}

#[test]
fn tabs_and_line_ends_are_those_of_the_file() {
    let machine = format!(
        "{{\r\n\t\"StartAt\": \"A\",\r\n\t\"States\": {{\r\n\t\t\"A\": {{\r\n\t\t\t{TASK},\r\n\t\t\t\"End\": true\r\n\t\t}}\r\n\t}}\r\n}}\r\n"
    );
    let text = woven("m.json", &machine, ONE);
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(
        text.contains("\r\n\t\t\"SAcquire\": {\r\n\t\t\t\"Type\": \"Task\",\r\n"),
        "{text}"
    );
    assert!(
        text.contains("\r\n\t\t\t\"Next\": \"SRelease\"\r\n\t\t}"),
        "{text}"
    );
}

#[test]
fn yaml_in_braces_stays_in_braces_and_quotes_stay_quotes() {
    let machine =
        format!("StartAt: 'A'\nStates: {{A: {{{TASK}, Next: \"B\"}}, B: {{Type: Succeed}}}}\n");
    let text = woven("m.yaml", &machine, ONE);
    assert!(
        text.starts_with("StartAt: SAcquire\nStates: {A: {"),
        "{text}"
    );
    assert!(
        text.contains("\"Next\": \"SReleaseThenB\"") || text.contains("Next: \"SReleaseThenB\""),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn texts_over_several_lines_and_empty_values_are_stepped_over() {
    let machine = "\
StartAt: A
States:
  A:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    TimeoutSeconds: 30
    Parameters: {FunctionName: f}
    End: true
    Comment: |
      Two lines
      of text.

  B:   # never reached
    Type: Pass
    Result:
    End: true
";
    let text = woven("m.yaml", machine, ONE);
    assert!(
        text.contains("    Comment: |\n      Two lines\n      of text.\n  SAcquire:\n"),
        "{text}"
    );
    assert!(
        text.ends_with("\n  B:   # never reached\n    Type: Pass\n    Result:\n    End: true\n"),
        "{text}"
    );
}

#[test]
fn an_alias_is_kept_where_nothing_of_it_changes() {
    let machine = "\
StartAt: A
States:
  A: &a
    Type: Task
    Resource: &lambda arn:aws:states:::lambda:invoke
    TimeoutSeconds: 30
    Parameters: {FunctionName: f}
    Retry: &retry [{ErrorEquals: [X], MaxAttempts: 1}]
    Next: B
  B:
    Type: Task
    Resource: *lambda
    TimeoutSeconds: 30
    Parameters: {FunctionName: f}
    End: true
    Retry: *retry
";
    let text = woven("m.yaml", machine, &ONE.replace("[A]", "[A, B]"));
    assert!(
        text.contains("    Resource: *lambda\n")
            && text.contains("    Retry: *retry\n  SAcquire:\n"),
        "{text}"
    );
}

#[test]
fn a_shared_catch_is_refused_and_not_changed_twice() {
    let machine = "\
StartAt: A
States:
  A:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    TimeoutSeconds: 30
    Parameters: {FunctionName: f}
    Catch: &catch [{ErrorEquals: [X], Next: C}]
    Next: B
  B:
    Type: Task
    Resource: arn:aws:states:::lambda:invoke
    TimeoutSeconds: 30
    Parameters: {FunctionName: f}
    Catch: *catch
    Next: C
  C: {Type: Succeed}
";
    let spec = Source::new(
        "s.yaml",
        format!("machine: m\nsections:\n{}", ONE.replace("[A]", "[A, B]")),
    );
    let refused = weave(
        &Source::new("m.yaml", machine),
        &Spec::read(&spec).unwrap(),
        &CheckOptions::default(),
    );
    let refused = refused.unwrap_err();
    assert!(
        !refused.internal && refused.message.contains("an alias leads here"),
        "{refused}"
    );
}

const CHAIN: &str = r#"{
  "StartAt": "A",
  "States": {
    "A": { TASK, "Catch": [{ "ErrorEquals": ["X"], "Next": "D" }], "Next": "B" },
    "B": { TASK, "Next": "C" },
    "C": {
      TASK,
      "Catch": [
        {
          "ErrorEquals": ["States.ALL"],
          "ResultPath": "$.e",
          "Next": "D"
        }
      ],
      "Next": "D"
    },
    "D": { "Type": "Succeed" }
  }
}
"#;

/// The same in blocks.
fn chain_in_yaml() -> String {
    let task = "    Type: Task\n    Resource: arn:aws:states:::lambda:invoke\n    TimeoutSeconds: 30\n    Parameters: {FunctionName: f}\n";
    format!(
        "StartAt: A\nStates:\n  A:\n{task}    Catch:\n      - ErrorEquals: [X]\n        Next: D\n    Next: B\n  B:\n{task}    Next: C\n  C:\n{task}    Catch:\n    - ErrorEquals: [States.ALL]\n      ResultPath: $.e\n      Next: D\n    Next: D\n  # the end\n  D: {{Type: Succeed}}\n"
    )
}

#[test]
fn what_was_woven_by_one_specification_becomes_what_is_woven_by_another() {
    let specs = [
        "  - {states: [A], key: $.k, ttl_seconds: 300, name: S}\n",
        "  - {states: [A, B], key: $.k, ttl_seconds: 240, name: S}\n",
        "  - {states: [A, B, C], key: $.other, ttl_seconds: 200, name: S, mode: queue, wait_seconds: 60}\n",
        "  - {states: [B], key: $.k, ttl_seconds: 300, name: T, unfinished: leave}\n",
        "  - {states: [C], key: $.k, ttl_seconds: 200}\n",
        "  - {states: [A], key: $.k, ttl_seconds: 300, name: S}\n  - {states: [B, C], key: $.l, ttl_seconds: 200, name: T}\n",
    ];
    for (name, plain) in [
        ("m.json", CHAIN.replace("TASK", TASK)),
        ("m.yaml", chain_in_yaml()),
    ] {
        for first in specs {
            let once = woven(name, &plain, first);
            for second in specs {
                let anew = woven(name, &plain, second);
                let over = woven(name, &once, second);
                assert_eq!(
                    meaning(name, &over),
                    meaning(name, &anew),
                    "{first}{second}{over}"
                );
                let read = Source::new(name, over.as_str()).read().unwrap();
                assert_eq!(check(&read, &CheckOptions::default()).findings, []);
            }
        }
    }
}

#[test]
fn a_limit_from_the_lease_goes_when_it_is_not_asked_for_any_more() {
    let machine = format!(
        r#"{{"QueryLanguage": "JSONata", "StartAt": "A", "States": {{"A": {{{}, "End": true}}}}}}"#,
        TASK.replace("Parameters", "Arguments")
    );
    let free = ONE.replace("$.k", "k");
    let bound = free.replace("name: S", "name: S, bound: lease");
    let once = woven("m.json", &machine, &bound);
    assert!(once.contains("$min([30, $left])"), "{once}");
    let over = woven("m.json", &once, &free);
    assert_eq!(
        meaning("m.json", &over),
        meaning("m.json", &woven("m.json", &machine, &free))
    );
}
