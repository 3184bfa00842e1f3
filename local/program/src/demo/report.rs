//! Whether every promise held, as text and as data (`report.json`). Instants are in milliseconds since the epoch.

use std::fmt::Write as _;
use std::path::Path;

use leasehold_local::Error;
use serde::Serialize;

use super::picture;
use super::record::{Record, Seen};
use super::setting::{GRACE_SECONDS, MARGIN_MS};

/// The report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// Whether every promise held.
    pub(super) passed: bool,
    checks: Vec<Check>,
    /// The process, and the executions in the order of their start.
    seen: &'a [Seen],
    /// How long the key was nobody's between two executions, the mean in seconds.
    hand_over_seconds: f64,
    clock_margin_ms: u64,
    reap_grace_seconds: u64,
}

/// One promise.
#[derive(Serialize)]
struct Check {
    name: String,
    /// Empty if the promise held.
    violations: Vec<String>,
}

impl<'a> Report<'a> {
    pub(super) fn of(record: &'a Record<'_>) -> Self {
        let checks = checks(record);
        Self {
            passed: checks.iter().all(|check| check.violations.is_empty()),
            checks,
            seen: &record.all,
            hand_over_seconds: hand_over(record),
            clock_margin_ms: MARGIN_MS,
            reap_grace_seconds: GRACE_SECONDS,
        }
    }

    /// The report for a person.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "
next grant      {:.2} s from the end of one execution to the lease of the next, in the mean
settings        ClockMarginMs {MARGIN_MS} instead of 2000, which one clock allows; ReapGraceSeconds {GRACE_SECONDS} instead of 900

",
            self.hand_over_seconds
        );
        for check in &self.checks {
            let held = if check.violations.is_empty() {
                "held"
            } else {
                "VIOLATED"
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{held:<10}{}", check.name);
            for violation in &check.violations {
                let _ = writeln!(text, "          {violation}");
            }
        }
        text
    }
}

/// The promises of docs/explain/guarantees.md that the story shows, and what it has to come to.
fn checks(record: &Record<'_>) -> Vec<Check> {
    let all = promises(record).into_iter().chain(ends(record));
    let check = |(name, violations): (&str, Vec<String>)| Check {
        name: name.to_owned(),
        violations,
    };
    all.map(check).collect()
}

fn promises(record: &Record<'_>) -> [(&'static str, Vec<String>); 5] {
    let mut holders: Vec<_> = record
        .all
        .iter()
        .filter(|one| one.holds.is_some())
        .collect();
    holders.sort_by_key(|one| one.holds);
    let mut served: Vec<_> = record
        .all
        .iter()
        .filter(|one| one.queued.is_some())
        .collect();
    served.sort_by_key(|one| one.queued);
    let unserved = |one: &&&Seen| one.holds.is_none() && one.stopped.is_none();
    let forgotten = served.iter().filter(unserved);
    let forgotten = forgotten.map(|one| one.name.clone()).collect();
    served.retain(|one| one.holds.is_some());
    let before = |pair: &[&Seen]| format!("{} before {}", pair[0].name, pair[1].name);
    let overlap = |pair: &[&Seen]| {
        let end = pair[0].believes();
        end.is_none_or(|end| Some(end) > pair[1].holds)
    };
    let writes = record.writes.windows(2);
    let back = writes.filter(|pair| pair[1].1 < pair[0].1);
    let back = back.map(|pair| format!("{} after {}", pair[1].1, pair[0].1));
    [
        (
            "S1, S2: tokens rise in the order of the grants",
            pairs(&holders, |pair| pair[0].token >= pair[1].token, before),
        ),
        (
            "S3: no older token is accepted after a newer one",
            back.collect(),
        ),
        (
            "S8: no two hold at the same time",
            pairs(&holders, overlap, |pair| {
                format!("{} and {}", pair[0].name, pair[1].name)
            }),
        ),
        (
            "L3: served in the order of arrival",
            pairs(&served, |pair| pair[0].holds > pair[1].holds, before),
        ),
        ("L4: everybody in the queue is served", forgotten),
    ]
}

/// What is wrong with neighbours.
fn pairs(
    all: &[&Seen],
    is_wrong: impl Fn(&[&Seen]) -> bool,
    tell: impl Fn(&[&Seen]) -> String,
) -> Vec<String> {
    all.windows(2)
        .filter(|pair| is_wrong(pair))
        .map(tell)
        .collect()
}

/// What the story has to come to.
fn ends(record: &Record<'_>) -> [(&'static str, Vec<String>); 5] {
    let wrong = |is: bool, what: String| if is { vec![what] } else { Vec::new() };
    let ends = record.all.iter().enumerate().skip(1);
    let ends = ends.filter(|(number, one)| one.status != Seen::expected(*number));
    let refused = record.all[0]
        .refused
        .as_ref()
        .map_or("", |(_, error)| error);
    [
        (
            "the resource saw one inside at a time",
            wrong(
                record.overlaps > 0,
                format!("{} times it did not", record.overlaps),
            ),
        ),
        (
            "the resource refused the late write by its token",
            wrong(
                !refused.contains("Step.StaleToken"),
                format!("it said {refused}"),
            ),
        ),
        (
            "a killed function process cost nobody a place",
            wrong(
                record.all.iter().all(|one| one.killed.is_none()),
                "none was killed".to_owned(),
            ),
        ),
        (
            "every execution ended as it had to",
            ends.map(|(_, one)| format!("{} ended {}", one.name, one.status))
                .collect(),
        ),
        (
            "the key is free, and nobody waits",
            wrong(
                record.left["state"] != "free" || record.left["waiting"] != 0,
                record.left.to_string(),
            ),
        ),
    ]
}

/// The mean time from the end of an execution to the next grant, where there was no grace.
fn hand_over(record: &Record<'_>) -> f64 {
    let mut held: Vec<_> = record.all[1..]
        .iter()
        .filter(|one| one.holds.is_some())
        .collect();
    held.sort_by_key(|one| one.holds);
    let pairs = held
        .windows(2)
        .filter(|pair| pair[0].until() == pair[0].ended);
    let gaps = pairs.filter_map(|pair| pair[1].holds?.checked_sub(pair[0].ended?));
    let gaps: Vec<_> = gaps.map(|gap| record.seconds(record.began + gap)).collect();
    let count = u32::try_from(gaps.len().max(1)).unwrap_or(1);
    gaps.iter().sum::<f64>() / f64::from(count)
}

const FILES: [&str; 3] = ["report.json", "timeline.svg", "tokens.svg"];

/// Removes all files that exist.
pub(super) fn remove(out: &Path) {
    for file in FILES {
        let _ = std::fs::remove_file(out.join(file));
    }
}

/// Writes all files. Returns the text that lists them.
pub(super) fn write(out: &Path, record: &Record<'_>, report: &Report<'_>) -> Result<String, Error> {
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| Error::call("write the report", error))? + "\n";
    let texts = [json, picture::timeline(record), picture::tokens(record)];
    for (file, text) in FILES.iter().zip(texts) {
        let file = out.join(file);
        std::fs::write(&file, text).map_err(|source| Error::Io {
            what: format!("write {}", file.display()),
            source,
        })?;
    }
    let files = FILES.map(|file| format!("                {}", out.join(file).display()));
    Ok(format!("files{}", &files.join("\n")[5..]))
}
