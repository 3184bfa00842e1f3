//! Every definition of the corpus: each fault is found at its place, and nothing else. Sound definitions pass.

use crate::{checked, root, set, text};
use leasehold_asl::{Finding, Options, Rule, Source, check, definitions};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| !path.ends_with("expected.json"))
        .collect();
    files.sort();
    files
}

/// The findings in a file, by state machine.
fn found(path: &Path) -> Vec<Vec<Finding>> {
    let read = |path: &Path| std::fs::read_to_string(path);
    let source = Source::new(path.to_str().unwrap(), read(path).unwrap());
    let definitions = definitions(&source, &Options::default(), &read).unwrap();
    let checked = definitions
        .iter()
        .map(|found| check(&found.node, &found.options));
    checked.map(|checked| checked.findings).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn expected() -> BTreeMap<String, (String, String)> {
    let text = text("asl/corpus/faulty/expected.json");
    let expected: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&text).unwrap();
    let pairs = expected.into_iter();
    pairs
        .map(|(file, of)| (file, (of["rule"].clone(), of["state"].clone())))
        .collect()
}

#[test]
fn every_fault_is_found_at_its_state_and_nothing_else() {
    let files = files("asl/corpus/faulty");
    let expected = expected();
    assert!(files.len() >= 20);
    assert_eq!(files.len(), expected.len());
    for path in files {
        let (rule, state) = &expected[&name(&path)];
        let found = found(&path).concat();
        let reported: Vec<(&str, &str)> = found
            .iter()
            .map(|finding| (finding.rule.id(), finding.state.as_str()))
            .collect();
        assert_eq!(
            reported,
            [(rule.as_str(), state.as_str())],
            "{}: {found:#?}",
            path.display()
        );
    }
}

#[test]
fn what_is_sound_passes() {
    let files = files("asl/corpus/sound");
    assert!(files.len() >= 20);
    for path in files {
        for findings in found(&path) {
            assert_eq!(findings, [], "{}", path.display());
        }
    }
}

#[test]
fn every_rule_has_a_fault_in_the_corpus() {
    let reported: BTreeSet<String> = expected().into_values().map(|(rule, _)| rule).collect();
    // No definition of the corpus has this finding, which means that the walk stopped.
    let all = Rule::ALL.iter().filter(|rule| **rule != Rule::TooLarge);
    let all: BTreeSet<String> = all.map(|rule| rule.id().to_owned()).collect();
    assert_eq!(reported, all);
}

#[test]
fn evidence_leads_from_the_start_to_the_state() {
    for path in files("asl/corpus/faulty") {
        for finding in found(&path).concat() {
            let Some(last) = finding.path.last() else {
                continue;
            };
            let ends =
                finding.state.ends_with(&last.state) || finding.rule == Rule::HandleOverwritten;
            assert!(ends, "{}: {finding:#?}", path.display());
        }
    }
}

#[test]
fn items_that_ask_for_themselves_share_nothing() {
    let text = text("asl/corpus/faulty/18-items-share-a-request.asl.json");
    let own = "\"{% $states.context.Execution.Id & '/' & $states.context.Map.Item.Index %}\"";
    let text = text.replace("\"{% $states.context.Execution.Id %}\"", own);
    let checked = checked(&serde_json::from_str(&text).unwrap());
    assert_eq!(checked.findings, []);
}

#[test]
fn our_own_machines_pass() {
    let templates = ["template.yaml", "samples.yaml"];
    let shipped: Vec<_> = templates
        .iter()
        .flat_map(|name| found(&root().join(name)))
        .collect();
    assert_eq!(shipped.len(), files("statemachines").len());
    for findings in shipped
        .into_iter()
        .chain(found(&root().join("docs/tutorial.md")))
    {
        assert_eq!(findings, []);
    }
}

/// A definition of the corpus, or one of its own, with one change.
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
    let read = |file: &str| text(&format!("asl/corpus/{file}"));
    let variants: Vec<Variant> = yaml_serde::from_str(&read("variants.yaml")).unwrap();
    assert!(variants.len() >= 48, "{}", variants.len());
    for variant in variants {
        let original = || serde_json::from_str(&read(variant.of.as_ref().unwrap())).unwrap();
        let mut definition: Value = variant.definition.clone().unwrap_or_else(original);
        for (pointer, value) in &variant.set {
            set(&mut definition, pointer, value);
        }
        let found = crate::found(&definition);
        assert_eq!(found, variant.found, "{variant:#?}");
    }
}
