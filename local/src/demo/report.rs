//! `report.json`: the run as data. Field names are stable; instants are seconds since the start of the run,
//! except `began_at`, and what is not known is `null`.

use std::path::{Path, PathBuf};

use leasehold::Timestamp;
use leasehold_local::Error;
use leasehold_local::metrics::Datum;
use serde::Serialize;

use super::measures::{Figures, rounded};
use super::queue;
use super::record::{Execution, Hold, Record};
use super::verdict::{self, Check};
use super::{MARGIN_MS, SWEEP_EVERY};

/// The report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// No promise was broken, in both acts.
    pub(super) passed: bool,
    checks: Vec<Checked<'a>>,
    figures: &'a Figures,
    executions: Vec<Ran<'a>>,
    /// The second act.
    line: queue::Report<'a>,
    /// Errors of functions that were not part of the plan; the machines' Retry is made for them.
    errors_met: &'a [String],
    seed: u64,
    began_at: Timestamp,
    seconds: f64,
    clock_margin_ms: u64,
    sweep_every_seconds: u64,
}

/// A promise, and whether it was kept.
#[derive(Serialize)]
pub(super) struct Checked<'a> {
    name: &'a str,
    passed: bool,
    seen: &'a str,
    violations: &'a [String],
}

#[derive(Serialize)]
struct Ran<'a> {
    name: &'a str,
    execution_arn: &'a str,
    state_machine: &'a str,
    key: &'a str,
    status: &'a str,
    expected_status: &'a str,
    error: Option<&'a str>,
    started: Option<f64>,
    asked: Option<f64>,
    refusals: Vec<f64>,
    /// Processes of its functions that were killed.
    killed: Vec<f64>,
    stopped: Option<f64>,
    ended: Option<f64>,
    waited_seconds: Option<f64>,
    refused_writes: Vec<RefusedWrite<'a>>,
    leases: Vec<Held<'a>>,
}

#[derive(Serialize)]
struct Held<'a> {
    fencing_token: u64,
    grant: &'a str,
    /// How the grant before ended.
    previous_ended: Option<&'a str>,
    previous_fencing_token: Option<u64>,
    /// The instant the lease counts from.
    acquired: f64,
    /// From the answer that granted …
    from: f64,
    /// … to the request that released, or `safe_until`.
    until: f64,
    expires: f64,
    extends: Vec<f64>,
    /// What the release answered.
    release: Option<&'a str>,
}

/// A write that the resource did not accept.
#[derive(Serialize)]
struct RefusedWrite<'a> {
    at: f64,
    error: &'a str,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        seed: u64,
        record: &'a Record,
        figures: &'a Figures,
        checks: &'a [Check],
        act: &'a queue::Act,
    ) -> Self {
        Self {
            passed: verdict::passed(checks) && verdict::passed(&act.checks),
            checks: checked(checks),
            figures,
            executions: record
                .executions
                .iter()
                .map(|execution| ran(record, execution))
                .collect(),
            line: act.report(record.began),
            errors_met: &record.failures,
            seed,
            began_at: Timestamp::from_millis(record.began),
            seconds: rounded(record.seconds(super::facts::now())),
            clock_margin_ms: MARGIN_MS,
            sweep_every_seconds: SWEEP_EVERY.as_secs(),
        }
    }
}

pub(super) fn checked(checks: &[Check]) -> Vec<Checked<'_>> {
    let checked = checks.iter().map(|check| Checked {
        name: check.name,
        passed: check.violations.is_empty(),
        seen: &check.seen,
        violations: &check.violations,
    });
    checked.collect()
}

fn ran<'a>(record: &'a Record, execution: &'a Execution) -> Ran<'a> {
    let at = |instant: u64| rounded(record.seconds(instant));
    Ran {
        name: &execution.name,
        execution_arn: &execution.arn,
        state_machine: execution.machine,
        key: execution.key,
        status: &execution.status,
        expected_status: execution.expected_status,
        error: execution.error.as_deref(),
        started: execution.started.map(at),
        asked: execution.asked.map(at),
        refusals: execution.refusals.iter().copied().map(at).collect(),
        killed: execution.deaths.iter().map(|death| at(death.at)).collect(),
        stopped: execution.stopped.map(at),
        ended: execution.ended.map(at),
        waited_seconds: execution.waited(record).map(rounded),
        refused_writes: execution
            .refused_writes
            .iter()
            .map(|(instant, error)| RefusedWrite {
                at: at(*instant),
                error,
            })
            .collect(),
        leases: record
            .holds_of(&execution.arn)
            .map(|hold| held(record, hold))
            .collect(),
    }
}

fn held<'a>(record: &Record, hold: &'a Hold) -> Held<'a> {
    let at = |instant: u64| rounded(record.seconds(instant));
    let previous = hold.previous.as_ref();
    Held {
        fencing_token: hold.fencing_token,
        grant: &hold.kind,
        previous_ended: previous.map(|previous| previous.ended.as_str()),
        previous_fencing_token: previous.map(|previous| previous.fencing_token),
        acquired: at(hold.acquired_at),
        from: at(hold.from),
        until: at(hold.until()),
        expires: at(hold.expires_at),
        extends: hold.extends.iter().copied().map(at).collect(),
        release: hold.released.as_ref().map(|(_, outcome)| outcome.as_str()),
    }
}

/// Where the files are.
pub(super) struct Files {
    pub(super) report: PathBuf,
    pub(super) timeline: PathBuf,
    pub(super) line: PathBuf,
    /// What the functions counted.
    pub(super) metrics: PathBuf,
}

impl Files {
    fn below(out: &Path) -> Self {
        Self {
            report: out.join("report.json"),
            timeline: out.join("timeline.svg"),
            line: out.join("line.svg"),
            metrics: out.join("metrics.json"),
        }
    }
}

/// Removes all files, if they are there.
pub(super) fn remove(out: &Path) {
    let files = Files::below(out);
    for file in [files.report, files.timeline, files.line, files.metrics] {
        let _ = std::fs::remove_file(file);
    }
}

/// Writes all files.
pub(super) fn write(
    out: &Path,
    report: &Report,
    timeline: &str,
    line: &str,
    metrics: &[Datum],
) -> Result<Files, Error> {
    let files = Files::below(out);
    for (file, text) in [
        (&files.report, json(report)?.as_str()),
        (&files.timeline, timeline),
        (&files.line, line),
        (&files.metrics, &json(metrics)?),
    ] {
        std::fs::write(file, text).map_err(|source| Error::Io {
            what: format!("write {}", file.display()),
            source,
        })?;
    }
    Ok(files)
}

fn json(what: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    let json = serde_json::to_string_pretty(what).map_err(|error| Error::Call {
        what: "write the report".to_owned(),
        message: error.to_string(),
    })?;
    Ok(format!("{json}\n"))
}
