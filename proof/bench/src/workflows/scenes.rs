//! The scenes of nobody in the way: each shipped machine and each peer once, and how they wait.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::peers::{Asking, Counter, HELD, PUBLISHED};
use super::purposes::Purposes;
use super::spent::Spent;
use super::stage::{Run, Stage};
use crate::Error;

/// A child that knows nothing of leases, for the machine that wraps one.
const CHILD: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true}}}"#;

/// One scene, with what it came to.
#[derive(Clone, Debug, Serialize)]
pub struct Scene {
    /// What happened.
    pub name: String,
    /// Whose machine it was.
    pub who: &'static str,
    /// How many executions there were.
    pub executions: u64,
    /// How often a lease was extended.
    pub extends: u64,
    /// What was spent.
    pub spent: Spent,
    /// The same states and events, by what they were there for.
    pub purposes: Purposes,
}

/// Ours, with the queue where it has one.
pub(super) const OURS: &str = "leasehold";
/// Ours, asking again.
pub(super) const POLLING: &str = "leasehold, polling";
/// AWS's sample as published.
pub(super) const SAMPLE: &str = "aws-semaphore";
/// Its loop, without its Retry.
pub(super) const SAMPLE_LOOP: &str = "aws-semaphore, no retry";
/// What one writes without a library.
pub(super) const LOOP: &str = "polling loop";

impl Scene {
    pub(super) fn new(name: impl Into<String>, who: &'static str, spent: Spent) -> Self {
        let purposes = Purposes::of(&spent.history);
        let extends = spent.history.states.get("Extend");
        Self {
            name: name.into(),
            who,
            executions: spent.sections,
            extends: extends.map_or(0, |state| state.entered),
            purposes,
            spent,
        }
    }
}

/// Each machine that `picks` picks once, with nobody in the way.
pub(super) async fn alone(
    stage: &Stage,
    picks: impl Fn(&str) -> bool,
) -> Result<Vec<Scene>, Error> {
    let section = |key: &str| json!({"key": key, "ttl_seconds": 30, "first": {}, "second": {}});
    let mut scenes = Vec::new();
    for (name, machine, input) in [
        ("critical-section", "CriticalSection", section("alone")),
        ("queued-section", "QueuedSection", section("alone in line")),
        (
            "observe",
            "Observe",
            json!({"key": "alone, observed", "ttl_seconds": 30}),
        ),
        ("semaphore, 5 items", "Semaphore", items("permits", 5)),
        ("transfer", "Transfer", accounts(stage).await?),
        ("with-lease", "WithLease", wrapped(stage, 30, 0).await?),
        (
            "with-lease, extended",
            "WithLease",
            wrapped(stage, 6, 5).await?,
        ),
    ] {
        if !picks(name) {
            continue;
        }
        let mark = stage.mark();
        let run = ours(stage, machine, &input).await?;
        run.succeeds().await?;
        let spent = stage.spent(mark, &[run]).await?;
        scenes.push(Scene::new(name, OURS, spent));
    }
    let counter = Counter::new(stage, "alone", 0).await?;
    let published = counter.published(stage, PUBLISHED).await?;
    let plain = counter.plain(stage).await?;
    let polling = counter.polling_loop(stage).await?;
    for (who, machine) in [(SAMPLE, published), (SAMPLE_LOOP, plain), (LOOP, polling)] {
        if !picks(who) {
            continue;
        }
        let mark = stage.mark();
        let run = stage.start(&machine, &work("free", 0.0)).await?;
        run.succeeds().await?;
        scenes.push(Scene::new(who, who, stage.spent(mark, &[run]).await?));
    }
    Ok(scenes)
}

/// How a wait is paid for by the others, for each round.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// Whose machine it was.
    pub who: &'static str,
    /// How many rounds were seen.
    pub rounds: u64,
    /// Transitions of a round.
    pub transitions: f64,
    /// Events of a round.
    pub events: f64,
    /// How long a round takes as published, in seconds.
    pub round_seconds: f64,
}

impl Wait {
    /// Write units of a round: those of refused attempts.
    pub(super) fn writes(&self) -> f64 {
        match self.who {
            SAMPLE => f64::from(PUBLISHED.retries + 1),
            _ => 1.0,
        }
    }

    /// Read units of a round: the sample looks, and need not see the latest.
    pub(super) fn reads(&self) -> f64 {
        if self.who == LOOP { 0.0 } else { 0.5 }
    }
}

/// In line and by observation, with somebody else in the way.
pub(super) async fn waits_of_ours(stage: &Stage) -> Result<Vec<Scene>, Error> {
    let mut scenes = Vec::new();
    let held = json!({"key": "busy", "holder": "somebody else", "ttl_seconds": 60});
    let held = stage.call("AcquireFunction", &held).await?;
    let input = json!({"key": "busy", "ttl_seconds": 30, "first": {}, "second": {}});
    let mark = stage.mark();
    let run = ours(stage, "QueuedSection", &input).await?;
    // Asked again and again, it would by now have asked more than once.
    sleep(Duration::from_secs(3)).await;
    let release = json!({"lease": held["lease"]});
    stage.call("ReleaseFunction", &release).await?;
    run.succeeds().await?;
    let spent = stage.spent(mark, &[run]).await?;
    scenes.push(Scene::new("queued-section, after a wait", OURS, spent));

    let silent = json!({"key": "silent", "holder": "nobody any more", "ttl_seconds": 1});
    stage.call("AcquireFunction", &silent).await?;
    let mark = stage.mark();
    let input = json!({"key": "silent", "ttl_seconds": 30});
    let run = ours(stage, "Observe", &input).await?;
    run.succeeds().await?;
    let spent = stage.spent(mark, &[run]).await?;
    scenes.push(Scene::new("observe, a takeover", OURS, spent));
    Ok(scenes)
}

/// Lets a machine of the others wait for so many rounds, and answers what one of them costs.
pub(super) async fn rounds_of(
    stage: &Stage,
    who: &'static str,
    rounds: u64,
    asking: Asking,
) -> Result<Wait, Error> {
    let names = [(SAMPLE, "sample"), (SAMPLE_LOOP, "plain")];
    let name = names.iter().find(|(known, _)| *known == who);
    let name = format!("rounds-{}", name.map_or("loop", |(_, name)| *name));
    let counter = Counter::new(stage, &name, 1).await?;
    let machine = match who {
        SAMPLE => counter.published(stage, asking).await?,
        SAMPLE_LOOP => counter.plain(stage).await?,
        _ => counter.polling_loop(stage).await?,
    };
    let run = stage.start(&machine, &work(HELD, 0.0)).await?;
    run.reaches("Pause", rounds).await?;
    let before = run.history().await?;
    run.stop().await?;
    // Up to the pause of the last round: it lacks the end of this pause, and the others have one each.
    let found = Purposes::of(&before);
    let first = before.states.get("GetLock").copied().unwrap_or_default();
    let transitions = found.transitions() - first.transitions();
    let events = found.events() - first.events + 1;
    // As published its Retry asks six times, which is more than we have patience for: each is one transition and three
    // events, as those that we have seen.
    let unseen = match who {
        SAMPLE => PUBLISHED.retries - asking.retries,
        _ => 0,
    };
    let round = match who {
        SAMPLE => PUBLISHED.round(),
        _ => PUBLISHED.pause,
    };
    Ok(Wait {
        who,
        rounds,
        transitions: crate::ratio(transitions, rounds) + f64::from(unseen),
        events: crate::ratio(events, rounds) + f64::from(3 * unseen),
        round_seconds: f64::from(round),
    })
}

pub(super) async fn ours(stage: &Stage, machine: &str, input: &Value) -> Result<Run, Error> {
    let machine = stage.shipped(&format!("{machine}StateMachine"))?;
    stage.start(machine, input).await
}

/// What the others' machines are told. The key is the loop's: the sample has its own.
pub(super) fn work(key: &str, seconds: f64) -> Value {
    json!({"key": key, "seconds": seconds})
}

fn items(key: &str, many: u32) -> Value {
    let items: Vec<Value> = (0..many).map(|_| json!({})).collect();
    json!({"key": key, "permits": many, "ttl_seconds": 30, "items": items})
}

async fn wrapped(stage: &Stage, ttl: u32, seconds: u32) -> Result<Value, Error> {
    let child = stage.create_wrapped(CHILD).await?;
    let input = json!({"seconds": seconds});
    let key = format!("wrapped for {seconds}");
    Ok(json!({"key": key, "ttl_seconds": ttl, "state_machine_arn": child, "input": input}))
}

async fn accounts(stage: &Stage) -> Result<Value, Error> {
    for account in ["a", "b"] {
        stage.open_account(account).await?;
    }
    Ok(json!({"from": "a", "to": "b", "amount": 1, "ttl_seconds": 30}))
}
