//! An execution is stopped in the middle of its section: when the next one begins, and what that took.

use std::time::Duration;

use leasehold_local::Source;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::peers::Counter;
use super::scenes::{OURS, POLLING, SAMPLE_LOOP, ours, work};
use super::spent::Spent;
use super::stage::{Run, Stage, failed};
use crate::Error;

/// How long the lease is, in seconds.
const TTL: u32 = 5;
/// How often sweep runs here; every minute as deployed.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The stopped one's step, in seconds: its function works on for so long.
const STEP: f64 = 1.0;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the sample's next one may be refused until it is plain that nothing will change.
const REFUSED_OFTEN: u64 = 4;

/// What helps the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Help {
    /// The event of the execution's end: reap cuts the lease to the grace, and sweep wakes the next one after it.
    Event,
    /// That event is lost: sweep, when the lease has run out.
    Sweep,
    /// Neither: it asks again until the lease has run out.
    Clock,
    /// The sample's own machine, started with the event.
    Cleanup,
    /// The sample, when that event is lost.
    Nothing,
}

/// A crash.
#[derive(Clone, Debug, Serialize)]
pub struct Crash {
    /// Whose machine was stopped.
    pub who: &'static str,
    /// What helped.
    pub help: Help,
    /// How long after the stop the next one's step began, in seconds; nothing if it never does.
    pub seconds: Option<f64>,
    /// The same in lengths of the lease; nothing if it has none.
    pub leases: Option<f64>,
    /// What it took from the stop to the end of the next one's section.
    pub spent: Spent,
    /// Transitions of the next one's waiting, and of a machine that cleans up.
    pub transitions: u64,
}

/// All of them, one after the other; quickly, those that do not wait for a lease to run out.
pub(super) async fn crashes(stage: &Stage, quick: bool) -> Result<Vec<Crash>, Error> {
    let mut crashes = vec![
        of_ours(stage, Help::Event).await?,
        of_sample(stage, Help::Cleanup).await?,
    ];
    if !quick {
        crashes.extend([
            of_ours(stage, Help::Sweep).await?,
            of_ours(stage, Help::Clock).await?,
            of_sample(stage, Help::Nothing).await?,
        ]);
    }
    Ok(crashes)
}

async fn of_ours(stage: &Stage, help: Help) -> Result<Crash, Error> {
    let (who, machine) = match help {
        Help::Clock => (POLLING, "CriticalSection"),
        _ => (OURS, "QueuedSection"),
    };
    let key = format!("crashed, {help:?}");
    let input = |step: f64| json!({"key": key, "ttl_seconds": TTL, "first": {"seconds": step}, "second": {}});
    let holder = ours(stage, machine, &input(STEP)).await?;
    holder.reaches("First", 1).await?;
    let next = ours(stage, machine, &input(0.0)).await?;
    next.reaches("Acquire", 1).await?;
    sleep(Duration::from_millis(300)).await;
    let deliveries = stage.stack().deliveries();
    if help != Help::Event {
        deliveries.lose(Source::Bus, u32::MAX);
    }
    let mark = stage.mark();
    let stopped = Instant::now();
    holder.stop().await?;
    let mut swept = Instant::now();
    let seconds = loop {
        if has_begun(&next, "First").await? {
            break stopped.elapsed().as_secs_f64();
        }
        if help != Help::Clock && swept.elapsed() >= SWEEP_EVERY {
            swept = Instant::now();
            stage.call("SweepFunction", &json!({})).await?;
        }
        next.patience(stopped)?;
        sleep(LOOK_EVERY).await;
    };
    next.succeeds().await?;
    deliveries.restore(Source::Bus);
    let spent = stage.spent(mark, &[next]).await?;
    let transitions = super::purposes::Purposes::of(&spent.history)
        .waiting
        .transitions;
    Ok(Crash {
        who,
        help,
        seconds: Some(seconds),
        leases: Some(seconds / f64::from(TTL)),
        spent,
        transitions,
    })
}

async fn of_sample(stage: &Stage, help: Help) -> Result<Crash, Error> {
    let counter = Counter::new(stage, &format!("crash-{help:?}"), 0).await?;
    let machine = counter.plain(stage).await?;
    let holder = stage.start(&machine, &work("", STEP)).await?;
    holder.reaches("Work", 1).await?;
    let next = stage.start(&machine, &work("", 0.0)).await?;
    next.reaches("Pause", 1).await?;
    let mark = stage.mark();
    let stopped = Instant::now();
    holder.stop().await?;
    if help == Help::Nothing {
        next.reaches("Pause", 1 + REFUSED_OFTEN).await?;
        if has_begun(&next, "Work").await? {
            return Err(failed(
                "the sample's next one began although nobody cleaned up",
            ));
        }
        next.stop().await?;
        return Ok(Crash {
            who: SAMPLE_LOOP,
            help,
            seconds: None,
            leases: None,
            spent: stage.spent(mark, &[next]).await?,
            transitions: 0,
        });
    }
    let cleanup = counter.cleanup(stage).await?;
    let input = json!({"executionArn": holder.arn()});
    let cleanup = stage.start(&cleanup, &input).await?;
    while !has_begun(&next, "Work").await? {
        next.patience(stopped)?;
        sleep(LOOK_EVERY).await;
    }
    let seconds = stopped.elapsed().as_secs_f64();
    next.succeeds().await?;
    cleanup.succeeds().await?;
    let cleaning = cleanup.history().await?.transitions();
    let mut spent = stage.spent(mark, &[next, cleanup]).await?;
    spent.sections = 1;
    let waiting = super::purposes::Purposes::of(&spent.history).waiting;
    Ok(Crash {
        who: SAMPLE_LOOP,
        help,
        seconds: Some(seconds),
        leases: None,
        spent,
        transitions: waiting.transitions + cleaning,
    })
}

async fn has_begun(run: &Run, state: &str) -> Result<bool, Error> {
    Ok(run.history().await?.states.contains_key(state))
}
