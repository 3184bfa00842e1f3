//! The scenarios on the created stack: every workflow and every function, by everybody with the permission.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, CheckResult, Fixture};
use super::queue;

/// Plays all scenarios concurrently, and returns what went wrong.
pub(super) async fn play(fixture: &Fixture<'_>) -> Vec<String> {
    let (
        queued,
        section,
        stopped,
        wrapped,
        ended,
        observed,
        permits,
        transferred,
        functions,
        crossed,
    ) = tokio::join!(
        queue::play(fixture),
        critical_section(fixture),
        are_stopped_at_work(fixture),
        with_lease(fixture),
        with_lease_stopped(fixture),
        observe(fixture),
        semaphore(fixture),
        transfer(fixture),
        by_a_person(fixture),
        crosses_to_another_stack(fixture),
    );
    let mut shown = [
        ("critical-section: two steps under one lease", section),
        (
            "each machine stopped while it works: reap keeps its lease for the grace",
            stopped,
        ),
        ("with-lease: a child's output becomes its own", wrapped),
        ("with-lease stopped: its child is stopped too", ended),
        ("observe: one step, no clock compared", observed),
        ("semaphore: three items, two at a time", permits),
        ("transfer: from one account to another", transferred),
        (
            "sets of keys, permits, inspect and operate, by a person",
            functions,
        ),
        (
            "with-lease does not start a machine that another stack wraps, although its name begins alike",
            crossed,
        ),
    ]
    .map(|(what, outcome)| (what.to_owned(), outcome))
    .to_vec();
    shown.extend(queued);
    let cleared = fixture
        .until_asked("SweepRole", "dynamodb:DeleteItem")
        .await;
    shown.push((
        "sweep removes the remains of waiters that timed out".to_owned(),
        cleared,
    ));
    println!("Run on the created stack:");
    let mut wrong = Vec::new();
    for (what, outcome) in shown {
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
    let [section, queued, observe, semaphore, transfer, wrapper] = stopped;
    tokio::try_join!(section, queued, observe, semaphore, transfer, wrapper).map(|_| ())
}

async fn is_stopped_at_work(fixture: &Fixture<'_>, machine: &str, mut input: Value) -> CheckResult {
    let key = if let Some(account) = input["from"].as_str() {
        account.to_owned()
    } else {
        let key = format!("a/stopped/{machine}");
        input["key"] = key.as_str().into();
        key
    };
    input["ttl_seconds"] = 3600.into();
    let run = fixture
        .start(&format!("leasehold-{machine}"), input)
        .await?;
    fixture
        .until(&key, "held", |shown| shown["state"] == "held")
        .await?;
    let deadline =
        fixture.call("inspect", json!({"key": key})).await?["lease"]["expires_at"].clone();
    // The pause is longer than the clock difference. Otherwise an end right after a grant might count as before it.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    fixture.stop(&run).await?;
    fixture
        .until(&key, "cut", |shown| {
            shown["lease"]["expires_at"] != deadline
        })
        .await
}

/// The wrapped machine of a stack whose name begins with this stack's name.
async fn crosses_to_another_stack(fixture: &Fixture<'_>) -> CheckResult {
    let (key, stranger) = ("a/crossing", fixture.machine(queue::STRANGER)?);
    let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": stranger, "input": {"seconds": 0}});
    let run = fixture.start("leasehold-with-lease", input).await?;
    let end = fixture.end(&run).await?;
    let started = fixture.stack.sfn().list_executions();
    let started = started.state_machine_arn(stranger).send().await;
    let started = started.map_err(|error| error.to_string())?;
    if end.status != "FAILED" || !started.executions().is_empty() {
        return Err(format!("{end:?}, and {:?}", started.executions()));
    }
    fixture.until_free(key).await
}

async fn with_lease(fixture: &Fixture<'_>) -> CheckResult {
    let (key, child) = ("a/with-lease", fixture.machine(queue::CHILD)?);
    // A short output comes with the child's end. A long one is read from its history.
    for put_out in ["short".to_owned(), "long ".repeat(2_000)] {
        let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": child, "input": {"seconds": 0, "x": put_out}});
        let output = fixture.run("leasehold-with-lease", input).await?;
        if output["x"] != put_out {
            return Err(format!("its output is {output}"));
        }
    }
    fixture.until_free(key).await
}

async fn with_lease_stopped(fixture: &Fixture<'_>) -> CheckResult {
    let (key, child) = ("a/with-lease-stopped", fixture.machine(queue::CHILD)?);
    let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": child, "input": {"seconds": 3600}});
    let run = fixture.start("leasehold-with-lease", input).await?;
    let began = std::time::Instant::now();
    // Other scenarios start the same child meanwhile. This one is recognised by its input.
    let sfn = fixture.stack.sfn();
    let child = 'found: loop {
        let list = sfn.list_executions().state_machine_arn(child);
        let listed = list.send().await.map_err(|error| error.to_string())?;
        for one in listed.executions() {
            let described = sfn.describe_execution().execution_arn(one.execution_arn());
            let described = described.send().await.map_err(|error| error.to_string())?;
            if described
                .input()
                .is_some_and(|input| input.contains("3600"))
            {
                break 'found one.execution_arn().to_owned();
            }
        }
        if began.elapsed().as_secs() > 60 {
            return Err("its child does not start".to_owned());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    fixture.stop(&run).await?;
    let end = fixture.end(&child).await?;
    if end.status == "ABORTED" {
        Ok(())
    } else {
        Err(format!("{end:?}"))
    }
}

async fn observe(fixture: &Fixture<'_>) -> CheckResult {
    let input = json!({"key": "a/observe", "ttl_seconds": 30, "work": {"seconds": 0}});
    fixture.run("leasehold-observe", input).await.map(|_| ())
}

async fn semaphore(fixture: &Fixture<'_>) -> CheckResult {
    let items = [
        json!({"seconds": 0}),
        json!({"seconds": 0}),
        json!({"seconds": 0}),
    ];
    let input = json!({"key": "a/semaphore", "ttl_seconds": 60, "items": items, "permits": 2});
    let output = fixture.run("leasehold-semaphore", input).await?;
    if output
        .as_array()
        .is_some_and(|done| done.len() == items.len())
    {
        return Ok(());
    }
    Err(format!("its output is {output}"))
}

async fn transfer(fixture: &Fixture<'_>) -> CheckResult {
    for (account, balance) in [("ada", "100"), ("bob", "0")] {
        let put = fixture.stack.dynamodb().put_item().table_name(ACCOUNTS);
        put.item("pk", AttributeValue::S(account.to_owned()))
            .item("sk", AttributeValue::S("BALANCE".to_owned()))
            .item("balance", AttributeValue::N(balance.to_owned()))
            .send()
            .await
            .map_err(|error| error.to_string())?;
    }
    let input = json!({"from": "ada", "to": "bob", "amount": 30, "ttl_seconds": 60});
    let output = fixture.run("leasehold-transfer", input).await?;
    if output["balances"] == json!({"from": 70, "to": 30}) {
        return Ok(());
    }
    Err(format!("its output is {output}"))
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
