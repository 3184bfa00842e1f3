//! What a person reads at the end.

use super::measures::Figures;
use super::record::Record;
use super::report::Files;
use super::verdict::Check;
use super::view;
use super::{MARGIN_MS, SWEEP_EVERY};

/// The figures of the first act: a name and its value, line by line.
pub(super) fn rows(record: &Record, figures: &Figures) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let mut row = |name, value| rows.push((name, value));
    let statuses: Vec<_> = figures
        .executions_by_status
        .iter()
        .map(|(status, number)| format!("{number} {status}"))
        .collect();
    let requests = &figures.requests;
    row("executions", statuses.join(", "));
    row(
        "sections",
        format!(
            "{} done under {} leases; {} times told Lease.Held; {} extends",
            figures.sections_done, figures.grants, figures.refusals, figures.extends
        ),
    );
    row(
        "waits",
        format!(
            "mean {:.1} s, longest {:.1} s",
            figures.mean_wait_seconds, figures.longest_wait_seconds
        ),
    );
    row(
        "accidents",
        format!(
            "taken over {}, replayed {}, late writes refused {}",
            figures.takeovers, figures.replays, figures.stale_writes_refused
        ),
    );
    if !record.failures.is_empty() {
        row("errors met", record.failures.join("; "));
    }
    row(
        "DynamoDB",
        format!(
            "uncontended cycle: {} requests for the lease, {} for its work",
            requests.lease_table_uncontended, requests.resource_table_uncontended
        ),
    );
    row(
        "",
        format!(
            "this run: {} for {} leases ({} each, waiting included), {} of sweep, {} for the work",
            requests.lease_table_writes,
            figures.grants,
            requests.lease_table_per_grant,
            requests.lease_table_reads,
            requests.resource_table
        ),
    );
    row(
        "sweep",
        format!(
            "every {} s, freed by sweep {}: whoever waits for a lease usually takes it over first",
            SWEEP_EVERY.as_secs(),
            figures.swept
        ),
    );
    row(
        "settings",
        format!("ClockMarginMs {MARGIN_MS} instead of 2000, which one clock allows"),
    );
    rows
}

/// Prints the figures of an act, and whether it kept its promises.
pub(super) fn print(rows: &[(&str, String)], checks: &[Check]) {
    let figures = rows
        .iter()
        .map(|(name, value)| format!("{name:<16}{value}"));
    let mut lines: Vec<_> = [String::new()].into_iter().chain(figures).collect();
    lines.push(String::new());
    for check in checks {
        let kept = if check.violations.is_empty() {
            "ok"
        } else {
            "VIOLATED"
        };
        lines.push(format!("{kept:<10}{} ({})", check.name, check.seen));
        lines.extend(
            check
                .violations
                .iter()
                .map(|one| format!("          {one}")),
        );
    }
    lines.push(String::new());
    view::show(&(lines.join("\n") + "\n"));
}

/// Prints where the files are, and how long all of it took.
pub(super) fn print_end(files: &Files, seconds: f64) {
    view::show(&format!(
        "report          {}\npictures        {}\n                {}\ntime            {seconds:.1} s\n",
        files.report.display(),
        files.timeline.display(),
        files.line.display()
    ));
}
