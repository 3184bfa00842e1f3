//! What a lease costs a workflow: states, events, requests and invocations, from the histories of executions.
//!
//! The shipped machines, AWS's semaphore sample and a Retry without any library run on one [`fixture`]. What the caller wants done
//! is left out.

pub mod crowd;
pub mod fixture;
mod history;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chart::bars;
use crate::fixture::Cost;
use crate::ratio;
use crate::report::{Found, Measure};
use fixture::{Peer, WorkflowFixture, succeeds};
pub use history::History;

/// A child that knows nothing of leases, for the machine that wraps one.
const CHILD: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Wait", "SecondsPath": "$.seconds", "End": true}}}"#;

/// The name of what is started through a key.
pub const STARTED: &str = "started through the key";

/// The wait that all are compared by.
const TEN_MINUTES: f64 = 600.0;
/// A round of the sample as published: its Retry asks again after 1, 2, 4 … 32 s, and it pauses for 3 s after that.
const PUBLISHED_ROUND: f64 = 66.0;
const PUBLISHED_RETRIES: f64 = 6.0;
/// A round of its loop without that Retry, which is how it is often copied, and of a Retry without a library.
const ROUND: f64 = 3.0;
/// How the shipped machine that polls asks in the end: at a random instant within ten seconds.
const POLLING_ROUND: f64 = 5.0;

/// What an execution took.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Its states.
    pub history: History,
    /// What the section sent.
    pub sections: Cost,
    /// What reap and sweep sent.
    pub cleanup: Cost,
    /// Invocations of our functions, by logical id.
    pub invocations: BTreeMap<String, u64>,
}

/// The caller's own states, and the Map around them.
fn is_work(state: &str) -> bool {
    matches!(
        state,
        "First" | "Second" | "Work" | "Read" | "Write" | "Each" | "AllWell?" | "Succeeded"
    )
}

/// The states that keep a lease.
fn is_extend(state: &str) -> bool {
    matches!(state, "Extend" | "Prove" | "Wait")
}

/// The states that wait for it, whether they have to or not.
fn is_wait(state: &str) -> bool {
    matches!(state, "Look" | "IsItMine" | "Pause")
}

impl Spent {
    /// Transitions to have leases and to give them back.
    #[must_use]
    pub fn of_the_lease(&self) -> u64 {
        // The end of a machine with a Map is the Map's.
        let has_map = self.history.states.contains_key("Each");
        let is_frame = |state: &str| has_map && state == "Done";
        self.history.transitions(|state| {
            !is_work(state) && !is_extend(state) && !is_wait(state) && !is_frame(state)
        })
    }

    /// Transitions to keep them.
    #[must_use]
    pub fn of_extending(&self) -> u64 {
        self.history.transitions(is_extend)
    }

    /// Transitions to wait for them.
    #[must_use]
    pub fn of_waiting(&self) -> u64 {
        self.history.transitions(is_wait)
    }
}

pub(crate) async fn measure() -> Found {
    let fixture = WorkflowFixture::open().await;
    let measures = undisturbed(&fixture).await;
    let compared = measures.iter().filter(|measure| !measure.peers.is_empty());
    let chart = bars(compared);
    fixture.close().await;
    Found {
        measures,
        charts: vec![("workflows", chart)],
    }
}

/// Each machine by itself, and what a long wait comes to by arithmetic.
async fn undisturbed(fixture: &WorkflowFixture) -> Vec<Measure> {
    let section = alone(fixture, "CriticalSection").await;
    let queued = alone(fixture, "QueuedSection").await;
    let of = |name: &str, spent: &Spent| {
        Measure::new(name, "transitions", ratio(spent.of_the_lease(), 1))
    };
    let per_section = of("transitions per section, for the lease", &queued).at_most(2.0);
    let [free, waited] = started(fixture).await;
    let mut per_section = per_section
        .peer(STARTED, ratio(free.of_the_lease(), 1))
        .peer("polling", ratio(section.of_the_lease(), 1));
    for peer in [Peer::Published, Peer::Sample, Peer::Retry] {
        let spent = fixture.once(peer).await;
        per_section = per_section.peer(peer.name(), ratio(spent.of_the_lease(), 1));
    }
    let wrapped = alone(fixture, "WithLease").await;
    let per_section = per_section.peer("with-lease", ratio(wrapped.of_the_lease(), 1));
    let per_wait = Measure::new(
        "transitions per ten minutes of waiting",
        "transitions",
        ratio(queued.of_waiting(), 1),
    )
    .at_most(0.0);
    // Its history begins when its wait is over.
    let per_wait = per_wait.peer(
        STARTED,
        ratio(waited.history.transitions(|state| !is_work(state)), 1),
    );
    let sample = ratio(fixture.round(Peer::Sample).await, 1);
    let per_wait = per_wait
        .peer("polling", TEN_MINUTES / POLLING_ROUND)
        .peer(Peer::Sample.name(), sample * TEN_MINUTES / ROUND)
        .peer(
            Peer::Published.name(),
            (sample + PUBLISHED_RETRIES) * TEN_MINUTES / PUBLISHED_ROUND,
        )
        .peer(Peer::Retry.name(), TEN_MINUTES / ROUND);
    let permits = alone(fixture, "Semaphore").await;
    let invocations = ratio(section.invocations.values().sum(), 1);
    vec![
        per_section,
        Measure::new(
            "transitions per extend",
            "transitions",
            ratio(section.of_extending(), 1),
        )
        .at_most(1.0),
        per_wait,
        Measure::new(
            "transitions per permit of a semaphore",
            "transitions",
            ratio(permits.of_the_lease(), 5),
        )
        .at_most(2.0),
        of(
            "transitions for two keys at once",
            &alone(fixture, "Transfer").await,
        )
        .at_most(2.0),
        Measure::new(
            "requests per section with an extend",
            "requests",
            ratio(section.sections.requests(), 1),
        )
        .at_most(3.0),
        Measure::new(
            "write units per section with an extend",
            "write units",
            section.sections.write_units,
        ),
        Measure::new(
            "invocations per section with an extend, reap's included",
            "invocations",
            invocations,
        ),
        Measure::new(
            "events per section with an extend and two steps",
            "events",
            ratio(section.history.events, 1),
        ),
    ]
}

/// A machine that knows nothing of leases, started through a free key, and through a key for which it has to wait.
async fn started(fixture: &WorkflowFixture) -> [Spent; 2] {
    let machine = fixture.create("leasehold_started_alone", CHILD, &[]).await;
    let request =
        json!({"key": "alone/started", "state_machine_arn": machine, "input": {"seconds": 1}});
    let checkpoints = [fixture.checkpoint(), fixture.checkpoint()];
    let mut runs = Vec::new();
    for _ in &checkpoints {
        runs.push(fixture.start_through(&request).await);
    }
    let mut spent = Vec::new();
    for (run, checkpoint) in runs.iter().zip(checkpoints) {
        succeeds(run).await;
        spent.push(fixture.spent(checkpoint, run).await);
    }
    spent.try_into().expect("two")
}

/// A shipped machine once, with nobody in the way.
pub async fn alone(fixture: &WorkflowFixture, machine: &str) -> Spent {
    let key = format!("alone/{machine}");
    let input = match machine {
        "Semaphore" => {
            json!({"key": key, "permits": 5, "ttl_seconds": 30, "items": [{}, {}, {}, {}, {}]})
        }
        "Transfer" => {
            fixture.open_account("a").await;
            fixture.open_account("b").await;
            json!({"from": "a", "to": "b", "amount": 1, "ttl_seconds": 30})
        }
        "WithLease" => {
            let child = fixture.create("leasehold_started_child", CHILD, &[]).await;
            json!({"key": key, "state_machine_arn": child, "input": {"seconds": 0}})
        }
        _ => json!({"key": key, "ttl_seconds": 30, "first": {}, "second": {}}),
    };
    let checkpoint = fixture.checkpoint();
    let run = fixture.start(fixture.shipped(machine), &input).await;
    succeeds(&run).await;
    fixture.spent(checkpoint, &run).await
}

/// The input of the others' machines. The key is the Retry's: the sample has its own.
fn work(key: &str, seconds: f64) -> Value {
    json!({"key": key, "seconds": seconds})
}
