//! The refusals of `weave` and their messages, from `corpus/refusals.yaml`.

use crate::{set, text};
use leasehold_asl::weave::{Refusal, Spec, weave};
use leasehold_asl::{Options, Source};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    machine: Option<Value>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    spec: Option<String>,
    says: Option<Vec<String>>,
}

const SPEC: &str =
    "machine: m.asl.json\nsections:\n  - {states: [A, B], key: k, ttl_seconds: 300, name: S}\n";

/// A chain of tasks, each of 60 s: A, B, C.
fn chain() -> Value {
    let task = |field: &str, value: Value| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 60,
            "Arguments": {"FunctionName": "f"}, field: value})
    };
    json!({"QueryLanguage": "JSONata", "StartAt": "A", "States": {
        "A": task("Next", json!("B")), "B": task("Next", json!("C")), "C": task("End", json!(true))}})
}

fn woven(machine: &Value, spec: &str) -> Result<String, Refusal> {
    let spec = Spec::read(&Source::new("m.weave.yaml", spec))?;
    let machine = Source::new("m.asl.json", format!("{machine:#}"));
    weave(&machine, &spec, &Options::default())
}

#[test]
fn each_refusal_says_its_reason() {
    let cases: Vec<Case> = yaml_serde::from_str(&text("asl/corpus/refusals.yaml")).unwrap();
    assert!(cases.len() >= 50, "{}", cases.len());
    for case in cases {
        let mut machine = case.machine.clone().unwrap_or_else(chain);
        for (pointer, value) in &case.set {
            set(&mut machine, pointer, value);
        }
        let woven = woven(&machine, case.spec.as_deref().unwrap_or(SPEC));
        let Some(says) = &case.says else {
            woven.unwrap();
            continue;
        };
        let refusal = woven.unwrap_err();
        assert!(!refusal.internal, "{refusal}");
        let refusal = refusal.to_string();
        let is_said = says.iter().all(|words| refusal.contains(words));
        assert!(is_said, "{case:#?}\n{refusal}");
    }
}

#[test]
fn weaving_beyond_service_limit_is_refused() {
    let mut machine = chain();
    machine["Comment"] = "x".repeat((1 << 20) - 3000).into();
    let refused = woven(&machine, SPEC).unwrap_err().to_string();
    assert!(refused.starts_with("m.asl.json: woven, the machine would have 10"));
    assert!(refused.contains("but Step Functions accepts at most 1048576 (1 MB)"));
    machine["Comment"] = "x".repeat(1 << 20).into();
    let refused = woven(&machine, SPEC).unwrap_err().to_string();
    assert!(refused.starts_with("m.asl.json: has 10"));
}

#[test]
fn a_key_is_not_too_long() {
    for (bytes, is_refused) in [(1024, false), (1025, true)] {
        let spec = SPEC.replace("key: k", &format!("key: {}", "k".repeat(bytes)));
        let refused = woven(&chain(), &spec)
            .err()
            .map(|refusal| refusal.to_string());
        assert_eq!(refused.is_some(), is_refused, "{refused:?}");
        let said = "3:27: expected a key of at most 1024 bytes, found 1025";
        assert!(refused.is_none_or(|refused| refused.contains(said)));
        let found = crate::found(
            &json!({"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "acquire", "TimeoutSeconds": 9,
            "Parameters": {"key": "k".repeat(bytes), "holder": "h", "lifetime": "execution", "keep_seconds": 9}, "End": true}}}),
        );
        assert_eq!(
            found.contains(&"invalid-request A".to_owned()),
            is_refused,
            "{found:?}"
        );
    }
}
