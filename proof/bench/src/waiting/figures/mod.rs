//! What the runs came to: for the terminal, for `runs.json`, and for the picture.

mod chart;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_local::Counts;
use serde::Serialize;

use crate::waiting::contestants::Name;
use crate::waiting::run::Run;
use crate::{ratio, rounded};

pub(crate) use chart::draw;

pub use table::{LEGEND, row, table};

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
    /// What was added to the way of each request.
    pub latency_ms: u64,
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
    /// Write units per cycle, as the database told.
    pub write_units: f64,
    /// Write units per cycle of what conditions refused, as the service takes them; no answer tells them.
    pub refused_units: f64,
    /// Read units per cycle.
    pub read_units: f64,
    /// Bytes of bodies per cycle, both ways.
    pub bytes: f64,
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

impl Figures {
    /// What two runs have to agree on to be compared: clients, hold, rest and latency.
    #[must_use]
    pub fn circumstances(&self) -> (usize, u64, u64, u64) {
        (self.waiters, self.hold_ms, self.rest_ms, self.latency_ms)
    }

    /// The same in words.
    #[must_use]
    pub fn told_circumstances(&self) -> String {
        let latency = match self.latency_ms {
            0 => String::new(),
            ms => format!(", {ms} ms away"),
        };
        format!(
            "{} waiters, held for {} ms{latency}",
            self.waiters, self.hold_ms
        )
    }

    /// The figures of a run in which nothing happened.
    #[must_use]
    pub fn nothing(contestant: Name, waiters: usize, hold_ms: u64) -> Self {
        Self {
            contestant,
            waiters,
            hold_ms,
            rest_ms: 0,
            latency_ms: 0,
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
            latency_ms: whole_millis(run.course.latency),
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
        let units = counts.units();
        let units_per_cycle = |units: f64| rounded(units * ratio(1, cycles));
        let bytes = counts
            .iter()
            .map(|(_, tally)| tally.request_bytes + tally.answer_bytes);
        Self {
            write_units: units_per_cycle(units.write),
            refused_units: units_per_cycle(units.refused),
            read_units: units_per_cycle(units.read),
            bytes: per_cycle(bytes.sum()),
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
