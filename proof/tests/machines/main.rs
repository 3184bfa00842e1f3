//! State machines on the real functions: the cases of `proof/machines`, the machines that weave writes, and what the
//! stack does by itself around them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_local::Schedules;
use leasehold_proof::cases::{Case, cases};
use leasehold_proof::fixture::Shared;
use leasehold_proof::machines::Machines;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

mod woven;

/// How many cases are played at once: most of their time goes by in waits.
const AT_ONCE: usize = 3;

static PLAIN: Shared<Machines> = Shared::new();
/// Where sweep runs all the time; the cases of the other one want expired leases to stay as they are.
static SWEPT: Shared<Machines> = Shared::new();

/// What a case turned into.
type Played = (Case, Result<(), tokio::task::JoinError>, String);

/// Plays the cases of these files, each in a thread of its own; those of `CASE=word` alone if that is set.
async fn play(files: &[&str], on: &'static Machines) {
    let only = std::env::var("CASE").unwrap_or_default();
    let mut waiting: Vec<_> = files.iter().flat_map(|file| cases(file).0).collect();
    waiting.retain(|case| case.name.contains(&only));
    waiting.reverse();
    let (mut playing, mut failed) = (JoinSet::<Played>::new(), Vec::new());
    let (mut played, mut skipped) = (0, BTreeMap::<&str, usize>::new());
    loop {
        while playing.len() < AT_ONCE
            && let Some(case) = waiting.pop()
        {
            if let Some(need) = case.needs().filter(|_| on.is_remote()) {
                *skipped.entry(need).or_default() += 1;
                continue;
            }
            let at = Arc::new(Mutex::new(String::new()));
            let (mine, own) = (case.clone(), Arc::clone(&at));
            let runtime = Handle::current();
            let play = move || runtime.block_on(mine.play(on, &own));
            let task = tokio::task::spawn_blocking(play);
            playing.spawn(async move {
                let result = task.await;
                let at = at.lock().unwrap().clone();
                (case, result, at)
            });
        }
        let Some(done) = playing.join_next().await else {
            break;
        };
        let (case, result, at) = done.unwrap();
        played += 1;
        if let Err(error) = result {
            failed.push(format!("{}\n  at {at}\n  {error}", case.name));
        }
    }
    println!("cases: {played} played, skipped for want of {skipped:?}");
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

async fn start(schedules: Schedules) -> Machines {
    match Machines::remote().await {
        Some(remote) => remote,
        None => Machines::embedded(schedules).await,
    }
}

fn on_plain(files: &[&str]) {
    let start = || start(Schedules::Never);
    PLAIN.run(start, async |on| play(files, on).await);
}

/// The files that a test names below, because they are long or need sweep.
const NAMED: [&str; 8] = [
    "critical-section",
    "observe",
    "queued-section",
    "semaphore",
    "with-lease",
    "woven",
    "queued-ends",
    "one-state",
];

#[test]
fn the_critical_section_and_the_observer() {
    on_plain(&["critical-section", "observe"]);
}

#[test]
fn the_queued_section_and_the_semaphore() {
    on_plain(&["queued-section", "semaphore"]);
}

#[test]
fn all_other_machines() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/machines");
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".yaml")?.to_owned()))
        .filter(|file| !NAMED.contains(&file.as_str()))
        .collect();
    assert!(!files.is_empty(), "{directory}");
    on_plain(&files.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_wrapper() {
    on_plain(&["with-lease"]);
}

#[test]
fn the_woven_machines() {
    on_plain(&["woven"]);
}

#[test]
fn what_sweep_ends() {
    let start = || start(Schedules::Every(Duration::from_millis(500)));
    SWEPT.run(start, async |on| {
        if !on.is_remote() {
            play(&["queued-ends", "one-state"], on).await;
        }
    });
}

#[test]
fn woven_machines_end_as_the_plain_ones_and_leave_no_lease() {
    PLAIN.run(|| start(Schedules::Never), woven::alone);
}

#[test]
fn woven_machines_wait_and_then_end_as_the_plain_ones() {
    PLAIN.run(|| start(Schedules::Never), woven::contended);
}

#[test]
fn a_definition_that_is_refused_does_no_harm_to_the_next_one() {
    PLAIN.run(
        || start(Schedules::Never),
        async |on| {
            let refused = r#"{"QueryLanguage": "JSONata", "StartAt": "A", "States": {
            "A": {"Type": "Pass", "QueryLanguage": "JSONPath", "End": true}}}"#;
            let refused = tokio::spawn(on.create("refused", refused, no_own()));
            assert!(refused.await.is_err(), "the machine was created");
            let accepted = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true}}}"#;
            on.create("accepted", accepted, no_own()).await;
        },
    );
}

/// Nothing but the template's functions.
fn no_own() -> &'static BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    &NONE
}
