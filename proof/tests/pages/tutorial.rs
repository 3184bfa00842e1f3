//! Every command of docs/get-started.md, typed into one shell as a reader does, against a stack of its own.

use crate::{Shell, Stack, blocks, clone, inline, page};

/// How each block of commands begins, in the order of the page, and what it has to print.
const PRINTED: [(&str, &[&str]); 10] = [
    (". target/local/env.sh", &[]),
    (
        "aws lambda invoke --function-name AcquireFunction",
        &[r#""grant":"new""#, r#""lease":{"#],
    ),
    ("aws dynamodb scan", &["orders/42"]),
    ("curl -d", &[r#""errorType":"Lease.Held""#, "by_you"]),
    ("acquire() {", &[r#""errorType":"Lease.Held""#]),
    (
        "sleep 8",
        &[
            r#""grant":"takeover""#,
            r#""ended":"expired""#,
            r#""holder":"first""#,
        ],
    ),
    ("python3 -c", &[r#""errorType":"Lease.Lost""#]),
    (
        "aws stepfunctions create-state-machine",
        &["leasehold_wrapped_section:one"],
    ),
    (
        "cargo run --quiet --bin leasehold -- check",
        &["check: nothing found in 1 state machine, 6 states, 1 acquire"],
    ),
    (
        "cargo run --quiet --bin leasehold -- weave",
        &["Acquire", "Release", "01-two-steps.woven.asl.json"],
    ),
];

#[test]
fn tutorial_commands_do_as_page_says() {
    let page = page("docs/get-started.md");
    let directory = clone();
    let _stack = Stack::start(directory.path());
    let mut shell = Shell::start(directory.path());

    let blocks = blocks(&page);
    let machine = blocks.iter().find(|block| block.text.contains("StartAt"));
    let machine = machine.unwrap().text;
    let saved = directory.path().join("target/section.asl.json");
    std::fs::write(&saved, machine).unwrap();
    let commands = blocks.iter().filter(|block| block.language.is_empty());
    let mut commands = commands.map(|block| block.text);
    assert_eq!(commands.next(), Some("make local"));
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), PRINTED.len(), "{commands:?}");
    for (commands, (start, expected)) in commands.iter().zip(PRINTED) {
        assert!(commands.starts_with(start), "{commands}");
        let (printed, status) = shell.run(commands);
        assert_eq!(status, 0, "{commands}: {printed}");
        for part in expected {
            assert!(printed.contains(part), "{commands}: {printed}");
        }
    }

    // What the page says of a command beside its block.
    let (printed, _) = shell.run(commands[1]);
    assert!(printed.contains(r#""grant":"replayed""#), "{printed}");
    let describe = commands[7].lines().last().unwrap();
    let mut state = shell.run(describe).0;
    while state.contains(r#""status": "RUNNING""#) {
        state = shell.run(describe).0;
    }
    assert!(state.contains(r#""status": "SUCCEEDED""#), "{state}");
    for commands in inline(&page, "cargo run ") {
        let (printed, status) = shell.run(commands);
        assert_eq!(status, 0, "{commands}: {printed}");
    }
    let mut machine: serde_json::Value = serde_json::from_str(machine).unwrap();
    let work = machine["States"]["Work"].as_object_mut();
    work.unwrap().remove("Catch").unwrap();
    std::fs::write(&saved, machine.to_string()).unwrap();
    let (printed, status) = shell.run(commands[8]);
    assert!(status == 1 && printed.contains("Work"), "{printed}");
}
