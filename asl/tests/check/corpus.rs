//! Every definition of the corpus: each fault is found at its place, and nothing else. Sound definitions pass.

use crate::{checked, root, set, text};
use leasehold_asl::{Finding, Options, Rule, Source, check, definitions, explain};
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
    let checked = definitions.into_iter().map(|found| {
        let found = found.unwrap();
        check(&found.node, &found.options)
    });
    checked.map(|checked| checked.findings).collect()
}

/// The rule and the state of the fault in each file.
fn expected() -> BTreeMap<String, String> {
    serde_json::from_str(&text("asl/corpus/faulty/expected.json")).unwrap()
}

/// Asserts that these are the findings, and that the evidence of each leads from the start to its state.
fn assert_found(found: &[Finding], expected: &[String], of: &str) {
    let reported = found
        .iter()
        .map(|finding| format!("{} {}", finding.rule.id(), finding.state));
    assert_eq!(reported.collect::<Vec<_>>(), expected, "{of}: {found:#?}");
    for finding in found {
        let ends = finding
            .path
            .last()
            .is_none_or(|last| finding.state.ends_with(&last.state));
        let ends = ends || finding.rule == Rule::HandleOverwritten;
        assert!(ends, "{of}: {finding:#?}");
    }
}

#[test]
fn corpus_findings_are_exact() {
    let (files, expected) = (files("asl/corpus/faulty"), expected());
    assert!(files.len() >= 20);
    assert_eq!(files.len(), expected.len());
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_found(&found(&path).concat(), &[expected[name].clone()], name);
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
fn corpus_has_fault_for_each_rule() {
    let faults = expected().into_values();
    let rule = |fault: String| fault.split_once(' ').unwrap().0.to_owned();
    let reported: BTreeSet<String> = faults.map(rule).collect();
    // No definition of the corpus has this finding, which means that the walk stopped.
    let all = Rule::ALL.iter().filter(|rule| **rule != Rule::TooLarge);
    let all: BTreeSet<String> = all.map(|rule| rule.id().to_owned()).collect();
    assert_eq!(reported, all);
}

#[test]
fn rules_have_good_and_bad_examples() {
    let expected = expected();
    for rule in Rule::ALL.iter().filter(|rule| **rule != Rule::TooLarge) {
        let explained = explain(*rule);
        let (_, bad) = explained.split_once("\nBad (faulty/").unwrap();
        let (bad, good) = bad.split_once("\nGood (sound/").unwrap();
        let (file, _) = bad.split_once(')').unwrap();
        assert!(expected[file].starts_with(&format!("{} ", rule.id())));
        // As many states as are named, each from its first line to its last.
        for (word, shown) in [("Bad", bad), ("Good", good)] {
            let (_, states) = shown.split_once("):\n\n").unwrap();
            let first = |line: &&str| line.starts_with('"') || line.ends_with(':');
            let starts = states.lines().filter(|line| !line.starts_with(' '));
            let starts = starts.filter(first).count();
            assert_eq!(starts, named(rule.id(), word), "{explained}");
            assert!(starts > 0, "{explained}");
        }
    }
}

/// How many states a rule names as an example.
fn named(rule: &str, word: &str) -> usize {
    let rules = format!("\n{}", text("asl/src/check/rules.md"));
    let (_, section) = rules.split_once(&format!("\n## {rule}\n")).unwrap();
    let (_, line) = section.split_once(&format!("\n{word}: ")).unwrap();
    line.lines().next().unwrap().split(", ").count()
}

#[test]
fn page_has_each_rule() {
    let page = text("docs/reference/check-rules.md");
    for rule in Rule::ALL {
        let section = format!("\n### {}\n\n{}\n", rule.id(), rule.statement());
        assert!(page.contains(&section), "check-rules.md has no {section}");
    }
    let rules = page.lines().filter_map(|line| line.strip_prefix("### "));
    let unknown: Vec<_> = rules.filter(|id| Rule::of(id).is_none()).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

#[test]
fn page_excerpts_match_their_files() {
    let bare = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let page = text("docs/guides/weave.md");
    let links = page.split("](../../asl/corpus/").skip(1);
    assert_eq!(links.clone().count(), 3);
    for link in links {
        let (file, rest) = link.split_once(')').unwrap();
        let block = rest.split("\n```").nth(1).unwrap();
        let written = bare(&text(&format!("asl/corpus/{file}")));
        // Each state that is shown begins at the margin.
        for part in block.split_once('\n').unwrap().1.split("\n\"") {
            assert!(written.contains(&bare(part)), "{file}:\n{part}");
        }
    }
}

#[test]
fn our_own_machines_pass() {
    let templates = ["template.yaml", "templates/samples.yaml"];
    let shipped: Vec<_> = templates
        .iter()
        .flat_map(|name| found(&root().join(name)))
        .collect();
    assert_eq!(shipped.len(), files("templates/statemachines").len());
    for findings in shipped {
        assert_eq!(findings, []);
    }
}

/// A definition of the corpus, or one of its own, with some changes.
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
fn each_change_to_corpus_is_found() {
    let read = |file: &str| text(&format!("asl/corpus/{file}"));
    let variants: Vec<Variant> = yaml_serde::from_str(&read("variants.yaml")).unwrap();
    assert!(variants.len() >= 80, "{}", variants.len());
    for variant in variants {
        let original = || serde_json::from_str(&read(variant.of.as_ref().unwrap())).unwrap();
        let mut definition: Value = variant.definition.clone().unwrap_or_else(original);
        for (pointer, value) in &variant.set {
            set(&mut definition, pointer, value);
        }
        let found = checked(&definition).findings;
        assert_found(&found, &variant.found, &format!("{variant:#?}"));
    }
}
