//! What the runs came to, as one value: for the terminal, for `report.json`, and for the picture.

mod chart;
mod lines;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_local::Counts;
use serde::Serialize;

use crate::contestants::Name;
use crate::error::io;
use crate::promises::{Verdict, judge};
use crate::run::Run;
use crate::{Error, ratio};

pub use table::{LEGEND, row, table};

/// Everything that is told. Lengths are milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// What each contestant was set to.
    pub settings: BTreeMap<&'static str, &'static str>,
    /// More and more waiters, the key held for the same short time.
    pub by_waiters: Vec<Figures>,
    /// The same waiters, the key held for longer and longer.
    pub by_hold: Vec<Figures>,
    /// What was promised, and whether it was kept.
    pub verdicts: Vec<Verdict>,
}

/// The machine that it ran on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// Operating system and instruction set.
    pub system: String,
    /// What answers for DynamoDB.
    pub database: &'static str,
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Who ran.
    pub contestant: Name,
    /// How many clients wanted the key.
    pub waiters: usize,
    /// How long each was to hold it.
    pub hold_ms: u64,
    /// How long each was to rest before it asked again.
    pub rest_ms: u64,
    /// How long the window was.
    pub window_ms: f64,
    /// How often the key was given back in it.
    pub cycles: u64,
    /// What was sent to ask, to wait and to hand over.
    pub requests: Requests,
    /// What was sent to confirm and to clean up.
    pub aside: Requests,
    /// All requests per hand-over to another client; absent if there was none.
    pub requests_per_change: Option<f64>,
    /// Part of the window in which a client was inside.
    pub utilisation: f64,
    /// How long clients waited.
    pub wait: Wait,
    /// How often the key passed on.
    pub handovers: u64,
    /// Part of them that went to another client than the one who gave it back.
    pub to_another: f64,
    /// Mean time between giving it back and knowing that it is one's own.
    pub between_ms: f64,
    /// Entries while another client was inside.
    pub overlaps: u64,
    /// What failed, and how often.
    pub errors: BTreeMap<String, u64>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Requests {
    /// All of them in the window.
    pub total: u64,
    /// Per cycle.
    pub per_cycle: f64,
    /// Per cycle, by operation.
    pub by_operation: BTreeMap<String, f64>,
}

/// Waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wait {
    /// The mean of those that ended in the window.
    pub mean_ms: f64,
    /// The longest.
    pub longest_ms: f64,
    /// The longest had not ended when the window closed: it is longer than told.
    pub longest_goes_on: bool,
    /// How many times the mean the longest is.
    pub longest_by_mean: f64,
}

impl Report {
    /// The report of these runs.
    #[must_use]
    pub fn of(by_waiters: Vec<Figures>, by_hold: Vec<Figures>) -> Self {
        let all = [&by_waiters[..], &by_hold].concat();
        Self {
            machine: Machine::this(),
            settings: all
                .iter()
                .map(|run| (run.contestant.told(), run.contestant.settings()))
                .collect(),
            verdicts: judge(&all),
            by_waiters,
            by_hold,
        }
    }

    /// Writes `report.json` and `waiting.svg`, and answers where they are.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<[PathBuf; 2], Error> {
        let cannot = |path: &Path| io(format!("write {}", path.display()));
        std::fs::create_dir_all(directory).map_err(cannot(directory))?;
        let (json, svg) = (directory.join("report.json"), directory.join("waiting.svg"));
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| cannot(&json)(std::io::Error::other(error)))?;
        std::fs::write(&json, text + "\n").map_err(cannot(&json))?;
        std::fs::write(&svg, chart::draw(self)).map_err(cannot(&svg))?;
        Ok([json, svg])
    }
}

impl Machine {
    fn this() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            database: "embedded, in this process, behind the counting proxy: a request takes about a millisecond",
        }
    }
}

impl Figures {
    /// The figures of a run in which nothing happened.
    #[must_use]
    pub fn nothing(contestant: Name, waiters: usize, hold_ms: u64) -> Self {
        Self {
            contestant,
            waiters,
            hold_ms,
            rest_ms: 0,
            window_ms: 0.0,
            cycles: 0,
            requests: Requests::default(),
            aside: Requests::default(),
            requests_per_change: None,
            utilisation: 0.0,
            wait: Wait::default(),
            handovers: 0,
            to_another: 0.0,
            between_ms: 0.0,
            overlaps: 0,
            errors: BTreeMap::new(),
        }
    }
}

impl From<&Run> for Figures {
    fn from(run: &Run) -> Self {
        let measured = &run.measured;
        let all = run.spent.cycle.total() + run.spent.aside.total();
        let waits = measured.waits;
        Self {
            contestant: run.contestant,
            waiters: run.course.waiters,
            hold_ms: whole_millis(run.course.hold),
            rest_ms: whole_millis(run.course.rest),
            window_ms: millis(run.window),
            cycles: measured.cycles,
            requests: Requests::of(&run.spent.cycle, measured.cycles),
            aside: Requests::of(&run.spent.aside, measured.cycles),
            requests_per_change: (measured.to_another > 0)
                .then(|| rounded(ratio(all, measured.to_another))),
            utilisation: rounded(measured.utilisation),
            wait: Wait {
                mean_ms: millis(waits.mean),
                longest_ms: millis(waits.longest),
                longest_goes_on: waits.goes_on,
                longest_by_mean: rounded(waits.spread()),
            },
            handovers: measured.handovers,
            to_another: rounded(ratio(measured.to_another, measured.handovers)),
            between_ms: millis(measured.between),
            overlaps: measured.overlaps,
            errors: measured.errors.clone(),
        }
    }
}

impl Requests {
    fn of(counts: &Counts, cycles: u64) -> Self {
        let per_cycle = |requests| rounded(ratio(requests, cycles));
        Self {
            total: counts.total(),
            per_cycle: per_cycle(counts.total()),
            by_operation: counts
                .iter()
                .map(|(operation, tally)| (operation.to_owned(), per_cycle(tally.requests)))
                .collect(),
        }
    }
}

fn whole_millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn millis(length: Duration) -> f64 {
    rounded(length.as_secs_f64() * 1000.0)
}

/// To three places: more is noise.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
