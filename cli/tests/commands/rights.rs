//! The DynamoDB actions of each command are those in docs/reference/permissions.md.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::fixture::{Fixture, ended};
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;

const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";
const MISSING: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:missing";
const WAITS: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:waits";
const FAILED: &str = "arn:aws:states:us-east-1:123456789012:execution:missing:one";

/// What a command asks for only in cases that are not played here: a release whose outcome is unknown, who waits, …
const SELDOM: [(&str, &str); 6] = [
    ("dismiss-start", "DeleteItem"),
    ("force-release", "GetItem"),
    ("freeze", "GetItem"),
    ("repeat-start", "DeleteItem"),
    ("repeat-start", "Query"),
    ("start", "DeleteItem"),
];

/// What sends no requests, or is played elsewhere.
const ELSEWHERE: [&str; 10] = [
    "check",
    "completions",
    "console",
    "doctor",
    "history",
    "local",
    "man",
    "watch",
    "watch KEY",
    "weave",
];

/// The table of commands and their actions in docs/reference/permissions.md.
fn written() -> BTreeMap<String, BTreeSet<String>> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/permissions.md"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `leasehold "));
    let quoted = |cell: &str| {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut written = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').collect();
        for command in quoted(cells[1]) {
            let command = command.strip_prefix("leasehold ").unwrap().to_owned();
            let actions = quoted(cells[2]).into_iter();
            let actions = actions.filter(|word| word.starts_with(char::is_uppercase));
            written.insert(command, actions.collect());
        }
    }
    written
}

#[tokio::test]
async fn commands_need_permissions_as_documented() {
    let fixture = Fixture::start().await;
    let because = ["--who", "alice", "--why", "test", "--yes"];
    let handle = fixture.home().join("handle.json");
    let handle = handle.to_str().unwrap().to_owned();
    fixture.grant("j", "worker", Duration::from_secs(600)).await;
    let server = FakeStepFunctionsServer::open().await.unwrap();
    server.set_missing(MISSING, true);
    let mut asked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (command, arguments) in [
        ("table create", &["table", "create"][..]),
        ("table check", &["table", "check"]),
        ("acquire", &["acquire", "k", "--", "true"]),
        (
            "acquire",
            &["acquire", "k", "--ttl", "1500ms", "--", "sleep", "1"],
        ),
        (
            "acquire --permits",
            &["acquire", "p", "--permits", "2", "--", "true"],
        ),
        ("acquire", &["acquire", "handle"]),
        ("start", &["start", "s", MACHINE]),
        ("start", &["start", "s", MACHINE]),
        ("start", &["start", "s", MACHINE, "--if-held", "skip"]),
        ("start", &["start", "s", MACHINE, "--if-held", "fail"]),
        ("start", &["start", "f", MISSING, "--name", "one"]),
        ("ls --failed", &["ls", "--failed"]),
        ("repeat-start", &["repeat-start", "f", FAILED]),
        ("dismiss-start", &["dismiss-start", "f", FAILED]),
        ("ls", &["ls"]),
        ("start", &["start", "p", MACHINE, "--permits", "2"]),
        ("start", &["start", "s", MACHINE, "--name", "waits"]),
        ("show", &["show", "s"]),
        ("freeze", &[&["freeze", "s"][..], &because].concat()),
        ("limit", &[&["limit", "s", "2"][..], &because].concat()),
        ("ls --frozen", &["ls", "--frozen"]),
        ("ls --limited", &["ls", "--limited"]),
        ("ls --waiting", &["ls", "--waiting"]),
        ("unfreeze", &[&["unfreeze", "s"][..], &because].concat()),
        ("dismiss-start", &["dismiss-start", "s", WAITS]),
        ("holders", &["holders"]),
        ("holders HOLDER", &["holders", "worker"]),
        ("extend", &["extend", "--handle", &handle]),
        ("release", &["release", "--handle", &handle]),
        (
            "force-release",
            &[&["force-release", "j"][..], &because].concat(),
        ),
    ] {
        fixture.proxy.reset();
        let mut program = fixture.command(arguments);
        program.env(
            "AWS_ENDPOINT_URL_SFN",
            format!("http://{}", server.address()),
        );
        let ran = ended(program).await;
        let wanted = match arguments {
            [.., "fail"] => 75,
            ["dismiss-start", ..] => 0,
            [_, "f", ..] => 1,
            _ => 0,
        };
        assert_eq!(ran.code, Some(wanted), "{command} {ran:?}");
        if arguments == ["acquire", "handle"] {
            std::fs::write(&handle, &ran.out).unwrap();
        }
        let counts = fixture.proxy.counts();
        // A transaction needs the actions of its writes, which are updates.
        let action = |operation: &str| operation.replace("TransactWriteItems", "UpdateItem");
        let operations = counts.iter().map(|(operation, _)| action(operation));
        asked
            .entry(command.to_owned())
            .or_default()
            .extend(operations);
    }
    for (command, action) in SELDOM {
        let asked = asked.get_mut(command).unwrap();
        assert!(asked.insert(action.to_owned()), "{command}: {action}");
    }
    let mut written = written();
    written.retain(|command, _| !ELSEWHERE.contains(&command.as_str()));
    assert_eq!(asked, written);
}
