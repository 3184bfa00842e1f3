//! What a person reads at the end.

use super::measures::Figures;
use super::record::Record;
use super::report::Files;
use super::verdict::Check;
use super::{MARGIN_MS, SWEEP_EVERY};

/// Prints figures, verdict and where the files are.
pub(super) fn print(record: &Record, figures: &Figures, checks: &[Check], files: &Files) {
    let mut lines = vec![String::new()];
    let mut row = |name: &str, value: String| lines.push(format!("{name:<16}{value}"));
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
    lines.push(format!("report          {}", files.report.display()));
    lines.push(format!("timeline        {}", files.timeline.display()));
    lines.push(format!(
        "time            {:.1} s",
        record.seconds(super::facts::now())
    ));
    for line in lines {
        // Not `println!`, which panics when the reader has gone.
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"));
    }
}
