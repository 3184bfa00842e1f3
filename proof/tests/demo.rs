//! `leasehold-local demo` as a person runs it: the whole run once, its files, and Ctrl-C in the middle.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use processes::{children, signal, wait_until_gone};
use rustix::process::Signal;
use serde_json::{Value, json};

fn demo(out: &Path) -> Command {
    let mut command = processes::program(&leasehold_proof::program("leasehold-local"));
    command.args(["demo", "--out"]);
    command.arg(out).stdin(Stdio::null());
    command
}

#[test]
fn demo_writes_text_data_and_pictures() {
    let out = tempfile::tempdir().unwrap();
    let output = demo(out.path()).output().unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{output_text}\n{why}");
    for event in [
        "HAS THE KEY, token",
        "the function is KILLED before its response (Runtime.ExitError)",
        "asks again",
        "waits in the queue",
        "is at work, and HANGS",
        "is STOPPED while it waits, and passed over",
        "is STOPPED while it works; a grace begins",
        "its late write is REFUSED by the resource: Step.StaleToken",
        "has ended, and so has its lease",
    ] {
        assert!(
            output_text.contains(event),
            "no {event:?} in\n{output_text}"
        );
    }
    assert!(
        !output_text.contains('\x1b'),
        "control characters in a pipe"
    );

    let read = |file: &str| std::fs::read_to_string(out.path().join(file)).unwrap();
    let text = read("report.json");
    assert!(!text.contains("lease_id") && !text.contains("task_token"));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["passed"], true);
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 10);
    assert!(checks.iter().all(|check| check["violations"] == json!([])));
    // In the order of their coming: all but the fifth, which was stopped while it waited, had the key one after the other.
    let seen = report["seen"].as_array().unwrap();
    let tokens: Vec<_> = seen.iter().map(|one| one["token"].as_u64()).collect();
    assert_eq!(tokens.len(), 9);
    assert!(tokens[5].is_none(), "{tokens:?}");
    let tokens: Vec<_> = tokens.into_iter().flatten().collect();
    assert!(tokens.len() == 8 && tokens.is_sorted(), "{tokens:?}");
    let [timeline, picture] = ["timeline.svg", "tokens.svg"].map(read);
    for one in seen {
        let name = one["name"].as_str().unwrap();
        assert!(timeline.contains(&format!(">{name}</text>")), "no {name}");
        let token = format!(">{}</text>", one["token"]);
        assert!(one["token"].is_null() || picture.contains(&token), "{name}");
    }
    assert!(!(timeline + &picture).contains("script"));
}

#[test]
fn ctrl_c_leaves_no_process_behind() {
    let out = tempfile::tempdir().unwrap();
    let mut child = demo(out.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let in_the_middle = |line: &String| line.contains("waits in the queue");
    assert!(
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| in_the_middle(&line))
    );
    let running = children(child.id());
    assert!(running.len() >= 2, "engine, acquire: {running:?}");
    signal(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let output_text = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(
        output_text.ends_with("interrupted; everything is stopped\n"),
        "{output_text}"
    );
    wait_until_gone(&running);
    assert!(!out.path().join("report.json").exists());
}
