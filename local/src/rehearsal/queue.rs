//! The queue: every role that may notify a waiter notifies one, in a machine of the stack's own and in one of a user's.

use leasehold_local::{Error, Fault, LambdaHost};
use serde_json::{Value, json};

use super::fixture::{CheckResult, Fixture};

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
pub(super) async fn play(fixture: &Fixture<'_>) -> Vec<(String, CheckResult)> {
    let mut shown = Vec::new();
    for machine in [STACKS, WRAPPER, USERS] {
        shown.extend(Box::pin(play_with(fixture, machine)).await);
    }
    shown.push((
        "with-lease stops the execution that it replaces".to_owned(),
        replaces(fixture).await,
    ));
    shown.push((
        "reap, by the rule, reads the history of a failed execution".to_owned(),
        fails(fixture).await,
    ));
    shown
}

async fn play_with(fixture: &Fixture<'_>, machine: &str) -> Vec<(String, CheckResult)> {
    let (free, released, expired, late, forced, reaped) = tokio::join!(
        is_free(fixture, machine),
        is_released(fixture, machine),
        expires(fixture, machine),
        has_waited_long_enough(fixture, machine),
        is_forced(fixture, machine),
        is_reaped(fixture, machine),
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
    fixture: &Fixture<'_>,
    machine: &str,
    key: &str,
    wait_seconds: u32,
) -> Result<String, String> {
    let at_once = json!({"seconds": 0});
    let input = match machine {
        USERS => json!({"key": key, "wait_seconds": wait_seconds, "then": "release"}),
        WRAPPER => {
            let child = fixture.machine(CHILD)?;
            json!({"key": key, "ttl_seconds": 60, "wait_seconds": wait_seconds, "state_machine_arn": child, "input": at_once})
        }
        _ => {
            json!({"key": key, "ttl_seconds": 60, "wait_seconds": wait_seconds, "first": at_once, "second": at_once})
        }
    };
    fixture.start(machine, input).await
}

/// Starts an execution that must wait, and returns when it does.
async fn queued(fixture: &Fixture<'_>, machine: &str, key: &str) -> Result<String, String> {
    let waiting = start(fixture, machine, key, 100).await?;
    fixture.until_waited_for(key).await?;
    Ok(waiting)
}

async fn is_free(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    if machine == WRAPPER {
        return is_free_meanwhile(fixture).await;
    }
    let run = start(fixture, machine, &key(machine, "free"), 100).await?;
    fixture.success(&run).await.map(|_| ())
}

/// with-lease joins a queue only if it found the key held, so the key is released between the two requests: no attempt to
/// join arrives before the key is free, however long the release takes.
async fn is_free_meanwhile(fixture: &Fixture<'_>) -> CheckResult {
    let key = key(WRAPPER, "free");
    let lease = fixture.occupy(&key, 600.0).await?;
    let proxy = fixture.stack.proxy();
    proxy.inject_matching(Fault::Hang, "TransactWriteItems", &key, u32::MAX);
    let run = start(fixture, WRAPPER, &key, 100).await?;
    fixture.until_entered(&run, "AcquireInLine").await?;
    fixture.call("release", json!({"lease": lease})).await?;
    proxy.cancel_matching_faults(&key);
    fixture.success(&run).await.map(|_| ())
}

/// with-lease replaces an execution of its own, and one of a user's.
async fn replaces(fixture: &Fixture<'_>) -> CheckResult {
    for machine in [WRAPPER, USERS] {
        let key = key(machine, "replaced");
        let child = fixture.machine(CHILD)?;
        let input = |seconds: u32, if_held: &str| json!({"key": key, "ttl_seconds": 60, "if_held": if_held, "state_machine_arn": child, "input": {"seconds": seconds}});
        let held = match machine {
            USERS => json!({"key": key, "wait_seconds": 100, "then": "keep"}),
            _ => input(600, "fail"),
        };
        let holder = fixture.start(machine, held).await?;
        let is_held = |shown: &Value| shown["state"] == "held";
        fixture.until(&key, "held", is_held).await?;
        let heir = fixture.start(WRAPPER, input(0, "replace")).await?;
        let end = fixture.end(&holder).await?;
        if (end.status.as_str(), end.error.as_str()) != ("ABORTED", "WithLease.Replaced") {
            return Err(format!("{end:?}"));
        }
        let moves_on = |shown: &Value| shown["waiting"] == 1 || shown["lease"]["holder"] != *holder;
        fixture.until(&key, "waited for", moves_on).await?;
        // Its grace is longer than a rehearsal, unless reap has seen that none of its work is running.
        let force = json!({"operation": "force_release", "key": key, "who": "a person", "why": "a rehearsal"});
        fixture.call("operate", force).await.ok();
        fixture.success(&heir).await?;
    }
    Ok(())
}

async fn is_released(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let key = key(machine, "released");
    let lease = fixture.occupy(&key, 600.0).await?;
    let waiting = queued(fixture, machine, &key).await?;
    fixture.call("release", json!({"lease": lease})).await?;
    fixture.success(&waiting).await.map(|_| ())
}

/// On a busy machine the lease may expire before anybody waits for it: then again, with another key.
async fn expires(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let once = async |key: &str| expires_once(fixture, machine, key).await;
    until_notified_by(fixture, "SweepRole", machine, "expired", once).await
}

/// Plays a scene with one key after the other, until this role has notified a waiter of the machine.
async fn until_notified_by(
    fixture: &Fixture<'_>,
    role: &str,
    machine: &str,
    scene: &str,
    once: impl AsyncFn(&str) -> CheckResult,
) -> CheckResult {
    for round in 0..5 {
        once(&key(machine, &format!("{scene}/{round}"))).await?;
        if fixture.has_answered(role, machine) {
            return Ok(());
        }
    }
    Err(format!("{role} never notifies"))
}

async fn expires_once(fixture: &Fixture<'_>, machine: &str, key: &str) -> CheckResult {
    let mut lease = fixture.occupy(key, 6.0).await?;
    let waiting = start(fixture, machine, key, 100).await?;
    // Not before an execution waits, however long that takes.
    while fixture.call("inspect", json!({"key": key})).await?["waiting"] != 1 {
        let Ok(extended) = fixture.call("extend", json!({"lease": lease})).await else {
            break;
        };
        lease = extended["lease"].clone();
    }
    fixture.success(&waiting).await.map(|_| ())
}

async fn has_waited_long_enough(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let key = key(machine, "late");
    let lease = fixture.occupy(&key, 600.0).await?;
    let waiting = start(fixture, machine, &key, 0).await?;
    let end = fixture.end(&waiting).await?;
    if end.error != "Lease.QueueTimeout" {
        return Err(format!("{end:?}"));
    }
    fixture
        .call("release", json!({"lease": lease}))
        .await
        .map(|_| ())
}

/// Sweep may come first and do grant's work. Then this tries again with another key.
async fn is_forced(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let once = async |key: &str| is_forced_once(fixture, machine, key).await;
    until_notified_by(fixture, "GrantRole", machine, "forced", once).await
}

async fn is_forced_once(fixture: &Fixture<'_>, machine: &str, key: &str) -> CheckResult {
    fixture.occupy(key, 600.0).await?;
    let waiting = queued(fixture, machine, key).await?;
    let force =
        json!({"operation": "force_release", "key": key, "who": "a person", "why": "a rehearsal"});
    fixture.call("operate", force).await?;
    fixture.success(&waiting).await.map(|_| ())
}

async fn is_reaped(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let key = key(machine, "reaped");
    let keeps = json!({"key": key, "wait_seconds": 100, "then": "keep"});
    let keeper = fixture.start(USERS, keeps).await?;
    fixture
        .until(&key, "held", |shown| shown["state"] == "held")
        .await?;
    let waiting = queued(fixture, machine, &key).await?;
    fixture.success(&keeper).await?;
    fixture.success(&waiting).await.map(|_| ())
}

async fn fails(fixture: &Fixture<'_>) -> CheckResult {
    let key = key(USERS, "failed");
    let fails = json!({"key": key, "wait_seconds": 100, "then": "fail"});
    let run = fixture.start(USERS, fails).await?;
    let end = fixture.end(&run).await?;
    if end.error != "Mine" {
        return Err(format!("{end:?}"));
    }
    fixture.until_free(&key).await
}
