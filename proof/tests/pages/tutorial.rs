//! Every command of docs/get-started.md, typed into one shell as a reader does, against a stack of its own.

use crate::{Shell, Stack, blocks, clone, page};

/// How each block of commands begins, in the order of the page, the status of its last one, and what it has to print.
const PRINTED: [(&str, i32, &[&str]); 9] = [
    (". target/local/env.sh", 0, &[]),
    (
        "MACHINE=",
        0,
        &[
            r#""outcome":"started""#,
            r#""outcome":"queued""#,
            r#""held":{"#,
        ],
    ),
    (
        "target/lean/leasehold show",
        0,
        &[
            "leasehold_started_orders:one",
            "leasehold_started_orders:two",
        ],
    ),
    ("sleep 25", 0, &["one\t", "two\t", "SUCCEEDED"]),
    (
        "invoke AcquireFunction",
        0,
        &[r#""errorType":"Lease.Held""#, "by_you"],
    ),
    (
        "sleep 8",
        0,
        &[
            r#""grant":"takeover""#,
            r#""ended":"expired""#,
            r#""holder":"first""#,
        ],
    ),
    ("invoke ExtendFunction", 0, &[r#""errorType":"Lease.Lost""#]),
    (
        "target/lean/leasehold check",
        0,
        &["check: nothing found in 1 state machine, 3 states, 1 acquire"],
    ),
    (
        "target/lean/leasehold check asl/corpus/faulty/",
        1,
        &["no-release: Failed", "path: Acquire", "cure: "],
    ),
];

#[test]
fn tutorial_commands_do_as_page_says() {
    let page = page("docs/get-started.md");
    let directory = clone();
    let _stack = Stack::start(directory.path());
    let mut shell = Shell::start(directory.path());

    let blocks = blocks(&page);
    let commands = blocks.iter().filter(|block| block.language.is_empty());
    let mut commands = commands.map(|block| block.text);
    assert_eq!(commands.next(), Some("make local"));
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), PRINTED.len(), "{commands:?}");
    let mut all = String::new();
    for (commands, (start, expected_status, expected)) in commands.iter().zip(PRINTED) {
        assert!(commands.starts_with(start), "{commands}");
        let (printed, status) = shell.run(commands);
        assert_eq!(status, expected_status, "{commands}: {printed}");
        for part in expected {
            assert!(printed.contains(part), "{commands}: {printed}");
        }
        all += &printed;
    }
    // The second begins when the first has ended.
    let times = |name: &str| {
        let row = all.lines().find(|line| line.starts_with(name)).unwrap();
        let cells: Vec<&str> = row.split('\t').collect();
        (cells[1].to_owned(), cells[2].to_owned())
    };
    let ((_, first_end), (second_begin, _)) = (times("one\t"), times("two\t"));
    assert!(first_end <= second_begin, "{first_end} {second_begin}");
}
