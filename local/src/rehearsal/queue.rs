//! The queue: every role that may notify a waiter notifies one, in a machine of the stack's own and in one of a user's.

use leasehold_local::{Error, Fault, LambdaHost};
use serde_json::{Value, json};

use super::world::{Shown, World};

const STACKS: &str = "leasehold-queued-section";
const WRAPPER: &str = "leasehold-with-lease";
/// A machine with a lease of its own, and a name by which the stack recognises that.
const USERS: &str = "leasehold_leasing_rehearsal";
/// A machine to run under a lease.
pub(super) const CHILD: &str = "leasehold_wrapped_rehearsal";
/// The same in a stack that is called leasehold-2.
pub(super) const STRANGER: &str = "leasehold-2_wrapped_rehearsal";

/// The user's own machines: one that waits in the queue and ends as its input says, one to be wrapped, and one to be wrapped by
/// another stack.
pub(super) fn own_machines(functions: &LambdaHost) -> Result<[(String, Value); 3], Error> {
    let acquire = functions.function("acquire")?.arn();
    let extend = functions.function("extend")?.arn();
    let inspect = functions.function("inspect")?.arn();
    let release = functions.function("release")?.arn();
    let invoke = "arn:aws:states:::lambda:invoke";
    // On a busy machine a response of DynamoDB may be late.
    let retry =
        json!([{"ErrorEquals": ["Lease.Throttled", "Lease.Unavailable"], "MaxAttempts": 8}]);
    let leasing = json!({
        "QueryLanguage": "JSONata",
        "StartAt": "Acquire",
        "States": {
            "Acquire": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
                "TimeoutSeconds": 100,
                "Retry": retry,
                "Arguments": {"FunctionName": acquire, "Payload": {
                    "key": "{% $states.input.key %}",
                    "holder": "{% $states.context.Execution.Id %}",
                    "request_id": "{% $states.context.Execution.Name %}",
                    "ttl_seconds": 60,
                    "task_token": "{% $states.context.Task.Token %}",
                    "wait_seconds": "{% $states.input.wait_seconds %}",
                }},
                "Assign": {"key": "{% $states.input.key %}", "then": "{% $states.input.then %}"},
                "Next": "Extend",
            },
            "Extend": {
                "Type": "Task", "Resource": invoke, "TimeoutSeconds": 30, "Retry": retry,
                "Arguments": {"FunctionName": extend, "Payload": {"lease": "{% $states.input.lease %}"}},
                "Output": "{% $states.result.Payload %}",
                "Next": "Then",
            },
            "Then": {
                "Type": "Choice",
                "Choices": [
                    {"Condition": "{% $then = 'release' %}", "Next": "Release"},
                    {"Condition": "{% $then = 'fail' %}", "Next": "Fail soon"},
                ],
                "Default": "Look",
            },
            "Release": {
                "Type": "Task", "Resource": invoke, "TimeoutSeconds": 30, "Retry": retry,
                "Arguments": {"FunctionName": release, "Payload": {"lease": "{% $states.input.lease %}"}},
                "End": true,
            },
            // The pause is longer than the clock difference. Otherwise the failed execution might count as redriven.
            "Fail soon": {"Type": "Wait", "Seconds": 1, "Next": "Fail"},
            "Fail": {"Type": "Fail", "Error": "Mine"},
            // Keeps the key until somebody waits for it, and ends without a release.
            "Look": {
                "Type": "Task", "Resource": invoke, "TimeoutSeconds": 30, "Retry": retry,
                "Arguments": {"FunctionName": inspect, "Payload": {"key": "{% $key %}"}},
                "Output": "{% $states.result.Payload %}",
                "Next": "Enough",
            },
            "Enough": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $states.input.waiting > 0 %}", "Next": "Succeed"}],
                "Default": "Again",
            },
            "Again": {"Type": "Wait", "Seconds": 1, "Next": "Look"},
            "Succeed": {"Type": "Succeed"},
        },
    });
    let child = json!({"StartAt": "Work", "States": {
        "Work": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true},
    }});
    Ok([
        (USERS.to_owned(), leasing),
        (CHILD.to_owned(), child.clone()),
        (STRANGER.to_owned(), child),
    ])
}

/// Every role that may notify a waiter notifies one.
pub(super) async fn play(world: &World<'_>) -> Vec<(String, Shown)> {
    let mut shown = Vec::new();
    for machine in [STACKS, WRAPPER, USERS] {
        shown.extend(Box::pin(play_with(world, machine)).await);
    }
    shown.push((
        "with-lease stops the execution that it replaces".to_owned(),
        replaces(world).await,
    ));
    shown.push((
        "reap, by the rule, reads the history of a failed execution".to_owned(),
        fails(world).await,
    ));
    shown
}

async fn play_with(world: &World<'_>, machine: &str) -> Vec<(String, Shown)> {
    let (free, released, expired, late, forced, reaped) = tokio::join!(
        is_free(world, machine),
        is_released(world, machine),
        expires(world, machine),
        has_waited_long_enough(world, machine),
        is_forced(world, machine),
        is_reaped(world, machine),
    );
    [
        ("acquire finds the key free, and responds by callback", free),
        ("release notifies the next in the queue", released),
        (
            "sweep, by its schedule, notifies the next waiter after a lease expires",
            expired,
        ),
        ("sweep removes a waiter whose time is over", late),
        (
            "grant, by the stream, notifies the next waiter after a forced release",
            forced,
        ),
        (
            "reap, by the rule, notifies the next waiter after an execution has ended",
            reaped,
        ),
    ]
    .map(|(what, outcome)| (format!("{machine}: {what}"), outcome))
    .to_vec()
}

fn key(machine: &str, scene: &str) -> String {
    format!("{machine}/{scene}")
}

async fn start(
    world: &World<'_>,
    machine: &str,
    key: &str,
    wait_seconds: u32,
) -> Result<String, String> {
    let at_once = json!({"seconds": 0});
    let input = match machine {
        USERS => json!({"key": key, "wait_seconds": wait_seconds, "then": "release"}),
        WRAPPER => {
            let child = world.machine(CHILD)?;
            json!({"key": key, "ttl_seconds": 60, "wait_seconds": wait_seconds, "state_machine_arn": child, "input": at_once})
        }
        _ => {
            json!({"key": key, "ttl_seconds": 60, "wait_seconds": wait_seconds, "first": at_once, "second": at_once})
        }
    };
    world.start(machine, input).await
}

/// Starts an execution that must wait, and returns when it does.
async fn queued(world: &World<'_>, machine: &str, key: &str) -> Result<String, String> {
    let waiting = start(world, machine, key, 100).await?;
    world.until_waited_for(key).await?;
    Ok(waiting)
}

async fn is_free(world: &World<'_>, machine: &str) -> Shown {
    if machine == WRAPPER {
        return is_free_meanwhile(world).await;
    }
    let run = start(world, machine, &key(machine, "free"), 100).await?;
    world.success(&run).await.map(|_| ())
}

/// with-lease joins a queue only if it found the key held, so the key is released between the two requests: no attempt to
/// join arrives before the key is free, however long the release takes.
async fn is_free_meanwhile(world: &World<'_>) -> Shown {
    let key = key(WRAPPER, "free");
    let lease = world.occupy(&key, 600.0).await?;
    let proxy = world.stack.proxy();
    proxy.inject_matching(Fault::Hang, "TransactWriteItems", &key, u32::MAX);
    let run = start(world, WRAPPER, &key, 100).await?;
    world.until_entered(&run, "AcquireInLine").await?;
    world.call("release", json!({"lease": lease})).await?;
    proxy.withdraw_matching(&key);
    world.success(&run).await.map(|_| ())
}

/// with-lease replaces an execution of its own, and one of a user's.
async fn replaces(world: &World<'_>) -> Shown {
    for machine in [WRAPPER, USERS] {
        let key = key(machine, "replaced");
        let child = world.machine(CHILD)?;
        let input = |seconds: u32, if_held: &str| json!({"key": key, "ttl_seconds": 60, "if_held": if_held, "state_machine_arn": child, "input": {"seconds": seconds}});
        let held = match machine {
            USERS => json!({"key": key, "wait_seconds": 100, "then": "keep"}),
            _ => input(600, "fail"),
        };
        let holder = world.start(machine, held).await?;
        let is_held = |shown: &Value| shown["state"] == "held";
        world.until(&key, "held", is_held).await?;
        let heir = world.start(WRAPPER, input(0, "replace")).await?;
        let end = world.end(&holder).await?;
        if (end.status.as_str(), end.error.as_str()) != ("ABORTED", "WithLease.Replaced") {
            return Err(format!("{end:?}"));
        }
        let moves_on = |shown: &Value| shown["waiting"] == 1 || shown["lease"]["holder"] != *holder;
        world.until(&key, "waited for", moves_on).await?;
        // Its grace is longer than a rehearsal, unless reap has seen that none of its work is running.
        let force = json!({"operation": "force_release", "key": key, "who": "a person", "why": "a rehearsal"});
        world.call("operate", force).await.ok();
        world.success(&heir).await?;
    }
    Ok(())
}

async fn is_released(world: &World<'_>, machine: &str) -> Shown {
    let key = key(machine, "released");
    let lease = world.occupy(&key, 600.0).await?;
    let waiting = queued(world, machine, &key).await?;
    world.call("release", json!({"lease": lease})).await?;
    world.success(&waiting).await.map(|_| ())
}

/// On a busy machine the lease may expire before anybody waits for it: then again, with another key.
async fn expires(world: &World<'_>, machine: &str) -> Shown {
    let once = async |key: &str| expires_once(world, machine, key).await;
    until_notified_by(world, "SweepRole", machine, "expired", once).await
}

/// Plays a scene with one key after the other, until this role has notified a waiter of the machine.
async fn until_notified_by(
    world: &World<'_>,
    role: &str,
    machine: &str,
    scene: &str,
    once: impl AsyncFn(&str) -> Shown,
) -> Shown {
    for round in 0..5 {
        once(&key(machine, &format!("{scene}/{round}"))).await?;
        if world.has_answered(role, machine) {
            return Ok(());
        }
    }
    Err(format!("{role} never notifies"))
}

async fn expires_once(world: &World<'_>, machine: &str, key: &str) -> Shown {
    let mut lease = world.occupy(key, 6.0).await?;
    let waiting = start(world, machine, key, 100).await?;
    // Not before an execution waits, however long that takes.
    while world.call("inspect", json!({"key": key})).await?["waiting"] != 1 {
        let Ok(extended) = world.call("extend", json!({"lease": lease})).await else {
            break;
        };
        lease = extended["lease"].clone();
    }
    world.success(&waiting).await.map(|_| ())
}

async fn has_waited_long_enough(world: &World<'_>, machine: &str) -> Shown {
    let key = key(machine, "late");
    let lease = world.occupy(&key, 600.0).await?;
    let waiting = start(world, machine, &key, 0).await?;
    let end = world.end(&waiting).await?;
    if end.error != "Lease.QueueTimeout" {
        return Err(format!("{end:?}"));
    }
    world
        .call("release", json!({"lease": lease}))
        .await
        .map(|_| ())
}

/// Sweep may come first and do grant's work. Then this tries again with another key.
async fn is_forced(world: &World<'_>, machine: &str) -> Shown {
    let once = async |key: &str| is_forced_once(world, machine, key).await;
    until_notified_by(world, "GrantRole", machine, "forced", once).await
}

async fn is_forced_once(world: &World<'_>, machine: &str, key: &str) -> Shown {
    world.occupy(key, 600.0).await?;
    let waiting = queued(world, machine, key).await?;
    let force =
        json!({"operation": "force_release", "key": key, "who": "a person", "why": "a rehearsal"});
    world.call("operate", force).await?;
    world.success(&waiting).await.map(|_| ())
}

async fn is_reaped(world: &World<'_>, machine: &str) -> Shown {
    let key = key(machine, "reaped");
    let keeps = json!({"key": key, "wait_seconds": 100, "then": "keep"});
    let keeper = world.start(USERS, keeps).await?;
    world
        .until(&key, "held", |shown| shown["state"] == "held")
        .await?;
    let waiting = queued(world, machine, &key).await?;
    world.success(&keeper).await?;
    world.success(&waiting).await.map(|_| ())
}

async fn fails(world: &World<'_>) -> Shown {
    let key = key(USERS, "failed");
    let fails = json!({"key": key, "wait_seconds": 100, "then": "fail"});
    let run = world.start(USERS, fails).await?;
    let end = world.end(&run).await?;
    if end.error != "Mine" {
        return Err(format!("{end:?}"));
    }
    world.until_free(&key).await
}
