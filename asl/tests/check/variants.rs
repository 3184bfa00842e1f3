//! The corpus with one thing changed, from `corpus/variants.yaml`.

use crate::set;
use leasehold_asl::{Options, Source, check};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    of: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    definition: Option<Value>,
    found: Vec<String>,
}

#[test]
fn each_change_of_the_corpus_is_found() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let read = |file: &str| std::fs::read_to_string(corpus.join(file)).unwrap();
    let variants: Vec<Variant> = yaml_serde::from_str(&read("variants.yaml")).unwrap();
    assert!(variants.len() >= 48, "{}", variants.len());
    for variant in variants {
        let original = || serde_json::from_str(&read(variant.of.as_ref().unwrap())).unwrap();
        let mut definition: Value = variant.definition.clone().unwrap_or_else(original);
        for (pointer, value) in &variant.set {
            set(&mut definition, pointer, value);
        }
        let source = Source::new("x.asl.json", definition.to_string());
        let checked = check(&source.read().unwrap(), &Options::default());
        let findings = checked.findings.iter();
        let found = findings.map(|finding| format!("{} {}", finding.rule.id(), finding.state));
        let found: Vec<String> = found.collect();
        assert_eq!(found, variant.found, "{variant:#?}");
    }
}
