//! The first act: executions contend for two keys. One is stopped in the middle of its section. The acquire process of another is
//! killed before its response.

use std::time::{Duration, Instant};

use leasehold_local::Error;

use super::cast::{PlannedExecution, Scenario};
use super::director::{Director, LOOK_EVERY};

/// How long the stopped execution holds its lease before the stop.
const STOP_AFTER: Duration = Duration::from_secs(1);
/// How long the act waits for executions. An execution that still runs then is a violation.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs all executions to their end.
pub(super) async fn play(director: &Director<'_>, cast: &[PlannedExecution]) -> Result<(), Error> {
    let functions = director.stack.functions();
    let mut running = Vec::new();
    let mut stop_at = None;
    for role in cast {
        match role.part {
            Scenario::Stopped => {
                let arn = director.start(role).await?;
                let holds = director.wait_for(&arn, "it holds", |one| one.lease.is_some());
                holds.await?;
                stop_at = Some((Instant::now() + STOP_AFTER, arn.clone()));
                running.push(arn);
            }
            Scenario::Killed => {
                // No other execution calls a function now, so this execution's process dies.
                functions.kill_before_answer("acquire", 1)?;
                let arn = director.start(role).await?;
                let died =
                    director.wait_for(&arn, "its process is killed", |one| !one.killed.is_empty());
                died.await?;
                running.push(arn);
            }
            _ => {}
        }
    }
    let in_crowd =
        |role: &&PlannedExecution| matches!(role.part, Scenario::Section | Scenario::Wrapping);
    let mut crowd: Vec<_> = cast.iter().filter(in_crowd).collect();
    crowd.sort_by_key(|role| std::cmp::Reverse(role.after_ms));
    let began = Instant::now();
    while !(running.is_empty() && crowd.is_empty()) && began.elapsed() < PATIENCE {
        if let Some((_, arn)) = stop_at.take_if(|(at, _)| *at <= Instant::now()) {
            director.stop(&arn).await?;
        }
        let due =
            |role: &mut &PlannedExecution| began.elapsed() >= Duration::from_millis(role.after_ms);
        if let Some(role) = crowd.pop_if(due) {
            running.push(director.start(role).await?);
        }
        director.poll(&mut running).await?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
