//! `leasehold-local exec` as a person runs it: what it tells of functions and definitions that are wrong, and that nothing stays behind.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use processes::{children, signal, wait_until_gone};
use rustix::process::Signal;

fn exec(arguments: &[&str]) -> Command {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let echo = leasehold_proof::example("echo");
    let mut command = processes::program(&leasehold_proof::program("leasehold-local"));
    command
        .args(["exec", "--template"])
        .arg(fixtures.join("stack.json"))
        .args(arguments)
        .env("LEASEHOLD_BIN_DIR", echo.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Invokes the function `Charge` in the way of an SDK.
const INVOKE: &str = "curl -s -H \"x-amz-security-token: $AWS_SESSION_TOKEN\" -d '{}' \
                      $AWS_ENDPOINT_URL_LAMBDA/2015-03-31/functions/Charge/invocations";

#[test]
fn functions_own_words_reach_user() {
    for (function, how, words) in [
        (
            "Charge=no-such-runtime",
            "exit status 127",
            "no-such-runtime",
        ),
        (
            "Charge=echo ModuleNotFoundError: app >&2; exit 1",
            "exit status 1",
            "ModuleNotFoundError: app",
        ),
    ] {
        let arguments = [
            "--no-engine",
            "--function",
            function,
            "--",
            "sh",
            "-c",
            INVOKE,
        ];
        let output = exec(&arguments).output().unwrap();
        let (answer, told) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        let reported = format!("the function Charge has ended: {how}; the end of what it printed:");
        assert!(told.contains(&reported) && told.contains(words), "{told}");
        assert!(
            answer.contains("Runtime.ExitError") && answer.contains(words),
            "{answer}"
        );
    }
}

#[test]
fn command_ends_with_killed_stack() {
    // A shell may miss a signal that comes just before it waits.
    let script = "sleep 600 & child=$!; trap 'kill $child; exit' TERM; echo $$ $child; while :; do sleep 0.1; done";
    let arguments = ["--no-engine", "--", "sh", "-c", script];
    let mut running = exec(&arguments).spawn().unwrap();
    let mut line = String::new();
    let out = running.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    let started: Vec<u32> = line
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(children(running.id()).contains(&started[0]), "{line}");
    signal(running.id(), Signal::KILL);
    running.wait().unwrap();
    wait_until_gone(&started);
}

#[test]
fn python_package_runs_in_clone() {
    let script = "from leasehold_local import Stack\n\
                  with Stack(['--no-engine', '--no-sweep']) as stack: print(stack.environment['LEASE_TABLE'])";
    assert_eq!(python(script), "LeaseTable\n");
}

/// One is done at its second delivery, one never, and one in a batch whose function fails.
#[test]
fn messages_come_again_until_they_are_done() {
    let script = r#"
import json
from leasehold_local.sqs import deliver
def function(event):
    seen = [(json.loads(one["body"]), int(one["attributes"]["ApproximateReceiveCount"])) for one in event["Records"]]
    print(seen)
    if ("c", 1) in seen: raise ValueError
    failed = [one["messageId"] for one, (body, count) in zip(event["Records"], seen) if body == "b" or (body == "a" and count == 1)]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}
print(deliver(function, ["a", "b", "c"], receives=3, batch_size=2))
"#;
    assert_eq!(
        python(script),
        "[('a', 1), ('b', 1)]\n[('c', 1), ('a', 2)]\n[('b', 2), ('c', 2)]\n[('a', 3), ('b', 3)]\n['b']\n"
    );
}

fn python(script: &str) -> String {
    let output = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONPATH", leasehold_proof::root().join("local/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let (answer, told) = texts(&output);
    assert!(output.status.success(), "{told}");
    answer
}

#[test]
fn wrong_definition_prints_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (definition, place, problem) in [
        (
            "{\n \"StartAt\": \"A\",\n \"States\": {,}\n}",
            ":3:13: ",
            "key must be a string",
        ),
        (
            "{\n \"StartAt\": \"A\",\n \"States\": {\"A\": {\"Type\": \"Pass\",\n  \"Next\": \"B\"}}\n}",
            ":4:3: ",
            "InvalidDefinition",
        ),
        (
            "{\n \"StartAt\": \"A\",\n \"States\": {\"A\": {\"Type\": \"Pas\", \"End\": true}}\n}",
            ":3:27: ",
            "\"Pas\" is not possible here",
        ),
    ] {
        let file = directory.path().join("bad.json");
        std::fs::write(&file, definition).unwrap();
        let machine = format!("shop={}", file.display());
        let output = exec(&["--machine", &machine, "--", "true"])
            .output()
            .unwrap();
        let (_, told) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        // The first start in a clone prepares the engine.
        let told: Vec<_> = told
            .lines()
            .filter(|line| !line.starts_with("leasehold: "))
            .collect();
        let told = told.join("\n");
        let expected = format!("leasehold-local: {}{place}", file.display());
        assert!(
            told.starts_with(&expected) && told.contains(problem),
            "{told}"
        );
        assert!(told.lines().count() == 1 && told.len() < 600, "{told}");
    }
}
