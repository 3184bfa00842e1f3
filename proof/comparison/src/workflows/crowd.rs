//! What a wait costs a workflow, all in: a crowd of executions that want one key for one step each.
//!
//! Everything is counted that happens because of them: what they send, what tells the next one, what reap does when they end. What
//! they leave for sweep has to be nothing: a sweep that finds nothing reads the index, whoever waited. Every contestant runs the
//! same step for the same time.

use serde_json::{Value, json};
use tokio::sync::broadcast::error::TryRecvError;

use super::fixture::{Checkpoint, Peer, WorkflowFixture, succeeds};
use super::{History, STARTED};
use crate::fixture::Cost;
use crate::report::{Figure, Found, Measure};
use crate::{Options, ratio};
use leasehold_proof::execution::Execution;

const QUEUED: &str = include_str!("../../../../templates/statemachines/queued-section.asl.json");
const POLLING: &str = include_str!("../../../../templates/statemachines/critical-section.asl.json");
const PLAIN: &str = include_str!("../../peers/plain.asl.json");
/// How long each step works, in seconds.
const STEP: f64 = 0.1;

/// So many that AWS's sample, whose pauses grow, takes longer than anybody waits for a benchmark.
const MANY: usize = 128;

/// The largest crowd of a semaphore, and how many of it may run at once.
const MOST: usize = 300;
const AT_ONCE: u16 = 3;

/// How long a key with a pace stays closed after each grant, in seconds, and how many want it.
const SPAN: f64 = 2.0;
const PACED: usize = 4;

/// What a crowd wants of its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wish {
    /// Each runs, alone.
    Alone,
    /// Each runs, so many at once.
    AtOnce(u16),
    /// The one that runs ends, and then the newest runs. Where nobody can be sent away, each runs.
    Newest,
    /// Each runs, at most one in each span. Who knows no pace holds the lock so long.
    Paced,
}

impl Wish {
    const fn permits(self) -> Option<u16> {
        match self {
            Self::AtOnce(permits) => Some(permits),
            _ => None,
        }
    }

    fn words(self, size: usize) -> String {
        match self {
            Self::Alone => format!("{size} executions for one key"),
            Self::AtOnce(permits) => format!("{size} executions, {permits} at once"),
            Self::Newest => format!("{size} executions, of which only the newest waits"),
            Self::Paced => format!("{size} executions, one in each {SPAN} s"),
        }
    }

    /// What is added to a request of ours.
    fn asks(self, request: &mut Value) {
        match self {
            Self::Alone => {}
            Self::AtOnce(permits) => request["permits"] = permits.into(),
            Self::Newest => request["if_held"] = "latest".into(),
            Self::Paced => request["at_least_seconds"] = SPAN.into(),
        }
    }
}

/// Whose machine the crowd runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Machine {
    /// The shipped one that waits in the queue, without its second step.
    Queued,
    /// The shipped one that asks again by a Retry, without its second step.
    Polling,
    /// One that knows nothing of leases, started through the key.
    Started,
    /// The same, started by the shipped machine that waits for its result.
    Wrapped,
    /// Somebody else's.
    Theirs(Peer),
}

const EVERYBODY: [Machine; 7] = [
    Machine::Queued,
    Machine::Started,
    Machine::Wrapped,
    Machine::Polling,
    Machine::Theirs(Peer::Published),
    Machine::Theirs(Peer::Sample),
    Machine::Theirs(Peer::Retry),
];

impl Machine {
    const fn name(self) -> &'static str {
        match self {
            Self::Queued => "Leasehold",
            Self::Polling => "polling",
            Self::Started => STARTED,
            Self::Wrapped => "with-lease",
            Self::Theirs(peer) => peer.name(),
        }
    }

    /// Whether it takes part.
    const fn can(self, wish: Wish) -> bool {
        match wish {
            Wish::Alone => true,
            Wish::AtOnce(_) => !matches!(self, Self::Theirs(Peer::Retry)),
            // Of these, whoever is sent away has failed.
            Wish::Newest => !matches!(self, Self::Queued | Self::Wrapped),
            Wish::Paced => !matches!(self, Self::Queued | Self::Wrapped),
        }
    }

    fn ends_soon(self) -> bool {
        !matches!(
            self,
            Self::Polling | Self::Theirs(Peer::Published | Peer::Sample)
        )
    }
}

/// What a crowd took, for each of it but `left`.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Requests to the database.
    pub requests: f64,
    /// Write units, of the table and its index.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
    /// State transitions.
    pub transitions: f64,
    /// Invocations of our functions, the step's aside.
    pub invocations: f64,
    /// Items that the last execution leaves for sweep.
    pub left: f64,
}

/// One crowd after the other, in the sizes that matter.
pub(crate) async fn measure(options: &Options) -> Found {
    let fixture = WorkflowFixture::open().await;
    let sizes: &[usize] = if options.quick {
        &[2, 8]
    } else {
        &[2, 8, 32, MANY]
    };
    let at_once: &[usize] = if options.quick { &[8] } else { &[32, MOST] };
    let alone = sizes.iter().map(|size| (*size, Wish::Alone));
    let at_once = at_once.iter().map(|size| (*size, Wish::AtOnce(AT_ONCE)));
    let others = [(8, Wish::Newest), (PACED, Wish::Paced)];
    let mut measures = Vec::new();
    for (size, wish) in alone.chain(at_once).chain(others) {
        let mut spent = Vec::new();
        let everybody = EVERYBODY.iter().copied();
        for whose in everybody.filter(|whose| size < MANY || whose.ends_soon()) {
            if whose.can(wish) {
                spent.push((whose.name(), run(&fixture, whose, size, wish).await));
            }
        }
        let figures = spent[0].1.figures().into_iter().enumerate();
        for (at, (what, unit, _, target)) in figures {
            let name = format!("{what}, {}", wish.words(size));
            // Of two that arrive at the same moment, chance decides whether one has to ask twice. A permit costs a read more.
            let target = target.filter(|_| size > 2 && wish == Wish::Alone);
            measures.push(
                Measure::of_all(name, unit, &spent, |run| run.figures()[at].2).held_to(target),
            );
        }
    }
    fixture.close().await;
    Found {
        measures,
        charts: Vec::new(),
    }
}

impl Spent {
    fn figures(&self) -> [Figure; 6] {
        [
            (
                "requests per execution, all in",
                "requests",
                self.requests,
                Some(6.0),
            ),
            (
                "write units per execution, all in",
                "write units",
                self.write_units,
                None,
            ),
            (
                "read units per execution, all in",
                "read units",
                self.read_units,
                None,
            ),
            (
                "transitions per execution with one step",
                "transitions",
                self.transitions,
                Some(3.0),
            ),
            (
                "invocations per execution, all in",
                "invocations",
                self.invocations,
                None,
            ),
            ("items left to sweep", "items", self.left, Some(0.0)),
        ]
    }
}

/// One crowd, until all that it sets off is over.
pub async fn run(fixture: &WorkflowFixture, whose: Machine, size: usize, wish: Wish) -> Spent {
    let key = format!("crowd/{}/{}", whose.name(), wish.words(size));
    let mut child = None;
    let (machine, input) = match whose {
        Machine::Queued => ours(fixture, QUEUED, &key, wish).await,
        Machine::Polling => ours(fixture, POLLING, &key, wish).await,
        Machine::Theirs(peer) => {
            let holds = if wish == Wish::Paced { SPAN } else { STEP };
            let limit = wish.permits().unwrap_or(1);
            fixture.contended(peer, limit, holds).await
        }
        Machine::Started => {
            let input = json!({"seconds": STEP});
            (
                fixture.create("leasehold_started_crowd", PLAIN, &[]).await,
                input,
            )
        }
        Machine::Wrapped => {
            let started = fixture.create("leasehold_started_crowd", PLAIN, &[]).await;
            let mut input =
                json!({"key": key, "state_machine_arn": started, "input": {"seconds": STEP}});
            wish.asks(&mut input);
            child = Some(started);
            (fixture.shipped("WithLease").to_owned(), input)
        }
    };
    let checkpoint = fixture.checkpoint();
    let mut runs = Vec::new();
    for _ in 0..size {
        runs.push(match whose {
            Machine::Started => {
                let mut request = json!({"key": key, "state_machine_arn": machine, "input": input});
                wish.asks(&mut request);
                fixture.start_through(&request).await
            }
            _ => fixture.start(&machine, &input).await,
        });
    }
    if wish == Wish::Newest && whose == Machine::Started {
        // Those between never exist.
        runs.drain(1..size - 1);
    }
    let sweeping = wish == Wish::Paced && whose == Machine::Started;
    for run in &runs {
        if sweeping {
            tokio::select! {
                () = succeeds(run) => {}
                () = fixture.sweeps() => {}
            }
        } else {
            succeeds(run).await;
        }
    }
    fixture.quiet().await;
    if let Some(child) = child {
        for at in 0..runs.len() {
            let children = runs[at].children(&child).await;
            runs.extend(children);
        }
    }
    spent(fixture, checkpoint, &runs, size).await
}

/// `runs` are the executions of a crowd of `size`, with their children.
async fn spent(
    fixture: &WorkflowFixture,
    mut checkpoint: Checkpoint,
    runs: &[Execution],
    size: usize,
) -> Spent {
    let count = |number: usize| ratio(u64::try_from(number).unwrap_or(u64::MAX), 1);
    let size = count(size);
    let (sections, cleanup) = fixture.since(&checkpoint);
    let mut invocations = 0_u64;
    loop {
        match checkpoint.invocations.try_recv() {
            Ok(invocation) => invocations += u64::from(invocation.function != "StepFunction"),
            Err(TryRecvError::Lagged(missed)) => panic!("{missed} invocations were not counted"),
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    let left = fixture.items_to_sweep().await;
    let mut transitions = 0;
    for run in runs {
        transitions += History::of(run).await.transitions(|_| true);
    }
    let sum = |look: fn(&Cost) -> f64| look(&sections) + look(&cleanup);
    Spent {
        requests: sum(|cost| ratio(cost.requests(), 1)) / size,
        write_units: sum(|cost| cost.write_units) / size,
        read_units: sum(|cost| cost.read_units) / size,
        transitions: ratio(transitions, 1) / size,
        invocations: ratio(invocations, 1) / size,
        left: count(left),
    }
}

/// A shipped machine with one step, and its input.
async fn ours(
    fixture: &WorkflowFixture,
    definition: &str,
    key: &str,
    wish: Wish,
) -> (String, Value) {
    let mut machine: Value = serde_json::from_str(definition).unwrap();
    let states = &mut machine["States"];
    states["First"]["Next"] = "Release".into();
    let states = states.as_object_mut().unwrap();
    for state in ["Extend", "Second", "ProveAgain"] {
        states.remove(state);
    }
    if wish != Wish::Newest {
        wish.asks(&mut machine["States"]["Acquire"]["Arguments"]["Payload"]);
    }
    let names = [("Partition", "aws")];
    let mut machine = machine.to_string();
    if wish.permits().is_some() {
        // Tokens have an order within one permit only.
        machine = machine.replace(
            "'key': $lease.key",
            "'key': $lease.key & '#' & $string($lease.permit)",
        );
    }
    (
        fixture
            .create("leasehold_leasing_crowd", &machine, &names)
            .await,
        json!({"key": key, "ttl_seconds": 60, "first": {"seconds": STEP}}),
    )
}
