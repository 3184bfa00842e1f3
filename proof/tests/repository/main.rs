//! The repository agrees with itself: what one file names, another one has. Every rule is a function from the files to what
//! is wrong with them, and each is shown to notice faults that are seeded into copies of the repository's own files.
#![allow(clippy::unwrap_used, missing_docs)]

mod advisories;
mod closed;
mod documents;
mod exposure;
mod modules;
mod monitoring;
mod operators;
mod packages;
mod stack;
mod wording;
mod workflows;

use std::collections::BTreeMap;
use std::path::Path;

/// Path from the root, with `/`, to content; a file that is no text has none.
struct Files(BTreeMap<String, String>);

impl Files {
    fn read() -> Self {
        let mut files = BTreeMap::new();
        let mut directories = vec![leasehold_proof::root().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if !path.is_dir() {
                    let content = std::fs::read(&path).unwrap();
                    let content = String::from_utf8(content).unwrap_or_default();
                    files.insert(from_root(&path), content);
                } else if !["target", ".git", ".aws-sam", "node_modules", "dist"].contains(&name) {
                    directories.push(path);
                }
            }
        }
        Self(files)
    }

    /// The content of a file, empty if there is none.
    fn text(&self, path: &str) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }

    /// The files whose path begins and ends like this.
    fn all<'a>(&'a self, start: &'a str, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self
            .0
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        files.filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
    }
}

fn from_root(path: &Path) -> String {
    let path = path.strip_prefix(leasehold_proof::root()).unwrap();
    path.to_str().unwrap().replace('\\', "/")
}

/// What is wrong, a sentence each.
type Rule = fn(&Files) -> Vec<String>;

/// A fault to seed: in this file, each `from` becomes `to`.
type SeededEdit = (&'static str, &'static str, &'static str);

type Rules = Vec<(&'static str, Rule, &'static [SeededEdit])>;

fn rules() -> Rules {
    [
        documents::RULES,
        closed::RULES,
        stack::RULES,
        exposure::RULES,
        monitoring::RULES,
        operators::RULES,
        packages::RULES,
        workflows::RULES,
    ]
    .concat()
}

/// Rules of style only, on which no promise rests.
fn style() -> Rules {
    [modules::RULES, wording::RULES].concat()
}

#[test]
fn every_rule_holds() {
    hold(rules());
}

#[test]
fn every_rule_notices_seeded_faults() {
    notice_faults(rules());
}

#[test]
#[ignore = "`make check` runs it"]
fn style_holds() {
    hold(style());
}

#[test]
#[ignore = "`make check` runs it"]
fn style_notices_faults() {
    notice_faults(style());
}

fn hold(rules: Rules) {
    let files = Files::read();
    let broken = rules.into_iter().filter_map(|(sentence, rule, _)| {
        let wrong = rule(&files);
        (!wrong.is_empty()).then(|| format!("{sentence}:\n  {}", wrong.join("\n  ")))
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn notice_faults(rules: Rules) {
    let mut files = Files::read();
    for (sentence, rule, faults) in rules {
        assert!(!faults.is_empty(), "{sentence}: no fault");
        for (path, from, to) in faults {
            let text = files.text(path).to_owned();
            assert!(text.contains(from), "{sentence}: {from:?} is not in {path}");
            let seeded = text.replace(from, to);
            files.0.insert((*path).to_owned(), seeded);
            let noticed = !rule(&files).is_empty();
            assert!(noticed, "{sentence}: {path}: {from:?} to {to:?}");
            files.0.insert((*path).to_owned(), text);
        }
    }
}
