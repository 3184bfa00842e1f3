//! Leases of executions: `leasehold redrive`, and `leasehold force-release --stop`.

use std::time::Duration;

use crate::fixture::Fixture;
use leasehold::{Acquire, Granted, Holder, KeepTime, Key, LeaseState, Lifetime, Reaped};

const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:7f3c";
const BECAUSE: &str = "--who alice --why 'ticket 7' --yes";

async fn grant(all: &Fixture, key: &str) -> Granted {
    grant_to(all, EXECUTION, key, KeepTime::default()).await
}

/// It is kept for a day after a failure.
async fn grant_and_keep(all: &Fixture, key: &str) -> Granted {
    let day = KeepTime::new(Duration::from_hours(24)).unwrap();
    grant_to(all, EXECUTION, key, day).await
}

async fn grant_to(all: &Fixture, holder: &str, key: &str, keep: KeepTime) -> Granted {
    let (key, holder) = (Key::new(key).unwrap(), Holder::new(holder).unwrap());
    let request = Acquire::new(key, holder, Lifetime::Execution { keep });
    let acquired = all.leases().acquire(request).await.unwrap();
    acquired.granted().unwrap()
}

/// The stack's reap, as often as it takes.
async fn reaps(all: &Fixture) {
    let stack = all.stack().await;
    let holder = Holder::new(EXECUTION).unwrap();
    while stack.reap(&holder).await.unwrap() == Reaped::Running {
        stack.sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn forced_release_says_execution_runs_on() {
    let all = Fixture::with_step_functions().await;
    grant(&all, "k").await;
    let ran = all.exits(0, format!("force-release k {BECAUSE}")).await;
    ran.err_has("works on beside the next holder");
    all.grant("t", "worker 7", Duration::from_secs(600)).await;
    let ran = all
        .exits(2, format!("force-release t --stop {BECAUSE}"))
        .await;
    ran.err_has("worker 7 is no execution");
    let durable = "arn:aws:lambda:us-east-1:123456789012:function:orders:7/durable-execution/a/b";
    grant_to(&all, durable, "d", KeepTime::default()).await;
    let ran = all
        .exits(2, format!("force-release d --stop {BECAUSE}"))
        .await;
    ran.err_has("stop-durable-execution");
}

#[tokio::test]
async fn stop_ends_running_execution() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().run(EXECUTION);
    grant(&all, "k").await;
    let ask = format!("force-release k --stop {BECAUSE}");
    // A task of it may be at work: it is stopped, and keeps its lease for the grace time.
    let (ran, ()) = tokio::join!(all.run(&ask), reaps(&all));
    let ran = ran.ended(1);
    ran.err_has("asked Step Functions to stop arn:aws:states");
    ran.err_has("may still be at work; its lease ends in 1");
    ran.err_has("without --stop");
    let seen = all.inspect("k").await;
    assert_eq!(seen.state, LeaseState::Held);
    let act = seen.operator.map(|record| record.act);
    assert_eq!(act, Some(leasehold::Act::Stop));
}

#[tokio::test]
async fn stop_waits_for_no_kept_lease() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().run(EXECUTION);
    grant_and_keep(&all, "k").await;
    let ask = format!("force-release k --stop {BECAUSE}");
    let ran = all.exits(1, &ask).await;
    ran.err_has("kept for 1 d after its end, for a redrive");
    ran.err_has("if nobody will redrive it");
}

/// It is kept only after a failure.
#[tokio::test]
async fn stop_frees_kept_lease_of_success() {
    let all = Fixture::with_step_functions().await;
    grant_and_keep(&all, "k").await;
    let ask = format!("force-release k --stop {BECAUSE}");
    let asked_and_reaped = async {
        while all.step_functions().calls().is_empty() {
            all.leases().sleep(Duration::from_millis(10)).await;
        }
        reaps(&all).await;
    };
    let (ran, ()) = tokio::join!(all.run(&ask), asked_and_reaped);
    ran.ended(0);
}

#[tokio::test]
async fn stop_frees_lease_without_work() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().run(EXECUTION);
    all.step_functions().has_received(EXECUTION, "{}");
    grant(&all, "k").await;
    let ask = format!("force-release k --stop --json {BECAUSE}");
    let (ran, ()) = tokio::join!(all.run(&ask), reaps(&all));
    let wanted = serde_json::json!({"outcome": "stopped", "execution": EXECUTION});
    assert_eq!(ran.ended(0).json(), wanted);
    assert_eq!(all.inspect("k").await.state, LeaseState::Free);
}

#[tokio::test]
async fn list_shows_last_look_at_execution() {
    let all = Fixture::with_step_functions().await;
    grant(&all, "k").await;
    // It has succeeded, and nobody has looked yet.
    for command in ["ls", "show k"] {
        let ran = all.run(command).await;
        let over = "though its execution ended 0 s ago (SUCCEEDED): the next check is due in 4 min";
        ran.out_has(over);
    }
    all.step_functions().run(EXECUTION);
    let until = "while its execution runs";
    for command in ["ls", "show k"] {
        all.run(command).await.out_has(until);
    }
    // It is over, something of it may be at work, and it was asked about.
    all.step_functions().stop(EXECUTION);
    reaps(&all).await;
    for command in ["ls", "show k"] {
        let ran = all.run(command).await;
        let over = "(ABORTED), and a task of it may still be at work: the next check is due in 1";
        ran.out_has(over);
    }
}

#[tokio::test]
async fn redrive_takes_only_free_keys() {
    let all = Fixture::with_step_functions().await;
    let other = all.exits(2, "redrive foo").await;
    other.err_has("foo is no execution");
    let running = all.exits(1, &["redrive", EXECUTION]).await;
    running.err_has("cannot be redriven: it is SUCCEEDED");

    all.step_functions().stop(EXECUTION);
    let nothing = all.exits(1, &["redrive", EXECUTION]).await;
    nothing.err_has("shows a lease");
    let mut outputs = Vec::new();
    for key in ["orders/1", "orders/2"] {
        let granted = grant(&all, key).await;
        outputs.push(serde_json::to_value(&granted.lease).unwrap());
        if key == "orders/1" {
            let _ = all.leases().release(&granted.lease).await.unwrap();
        }
    }
    let output = serde_json::json!({"outcome": "acquired", "leases": outputs});
    all.step_functions()
        .has_received(EXECUTION, &output.to_string());

    let hour = Duration::from_secs(3600);
    let other = all.grant("orders/1", "worker 7", hour).await;
    let held = all.exits(75, &["redrive", EXECUTION]).await;
    held.err_has("not redriven: orders/1 is held by worker 7");

    let _ = all.leases().release(&other.lease).await.unwrap();
    let redriven = all.exits(0, &["redrive", EXECUTION]).await;
    redriven.out_has("orders/1 is taken back");
    redriven.out_has("orders/2 is still its own");
    assert!(redriven.out.ends_with(&format!("redriven: {EXECUTION}\n")));
    let seen = all.inspect("orders/1").await.lease.held.unwrap();
    assert_eq!(seen.holder.as_str(), EXECUTION);

    // It runs by now.
    let again = all.exits(1, &["redrive", EXECUTION]).await;
    again.err_has("it is RUNNING");
}

/// By one lease, which needs room in the pool.
#[tokio::test]
async fn redrive_takes_the_key_with_its_pool() {
    let all = Fixture::with_step_functions().await;
    let machine = EXECUTION.replacen(":execution:", ":stateMachine:", 1);
    let machine = machine.trim_end_matches(":7f3c");
    let pool = "--pool imports --pool-permits 1";
    let start = format!("start orders/1 {machine} --name 7f3c");
    let started = all.run(format!("{start} {pool}")).await;
    started.out_begins("started: ");
    all.step_functions().stop(EXECUTION);
    let redriven = all.exits(0, &["redrive", EXECUTION]).await;
    let lines = redriven.out.lines();
    let names: Vec<_> = lines.filter_map(|line| line.split_once(" is ")).collect();
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["orders/1"]);
    let shown = all.run("show orders/1").await.out;
    assert!(shown.contains("in pool imports"), "{shown}");
    // Who has been redriven without it has it again only if there is room.
    all.step_functions().stop(EXECUTION);
    for act in ["force-release orders/1", "limit --pool imports 0"] {
        all.exits(0, format!("{act} {BECAUSE}")).await;
    }
    let refused = all.exits(75, &["redrive", EXECUTION]).await;
    refused.err_has("pool imports");
    let shown = all.run("show orders/1").await.out;
    assert!(shown.contains("free"), "{shown}");
}
