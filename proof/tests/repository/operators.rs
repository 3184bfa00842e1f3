//! The policy for operators allows what their pages have them run, and nothing else.

use crate::{Files, Rule, SeededEdit};
use serde_json::Value;
use std::collections::BTreeSet;

const POLICY: &str = "examples/operators/policy.json";
const PERMISSIONS: &str = "docs/reference/permissions.md";
const PAGES: [&str; 2] = ["docs/operate/alarms.md", "docs/operate/stuck-key.md"];

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[(
    "the operators' policy allows the commands of alarms and of a stuck key, and nothing else",
    allows,
    &[
        (
            POLICY,
            "\"states:RedriveExecution\"",
            "\"states:StartExecution\"",
        ),
        (POLICY, "/index/held\"", "\""),
        (POLICY, "\"dynamodb:GetItem\", ", ""),
        (
            POLICY,
            "\"logs:StopQuery\"",
            "\"logs:StopQuery\", \"logs:DeleteLogGroup\"",
        ),
        (PAGES[0], "aws sqs receive-message", "aws sqs purge-queue"),
        (PERMISSIONS, "| redrive |", "| redriven |"),
    ],
)];

/// Needs no permission, or is what another command needs that it starts.
const NO_PERMISSION: [&str; 1] = ["sts:GetSessionToken"];
const NEEDED_TOO: [&str; 1] = ["cloudformation:DetectStackResourceDrift"];

fn allows(files: &Files) -> Vec<String> {
    let mut wanted: BTreeSet<String> = NEEDED_TOO.map(str::to_owned).into();
    let mut wrong = Vec::new();
    for page in PAGES {
        // What somebody practises with is on the local stack.
        let text = files.text(page).split("\n## Practise").next();
        let text = text.unwrap_or_default();
        wanted.extend(calls(text, "aws ").map(|(service, operation)| action(service, operation)));
        for (command, _) in calls(text, "leasehold ") {
            let needed = needs(files, command);
            if needed.is_empty() {
                wrong.push(format!("{PERMISSIONS} does not say what {command} needs"));
            }
            wanted.extend(needed);
        }
    }
    wanted.retain(|action| !NO_PERMISSION.contains(&action.as_str()));
    let allowed = allowed(files);
    let less = wanted.difference(&allowed);
    wrong.extend(less.map(|action| format!("{POLICY} does not allow {action}")));
    let more = allowed.difference(&wanted);
    wrong.extend(more.map(|action| format!("{POLICY} allows {action}, which no page needs")));
    wrong
}

/// The two words after a program's name, wherever it is called.
fn calls<'a>(text: &'a str, program: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let code = text.split('`').skip(1).step_by(2);
    // A block has three of them on both sides.
    let blocks = text.split("\n```").skip(1).step_by(2);
    let begins = |before: &str| before.is_empty() || before.ends_with(['\n', '(', ' ', '"']);
    code.chain(blocks).flat_map(move |code| {
        let at = code.match_indices(program);
        let at = at.filter(move |(at, _)| begins(&code[..*at]));
        at.filter_map(move |(at, _)| {
            let mut words = code[at + program.len()..].split([' ', '\n', '`', '"', ')']);
            let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let first = words.next().filter(is_name)?;
            Some((first, words.next().unwrap_or_default()))
        })
    })
}

/// `states:StopExecution` of `stepfunctions stop-execution`.
fn action(service: &str, operation: &str) -> String {
    let service = if service == "stepfunctions" {
        "states"
    } else {
        service
    };
    let words = operation.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_uppercase())
    });
    let name: String = words.collect();
    let of_function = if name == "Invoke" { "Function" } else { "" };
    format!("{service}:{name}{of_function}")
}

/// The actions of a command of `leasehold`, with all its options, by the tables of the permissions.
fn needs(files: &Files, command: &str) -> BTreeSet<String> {
    let text = files.text(PERMISSIONS);
    let (_, section) = text
        .split_once("\n## The command line\n")
        .unwrap_or_default();
    let section = section.split("\n### ").next().unwrap_or_default();
    let mut needed = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = row.split('|').skip(1);
        let (names, cell) = (cells.next(), cells.next());
        let names = names
            .unwrap_or_default()
            .replace('`', "")
            .replace("leasehold ", "");
        let mut names = names
            .split(',')
            .filter_map(|name| name.split_whitespace().next());
        if names.any(|name| name == command) {
            needed.extend(actions(cell.unwrap_or_default()));
        }
    }
    needed
}

/// In a cell a service's name stands before the first of its actions.
fn actions(cell: &str) -> BTreeSet<String> {
    let mut service = "dynamodb";
    let mut actions = BTreeSet::new();
    for part in cell.split([',', ';']) {
        let of_index = if part.contains("on the index") {
            " on the index"
        } else {
            ""
        };
        for word in part.split('`').skip(1).step_by(2) {
            let name = match word.split_once(':') {
                Some((first, name)) => {
                    service = first;
                    name
                }
                None => word,
            };
            if name.starts_with(|c: char| c.is_ascii_uppercase()) {
                actions.insert(format!("{service}:{name}{of_index}"));
            }
        }
    }
    actions
}

fn allowed(files: &Files) -> BTreeSet<String> {
    let policy: Value = serde_json::from_str(files.text(POLICY)).unwrap_or_default();
    let list = |value: &Value| match value {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let mut allowed = BTreeSet::new();
    for statement in policy["Statement"].as_array().into_iter().flatten() {
        for action in list(&statement["Action"]) {
            let action = action.as_str().unwrap_or_default();
            for resource in list(&statement["Resource"]) {
                let of_index = resource.as_str().is_some_and(|one| one.contains("/index/"));
                let of_index = if of_index { " on the index" } else { "" };
                allowed.insert(format!("{action}{of_index}"));
            }
        }
    }
    allowed
}
