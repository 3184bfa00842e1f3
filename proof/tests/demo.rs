//! `leasehold-local demo` as a person runs it: the whole run once, its files, and Ctrl-C in the middle.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use processes::{children, signal, wait_until_gone};
use rustix::process::Signal;
use serde_json::{Value, json};

fn demo(out: &Path) -> Command {
    let mut command = processes::program(&leasehold_proof::program("leasehold-local"));
    command.args(["demo", "--executions", "8", "--seed", "1", "--out"]);
    command.arg(out).stdin(Stdio::null());
    command
}

#[test]
fn the_demo_passes_and_writes_text_data_and_pictures() {
    let out = tempfile::tempdir().unwrap();
    let output = demo(out.path()).output().unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{output_text}\n{why}");
    for event in [
        "8 executions of the real state machines contend for 2 keys",
        " demo --executions 8 --seed 1\n",
        "TAKES OVER",
        "KILLED before its response",
        "is granted by REPLAY",
        "STOPPED while it holds",
        "late write REFUSED by the resource: Step.StaleToken",
        "extends",
        "STOPPED while it waits",
        "leaves the queue",
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
    assert_eq!(checks.len(), 11);
    assert!(checks.iter().all(|check| check["violations"] == json!([])));
    let figures = &report["figures"];
    assert_eq!(
        figures["executions_by_status"],
        json!({"ABORTED": 3, "SUCCEEDED": 21})
    );
    let (first, second) = (&figures["contention"], &figures["queue"]);
    for (figure, number) in [
        (&first["grants"], 8),
        (&first["released"], 7),
        (&second["grants"], 15),
        (&second["released"], 14),
    ] {
        assert_eq!(*figure, number, "{figures}");
    }
    for (figure, least) in [
        ("takeovers", 1),
        ("replays", 1),
        ("extends", 5),
        ("writes_refused", 1),
    ] {
        assert!(first[figure].as_u64() >= Some(least), "{figure}: {figures}");
    }
    assert_queue(&report);
    let executions = report["executions"].as_array().unwrap();
    let of = |field: &str| -> BTreeSet<&str> {
        executions
            .iter()
            .map(|one| one[field].as_str().unwrap())
            .collect()
    };
    assert_eq!(
        of("machine").into_iter().collect::<Vec<_>>(),
        [
            "CriticalSectionStateMachine",
            "QueuedSectionStateMachine",
            "WithLeaseStateMachine"
        ]
    );
    let pictures = read("timeline.svg") + &read("line.svg");
    for name in of("name").into_iter().chain(of("key")) {
        assert!(pictures.contains(&format!("\n{name}\n")), "no {name}");
    }
    assert!(!pictures.contains("href") && !pictures.contains("script"));
}

/// The eleventh, which was stopped while it waited, was passed over; the others held in the order of their coming.
fn assert_queue(report: &Value) {
    let executions = report["executions"].as_array().unwrap();
    let queue = executions.iter().filter(|one| one["key"] == "payouts/eu");
    let queue: Vec<_> = queue.collect();
    let without = queue.iter().filter(|one| one["lease"].is_null());
    let without: Vec<_> = without.map(|one| &one["name"]).collect();
    assert_eq!(without, ["waiter-11"]);
    for field in ["entered", "left"] {
        let times: Vec<_> = queue.iter().filter_map(|one| one[field].as_u64()).collect();
        assert_eq!(times.len(), 15);
        assert!(times.is_sorted(), "{field}: {times:?}");
    }
}

#[test]
fn ctrl_c_in_the_middle_leaves_no_process_behind() {
    let out = tempfile::tempdir().unwrap();
    let mut child = demo(out.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let in_the_middle = |line: &String| line.contains("waits for stopped");
    assert!(
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| in_the_middle(&line))
    );
    let running = children(child.id());
    assert!(running.len() >= 3, "engine, acquire, step: {running:?}");
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
