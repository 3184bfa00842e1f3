//! The scenarios on the created stack: every workflow and every function, by everybody with the permission.

use std::pin::Pin;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::{join_all, try_join_all};
use leasehold_local::{Error, Fault};
use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, CheckResult, Fixture, eventually};
use super::queue;

/// A check that has not run yet.
pub(super) type Scene<'a> = Pin<Box<dyn Future<Output = CheckResult> + 'a>>;

/// A check, with what it shows.
pub(super) fn scene<'a>(
    what: &'a str,
    check: impl Future<Output = CheckResult> + 'a,
) -> (&'a str, Scene<'a>) {
    (what, Box::pin(check))
}

/// Runs checks concurrently.
pub(super) async fn shown<'a>(
    scenes: impl IntoIterator<Item = (&'a str, Scene<'a>)>,
) -> Vec<(String, CheckResult)> {
    let each = scenes
        .into_iter()
        .map(async |(what, scene)| (what.to_owned(), scene.await));
    join_all(each).await
}

/// Plays all scenarios concurrently, and returns what went wrong.
pub(super) async fn play(fixture: &Fixture<'_>) -> Vec<String> {
    let scenes = [
        scene(
            "critical-section: two steps under one lease",
            critical_section(fixture),
        ),
        scene(
            "each machine stopped while it works: reap keeps its lease for the grace, and sweep looks at it",
            are_stopped_at_work(fixture),
        ),
        scene(
            "with-lease: a child's output becomes its own",
            with_lease(fixture),
        ),
        scene(
            "with-lease stopped: its child is stopped too",
            with_lease_stopped(fixture),
        ),
        scene("observe: one step, no clock compared", observe(fixture)),
        scene("semaphore: three items, two at a time", semaphore(fixture)),
        scene("transfer: from one account to another", transfer(fixture)),
        scene(
            "sets of keys, permits, inspect and operate, by a person",
            by_a_person(fixture),
        ),
        scene(
            "with-lease does not start a machine that another stack wraps, although its name begins alike",
            crosses_to_another_stack(fixture),
        ),
    ];
    let (mut all, queued) = tokio::join!(shown(scenes), queue::play(fixture));
    all.extend(queued);
    let cleared = eventually("sweep", "done with waiters", async || {
        let deletes = fixture.has_asked("SweepRole", "dynamodb:DeleteItem", "");
        Ok(deletes.then_some(()))
    });
    let what = "sweep removes the remains of waiters that timed out";
    all.push((what.to_owned(), cleared.await));
    println!("Run on the created stack:");
    let mut wrong = Vec::new();
    for (what, outcome) in all {
        match outcome {
            Ok(()) => println!("  {what}"),
            Err(why) => wrong.push(format!("{what}: {why}")),
        }
    }
    wrong
}

async fn critical_section(fixture: &Fixture<'_>) -> CheckResult {
    let key = "a/critical-section";
    let input =
        json!({"key": key, "ttl_seconds": 60, "first": {"seconds": 0}, "second": {"seconds": 0}});
    fixture.run("leasehold-critical-section", input).await?;
    fixture.until_free(key).await
}

/// Each machine of the stack, stopped while it holds a lease.
async fn are_stopped_at_work(fixture: &Fixture<'_>) -> CheckResult {
    let (at_work, at_once) = (json!({"seconds": 20}), json!({"seconds": 0}));
    let child = fixture.machine(queue::CHILD)?;
    // The request for the accounts gets no response, so the lease stays held meanwhile.
    let read = r#""a/carol"}, "sk": {"S": "BALANCE"#;
    let proxy = fixture.stack.proxy();
    proxy.inject_matching(Fault::Hang, "TransactGetItems", read, 1);
    let stopped = [
        (
            "critical-section",
            json!({"first": at_work, "second": at_once}),
        ),
        (
            "queued-section",
            json!({"first": at_work, "second": at_once}),
        ),
        ("observe", json!({"work": at_work})),
        ("semaphore", json!({"items": [at_work], "permits": 2})),
        (
            "transfer",
            json!({"from": "a/carol", "to": "a/dave", "amount": 1}),
        ),
        (
            "with-lease",
            json!({"state_machine_arn": child, "input": at_work}),
        ),
    ]
    .map(|(machine, input)| is_stopped_at_work(fixture, machine, input));
    try_join_all(stopped).await.map(|_| ())
}

async fn is_stopped_at_work(fixture: &Fixture<'_>, machine: &str, mut input: Value) -> CheckResult {
    let key = if let Some(account) = input["from"].as_str() {
        account.to_owned()
    } else {
        let key = format!("a/stopped/{machine}");
        input["key"] = key.as_str().into();
        key
    };
    // The others' leases last as long as the execution.
    let has_ttl = !matches!(machine, "queued-section" | "with-lease");
    if has_ttl {
        input["ttl_seconds"] = 3600.into();
    }
    let machine = format!("leasehold-{machine}");
    let run = fixture.start(&machine, input).await?;
    fixture.until_held(&key).await?;
    let before = fixture.call("inspect", json!({"key": key})).await?["lease"].clone();
    // The pause is longer than the clock difference. Otherwise an end right after a grant might count as before it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.stop(&run).await?;
    // Or it has ended, because all that it started has.
    let ends = ["expires_at", "look_again_at"];
    let is_cut = |shown: &Value| {
        shown["state"] != "held" || ends.iter().any(|end| shown["lease"][end] != before[end])
    };
    fixture.until(&key, "cut", is_cut).await?;
    fixture.until_looked_at(&format!("{key}/again"), &run).await
}

/// The wrapped machine of a stack whose name begins with this stack's name.
async fn crosses_to_another_stack(fixture: &Fixture<'_>) -> CheckResult {
    let (key, stranger) = ("a/crossing", fixture.machine(queue::STRANGER)?);
    let input = json!({"key": key, "state_machine_arn": stranger, "input": {"seconds": 0}});
    let run = fixture.start("leasehold-with-lease", input).await?;
    fixture.end(&run, "FAILED", None).await?;
    let started = fixture.stack.sfn().list_executions();
    let started = started.state_machine_arn(stranger).send().await?;
    if !started.executions().is_empty() {
        return Err(Error::call(stranger, "was started"));
    }
    // Perhaps it was never leased.
    fixture
        .until(key, "left", |shown| shown["state"] != "held")
        .await
}

async fn with_lease(fixture: &Fixture<'_>) -> CheckResult {
    let (key, child) = ("a/with-lease", fixture.machine(queue::CHILD)?);
    // A short output, and a long one.
    for put_out in ["short".to_owned(), "long ".repeat(2_000)] {
        let child_input = json!({"seconds": 0, "x": put_out});
        let input = json!({"key": key, "state_machine_arn": child, "input": child_input});
        let output = fixture.run("leasehold-with-lease", input).await?;
        is_put_out(&output["x"], &put_out.into())?;
    }
    fixture.until_free(key).await?;
    // How a child failed is read from its history. This one is not told how long to wait.
    let input = json!({"key": "a/with-lease-failed", "state_machine_arn": child, "input": {}});
    let run = fixture.start("leasehold-with-lease", input).await?;
    fixture.end(&run, "FAILED", None).await.map(|_| ())
}

fn is_put_out(found: &Value, expected: &Value) -> CheckResult {
    if found == expected {
        return Ok(());
    }
    Err(Error::call("its output is", found))
}

async fn with_lease_stopped(fixture: &Fixture<'_>) -> CheckResult {
    let (key, child) = ("a/with-lease-stopped", fixture.machine(queue::CHILD)?);
    let input = json!({"key": key, "state_machine_arn": child, "input": {"seconds": 3600}});
    let run = fixture.start("leasehold-with-lease", input).await?;
    // Other scenarios start the same child meanwhile. This one is recognised by its input.
    let child = eventually("its child", "started", async || {
        let list = fixture.stack.sfn().list_executions();
        let listed = list.state_machine_arn(child).send().await?;
        for one in listed.executions() {
            let described = fixture.describe(one.execution_arn()).await?;
            if described.input().is_some_and(|text| text.contains("3600")) {
                return Ok(Some(described.execution_arn));
            }
        }
        Ok(None)
    })
    .await?;
    fixture.stop(&run).await?;
    fixture.end(&child, "ABORTED", None).await.map(|_| ())
}

async fn observe(fixture: &Fixture<'_>) -> CheckResult {
    let input = json!({"key": "a/observe", "ttl_seconds": 30, "work": {"seconds": 0}});
    fixture.run("leasehold-observe", input).await.map(|_| ())
}

async fn semaphore(fixture: &Fixture<'_>) -> CheckResult {
    let items = vec![json!({"seconds": 0}); 3];
    let input = json!({"key": "a/semaphore", "ttl_seconds": 60, "items": items, "permits": 2});
    let output = fixture.run("leasehold-semaphore", input).await?;
    let done = output.as_array().map(Vec::len);
    is_put_out(&json!(done), &json!(items.len()))
}

async fn transfer(fixture: &Fixture<'_>) -> CheckResult {
    for (account, balance) in [("ada", "100"), ("bob", "0")] {
        let put = fixture.stack.dynamodb().put_item().table_name(ACCOUNTS);
        put.item("pk", AttributeValue::S(account.to_owned()))
            .item("sk", AttributeValue::S("BALANCE".to_owned()))
            .item("balance", AttributeValue::N(balance.to_owned()))
            .send()
            .await?;
    }
    let input = json!({"from": "ada", "to": "bob", "amount": 30, "ttl_seconds": 60});
    let output = fixture.run("leasehold-transfer", input).await?;
    is_put_out(&output["balances"], &json!({"from": 70, "to": 30}))
}

/// Every function, without any state machine.
pub(super) async fn by_a_person(fixture: &Fixture<'_>) -> CheckResult {
    let keys = json!({"keys": ["a/one", "a/two"], "holder": "a person", "request_id": "two", "ttl_seconds": 600});
    fixture.call("acquire", keys).await?;
    let more = json!({"keys": ["a/one", "a/two", "a/three"], "holder": "a person", "request_id": "three", "ttl_seconds": 600, "reentrant": true});
    let leases = fixture.call("acquire", more).await?["leases"].clone();
    fixture.call("extend", json!({"leases": leases})).await?;
    for ask in [
        json!({"key": "a/one"}),
        json!({"key": "a/semaphore"}),
        json!({"holder": "a person"}),
        json!({"list": true}),
    ] {
        fixture.call("inspect", ask).await?;
    }
    fixture.call("release", json!({"leases": leases})).await?;
    let permit = json!({"key": "a/permit", "holder": "a person", "request_id": "permit", "ttl_seconds": 600, "permits": 2});
    fixture.call("acquire", permit).await?;
    for operation in ["freeze", "unfreeze"] {
        let act = json!({"operation": operation, "key": "a/one", "who": "a person", "why": "a rehearsal"});
        fixture.call("operate", act).await?;
    }
    Ok(())
}
