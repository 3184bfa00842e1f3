//! What it costs to wait for a key that is held.
//!
//! Somebody holds the key until everybody who wants it has come, one every few milliseconds. Each gets it once, holds it for a
//! while and gives it back. What is sent until the last is in is counted for each who was served.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::chart::{Panel, lines};
use crate::clients::{Client, ClientKind, Settings};
use crate::fixture::{Cost, Fixture};
use crate::report::{Figure, Found, Measure};
use crate::{Options, ratio};

const KEY: &str = "orders/42";
const EVERYBODY: [ClientKind; 5] = [
    ClientKind::Queued,
    ClientKind::Polling,
    ClientKind::Direct,
    ClientKind::DynamodbLease,
    ClientKind::PythonLock,
];
/// How long each holds the key.
const HOLD: Duration = Duration::from_millis(50);
/// How long after one another they come.
const APART: Duration = Duration::from_millis(20);
/// How long a client rests whose call failed.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// The result of one run. Everything but `served` and `overlaps` is per served client.
#[derive(Clone, Debug, Default)]
pub struct WaitCost {
    /// How many were served before the run was over.
    pub served: usize,
    /// Requests to ask, to wait and to hand over.
    pub requests: f64,
    /// Requests to clean up, which only ours has.
    pub background: f64,
    /// Write units of all of them, refused conditions included.
    pub write_units: f64,
    /// Read units of all of them.
    pub read_units: f64,
    /// Part of the time from the first hand-over to the last end in which nobody was inside.
    pub idle: f64,
    /// Part of all pairs who were not served in the order in which they came.
    pub out_of_turn: f64,
    /// Entries while another was inside.
    pub overlaps: u64,
    /// What failed, and how often.
    pub errors: BTreeMap<String, u64>,
}

/// One section of one client, in seconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    /// When it asked.
    asked: f64,
    /// When it knew that the key is its own.
    entered: f64,
    /// When it was about to give the key back.
    left: f64,
}

impl WaitCost {
    /// What can be said of the turns alone, after a hand-over at `from`.
    fn of(turns: &[Turn], from: f64) -> Self {
        let mut turns = turns.to_vec();
        turns.sort_by(|one, other| one.entered.total_cmp(&other.entered));
        let until = turns.iter().map(|turn| turn.left).fold(from, f64::max);
        let inside: f64 = turns.iter().map(|turn| turn.left - turn.entered).sum();
        let (mut inverted, mut pairs) = (0, 0);
        for (place, turn) in turns.iter().enumerate() {
            for later in turns.iter().skip(place + 1) {
                pairs += 1;
                inverted += u64::from(later.asked < turn.asked);
            }
        }
        let overlaps = turns
            .windows(2)
            .filter(|pair| pair[1].entered < pair[0].left)
            .count();
        let span = (until - from).max(f64::MIN_POSITIVE);
        Self {
            served: turns.len(),
            idle: 1.0 - inside / span,
            out_of_turn: ratio(inverted, pairs),
            overlaps: wide(overlaps),
            ..Self::default()
        }
    }

    /// Divides requests and units by the number of served clients.
    fn with(mut self, cost: &Cost, background: &Cost) -> Self {
        let each = |total: f64| {
            if self.served == 0 {
                f64::NAN
            } else {
                total / ratio(wide(self.served), 1)
            }
        };
        self.requests = each(ratio(cost.requests(), 1));
        self.background = each(ratio(background.requests(), 1));
        self.write_units = each(cost.write_units + background.write_units);
        self.read_units = each(cost.read_units + background.read_units);
        self
    }
}

impl WaitCost {
    /// A join whose answer was late is sent again, and is as good.
    fn figures(&self) -> [Figure; 9] {
        let failed = ratio(self.errors.values().sum(), 1);
        let served = ratio(wide(self.served), 1);
        let overlaps = ratio(self.overlaps, 1);
        [
            (REQUESTS, "requests", self.requests, Some(6.05)),
            (BACKGROUND, "requests", self.background, None),
            (WRITE_UNITS, "write units", self.write_units, None),
            (
                "read units per served waiter",
                "read units",
                self.read_units,
                None,
            ),
            (IDLE, "ratio", self.idle, None),
            (OUT_OF_TURN, "ratio", self.out_of_turn, None),
            (SERVED, "waiters", served, None),
            ("calls that failed", "calls", failed, Some(0.0)),
            (
                "entries while another was inside",
                "entries",
                overlaps,
                Some(0.0),
            ),
        ]
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Everybody, one after the other, with more and more who wait.
pub(crate) async fn measure(options: &Options) -> Found {
    let numbers: &[usize] = if options.quick {
        &[2, 8]
    } else {
        &[2, 8, 32, 128]
    };
    let limit = Duration::from_secs(if options.quick { 20 } else { 90 });
    let mut all = Vec::new();
    for number in numbers {
        let mut runs = Vec::new();
        for who in EVERYBODY {
            runs.push((who.name(), run(who, *number, limit).await));
        }
        all.push((*number, runs));
    }
    found(&all)
}

/// One run, which is over when everybody was served, or after `limit`.
pub async fn run(who: ClientKind, waiters: usize, limit: Duration) -> WaitCost {
    let fixture = Fixture::start().await;
    let settings = Settings::default();
    let mut clients = who.clients(&fixture, &settings, waiters + 1).await;
    let mut holder = clients.pop().unwrap();
    holder.wait(KEY).await.unwrap();
    let counts = || {
        (
            fixture.measured_endpoint().counts(),
            fixture.background_endpoint().counts(),
        )
    };
    let before = counts();
    let began = Instant::now();
    let mut running = JoinSet::new();
    for (place, client) in clients.into_iter().enumerate() {
        let after = APART * u32::try_from(place).unwrap_or(u32::MAX);
        running.spawn(async move {
            sleep(after).await;
            turn(client, began).await
        });
    }
    // A busy machine may need longer than they take to come.
    let everybody = before.0.total() + wide(waiters);
    while fixture.measured_endpoint().counts().total() < everybody && began.elapsed() < limit {
        sleep(APART).await;
    }
    sleep(Duration::from_millis(200)).await;
    let from = began.elapsed().as_secs_f64();
    holder.release().await.unwrap();
    let (mut turns, mut errors) = (Vec::new(), BTreeMap::new());
    let mut after = counts();
    let deadline = Instant::now() + limit;
    // When the last one leaves, the next but last has entered: what its release sends is counted, its own is not.
    while let Ok(Some(Ok((turn, failures, mut client)))) =
        timeout_at(deadline, running.join_next()).await
    {
        turns.push(turn);
        for failure in failures {
            *errors.entry(failure).or_default() += 1;
        }
        after = counts();
        if let Err(error) = client.release().await {
            *errors.entry(error).or_default() += 1;
        }
    }
    if turns.len() < waiters {
        after = counts();
    }
    running.shutdown().await;
    let cost = Cost::from(&after.0.since(&before.0));
    let background = Cost::from(&after.1.since(&before.1));
    WaitCost {
        errors,
        ..WaitCost::of(&turns, from).with(&cost, &background)
    }
}

/// Waits, holds, and gives the client back with the key still its own, so that the count is taken before the release.
async fn turn(mut client: Box<dyn Client>, began: Instant) -> (Turn, Vec<String>, Box<dyn Client>) {
    let now = || began.elapsed().as_secs_f64();
    let asked = now();
    let mut failures = Vec::new();
    while let Err(error) = client.wait(KEY).await {
        failures.push(error);
        sleep(AFTER_A_FAILURE).await;
    }
    let entered = now();
    sleep(HOLD).await;
    (
        Turn {
            asked,
            entered,
            left: now(),
        },
        failures,
        client,
    )
}

const REQUESTS: &str = "requests per served waiter";
const BACKGROUND: &str = "requests of sweep per served waiter";
const SERVED: &str = "waiters that were served before the run was over";
const WRITE_UNITS: &str = "write units per served waiter";
const IDLE: &str = "part of the time in which nobody was inside";
const OUT_OF_TURN: &str = "pairs served out of turn";

/// The measures and the chart of everybody's runs by number.
fn found(all: &[(usize, Vec<(&'static str, WaitCost)>)]) -> Found {
    let name = |what: &str, waiters: usize| format!("{what}, {waiters} waiters, from a program");
    let mut measures = Vec::new();
    for (number, runs) in all {
        let figures = runs[0].1.figures().into_iter().enumerate();
        for (at, (what, unit, _, target)) in figures {
            let figure = |run: &WaitCost| run.figures()[at].2;
            let measure = Measure::of_all(name(what, *number), unit, runs, figure);
            measures.push(measure.held_to(target));
        }
    }
    let panels = [REQUESTS, WRITE_UNITS, IDLE, OUT_OF_TURN].map(|title| Panel {
        title,
        points: all
            .iter()
            .filter_map(|(number, _)| {
                let name = name(title, *number);
                let found = measures.iter().find(|measure| measure.name == name)?;
                Some((*number, found))
            })
            .collect(),
    });
    let chart = lines("waiters", &panels);
    Found {
        measures,
        charts: vec![("waiting", chart)],
    }
}
