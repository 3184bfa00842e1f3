//! Checks that the repository agrees with itself: what one file names, another one has. `make check` runs it.
//!
//! Every rule is a function from the tree of files to what it has to say, and has faults in `bites` that show it fires.

mod asl;
mod bites;
mod examples;
mod openness;
mod proofs;
mod roles;
mod stack;
mod supplies;
mod text;
mod translated;
mod tree;
mod watching;

use std::process::ExitCode;
use tree::{Report, Tree};

/// Looks at the tree and says what is wrong with it.
type Rule = fn(&Tree, &mut Report);

/// All the rules, each with the sentence it holds the repository to.
const RULES: &[(&str, Rule)] = &[
    ("every event parses and is used", text::events),
    (
        "make targets named in the documents exist",
        text::make_targets,
    ),
    (
        "tests that documents name exist, where they are said to be",
        proofs::named_tests_exist,
    ),
    (
        "every promise and every fault has its tests, and every test of a fault its place",
        proofs::promises_and_faults_have_tests,
    ),
    ("file names tell what is inside", text::names),
    (
        "one directory = one function = one binary = one logical id, with an event",
        stack::functions,
    ),
    (
        "one state machine file = one resource, with its name and its substitutions",
        stack::machines,
    ),
    (
        "environment variables are the same in code, template and README",
        stack::environment,
    ),
    (
        "every role allows what is written down and no more",
        roles::roles,
    ),
    (
        "no action and no resource is more than its name says, or there is a reason",
        openness::asterisks,
    ),
    ("Lambda alone takes a role on", openness::trust),
    (
        "nothing is reached from outside of the account",
        openness::ways_in,
    ),
    ("data is encrypted and kept", openness::keeping),
    ("what is built is what is locked", supplies::locked),
    (
        "differences that examples show are those between their files",
        examples::differences,
    ),
    (
        "every metric is written, shown and told of",
        watching::metrics,
    ),
    (
        "every alarm has its paragraph in the runbook, and every paragraph its alarm",
        watching::alarms_lead_somewhere,
    ),
    (
        "the dashboard shows every alarm, and draws it where it begins",
        watching::dashboard,
    ),
    (
        "every error name in a state machine is one that somebody raises",
        asl::errors::names,
    ),
    ("every state has a Comment", asl::language::comments),
    (
        "a machine in JSONata has nothing of JSONPath's",
        asl::language::jsonata,
    ),
    (
        "retriers and catchers are what the service takes, and a held key is asked for with jitter",
        asl::language::handlers,
    ),
    (
        "every call of our functions is retried on service exceptions",
        asl::calls::retries,
    ),
    ("what is final is never retried", asl::calls::final_errors),
    (
        "a lease is kept from others while its step may still run",
        asl::calls::steps_that_may_run,
    ),
    (
        "a step never gets the secret of its lease",
        asl::calls::secrets,
    ),
    (
        "every task has a time limit, longer than its function's own",
        asl::limits::time_limits,
    ),
    (
        "every transition leads to a state, every state is reached, and an end from everywhere",
        asl::paths::ways,
    ),
    (
        "what a machine's names stand for is of the right kind",
        asl::substitutions::kinds,
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, words) = match words.split_first() {
        Some((command, words)) => (Some(command.as_str()), words),
        None => (None, &[][..]),
    };
    let tree = match Tree::read(".".as_ref()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    match (command, words) {
        (None, _) => check(&tree),
        (Some("bites"), programs) if bites::run(&tree, programs) => ExitCode::SUCCESS,
        (Some("bites"), _) => ExitCode::FAILURE,
        (Some("translated"), [file]) => translated(file),
        _ => {
            eprintln!("usage: tidy [translated FILE | bites [PYTHON NODE]]");
            ExitCode::FAILURE
        }
    }
}

fn check(tree: &Tree) -> ExitCode {
    let mut failed = false;
    for (sentence, rule) in RULES {
        let mut report = Report::default();
        rule(tree, &mut report);
        for warning in &report.warnings {
            println!("warning: {warning} ({sentence})");
        }
        for error in &report.errors {
            println!("error: {error} ({sentence})");
            failed = true;
        }
    }
    if failed {
        return ExitCode::FAILURE;
    }
    println!("tidy: {} rules hold", RULES.len());
    ExitCode::SUCCESS
}

/// Looks at the template as SAM translates it.
fn translated(file: &str) -> ExitCode {
    let mut report = Report::default();
    match std::fs::read_to_string(file) {
        Ok(text) => translated::roles(&text, &mut report),
        Err(error) => report.error(error.to_string()),
    }
    for error in &report.errors {
        println!("error: {file}: {error} (every role allows what is written down and no more)");
    }
    if report.errors.is_empty() {
        println!("tidy: the roles of the translated template are those written down");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}
