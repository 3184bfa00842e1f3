//! The tables on the terminal.

use std::fmt::Write;

use super::cost::Cost;
use super::figures::Figures;
use super::keeps_up;
use super::load::Loaded;
use super::rows::Rows;
use crate::ratio;

impl Figures {
    /// All tables, one below the other.
    #[must_use]
    pub fn told(&self) -> String {
        let lines = self.lines.iter().map(|depth| {
            let steps = [&depth.join, &depth.leave, &depth.hand_over, &depth.confirm];
            (depth.waiting.to_string(), steps.to_vec())
        });
        let permits = self.permits.iter().map(|found| {
            let steps = [
                &found.first,
                &found.last,
                &found.full,
                &found.free,
                &found.release,
            ];
            (found.permits.to_string(), steps.to_vec())
        });
        let several = self.several.iter().map(|set| {
            let steps = [&set.acquire, &set.extend, &set.release, &set.held];
            (set.keys.to_string(), steps.to_vec())
        });
        let tables = [
            rows(&self.rows),
            table("waiting", &["join", "leave", "hand over", "confirm"], lines),
            table(
                "permits",
                &["first", "last", "full", "free again", "release"],
                permits,
            ),
            table(
                "keys at once",
                &["acquire", "extend", "release", "refused"],
                several,
            ),
            LEGEND.to_owned(),
            String::new(),
            keeps_up::told(&self.keeps_up),
            loads(&self.loads),
        ];
        tables.join("\n")
    }
}

/// What stands in a cell.
const LEGEND: &str = "in each cell: requests / bytes both ways / write units (w), read units (r)";

/// An operation in a line, a table in a column.
fn rows(rows: &[Rows]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!("{:<28}", "beside so many free rows");
    for rows in rows {
        let _ = write!(text, "{:>32}", rows.free);
    }
    text.push('\n');
    for (index, step) in first.steps.iter().enumerate() {
        let _ = write!(text, "{:<28}", step.what);
        for rows in rows {
            let cost = rows.steps.get(index).map(|step| cell(&step.cost));
            let _ = write!(text, "{:>32}", cost.unwrap_or_default());
        }
        let _ = writeln!(text, "   {}", step.cost.operations());
    }
    let _ = write!(text, "{:<28}", "scan of the table");
    for rows in rows {
        let _ = write!(text, "{:>32}", cell(&rows.scan));
    }
    let filled = rows.iter().map(|rows| rows.filled_in_seconds.to_string());
    let filled: Vec<String> = filled.collect();
    let _ = writeln!(text, "\n(filled in {} s)", filled.join(", "));
    text
}

/// A line for each number, an operation in a column.
fn table<'a>(
    what: &str,
    steps: &[&str],
    found: impl Iterator<Item = (String, Vec<&'a Cost>)>,
) -> String {
    let mut text = format!("{what:<14}");
    for step in steps {
        let _ = write!(text, "{step:>32}");
    }
    text.push('\n');
    for (number, costs) in found {
        let _ = write!(text, "{number:<14}");
        for cost in costs {
            let _ = write!(text, "{:>32}", cell(cost));
        }
        text.push('\n');
    }
    text
}

fn cell(cost: &Cost) -> String {
    let mut text = format!("{} / {}", cost.requests, cost.bytes());
    for (units, letter) in [(cost.units.write, 'w'), (cost.units.read, 'r')] {
        if units > 0.0 {
            let _ = write!(text, " / {units}{letter}");
        }
    }
    text
}

/// A load in a line.
fn loads(loads: &[Loaded]) -> String {
    let mut text = format!(
        "{:<16}{:>10}{:>6}{:>10}{:>9}{:>13}{:>18}{:>10}{:>8}{:>8}{:>11}\n",
        "under load",
        "processes",
        "zipf",
        "sections",
        "refused",
        "req/section",
        "less the refused",
        "overlaps",
        "tokens",
        "errors",
        "sections/s"
    );
    for run in loads {
        let _ = writeln!(
            text,
            "{:<16}{:>10}{:>6}{:>10}{:>9}{:>13.3}{:>18.3}{:>10}{:>8}{:>8}{:>11.0}",
            run.load.name.as_peer(),
            run.load.processes,
            run.load.exponent,
            run.sections,
            run.refused,
            ratio(run.cost.requests, run.sections),
            run.per_section(),
            run.overlaps,
            run.tokens_back,
            run.failed(),
            run.per_second
        );
        for (error, times) in &run.errors {
            let _ = writeln!(text, "  {times} times: {error}");
        }
    }
    text
}
