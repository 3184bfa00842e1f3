//! `leasehold acquire` when something goes wrong: no command continues after its lease may have ended.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(
    clippy::disallowed_methods,
    reason = "processes are waited for, which know no clock but the machine's"
)]

mod fixture;

use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::{Fixture, Ran, guard, runs, signal, until};
use leasehold::{
    AuditReason, ForceReleaseOptions, ForceReleaseOutcome, Key, LeaseState, ManualClock, Operator,
    Reason, SweepBounds,
};
use leasehold_local::Fault;
use leasehold_proof::fixture::without_executions;
use rustix::process::{Pid, Signal, kill_process_group};

/// A command with a descendant. Both print their process ids and keep running. Only SIGKILL ends the descendant.
const STAYS: &str = "trap '' TERM; echo $$ >$0.command; (sh -c 'trap \"\" TERM; echo $$ >$0.descendant; sleep 600' $0) & wait";
/// The same without traps.
const GOES: &str = "trap 'echo asked >$0.asked; exit 143' TERM; echo $$ >$0.command; (sh -c 'echo $$ >$0.descendant; sleep 600' $0) & wait";

struct Running {
    wrapper: Child,
    command: u32,
    descendant: u32,
    guard: u32,
}

impl Running {
    async fn start(fixture: &Fixture, key: &str, ttl: &str, script: &str) -> Self {
        Self::start_with(fixture, key, ttl, script, &[]).await
    }

    async fn start_with(
        fixture: &Fixture,
        key: &str,
        ttl: &str,
        script: &str,
        more: &[&str],
    ) -> Self {
        let name = fixture.home().join(key);
        let arguments = [
            "acquire", key, "--ttl", ttl, "--grace", "1s", "--", "sh", "-c", script,
        ];
        let mut command = fixture.command(&arguments);
        command.arg(&name).args(more);
        let wrapper = command.spawn().unwrap();
        let pid = |what: &str| {
            let file = PathBuf::from(format!("{}.{what}", name.display()));
            std::fs::read_to_string(file)
                .ok()?
                .trim()
                .parse::<u32>()
                .ok()
        };
        until("the command and its descendant run", || {
            pid("command").is_some() && pid("descendant").is_some()
        })
        .await;
        Self {
            guard: guard(wrapper.id()).unwrap(),
            command: pid("command").unwrap(),
            descendant: pid("descendant").unwrap(),
            wrapper,
        }
    }

    fn anything_runs(&self) -> bool {
        [self.command, self.descendant, self.guard]
            .into_iter()
            .any(runs)
    }

    async fn end(self) -> Ran {
        let output = tokio::task::spawn_blocking(move || self.wrapper.wait_with_output());
        output.await.unwrap().unwrap().into()
    }

    async fn gone(&self) {
        until("the command and its descendant are gone", || {
            !self.anything_runs()
        })
        .await;
    }
}

/// The lease that is held, and that nobody else is granted before it has ended.
async fn is_still_held(fixture: &Fixture, key: &str) {
    let seen = fixture.inspect(key).await;
    assert_eq!(seen.state, LeaseState::Held, "gone before the lease was");
}

/// Ends the lease as an operator does.
async fn force(fixture: &Fixture, key: &str) {
    let because = AuditReason {
        who: Operator::new("bob").unwrap(),
        why: Reason::new("test").unwrap(),
    };
    let (leases, key) = (fixture.leases(), Key::new(key).unwrap());
    let forced = leases
        .force_release(&key, ForceReleaseOptions::default(), &because)
        .await;
    assert!(matches!(
        forced.unwrap(),
        ForceReleaseOutcome::Forced { .. }
    ));
}

#[tokio::test]
async fn lost_lease_terminates_then_kills() {
    let fixture = Fixture::start().await;
    for (key, script) in [("gentle", GOES), ("stubborn", STAYS)] {
        let running = Running::start(&fixture, key, "4s", script).await;
        force(&fixture, key).await;
        running.gone().await;
        let ran = running.end().await.ended(79);
        ran.err_has("the command is asked to end");
        let asked = fixture.home().join(format!("{key}.asked"));
        assert_eq!(
            asked.exists(),
            script == GOES,
            "it was asked to end before it was killed"
        );
    }
}

#[tokio::test]
async fn command_ends_before_its_lease() {
    let fixture = Fixture::start().await;
    for fault in [Fault::LoseRequest, Fault::Hang, Fault::Denied] {
        let key = format!("{fault:?}");
        let running = Running::start(&fixture, &key, "4s", STAYS).await;
        fixture
            .proxy
            .inject_matching(fault, "UpdateItem", &key, 1000);
        let start = Instant::now();
        running.gone().await;
        is_still_held(&fixture, &key).await;
        let ran = running.end().await.ended(79);
        assert!(
            ran.err.contains("could not be extended in time: "),
            "{ran:?} after {:?}",
            start.elapsed()
        );
        fixture.proxy.reset();
    }
}

#[tokio::test]
async fn any_kill_ends_command_in_time() {
    let fixture = Fixture::start().await;
    for (key, victim) in [("wrapper", 0), ("guard", 1), ("command", 2)] {
        let running = Running::start(&fixture, key, "3s", STAYS).await;
        let (wrapper, command) = (running.wrapper.id(), running.command);
        signal([wrapper, running.guard, command][victim], Signal::KILL);
        running.gone().await;
        if key == "wrapper" {
            is_still_held(&fixture, key).await;
            assert_eq!(running.end().await.code, None);
        } else {
            let ran = running.end().await;
            let expected = if key == "guard" { 79 } else { 128 + 9 };
            assert_eq!(ran.code, Some(expected), "{ran:?}");
            assert_eq!(
                fixture.inspect(key).await.state,
                LeaseState::Free,
                "released after all"
            );
        }
    }
}

/// This exceeds the promises. Only the kernel still kills the command itself.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn command_dies_with_both_watchers() {
    let fixture = Fixture::start().await;
    let running = Running::start(&fixture, "k", "30s", STAYS).await;
    for who in [Signal::STOP, Signal::KILL] {
        signal(running.guard, who);
        signal(running.wrapper.id(), who);
    }
    until("the command is gone", || !runs(running.command)).await;
    // Its descendants continue, because the group has the guard's number.
    assert!(runs(running.descendant));
    let group = Pid::from_raw(running.guard.try_into().unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    running.gone().await;
    running.end().await;
}

#[tokio::test]
async fn guard_kills_for_stopped_wrapper() {
    let fixture = Fixture::start().await;
    let running = Running::start(&fixture, "k", "4s", STAYS).await;
    let wrapper = running.wrapper.id();
    signal(wrapper, Signal::STOP);
    running.gone().await;
    is_still_held(&fixture, "k").await;
    signal(wrapper, Signal::CONT);
    running.end().await.ended(79);
}

/// The guard asks the command to end at the instant at which the wrapper gives up, and the command may be faster.
#[tokio::test]
async fn faster_command_reports_lost_lease() {
    let fixture = Fixture::start().await;
    let run = |n: usize| {
        let key = format!("k{n}");
        let arguments = ["acquire", &key, "--ttl", "4s", "--", "sleep", "600"];
        fixture.command(&arguments).spawn().unwrap()
    };
    let wrappers: Vec<_> = (0..12).map(run).collect();
    for wrapper in &wrappers {
        until("it runs", || guard(wrapper.id()).is_some()).await;
    }
    fixture.proxy.inject(Fault::LoseRequest, "UpdateItem", 1000);
    for wrapper in wrappers {
        let output = tokio::task::spawn_blocking(move || wrapper.wait_with_output());
        let ran = Ran::from(output.await.unwrap().unwrap()).ended(79);
        ran.err_has("its work may be half done");
    }
}

#[tokio::test]
async fn wrapper_kills_for_stopped_guard() {
    let fixture = Fixture::start().await;
    let running = Running::start(&fixture, "k", "4s", STAYS).await;
    signal(running.guard, Signal::STOP);
    fixture.proxy.inject(Fault::LoseRequest, "UpdateItem", 1000);
    running.gone().await;
    is_still_held(&fixture, "k").await;
    assert_eq!(running.end().await.code, Some(79));
}

#[tokio::test]
async fn lease_is_extended_while_command_runs() {
    let fixture = Fixture::start().await;
    let running = Running::start(&fixture, "k", "4s", GOES).await;
    let first = fixture.inspect("k").await.lease;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        let seen = fixture.inspect("k").await;
        assert_eq!(seen.state, LeaseState::Held);
        assert_eq!(seen.lease.fencing_token, first.fencing_token);
        assert!(running.anything_runs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A signal to the wrapper is passed on to the command.
    signal(running.wrapper.id(), Signal::TERM);
    running.gone().await;
    assert_eq!(running.end().await.code, Some(128 + 15));
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Free);
}

#[tokio::test]
async fn leftover_processes_end_with_lease() {
    let fixture = Fixture::start().await;
    let leaves = "echo $$ >$0.command; sh -c 'trap \"\" TERM HUP; echo $$ >$0.descendant; sleep 600' $0 & \
                  while [ ! -s $0.descendant ]; do sleep 0.01; done; sleep 0.2; exit 3";
    let running = Running::start(&fixture, "k", "30s", leaves).await;
    let descendant = running.descendant;
    running.end().await.ended(3);
    assert!(!runs(descendant));
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Free);
}

/// By an operator, or by a sweep whose clock is an hour ahead.
#[tokio::test]
async fn unnoticed_end_is_reported() {
    let fixture = Fixture::start().await;
    for key in ["forced", "swept"] {
        let running = Running::start(&fixture, key, "30s", GOES).await;
        if key == "forced" {
            force(&fixture, key).await;
        } else {
            let leases = fixture.leases();
            let ahead = leases.now().plus(Duration::from_hours(1));
            let ahead = leases.with_clock(Arc::new(ManualClock::at(ahead)));
            let swept = without_executions(&ahead)
                .sweep(SweepBounds::Schedule)
                .await
                .unwrap();
            assert_eq!(swept.freed, 1);
        }
        signal(running.command, Signal::TERM);
        running.end().await.ended(79);
    }
}

#[tokio::test]
async fn lost_answer_of_release_is_release() {
    let fixture = Fixture::start().await;
    let running = Running::start(&fixture, "k", "30s", GOES).await;
    fixture.proxy.inject(Fault::LoseAnswer, "UpdateItem", 1);
    signal(running.command, Signal::TERM);
    let ran = running.end().await;
    assert_eq!(ran.code, Some(128 + 15), "{ran:?}");
    assert_eq!(fixture.proxy.pending_faults(), 0);
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Free);
}

#[tokio::test]
async fn inner_lease_ends_with_outer() {
    let fixture = Fixture::start().await;
    let inner = format!(
        "exec {} acquire inner -- sh -c \"$1\" $0",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let running = Running::start_with(&fixture, "outer", "4s", &inner, &[GOES]).await;
    force(&fixture, "outer").await;
    running.gone().await;
    assert_eq!(running.end().await.code, Some(79));
    assert_eq!(fixture.inspect("inner").await.state, LeaseState::Free);
}
