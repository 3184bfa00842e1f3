//! Documents that name tests: each test exists where it is said to be, no promise and no fault is without one, and
//! no test of a fault is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Report, Tree};

const SEMANTICS: &str = "docs/SEMANTICS.md";
const DESIGN: &str = "docs/DESIGN.md";

/// What is promised.
const PROMISES: &[&str] = &[
    "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "L1", "L2", "L3", "L4",
];

/// What can go wrong. Each of it meets acquire, extend and release, unless a cell says `–`; those few are named.
const FAULTS: &[(&str, &[&str])] = &[
    ("an answer is lost after the write, in five ways", &[]),
    ("every answer is lost", &[]),
    ("a request is lost before the write, or all are", &[]),
    (
        "a handler runs twice with one event, in sequence and at once",
        &[],
    ),
    (
        "a duplicate after the release, or after others held it",
        &[],
    ),
    ("throttled once, or for ever", &[]),
    ("in the way of a transaction", &[]),
    ("the server never answers", &[]),
    (
        "a process is stopped for longer than its lease",
        &["acquire"],
    ),
    ("clocks jump by hours, or are apart", &[]),
    (
        "no table, another key schema, no index, access denied, no Region",
        &[],
    ),
    ("items that are not ours, up to 400 KB", &[]),
    (
        "keys and holders that are empty, too long, or look alike",
        &[],
    ),
    ("hostile events", &[]),
    ("the row is purged, or deleted by hand", &[]),
    ("sweep comes at the same time", &[]),
    ("a handler panics, or is killed before it answers", &[]),
];

const CALLS: [&str; 3] = ["acquire", "extend", "release"];

/// Where every test is about one of the faults.
const TESTS_OF_FAULTS: &str = "proof/tests/faults/";

pub fn named_tests_exist(tree: &Tree, report: &mut Report) {
    let tests = tests(tree);
    let mut all = 0;
    for path in [DESIGN, SEMANTICS] {
        for named in named(tree.get(path).unwrap_or_default()) {
            all += 1;
            let Some(files) = tests.get(named.test) else {
                report.error(format!("{path}: there is no test {}", named.test));
                continue;
            };
            let file = named.link.map(|link| from_root(path, link));
            if let Some(file) = file.filter(|file| !files.contains(file.as_str())) {
                report.error(format!("{path}: {} is not in {file}", named.test));
            }
        }
    }
    if all == 0 {
        report.error(format!("neither {DESIGN} nor {SEMANTICS} names a test"));
    }
}

pub fn promises_and_faults_have_tests(tree: &Tree, report: &mut Report) {
    let text = tree.get(SEMANTICS).unwrap_or_default();
    let rows = rows(text);
    for promise in PROMISES {
        match rows.get(promise) {
            None => report.error(format!("{SEMANTICS}: nothing is said of {promise}")),
            Some(cells) if cells.iter().all(|cell| named(cell).is_empty()) => {
                report.error(format!("{SEMANTICS}: no test holds {promise}"));
            }
            Some(_) => {}
        }
    }
    for (fault, spared) in FAULTS {
        let Some(cells) = rows.get(fault) else {
            report.error(format!("{SEMANTICS}: no row \"{fault}\""));
            continue;
        };
        for (nth, call) in CALLS.iter().enumerate() {
            let cell = cells.get(nth).copied().unwrap_or_default();
            let is_spared = spared.contains(call) && cell == "–";
            if named(cell).is_empty() && !is_spared {
                report.error(format!(
                    "{SEMANTICS}: no test shows {call} under \"{fault}\""
                ));
            }
        }
    }
    let told: BTreeSet<&str> = named(text).into_iter().map(|named| named.test).collect();
    if tree.files(TESTS_OF_FAULTS, ".rs").next().is_none() {
        report.error(format!("{TESTS_OF_FAULTS}: no test of a fault to look at"));
    }
    for (test, files) in tests(tree) {
        if let Some(file) = files.iter().find(|file| file.starts_with(TESTS_OF_FAULTS))
            && !told.contains(test)
        {
            report.error(format!("{SEMANTICS}: nothing is said of {test} in {file}"));
        }
    }
}

/// A test as a document names it.
struct Named<'a> {
    test: &'a str,
    /// The file that the document says it is in.
    link: Option<&'a str>,
}

/// The tests that a document names: whatever stands as code, and nothing else, between brackets.
fn named(text: &str) -> Vec<Named<'_>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("[`") {
        let Some((inside, after)) = text[at + 1..].split_once(']') else {
            continue;
        };
        let link = after
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'));
        let link = link.map(|(link, _)| link);
        let code = |part: &'_ str| Some(part.trim().strip_prefix('`')?.strip_suffix('`')?.len());
        if inside.split(',').any(|part| code(part).is_none()) {
            continue;
        }
        let tests = inside.split(',').map(|part| part.trim().trim_matches('`'));
        found.extend(
            tests
                .filter(|test| is_name(test))
                .map(|test| Named { test, link }),
        );
    }
    found
}

/// A test says a sentence; a type or a field does not.
fn is_name(text: &str) -> bool {
    let part_of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.contains('_') && text.chars().all(part_of_a_name)
}

/// Where a link in this document leads.
pub fn from_root(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('#').next().unwrap_or_default().split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The rows of a document's tables, by their first cells.
fn rows(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let cells = |line| -> Option<Vec<&str>> {
        let line: &str = line;
        let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(inside.split('|').map(str::trim).collect())
    };
    let rows = text.lines().filter_map(cells);
    rows.filter_map(|cells| Some((*cells.first()?, cells[1..].to_vec())))
        .collect()
}

/// Every test, and the files that have one of this name: functions that the harness runs, and the conformance suite's
/// cases, as far as the suite runs them.
fn tests(tree: &Tree) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, content) in tree.files("", ".rs") {
        let is_suite = path.starts_with("lib/src/conformance/");
        let mut marked = false;
        for line in content.lines().map(str::trim) {
            let function = line.strip_prefix("async fn ").or(line.strip_prefix("fn "));
            if let Some(function) = function {
                let name = &function[..function.find(['(', '<']).unwrap_or(function.len())];
                let is_case = || is_suite && content.contains(&format!(" {name}(bench"));
                if marked || is_case() {
                    tests.entry(name).or_default().insert(path);
                }
            }
            marked = ["#[test]", "#[tokio::test"]
                .iter()
                .any(|mark| line.starts_with(mark))
                || (marked && (line.starts_with("#[") || line.starts_with("//")));
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const FAULTY: &str = "proof/tests/faults/lost.rs";
    const TESTS: &str = "#[tokio::test(flavor = \"multi_thread\")]\nasync fn it_is_so() {}\n\
        #[test]\n#[ignore = \"slow\"]\nfn so_is_this() {}\nfn it_helps() {}\n";
    const SUITE: &str = "    a_case(bench).await;\nasync fn a_case<B: Bench>(bench: &B) {}\n\
        async fn a_case_that_nobody_runs<B: Bench>(bench: &B) {}\n";

    fn exist(path: &str, document: &str) -> Vec<String> {
        let tree = [
            (path, document),
            (FAULTY, TESTS),
            ("lib/src/conformance/x.rs", SUITE),
        ];
        errors(named_tests_exist, &tree)
    }

    /// A document in which nothing is missing.
    fn complete() -> String {
        let test = "[`it_is_so`](../tests/faults/lost.rs), [`so_is_this`]";
        let promise = |id: &&str| format!("| {id} | a promise | {test} |\n");
        let fault = |(fault, spared): &(&str, &[&str])| {
            let cell = |call| if spared.contains(call) { "–" } else { test };
            let cells = CALLS.each_ref().map(cell).join(" | ");
            format!("| {fault} | {cells} |\n")
        };
        PROMISES
            .iter()
            .map(promise)
            .chain(FAULTS.iter().map(fault))
            .collect()
    }

    fn missing(document: &str) -> Vec<String> {
        errors(
            promises_and_faults_have_tests,
            &[(SEMANTICS, document), (FAULTY, TESTS)],
        )
    }

    #[test]
    fn a_test_that_is_named_exists() {
        assert!(
            exist(
                DESIGN,
                "so [`it_is_so`, `so_is_this`], [`Lease`], [`a_case`], [a](b)"
            )
            .is_empty()
        );
        assert_eq!(
            exist(DESIGN, "[`it_was_so`]"),
            ["docs/DESIGN.md: there is no test it_was_so"]
        );
        assert_eq!(
            exist(DESIGN, "[`it_is_so`,\n`it_was_so`]").len(),
            1,
            "on two lines"
        );
        assert_eq!(exist(DESIGN, "[`it_helps`]").len(), 1, "nobody runs it");
        assert_eq!(exist(SEMANTICS, "[`a_case_that_nobody_runs`]").len(), 1);
    }

    #[test]
    fn a_test_is_in_the_file_that_the_document_says() {
        assert!(exist(SEMANTICS, "[`it_is_so`](../tests/faults/lost.rs)").is_empty());
        assert!(exist(DESIGN, "[`it_is_so`](proof/tests/faults/lost.rs#L1)").is_empty());
        assert_eq!(
            exist(SEMANTICS, "[`it_is_so`](../lib/src/conformance/x.rs)"),
            ["docs/SEMANTICS.md: it_is_so is not in lib/src/conformance/x.rs"]
        );
    }

    #[test]
    fn every_promise_and_every_fault_has_a_test_for_each_call() {
        let complete = complete();
        assert!(missing(&complete).is_empty());
        assert_eq!(missing("").len(), PROMISES.len() + FAULTS.len() + 2);
        let without = |row: &str| {
            let start = format!("| {row} |");
            let others = complete.split_inclusive('\n');
            others
                .filter(|line| !line.starts_with(&start))
                .collect::<String>()
        };
        assert_eq!(
            missing(&without("S9")),
            ["docs/SEMANTICS.md: nothing is said of S9"]
        );
        assert_eq!(
            missing(&without("hostile events")),
            ["docs/SEMANTICS.md: no row \"hostile events\""]
        );
        let untested = format!("{}| S9 | a promise | `it_is_so` |\n", without("S9"));
        assert_eq!(missing(&untested), ["docs/SEMANTICS.md: no test holds S9"]);
        let cells = "[`it_is_so`] | – | [`it_is_so`] |\n";
        let spared = format!("{}| hostile events | {cells}", without("hostile events"));
        assert_eq!(
            missing(&spared),
            ["docs/SEMANTICS.md: no test shows extend under \"hostile events\""]
        );
    }

    #[test]
    fn every_test_of_a_fault_is_told_of() {
        let untold = complete().replace("so_is_this", "it_is_so");
        assert_eq!(
            missing(&untold),
            ["docs/SEMANTICS.md: nothing is said of so_is_this in proof/tests/faults/lost.rs"]
        );
    }
}
