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
    let mut command = Command::new(leasehold_proof::program("leasehold-local"));
    command.args([
        "demo",
        "--plain",
        "--executions",
        "8",
        "--seed",
        "1",
        "--out",
    ]);
    command.arg(out).stdin(Stdio::null());
    command
}

/// Every element that is opened is closed, in order, and text has no bare ampersand.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        assert!(
            !text.replace("&amp;", "").replace("&lt;", "").contains('&'),
            "{text}"
        );
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_run_keeps_its_promises_and_tells_them_as_text_as_data_and_as_a_picture() {
    let out = tempfile::tempdir().unwrap();
    let output = demo(out.path()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}\n{why}");
    for event in [
        "TAKES OVER",
        "KILLED before its answer",
        "is granted by REPLAY",
        "STOPPED",
        "extends",
        "8 executions of the real state machines contend for 2 keys",
        " demo --executions 8 --seed 1\n",
        "STOPPED while it waits",
        "its place is given up",
        "STOPPED while it holds",
        "after waiter-7, which never released",
        " requests per hand-over",
    ] {
        assert!(told.contains(event), "no {event:?} in\n{told}");
    }
    assert!(!told.contains('\x1b'), "control characters in a pipe");

    let text = std::fs::read_to_string(out.path().join("report.json")).unwrap();
    assert!(!text.contains("lease_id") && !text.contains("task_token"));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["passed"], true);
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 8);
    assert!(checks.iter().all(|check| check["violations"] == json!([])));
    let figures = &report["figures"];
    assert_eq!(
        figures["executions_by_status"],
        json!({"ABORTED": 1, "SUCCEEDED": 7})
    );
    assert_eq!(
        (&figures["grants"], &figures["sections_done"]),
        (&json!(8), &json!(7))
    );
    assert_eq!(figures["requests"]["lease_table_uncontended"], 3);
    assert!(figures["takeovers"].as_u64().unwrap() >= 1);
    assert!(figures["replays"].as_u64().unwrap() >= 1);
    assert!(figures["extends"].as_u64().unwrap() >= 6);
    let executions = report["executions"].as_array().unwrap();
    let machines = executions
        .iter()
        .map(|one| one["state_machine"].as_str().unwrap());
    let machines: BTreeSet<_> = machines.collect();
    assert_eq!(
        machines.into_iter().collect::<Vec<_>>(),
        ["CriticalSectionStateMachine", "WithLeaseStateMachine"]
    );
    let keys = executions.iter().map(|one| one["key"].as_str().unwrap());
    assert_eq!(keys.collect::<BTreeSet<_>>().len(), 2);
    for execution in executions {
        let lease = &execution["leases"][0];
        assert!(
            lease["from"].as_f64() < lease["until"].as_f64(),
            "{execution}"
        );
    }

    assert_picture(&out.path().join("timeline.svg"), executions);

    let metrics = std::fs::read_to_string(out.path().join("metrics.json")).unwrap();
    assert!(!metrics.contains("lease_id") && !metrics.contains("token"));
    let metrics = serde_json::from_str(&metrics).unwrap();
    assert_metrics(&metrics, figures);

    let line = &report["line"];
    assert_line(line);
    let waiters = line["waiters"].as_array().unwrap();
    assert_picture(&out.path().join("line.svg"), waiters);
}

/// What the functions counted agrees with what was seen of them, and with more: the line's act is in it too.
fn assert_metrics(metrics: &Value, figures: &Value) {
    let metrics = metrics.as_array().unwrap();
    let sum = |name: &str| {
        let values = metrics.iter().filter(|datum| datum["metric"] == name);
        values
            .map(|datum| datum["value"].as_f64().unwrap())
            .sum::<f64>()
    };
    for (name, figure) in [("TakeOvers", "takeovers"), ("Replays", "replays")] {
        assert!(sum(name) >= figures[figure].as_f64().unwrap(), "{name}");
    }
    assert!(sum("Grants") + sum("TakeOvers") >= figures["grants"].as_f64().unwrap());
    for seen in [
        "Refusals",
        "HeldTime",
        "WaitTime",
        "QueueDepth",
        "Sweeps",
        "Latency",
    ] {
        assert!(sum(seen) > 0.0, "{seen}");
    }
    for never in ["Corrupt", "Denied"] {
        assert!(sum(never) < 1.0, "{never}");
    }
    let times = metrics.iter().map(|datum| datum["at"].as_u64().unwrap());
    assert!(times.is_sorted());
}

/// Sixteen in line, and who had the key as which one.
fn assert_line(line: &Value) {
    let checks = line["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 9);
    assert!(checks.iter().all(|check| check["violations"] == json!([])));
    let waiters = line["waiters"].as_array().unwrap();
    let turns: Vec<_> = waiters.iter().map(|one| one["turn"].as_u64()).collect();
    let before = (1..=10).map(Some);
    let due: Vec<_> = before.chain([None]).chain((11..=15).map(Some)).collect();
    assert_eq!(turns, due, "the eleventh was stopped while it waited");
    let aborted = waiters.iter().filter(|one| one["status"] == "ABORTED");
    let aborted: Vec<_> = aborted.map(|one| &one["name"]).collect();
    assert_eq!(aborted, ["waiter-7", "waiter-11"]);
    assert!(line["place_given_up"].as_f64() < waiters[11]["came_in"].as_f64());
    let figures = &line["figures"];
    assert_eq!(
        (&figures["hand_overs"], &figures["turns_missed"]),
        (&json!(15), &json!(0))
    );
    // A request that a busy machine has to repeat is counted, too.
    let requests = figures["requests"]["per_hand_over"].as_f64().unwrap();
    assert!((3.0..3.5).contains(&requests), "{figures}");
}

/// It is complete, and stands alone.
fn assert_picture(path: &Path, executions: &[Value]) {
    let svg = std::fs::read_to_string(path).unwrap();
    assert_well_formed(&svg);
    assert!(
        !svg.contains("href") && !svg.contains("script"),
        "it stands alone"
    );
    for execution in executions {
        let label = format!(">{}</text>", execution["name"].as_str().unwrap());
        assert!(svg.contains(&label), "no {label}");
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
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let told = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(
        told.ends_with("interrupted; everything is stopped\n"),
        "{told}"
    );
    wait_until_gone(&running);
    assert!(!out.path().join("report.json").exists());
}
