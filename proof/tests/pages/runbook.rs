//! Every command of the pages for operators. All are held to what they are commands of; those for a stuck key also free one.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use leasehold_proof::{program, root};

use crate::{Shell, Stack, aws_cli, blocks, clone, inline, page, path_after};

/// In this order: the first one prepares the shell.
const PAGES: [&str; 3] = [
    "docs/operate/alarms.md",
    "docs/operate/stuck-key.md",
    "docs/operate/incidents.md",
];

/// Notes its own name and arguments, and answers as far as the page's loops need an answer.
const NOTE: &str = r#"#!/bin/bash
name="${0##*/}"
{ printf '%s\x1f' "$@"; printf '\x1e'; } >> "$NOTES/$name"
case "$name $*" in
"aws lambda invoke "*) echo '{}' > "${@: -1}"; echo None ;;
*ReceiptHandle*) mkdir "$NOTES/received" 2> /dev/null && printf 'handle\tbody\n' || echo None ;;
# As long as an id.
*) echo 00000000-0000-4000-8000-000000000000 ;;
esac
"#;

/// The pages, whose blocks in a list begin a line too.
fn runbook() -> String {
    PAGES.map(page).concat().replace("\n   ```", "\n```")
}

/// What a program was called with, each time.
fn noted(directory: &Path, program: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(directory.join(program)).unwrap();
    let calls = text.split_terminator('\x1e');
    calls
        .map(|call| call.split_terminator('\x1f').map(str::to_owned).collect())
        .collect()
}

/// Runs all commands of the pages, in one shell and in their order, with programs that only note what they are called with.
fn note(directory: &Path) {
    let page = runbook();
    let blocks = blocks(&page).into_iter().map(|block| block.text);
    // The other one is for a local stack.
    let mut commands: Vec<String> = blocks
        .filter(|text| !text.starts_with("output()"))
        .map(str::to_owned)
        .collect();
    assert!(commands.len() > 40, "{commands:?}");
    for start in ["aws ", "leasehold ", "lines ", "make "] {
        let spans = inline(&page, start).into_iter();
        // In a sentence `aws cloudformation deploy` may stand for the whole command.
        let whole = spans.filter(|span| start != "aws " || span.contains(" --"));
        commands.extend(whole.map(|span| span.replace('\n', " ")));
    }
    let own = directory.join("bin");
    std::fs::create_dir(&own).unwrap();
    let script = own.join("note");
    std::fs::write(&script, NOTE).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["aws", "git", "leasehold", "make"] {
        symlink(&script, own.join(name)).unwrap();
    }
    let strict = "set -Eeuo pipefail; shopt -s inherit_errexit; trap 'echo \"$BASH_COMMAND\"' ERR";
    let output = Command::new("bash")
        .args(["-c", &format!("{strict}\n{}", commands.join("\n"))])
        .env("NOTES", directory)
        .env("TMPDIR", directory)
        .env("PATH", path_after(&[own]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn every_runbook_command_exists() {
    let directory = tempfile::tempdir().unwrap();
    note(directory.path());

    let output = Command::new(aws_cli().join("python"))
        .arg(root().join("proof/tests/pages/parse_aws.py"))
        .arg(directory.path().join("aws"))
        .envs([
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.is_empty(),
        "{output:?}\n{said}"
    );
    assert!(noted(directory.path(), "aws").len() > 60);

    // Help is given once all before it is understood.
    for arguments in noted(directory.path(), "leasehold") {
        let mut leasehold = Command::new(program("leasehold"));
        let output = leasehold.args(&arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    let template = page("local/template.json");
    let template: serde_json::Value = serde_json::from_str(&template).unwrap();
    let known: BTreeSet<_> = template["Parameters"].as_object().unwrap().keys().collect();
    let made = noted(directory.path(), "make").into_iter();
    for arguments in made.filter(|arguments| arguments[0] == "deploy") {
        let parameters = arguments[1..]
            .iter()
            .map(|word| word.strip_prefix("PARAMETERS="));
        for parameter in parameters.flat_map(|given| given.unwrap().split(' ')) {
            let (name, _) = parameter.split_once('=').unwrap();
            assert!(known.contains(&name.to_owned()), "{parameter}");
        }
    }
}

/// The last token before these words.
fn token_before(printed: &str, words: &str) -> String {
    let before = printed.split(words).next().unwrap_or_default();
    let (_, token) = before.rsplit_once(r#""fencing_token":"#).unwrap();
    token.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn runbook_frees_stuck_key() {
    let page = runbook();
    let blocks = blocks(&page);
    let block = |start: &str| {
        let mut found = blocks.iter().filter(|block| block.text.starts_with(start));
        found
            .next()
            .unwrap_or_else(|| panic!("no block begins with {start}"))
            .text
    };
    let directory = clone();
    let _stack = Stack::start(directory.path());
    let mut shell = Shell::start(directory.path());
    let mut run = |commands: &str, expected: &[&str]| {
        let (printed, status) = shell.run(commands);
        assert_eq!(status, 0, "{commands}: {printed}");
        for part in expected {
            assert!(printed.contains(part), "{commands}: no {part} in {printed}");
        }
        printed
    };
    run(". target/local/env.sh", &[]);
    run(block("export AWS_REGION"), &[]);
    run(block("output() {"), &[]);
    run("old=\"$(output LeaseTableName)\"", &[]);
    // Nobody is at a terminal to say yes.
    run(
        "leasehold() { case $1 in force-release|freeze|unfreeze|limit) set -- \"$@\" --yes;; esac; command leasehold \"$@\"; }",
        &[],
    );

    // By the functions: a program's lease, or what has a ttl like it. A later token is larger, and has as many digits.
    let inspect = block("echo '{\"key\": \"orders/7\"}'");
    let ttl = "aws stepfunctions start-execution --name stuck \
        --state-machine-arn arn:aws:states:us-east-1:123456789012:stateMachine:leasehold-critical-section \
        --input '{\"key\": \"orders/7\", \"ttl_seconds\": 3600, \"first\": {\"seconds\": 300}, \"second\": {\"seconds\": 3}}'";
    run(ttl, &["executionArn"]);
    let shown = until_held(|| run(inspect, &[]));
    let token = token_before(&shown, r#","holder""#);
    let steps = block("aws stepfunctions describe-execution").replace("1795230000125", &token);
    let freed = run(
        &steps,
        &[
            "RUNNING",
            "stopDate",
            r#""state":"free""#,
            r#"{"leases":[]}"#,
        ],
    );
    let newer = token_before(&freed, r#","outcome":"forced""#);
    assert!(newer > token, "{freed}");
    let fence = |token: &str| block("aws dynamodb update-item").replace("1795230000126", token);
    run(&fence(&newer), &[]);
    let refused = format!("! {{ {}\n}}", fence(&token));
    run(&refused, &["ConditionalCheckFailedException"]);

    // By the command line: an execution, which the page lets a reader practise with.
    run(
        block("aws stepfunctions create-state-machine"),
        &["started: "],
    );
    let other = |text: &str| text.replace("orders/7", "orders/8");
    let looked = ["held while its execution runs"];
    run(&other(block("leasehold show")), &looked);
    let stop = block("leasehold force-release orders/7 --stop");
    run(&other(stop), &["no longer holds orders/8"]);
    run(&other(inspect), &[r#""state":"free""#]);

    // Others that need neither CloudWatch nor a deploy.
    for (start, expected) in [
        ("aws dynamodb delete-item", &["high_enough"][..]),
        (
            "echo '{\"operation\": \"freeze\"",
            &["\"frozen", "unfrozen"],
        ),
        ("leasehold freeze", &["is frozen", "can be granted again"]),
        ("echo '{}'", &["swept"]),
        ("   echo '{\"list\": true}'", &[r#"{"leases":[]}"#]),
        ("leasehold ls --table", &["no lease matches"]),
    ] {
        run(block(start), expected);
    }
    // Fails if there is no limit.
    let unlimited = inline(&page, "leasehold limit")[0];
    run(&unlimited.replace(" none ", " 0 "), &[]);
    run(unlimited, &[]);
    run(inline(&page, "leasehold doctor")[0], &[" 0 failed"]);
}

/// Shows a key until it is held.
fn until_held(mut show: impl FnMut() -> String) -> String {
    loop {
        let shown = show();
        if shown.contains(r#""state":"held""#) {
            return shown;
        }
    }
}
