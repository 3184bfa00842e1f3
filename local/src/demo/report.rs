//! The report of the run, as data (`report.json`) and as text. Field names are stable. Instants are in milliseconds since
//! `began_at`. Unknown values are `null`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use leasehold::Timestamp;
use leasehold_local::Error;
use serde::Serialize;

use super::cast::QUEUE_KEY;
use super::checks::{self, Check};
use super::picture;
use super::queue::Left;
use super::record::{Execution, Hold, Record, now, seconds};
use super::{GRACE_SECONDS, MARGIN_MS, SWEEP_EVERY};

/// The report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// Whether every promise was kept.
    pub(super) passed: bool,
    checks: &'a [Check],
    figures: Figures,
    /// In the order of their start. For the second act that is the order of the queue.
    executions: &'a [Execution],
    /// Errors of functions that the demo does not provoke. The machines' Retry handles them.
    errors_met: &'a [String],
    seed: u64,
    began_at: Timestamp,
    duration_ms: u64,
    clock_margin_ms: u64,
    reap_grace_seconds: u64,
    sweep_every_seconds: u64,
    /// When the demo released the queue's key, which it held until all executions were in the queue.
    given_back: u64,
}

/// The run in numbers.
#[derive(Serialize)]
struct Figures {
    executions_by_status: BTreeMap<String, usize>,
    contention: Act,
    queue: Act,
    /// Leases that sweep freed.
    swept: u64,
}

/// An act in numbers.
#[derive(Serialize)]
struct Act {
    /// Fencing tokens.
    grants: usize,
    /// Refusals of acquire because somebody else holds the key.
    refusals: usize,
    /// Grants after a holder that did not release.
    takeovers: usize,
    /// Grants that the holder received as a replay.
    replays: usize,
    extends: usize,
    /// Sections that ended with a release of their own lease.
    released: usize,
    writes_refused: usize,
    mean_wait_seconds: f64,
    longest_wait_seconds: f64,
    /// The time between one holder leaving the resource and the next one entering.
    mean_idle_seconds: f64,
    longest_idle_seconds: f64,
}

impl Act {
    fn of<'a>(executions: impl Iterator<Item = &'a Execution>) -> Self {
        let all: Vec<_> = executions.collect();
        let holds: Vec<&Hold> = all.iter().filter_map(|one| one.lease.as_ref()).collect();
        let sum =
            |count: fn(&Execution) -> usize| -> usize { all.iter().map(|one| count(one)).sum() };
        let with = |is: fn(&Hold) -> bool| holds.iter().filter(|hold| is(hold)).count();
        let waits: Vec<u64> = all.iter().filter_map(|one| one.waited()).collect();
        let mut stays: Vec<_> = all
            .iter()
            .filter_map(|one| Some((one.entered?, one.left)))
            .collect();
        stays.sort_unstable();
        let idle = stays.windows(2).filter_map(|pair| {
            let (_, left) = pair[0];
            pair[1].0.checked_sub(left?)
        });
        let idle: Vec<u64> = idle.collect();
        let mean = |all: &[u64]| per(all.iter().sum(), all.len()) / 1000.0;
        let longest = |all: &[u64]| seconds(all.iter().copied().max().unwrap_or(0));
        Self {
            grants: holds.len(),
            refusals: sum(|one| one.refusals.len()),
            takeovers: with(Hold::is_takeover),
            replays: with(|hold| hold.grant == "replayed"),
            extends: holds.iter().map(|hold| hold.extends.len()).sum(),
            released: with(|hold| {
                let released = hold.released.as_ref();
                released.is_some_and(|(_, outcome)| outcome == "released")
            }),
            writes_refused: sum(|one| one.refused_writes.len()),
            mean_wait_seconds: mean(&waits),
            longest_wait_seconds: longest(&waits),
            mean_idle_seconds: mean(&idle),
            longest_idle_seconds: longest(&idle),
        }
    }
}

/// The mean, to hundredths.
#[allow(clippy::cast_precision_loss)] // Hundreds.
fn per(all: u64, each: usize) -> f64 {
    (all as f64 / each.max(1) as f64 * 100.0).round() / 100.0
}

impl<'a> Report<'a> {
    pub(super) fn new(seed: u64, record: &'a Record, checks: &'a [Check], left: &Left) -> Self {
        let mut executions_by_status = BTreeMap::new();
        for one in &record.executions {
            *executions_by_status.entry(one.status.clone()).or_default() += 1;
        }
        let of = |queue: bool| {
            let all = record.executions.iter();
            Act::of(all.filter(move |one| (one.key == QUEUE_KEY) == queue))
        };
        Self {
            passed: checks::passed(checks),
            checks,
            figures: Figures {
                executions_by_status,
                contention: of(false),
                queue: of(true),
                swept: record.swept,
            },
            executions: &record.executions,
            errors_met: &record.failures,
            seed,
            began_at: Timestamp::from_millis(record.began),
            duration_ms: record.at(now()),
            clock_margin_ms: MARGIN_MS,
            reap_grace_seconds: GRACE_SECONDS,
            sweep_every_seconds: SWEEP_EVERY.as_secs(),
            given_back: left.given_back,
        }
    }

    /// The figures, and the outcome of each promise.
    pub(super) fn text(&self) -> String {
        let Figures {
            executions_by_status,
            contention: first,
            queue: second,
            swept,
        } = &self.figures;
        let statuses = executions_by_status.iter();
        let statuses: Vec<_> = statuses
            .map(|(status, n)| format!("{n} {status}"))
            .collect();
        let mut text = format!(
            "
executions      {}
contention      {} grants, {} times refused Lease.Held, {} extends; waits: mean {:.1} s, longest {:.1} s
accidents       taken over {}, replayed {}, late writes refused {}, freed by sweep {swept}
queue           {} hand-overs; waits: mean {:.1} s, longest {:.1} s; between two: mean {:.2} s, longest {:.2} s
settings        ClockMarginMs {MARGIN_MS} instead of 2000, which one clock allows; ReapGraceSeconds {GRACE_SECONDS} instead of 900

",
            statuses.join(", "),
            first.grants,
            first.refusals,
            first.extends,
            first.mean_wait_seconds,
            first.longest_wait_seconds,
            first.takeovers,
            first.replays,
            first.writes_refused,
            second.grants,
            second.mean_wait_seconds,
            second.longest_wait_seconds,
            second.mean_idle_seconds,
            second.longest_idle_seconds,
        );
        // Writing to a String cannot fail.
        for error in self.errors_met {
            let _ = writeln!(text, "error met       {error}");
        }
        for check in self.checks {
            let kept = if check.violations.is_empty() {
                "ok"
            } else {
                "VIOLATED"
            };
            let _ = writeln!(text, "{kept:<10}{}", check.name);
            for violation in &check.violations {
                let _ = writeln!(text, "          {violation}");
            }
        }
        text
    }
}

const FILES: [&str; 3] = ["report.json", "timeline.svg", "line.svg"];

/// Removes all files that exist.
pub(super) fn remove(out: &Path) {
    for file in FILES {
        let _ = std::fs::remove_file(out.join(file));
    }
}

/// Writes all files, and returns the text that lists them.
pub(super) fn write(out: &Path, record: &Record, report: &Report) -> Result<String, Error> {
    let pictures = [
        picture::contention(record, report.passed)?,
        picture::queue(record, report.passed)?,
    ];
    let [timeline, line] = pictures;
    let texts = [json(report)?, timeline, line];
    for (file, text) in FILES.iter().zip(texts) {
        let file = out.join(file);
        std::fs::write(&file, text).map_err(|source| Error::Io {
            what: format!("write {}", file.display()),
            source,
        })?;
    }
    let out = out.display();
    Ok(format!(
        "report          {out}/report.json\npictures        {out}/timeline.svg\n                {out}/line.svg\ntime            {:.1} s",
        seconds(report.duration_ms)
    ))
}

fn json(what: &impl Serialize) -> Result<String, Error> {
    let json = serde_json::to_string_pretty(what);
    let json = json.map_err(|error| Error::call("write the report", error))?;
    Ok(format!("{json}\n"))
}
