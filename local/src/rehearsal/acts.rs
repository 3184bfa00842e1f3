//! The acts on the created stack: every workflow and every function, by everybody with the permission.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};

use super::queue;
use super::world::{ACCOUNTS, Shown, World};

/// Plays all acts concurrently, and returns what went wrong.
pub(super) async fn play(world: &World<'_>) -> Vec<String> {
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
        queue::play(world),
        critical_section(world),
        are_stopped_at_work(world),
        with_lease(world),
        with_lease_stopped(world),
        observe(world),
        semaphore(world),
        transfer(world),
        by_a_person(world),
        crosses_to_another_stack(world),
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
    let cleared = world.until_asked("SweepRole", "dynamodb:DeleteItem").await;
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

async fn critical_section(world: &World<'_>) -> Shown {
    let key = "a/critical-section";
    let input =
        json!({"key": key, "ttl_seconds": 60, "first": {"seconds": 0}, "second": {"seconds": 0}});
    world.run("leasehold-critical-section", input).await?;
    world.until_free(key).await
}

/// Each machine of the stack, stopped while it holds a lease.
async fn are_stopped_at_work(world: &World<'_>) -> Shown {
    let (at_work, at_once) = (json!({"seconds": 20}), json!({"seconds": 0}));
    let child = world.machine(queue::CHILD)?;
    // The request for the accounts gets no response, so the lease stays held meanwhile.
    let read = r#""a/carol"}, "sk": {"S": "BALANCE"#;
    let proxy = world.stack.proxy();
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
    .map(|(machine, input)| is_stopped_at_work(world, machine, input));
    let [section, queued, observe, semaphore, transfer, wrapper] = stopped;
    tokio::try_join!(section, queued, observe, semaphore, transfer, wrapper).map(|_| ())
}

async fn is_stopped_at_work(world: &World<'_>, machine: &str, mut input: Value) -> Shown {
    let key = if let Some(account) = input["from"].as_str() {
        account.to_owned()
    } else {
        let key = format!("a/stopped/{machine}");
        input["key"] = key.as_str().into();
        key
    };
    input["ttl_seconds"] = 3600.into();
    let run = world.start(&format!("leasehold-{machine}"), input).await?;
    world
        .until(&key, "held", |shown| shown["state"] == "held")
        .await?;
    let deadline = world.call("inspect", json!({"key": key})).await?["lease"]["expires_at"].clone();
    // The pause is longer than the clock difference. Otherwise an end right after a grant might count as before it.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    world.stop(&run).await?;
    world
        .until(&key, "cut", |shown| {
            shown["lease"]["expires_at"] != deadline
        })
        .await
}

/// The wrapped machine of a stack whose name begins with this stack's name.
async fn crosses_to_another_stack(world: &World<'_>) -> Shown {
    let (key, stranger) = ("a/crossing", world.machine(queue::STRANGER)?);
    let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": stranger, "input": {"seconds": 0}});
    let run = world.start("leasehold-with-lease", input).await?;
    let end = world.end(&run).await?;
    let started = world.stack.sfn().list_executions();
    let started = started.state_machine_arn(stranger).send().await;
    let started = started.map_err(|error| error.to_string())?;
    if end.status != "FAILED" || !started.executions().is_empty() {
        return Err(format!("{end:?}, and {:?}", started.executions()));
    }
    world.until_free(key).await
}

async fn with_lease(world: &World<'_>) -> Shown {
    let (key, child) = ("a/with-lease", world.machine(queue::CHILD)?);
    // A short output comes with the child's end. A long one is read from its history.
    for put_out in ["short".to_owned(), "long ".repeat(2_000)] {
        let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": child, "input": {"seconds": 0, "x": put_out}});
        let output = world.run("leasehold-with-lease", input).await?;
        if output["x"] != put_out {
            return Err(format!("its output is {output}"));
        }
    }
    world.until_free(key).await
}

async fn with_lease_stopped(world: &World<'_>) -> Shown {
    let (key, child) = ("a/with-lease-stopped", world.machine(queue::CHILD)?);
    let input = json!({"key": key, "ttl_seconds": 60, "state_machine_arn": child, "input": {"seconds": 3600}});
    let run = world.start("leasehold-with-lease", input).await?;
    let began = std::time::Instant::now();
    // Other acts start the same child meanwhile. This one is recognised by its input.
    let sfn = world.stack.sfn();
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
    world.stop(&run).await?;
    let end = world.end(&child).await?;
    if end.status == "ABORTED" {
        Ok(())
    } else {
        Err(format!("{end:?}"))
    }
}

async fn observe(world: &World<'_>) -> Shown {
    let input = json!({"key": "a/observe", "ttl_seconds": 30, "work": {"seconds": 0}});
    world.run("leasehold-observe", input).await.map(|_| ())
}

async fn semaphore(world: &World<'_>) -> Shown {
    let items = [
        json!({"seconds": 0}),
        json!({"seconds": 0}),
        json!({"seconds": 0}),
    ];
    let input = json!({"key": "a/semaphore", "ttl_seconds": 60, "items": items, "permits": 2});
    let output = world.run("leasehold-semaphore", input).await?;
    if output
        .as_array()
        .is_some_and(|done| done.len() == items.len())
    {
        return Ok(());
    }
    Err(format!("its output is {output}"))
}

async fn transfer(world: &World<'_>) -> Shown {
    for (account, balance) in [("ada", "100"), ("bob", "0")] {
        let put = world.stack.dynamodb().put_item().table_name(ACCOUNTS);
        put.item("pk", AttributeValue::S(account.to_owned()))
            .item("sk", AttributeValue::S("BALANCE".to_owned()))
            .item("balance", AttributeValue::N(balance.to_owned()))
            .send()
            .await
            .map_err(|error| error.to_string())?;
    }
    let input = json!({"from": "ada", "to": "bob", "amount": 30, "ttl_seconds": 60});
    let output = world.run("leasehold-transfer", input).await?;
    if output["balances"] == json!({"from": 70, "to": 30}) {
        return Ok(());
    }
    Err(format!("its output is {output}"))
}

/// Every function, without any state machine.
pub(super) async fn by_a_person(world: &World<'_>) -> Shown {
    let keys = json!({"keys": ["a/one", "a/two"], "holder": "a person", "request_id": "two", "ttl_seconds": 600});
    world.call("acquire", keys).await?;
    let more = json!({"keys": ["a/one", "a/two", "a/three"], "holder": "a person", "request_id": "three", "ttl_seconds": 600, "reentrant": true});
    let leases = world.call("acquire", more).await?["leases"].clone();
    world.call("extend", json!({"leases": leases})).await?;
    for ask in [
        json!({"key": "a/one"}),
        json!({"key": "a/semaphore"}),
        json!({"holder": "a person"}),
        json!({"list": true}),
    ] {
        world.call("inspect", ask).await?;
    }
    world.call("release", json!({"leases": leases})).await?;
    let permit = json!({"key": "a/permit", "holder": "a person", "request_id": "permit", "ttl_seconds": 600, "permits": 2});
    world.call("acquire", permit).await?;
    for operation in ["freeze", "unfreeze"] {
        let act = json!({"operation": operation, "key": "a/one", "who": "a person", "why": "a rehearsal"});
        world.call("operate", act).await?;
    }
    Ok(())
}
