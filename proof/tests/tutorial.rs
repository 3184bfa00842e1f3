//! Every command of docs/tutorial.md, typed into one shell as a reader does, against a stack of its own.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use leasehold_proof::{program, root};
use rustix::process::{Pid, Signal, kill_process};

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

/// A fenced block, with the word after its fence.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    let parts = fenced.map(|block| block.split_once('\n').unwrap());
    parts
        .map(|(language, text)| Block { language, text })
        .collect()
}

/// The commands that stand in a sentence.
fn inline(page: &str) -> Vec<&str> {
    let outside = page.split("\n```").step_by(2);
    let spans = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
    spans
        .filter(|span| span.starts_with("cargo run "))
        .collect()
}

/// The AWS CLI of the pinned tools, or the machine's own.
fn aws_cli() -> Option<PathBuf> {
    let tools = std::fs::read_dir(root().join("target/tools"));
    let pinned = tools
        .into_iter()
        .flatten()
        .flatten()
        .map(|tool| tool.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path);
    pinned
        .chain(own)
        .find(|directory| directory.join("aws").exists())
}

/// The directory of a reader who has cloned the repository and built it, so that `cargo run` has nothing left to build.
fn clone() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["asl", "events"] {
        symlink(root().join(name), directory.path().join(name)).unwrap();
    }
    for name in ["target", "bin"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let cargo = directory.path().join("bin/cargo");
    let built = program("leasehold");
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do [ \"$1\" = --bin ] && name=$2; shift; done\nshift\nexec {}/$name \"$@\"\n",
        built.parent().unwrap().display()
    );
    std::fs::write(&cargo, script).unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

/// What `make local` runs once everything is built.
struct Stack(Child);

impl Stack {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(program("leasehold-local"))
            .args(["up", "--run-directory"])
            .arg(directory.join("target/local"))
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("sam local invoke")));
        std::thread::spawn(move || lines.count());
        Self(child)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

/// The reader's second terminal.
struct Shell {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Shell {
    fn start(directory: &Path, aws_cli: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = [directory.join("bin"), aws_cli.to_owned()];
        let path = std::env::join_paths(first.into_iter().chain(std::env::split_paths(&path)));
        let mut child = Command::new("bash")
            .current_dir(directory)
            .env("PATH", path.unwrap())
            .env("AWS_PAGER", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        Self {
            input,
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// What the commands print, and the status of the last one.
    fn run(&mut self, commands: &str) -> (String, i32) {
        const END: &str = "-- the end of the commands:";
        writeln!(
            self.input,
            "{commands}\nstatus=$?; echo; echo \"{END} $status\""
        )
        .unwrap();
        let mut printed = String::new();
        for line in &mut self.output {
            let line = line.unwrap();
            if let Some(status) = line.strip_prefix(END) {
                return (printed, status.trim().parse().unwrap());
            }
            printed += &(line + "\n");
        }
        panic!("the shell ended: {printed}");
    }
}

#[test]
fn every_command_of_the_tutorial_does_what_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let aws_cli = aws_cli().expect("no AWS CLI: install it, or run `make test`, which has one");
    let directory = clone();
    let _stack = Stack::start(directory.path());
    let mut shell = Shell::start(directory.path(), &aws_cli);

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
    for commands in inline(&page) {
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
