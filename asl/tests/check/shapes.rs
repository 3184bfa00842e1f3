//! Faults of shape, each alone in a machine, and in which words they are told.

use std::collections::BTreeMap;

use leasehold_asl::Rule;
use serde::Deserialize;
use serde_json::Value;

use crate::{checked, set, text};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shapes {
    machines: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    of: String,
    set: BTreeMap<String, Value>,
    says: Option<String>,
}

#[test]
fn each_fault_of_shape_is_told() {
    let shapes: Shapes = yaml_serde::from_str(&text("asl/corpus/shapes.yaml")).unwrap();
    for machine in shapes.machines.values() {
        assert_eq!(checked(machine).findings, []);
    }
    assert!(shapes.cases.len() >= 80, "{}", shapes.cases.len());
    for case in &shapes.cases {
        let mut machine = shapes.machines[&case.of].clone();
        for (pointer, value) in &case.set {
            set(&mut machine, pointer, value);
        }
        let found = checked(&machine).findings;
        assert!(
            found.iter().all(|finding| finding.rule == Rule::Malformed),
            "{found:#?}"
        );
        let messages: Vec<_> = found.iter().map(|finding| &finding.message).collect();
        assert_eq!(
            messages,
            case.says.as_slice().iter().collect::<Vec<_>>(),
            "{case:#?}"
        );
    }
}
