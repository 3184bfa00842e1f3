//! State machines on the real functions: the cases of `proof/machines`, the machines that weave writes, and what the
//! stack does by itself around them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sfn::error::DisplayErrorContext;
use aws_smithy_types::body::SdkBody;
use leasehold_local::Schedules;
use leasehold_proof::cases::{Case, cases};
use leasehold_proof::fixture::Shared;
use leasehold_proof::machines::Machines;
use leasehold_proof::permissions::Permissions;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

mod woven;

static PLAIN: Shared<Machines> = Shared::new();
/// Where sweep runs all the time; the cases of the other one want expired leases to stay as they are.
static SWEPT: Shared<Machines> = Shared::new();

/// In the answer of an interpreter that has crashed in a call.
const INTERPRETERS_OWN: &str = "InternalFailure";

/// What a case turned into.
type Played = (Case, Result<(), tokio::task::JoinError>, String);

/// Plays the cases of these files but those that `EXCEPT` names, one a line; so many at once because most of their time goes by in waits, each in a thread of its own. Returns
/// what failed.
async fn play(files: &[String], on: &'static Machines, at_once: usize) -> Vec<String> {
    let only = word();
    let mut waiting: Vec<_> = files.iter().flat_map(|file| cases(file).0).collect();
    let except = std::env::var("EXCEPT").unwrap_or_default();
    let is_left_out = |case: &Case| except.lines().any(|name| name == case.name);
    waiting.retain(|case| case.name.contains(&only) && !is_left_out(case));
    waiting.reverse();
    let (mut playing, mut failed) = (JoinSet::<Played>::new(), Vec::new());
    let (mut played, mut skipped) = (0, BTreeMap::<&str, usize>::new());
    let mut again = BTreeSet::new();
    loop {
        while playing.len() < at_once
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
        let Err(error) = result else { continue };
        let error = error.to_string();
        // A stopped execution's threads may meddle with its redriven one: the interpreter's own fault, and not what is tested.
        if error.contains(INTERPRETERS_OWN) && again.insert(case.name.clone()) {
            println!(
                "{}: once more, because the interpreter failed at {at}",
                case.name
            );
            waiting.push(case);
        } else {
            failed.push(format!("{}\n  at {at}\n  {error}", case.name));
        }
    }
    println!("cases: {played} played, skipped for want of {skipped:?}");
    if !failed.is_empty() && !on.is_remote() {
        println!("{}", troubles(on));
    }
    failed
}

/// The last warnings and errors that the functions have logged, to which a failed case may be due.
fn troubles(on: &Machines) -> String {
    let host = on.stack().functions();
    let mut lines = Vec::new();
    for function in host.functions() {
        let log = host.log(&function.logical_id).unwrap();
        let is_trouble =
            |line: &&str| line.contains(r#""level":"WARN""#) || line.contains(r#""level":"ERROR""#);
        let troubles: Vec<_> = log.lines().filter(is_trouble).collect();
        let last = &troubles[troubles.len().saturating_sub(20)..];
        lines.extend(last.iter().map(|line| format!("{}: {line}", function.verb)));
    }
    lines.join("\n")
}

async fn start(schedules: Schedules) -> Machines {
    match Machines::remote().await {
        Some(remote) => remote,
        None => Machines::embedded(schedules).await,
    }
}

/// `CASE=word` plays those cases alone whose names contain the word.
fn word() -> String {
    std::env::var("CASE").unwrap_or_default()
}

/// The names of the files whose cases are about a stack where sweep runs, or of the others.
fn files(swept: bool) -> Vec<String> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/machines");
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = names.filter_map(|name| Some(name.strip_suffix(".yaml")?.to_owned()));
    let mut files: Vec<_> = files.filter(|file| cases(file).1 == swept).collect();
    files.sort();
    assert!(!files.is_empty(), "{directory}");
    files
}

#[test]
fn cases_need_exactly_their_permissions() {
    let (permissions, wrong) = (Mutex::new(Permissions::default()), Mutex::new(Vec::new()));
    let played = |on: &Machines, failed: Vec<String>| {
        wrong.lock().unwrap().extend(failed);
        if !on.is_remote() {
            permissions.lock().unwrap().add(on.stack().roles());
        }
    };
    let plain = async |on: &'static Machines| played(on, play(&files(false), on, 6).await);
    let swept = async |on: &'static Machines| {
        if !on.is_remote() {
            played(on, play(&files(true), on, 3).await);
        }
    };
    let every = Schedules::Every(Duration::from_millis(500));
    std::thread::scope(|scope| {
        scope.spawn(|| SWEPT.run(|| start(every), swept));
        PLAIN.run(|| start(Schedules::Never), plain);
    });
    let mut wrong = wrong.into_inner().unwrap();
    let permissions = permissions.into_inner().unwrap();
    let refused = permissions.refused(&[]).into_iter();
    wrong.extend(refused.map(str::to_owned));
    if word().is_empty() {
        // A role that begins starts needs these only where reap has not heard of the end, of a caller or of what was started. No case
        // keeps that from reap, which other cases need meanwhile; `start_asks_for_its_caller` of the suite plays it.
        let begins = ["AcquireRole", "OperateRole", "ReleaseRole", "StartRole"];
        let asks = ["states:DescribeExecution", "states:GetExecutionHistory"];
        let is_rare = |idle: &String| {
            let mut words = idle.split(' ');
            words.next().is_some_and(|role| begins.contains(&role))
                && words.next().is_some_and(|action| asks.contains(&action))
        };
        let idle = permissions.idle().into_iter();
        let idle = idle.filter(|idle| !is_rare(idle));
        wrong.extend(idle.map(|idle| format!("no case needs {idle}")));
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn woven_machines_end_as_plain_ones() {
    PLAIN.run(|| start(Schedules::Never), woven::alone);
}

#[test]
fn woven_machines_wait_then_end_alike() {
    PLAIN.run(|| start(Schedules::Never), woven::contended);
}

#[test]
fn refused_definition_spares_next_one() {
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

#[test]
fn engine_failure_is_answered_with_reason() {
    PLAIN.run(
        || start(Schedules::Never),
        async |on| {
            if on.is_remote() {
                return;
            }
            let sfn = on.stack().sfn();
            let asked = sfn.get_execution_history().execution_arn("any").customize();
            let asked = asked.mutate_request(|request| {
                let body = r#"{"executionArn": 5}"#;
                let length = body.len().to_string();
                request.headers_mut().insert("content-length", length);
                *request.body_mut() = SdkBody::from(body);
            });
            let said = DisplayErrorContext(asked.send().await.unwrap_err()).to_string();
            assert!(said.contains("InternalFailure"), "{said}");
            assert!(said.contains("TypeError"), "{said}");
        },
    );
}

/// Nothing but the template's functions.
fn no_own() -> &'static BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    &NONE
}
