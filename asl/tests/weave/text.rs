//! The text around the written parts, in the forms of files.

use leasehold_asl::weave::{Refusal, Spec, weave};
use leasehold_asl::{Node, Options, Source, Value, check};
use serde::Deserialize;

fn try_weave(name: &str, machine: &str, sections: &str) -> Result<String, Refusal> {
    let spec = Source::new("s.yaml", format!("machine: m\nsections:\n{sections}"));
    let source = Source::new(name, machine);
    weave(&source, &Spec::read(&spec)?, &Options::default())
}

fn woven(name: &str, machine: &str, sections: &str) -> String {
    try_weave(name, machine, sections).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// The meaning of a text, whatever its form and order.
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    states: Vec<String>,
    machine: String,
    starts: Option<String>,
    ends: Option<String>,
    #[serde(default)]
    contains: Vec<String>,
    lines: Option<usize>,
    refused: Option<String>,
}

#[test]
fn each_text_keeps_its_form() {
    let cases: Vec<Case> = yaml_serde::from_str(&crate::text("asl/corpus/texts.yaml")).unwrap();
    assert!(cases.len() >= 6);
    for case in cases {
        let section = ONE.replace("[A]", &format!("[{}]", case.states.join(", ")));
        let machine = case.machine.replace("TASK", TASK);
        let written = match (try_weave(&case.name, &machine, &section), &case.refused) {
            (Err(refusal), Some(words)) => {
                assert!(
                    !refusal.internal && refusal.fault.message.contains(words),
                    "{refusal}"
                );
                continue;
            }
            (written, _) => written.unwrap(),
        };
        assert!(case.refused.is_none(), "{written}");
        assert!(
            written.starts_with(&case.starts.unwrap_or_default()),
            "{written}"
        );
        assert!(
            written.ends_with(&case.ends.unwrap_or_default()),
            "{written}"
        );
        assert!(
            case.contains.iter().all(|part| written.contains(part)),
            "{written}"
        );
        assert!(
            case.lines
                .is_none_or(|lines| lines == written.lines().count())
        );
        let ends = written.matches('\n').count();
        let is_dos = machine.contains('\r');
        assert_eq!(
            written.matches("\r\n").count(),
            if is_dos { ends } else { 0 }
        );
    }
}

#[test]
fn woven_arns_keep_authors_partition() {
    let machine = r#"{"StartAt": "A", "States": {"A": {TASK, "End": true}}}"#.replace("TASK", TASK);
    for partition in ["arn:aws-cn", "arn:${Partition}", "arn:${AWS::Partition}"] {
        let machine = machine.replace("arn:aws", partition);
        for lifetime in ["ttl_seconds: 300", "keep_seconds: 300, wait_seconds: 60"] {
            let section = ONE.replace("ttl_seconds: 300", lifetime);
            let written = woven("a.json", &machine, &section);
            let calls = written.matches(":states:::lambda:invoke").count();
            assert!(calls > 1, "{written}");
            let ours = format!("\"{partition}:states:::lambda:invoke");
            assert_eq!(written.matches(&ours).count(), calls, "{written}");
        }
    }
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
fn new_specification_replaces_old_one() {
    let specs = [
        "  - {states: [A], key: $.k, ttl_seconds: 300, name: S}\n",
        "  - {states: [A, B], key: $.k, ttl_seconds: 240, name: S}\n",
        "  - {states: [A, B, C], key: $.other, keep_seconds: 200, name: S, wait_seconds: 60}\n",
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
                assert_eq!(check(&read, &Options::default()).findings, []);
            }
        }
    }
}

#[test]
fn reweaving_without_limit_removes_it() {
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

#[test]
fn step_retries_if_lease_suffices() {
    let short = ONE.replace("300", "190");
    let lambda = "arn:aws:states:::lambda:invoke";
    let retry =
        |names: &str| format!(r#", "Retry": [{{"ErrorEquals": [{names}], "MaxAttempts": 1}}]"#);
    let busy = "Lambda.TooManyRequestsException";
    for (resource, author, section, asked) in [
        (lambda, String::new(), ONE, 1),
        (
            "arn:aws:lambda:eu-west-1:123456789012:function:f",
            String::new(),
            ONE,
            1,
        ),
        (lambda, retry("\"Card.Busy\""), ONE, 1),
        (lambda, String::new(), short.as_str(), 0),
        (lambda, retry(&format!("\"{busy}\"")), ONE, 0),
        (lambda, retry("\"States.ALL\""), ONE, 0),
        ("arn:aws:states:::sns:publish", String::new(), ONE, 0),
    ] {
        let task = TASK.replace(lambda, resource);
        let states = |next: &str, more: &str| {
            let first = format!(r#""A": {{{task}{author}, {next}}}"#);
            format!(r#"{{"StartAt": "A", "States": {{{first}{more}}}}}"#)
        };
        let machine = states(r#""End": true"#, "");
        let text = woven("m.json", &machine, section);
        let ours = text
            .matches("Woven (S): Lambda did not start the step")
            .count();
        assert_eq!(ours, asked, "{author}{section}{text}");
        assert!(text.contains(author.trim_end_matches(']')), "{text}");
        assert_eq!(woven("m.json", &text, section), text);
        // Outside a section the step is the author's again.
        let second = format!(r#", "B": {{{TASK}, "End": true}}"#);
        let machine = states(r#""Next": "B""#, &second);
        let other = section.replace("[A]", "[B]");
        let over = woven("m.json", &woven("m.json", &machine, section), &other);
        assert_eq!(
            meaning("m.json", &over),
            meaning("m.json", &woven("m.json", &machine, &other))
        );
    }
}

const CAUGHT: &str = r#"{"QueryLanguage": "JSONata", "StartAt": "A", "States": {"A": {TASK,
  "Catch": [{"ErrorEquals": ["States.ALL"], "Assign": {"why": "{% $states.errorOutput.Cause %}"}, "Next": "D"}], "Next": "D"},
  "D": {"Type": "Pass", "End": true}}}"#;

#[test]
fn authors_catch_gets_steps_failure() {
    let machine = CAUGHT.replace("TASK", &TASK.replace("Parameters", "Arguments"));
    let text = woven("m.json", &machine, "  - {states: [A], key: k, name: S}\n");
    let read = Source::new("m.json", text).read().unwrap();
    let extend = read.get("States").unwrap().get("SExtendForA").unwrap();
    let clause = &extend.get("Catch").unwrap().list()[1];
    let why = clause.get("Assign").unwrap().get("why").unwrap();
    assert_eq!(why.text(), Some("{% $s_failure.Cause %}"));
    assert_eq!(
        clause.get("Output").unwrap().text(),
        Some("{% $s_failure %}")
    );
    let asked = extend.get("Arguments").unwrap().get("Payload").unwrap();
    let asked = asked.get("lease").unwrap().text().unwrap();
    assert!(
        asked.contains(": $error($string($s_failure.Cause))"),
        "{asked}"
    );
}

#[test]
fn authors_clause_is_kept() {
    let machine = CAUGHT.replace("TASK", &TASK.replace("Parameters", "Arguments"));
    let section = "  - {states: [A], key: k, name: S}\n";
    let text = woven("m.json", &machine, section);
    let clause = r#""Catch": [{"ErrorEquals": ["Card.Declined"], "Assign": {"s_failure": 1}, "Next": "Own"}, "#;
    let added = text.replacen("\"Catch\": [", clause, 1);
    let added = added.replacen(
        "\"D\": {",
        "\"Own\": {\"Type\": \"Pass\", \"End\": true}, \"D\": {",
        1,
    );
    let refused = try_weave("m.json", &added, section)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("A assigns the variable s_failure"),
        "{refused}"
    );
}
