//! The queue: every role that may notify a waiter notifies one, in a machine of the stack's own and in one of a user's.

use std::time::Duration;

use leasehold_local::{Error, Fault, LambdaHost};
use serde_json::{Value, json};

use super::fixture::{CheckResult, Fixture};
use super::scenarios::{Scene, scene, shown};

const STACKS: &str = "leasehold-queued-section";
const WRAPPER: &str = "leasehold-with-lease";
/// A machine with a lease of its own, and a name by which the stack recognises that.
const USERS: &str = "leasehold_leasing_rehearsal";
/// The same, which starts no task: when it has ended, nothing of it can still be at work.
const IDLE: &str = "leasehold_leasing_idle";
/// A machine to run under a lease.
pub(super) const CHILD: &str = "leasehold_wrapped_rehearsal";
/// The same in a stack that is called leasehold-2.
pub(super) const STRANGER: &str = "leasehold-2_wrapped_rehearsal";

/// The user's own machines: one that waits in the queue and then releases, or holds and fails; one that waits and fails; one to
/// be wrapped; and one to be wrapped by another stack.
pub(super) fn own_machines(functions: &LambdaHost) -> Result<[(&'static str, Value); 4], Error> {
    let acquire = functions.function("acquire")?.arn();
    // On a busy machine a response of DynamoDB may be late.
    let retry =
        json!([{"ErrorEquals": ["Lease.Throttled", "Lease.Unavailable"], "MaxAttempts": 8}]);
    let release = functions.function("release")?.arn();
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
                    "task_token": "{% $states.context.Task.Token %}",
                    "wait_seconds": "{% $states.input.wait_seconds %}",
                }},
                "Assign": {"holds": "{% $states.input.holds %}"},
                "Next": "Then",
            },
            "Then": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $holds = 0 %}", "Next": "Release"}],
                "Default": "Hold",
            },
            "Release": {
                "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 30, "Retry": retry,
                "Arguments": {"FunctionName": release, "Payload": {"lease": "{% $states.input.lease %}"}},
                "End": true,
            },
            "Hold": {"Type": "Wait", "Seconds": "{% $holds %}", "Next": "Fail"},
            "Fail": {"Type": "Fail", "Error": "Mine"},
        },
    });
    let child = json!({"StartAt": "Work", "States": {
        "Work": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true},
    }});
    let idle = json!({"StartAt": "Wait", "States": {
        "Wait": {"Type": "Wait", "SecondsPath": "$.seconds", "Next": "Fail"},
        "Fail": {"Type": "Fail", "Error": "Mine"},
    }});
    Ok([
        (USERS, leasing),
        (IDLE, idle),
        (CHILD, child.clone()),
        (STRANGER, child),
    ])
}

/// Every role that may notify a waiter notifies one.
pub(super) async fn play(fixture: &Fixture<'_>) -> Vec<(String, CheckResult)> {
    let mut all = Vec::new();
    for machine in [STACKS, WRAPPER, USERS] {
        all.extend(Box::pin(play_with(fixture, machine)).await);
    }
    let others = vec![
        scene(
            "acquire, repeated by a call whose token is dead, leaves nothing behind",
            is_asked_again(fixture),
        ),
        scene(
            "with-lease stops the execution that it replaces",
            replaces(fixture),
        ),
        scene(
            "reap, by the rule, reads the history of a failed execution",
            fails(fixture),
        ),
    ];
    all.extend(shown(others).await);
    all
}

async fn play_with(fixture: &Fixture<'_>, machine: &str) -> Vec<(String, CheckResult)> {
    let scenes: [(&str, Scene); 6] = [
        scene(
            "acquire finds the key free, and responds by callback",
            is_free(fixture, machine),
        ),
        scene(
            "release notifies the next in the queue",
            is_released(fixture, machine),
        ),
        scene(
            "sweep, by its schedule, notifies the next waiter after a lease expires",
            expires(fixture, machine),
        ),
        scene(
            "sweep removes a waiter whose time is over",
            has_waited_long_enough(fixture, machine),
        ),
        scene(
            "operate notifies the next waiter after a forced release",
            is_forced(fixture, machine),
        ),
        scene(
            "reap, by the rule, notifies the next waiter after an execution has ended",
            is_reaped(fixture, machine),
        ),
    ];
    let shown = shown(scenes).await.into_iter();
    shown
        .map(|(what, outcome)| (format!("{machine}: {what}"), outcome))
        .collect()
}

fn key(machine: &str, scene: &str) -> String {
    format!("{machine}/{scene}")
}

async fn start(
    fixture: &Fixture<'_>,
    machine: &str,
    key: &str,
    wait_seconds: u32,
) -> Result<String, Error> {
    let at_once = json!({"seconds": 0});
    let mut input = json!({"key": key, "wait_seconds": wait_seconds});
    match machine {
        USERS => input["holds"] = 0.into(),
        WRAPPER => {
            input["state_machine_arn"] = fixture.machine(CHILD)?.into();
            input["input"] = at_once;
        }
        _ => {
            input["first"] = at_once.clone();
            input["second"] = at_once;
        }
    }
    fixture.start(machine, input).await
}

/// Starts an execution that gets the key, holds it, and fails without a release.
async fn hold(fixture: &Fixture<'_>, key: &str, seconds: u32) -> Result<String, Error> {
    let input = json!({"key": key, "wait_seconds": 100, "holds": seconds});
    let run = fixture.start(USERS, input).await?;
    fixture.until_held(key).await?;
    Ok(run)
}

/// Starts an execution that must wait, and returns when it does.
async fn queued(fixture: &Fixture<'_>, machine: &str, key: &str) -> Result<String, Error> {
    let waiting = start(fixture, machine, key, 100).await?;
    let waits = fixture.until(key, "waited for", |shown| shown["waiting"] == 1);
    waits.await?;
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
    fixture.until_entered(&run, "AcquireInQueue").await?;
    fixture.release(&lease).await?;
    proxy.cancel_matching_faults(&key);
    fixture.success(&run).await.map(|_| ())
}

/// A late copy of the call by which an execution got its lease.
async fn is_asked_again(fixture: &Fixture<'_>) -> CheckResult {
    let key = key(USERS, "again");
    let lease = fixture.occupy(&key, 600.0).await?;
    let input = json!({"key": key, "wait_seconds": 100, "holds": 600});
    let holder = fixture.start(USERS, input).await?;
    let waits = fixture.until(&key, "waited for", |shown| shown["waiting"] == 1);
    waits.await?;
    fixture.release(&lease).await?;
    let served = fixture.until(&key, "handed over", |shown| {
        shown["lease"]["holder"] == holder
    });
    served.await?;
    let name = holder.rsplit(':').next();
    let again = json!({"key": key, "holder": holder, "request_id": name, "task_token": "of an earlier attempt", "wait_seconds": 100});
    let told = fixture.call("acquire", again).await;
    if told.is_ok() {
        return Err(Error::call("the dead token", "accepted"));
    }
    fixture.stop(&holder).await
}

/// with-lease replaces an execution of its own, and one of a user's.
async fn replaces(fixture: &Fixture<'_>) -> CheckResult {
    for machine in [WRAPPER, USERS] {
        let key = key(machine, "replaced");
        let child = fixture.machine(CHILD)?;
        let input = |seconds: u32, if_held: &str| json!({"key": key, "if_held": if_held, "state_machine_arn": child, "input": {"seconds": seconds}});
        let holder = match machine {
            USERS => hold(fixture, &key, 600).await?,
            _ => fixture.start(WRAPPER, input(600, "fail")).await?,
        };
        fixture.until_held(&key).await?;
        let next = fixture.start(WRAPPER, input(0, "replace")).await?;
        let replaced = Some("WithLease.Replaced");
        fixture.end(&holder, "ABORTED", replaced).await?;
        let moves_on = |shown: &Value| shown["waiting"] == 1 || shown["lease"]["holder"] != *holder;
        fixture.until(&key, "waited for", moves_on).await?;
        // Its grace is longer than a rehearsal, unless reap has seen that none of its work is running.
        fixture.force(&key).await.ok();
        fixture.success(&next).await?;
    }
    Ok(())
}

async fn is_released(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let key = key(machine, "released");
    let lease = fixture.occupy(&key, 600.0).await?;
    let waiting = queued(fixture, machine, &key).await?;
    fixture.release(&lease).await?;
    fixture.success(&waiting).await.map(|_| ())
}

/// On a busy machine the lease may expire before anybody waits for it: then again, with another key.
async fn expires(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    until_notified_by(fixture, "SweepRole", machine, "expired", async |key| {
        let mut lease = fixture.occupy(key, 6.0).await?;
        let waiting = start(fixture, machine, key, 100).await?;
        // Not before an execution waits, however long that takes.
        while fixture.call("inspect", json!({"key": key})).await?["waiting"] != 1 {
            let Ok(extended) = fixture.call("extend", json!({"lease": lease})).await else {
                break;
            };
            lease = extended["lease"].clone();
        }
        Ok(waiting)
    })
    .await
}

/// Sweep may come first and do operate's work. Then this tries again with another key.
async fn is_forced(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    until_notified_by(fixture, "OperateRole", machine, "forced", async |key| {
        fixture.occupy(key, 600.0).await?;
        let waiting = queued(fixture, machine, key).await?;
        fixture.force(key).await?;
        Ok(waiting)
    })
    .await
}

/// Lets one execution after the other wait, until this role has notified one of the machine.
async fn until_notified_by(
    fixture: &Fixture<'_>,
    role: &str,
    machine: &str,
    scene: &str,
    wait: impl AsyncFn(&str) -> Result<String, Error>,
) -> CheckResult {
    for round in 0..5 {
        let waiting = wait(&key(machine, &format!("{scene}/{round}"))).await?;
        fixture.success(&waiting).await?;
        if fixture.has_asked(role, "states:SendTaskSuccess", machine) {
            return Ok(());
        }
    }
    Err(Error::call(role, "never notifies"))
}

async fn has_waited_long_enough(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    let key = key(machine, "late");
    let lease = fixture.occupy(&key, 600.0).await?;
    let waiting = start(fixture, machine, &key, 0).await?;
    let late = Some("Lease.QueueTimeout");
    fixture.end(&waiting, "FAILED", late).await?;
    fixture.release(&lease).await
}

/// Sweep may look first, and do reap's work. Then this tries again with another key.
async fn is_reaped(fixture: &Fixture<'_>, machine: &str) -> CheckResult {
    until_notified_by(fixture, "ReapRole", machine, "reaped", async |key| {
        let holder = fixture.start(IDLE, json!({"seconds": 600})).await?;
        fixture.occupy_while_it_runs(key, &holder).await?;
        let waiting = queued(fixture, machine, key).await?;
        // Longer than the clock difference. Otherwise an end right after a grant might count as before it.
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.stop(&holder).await?;
        Ok(waiting)
    })
    .await
}

/// It holds for longer than the clock difference. Otherwise it might count as redriven.
async fn fails(fixture: &Fixture<'_>) -> CheckResult {
    let key = key(IDLE, "failed");
    let run = fixture.start(IDLE, json!({"seconds": 3})).await?;
    fixture.occupy_while_it_runs(&key, &run).await?;
    fixture.end(&run, "FAILED", Some("Mine")).await?;
    fixture.until_free(&key).await?;
    fixture.until_looked_at(&format!("{key}/again"), &run).await
}
