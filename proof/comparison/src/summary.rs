//! The tables that a person reads, in README and in `docs/explain/performance.md`: each figure is computed from the long tables of
//! `docs/contributing/benchmark.md`, those in which ours costs more among them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::report::{grouped, put_between, short};

/// A table, and between which marks of which document it stands.
struct Summary {
    document: &'static str,
    mark: &'static str,
    /// The headings, and by which name the long tables know each.
    columns: &'static [(&'static str, &'static str)],
    rows: &'static [Row],
    written: fn(f64) -> String,
}

/// A label, and the measures of which the row is the sum, each times a factor.
type Row = (&'static str, &'static [(&'static str, f64)]);

/// Of workflows. Ours is known by the one that waits in the queue.
const WAYS: [(&str, &str); 4] = [
    ("Leasehold, one state", "Leasehold"),
    ("Leasehold, start", "started through the key"),
    ("AWS's semaphore sample", "AWS's semaphore"),
    ("plain Retry", "plain Retry"),
];

/// Ours first, by the names that they have among ours.
const ALL_WAYS: [(&str, &str); 6] = [
    ("one state", "Leasehold"),
    ("start", "started through the key"),
    ("with-lease", "with-lease"),
    ("critical-section", "polling"),
    ("AWS's sample", "AWS's semaphore"),
    ("plain Retry", "plain Retry"),
];

const LOCKS: [(&str, &str); 4] = [
    ("Leasehold", "Leasehold"),
    ("dynamodb-lease", "dynamodb-lease"),
    ("python_dynamodb_lock", "python_dynamodb_lock"),
    ("direct calls", "direct calls"),
];

macro_rules! of_32 {
    ($what:literal) => {
        (concat!($what, ", 32 executions for one key"), 1.0)
    };
}

const WAIT: Row = (
    "transitions for ten minutes of waiting",
    &[("transitions per ten minutes of waiting", 1.0)],
);
const STEP: Row = (
    "transitions of an execution with one step",
    &[of_32!("transitions per execution with one step")],
);
const REQUESTS: Row = (
    "requests to DynamoDB for each",
    &[of_32!("requests per execution, all in")],
);
const UNITS: Row = (
    "write units for each",
    &[of_32!("write units per execution, all in")],
);
const INVOCATIONS: Row = (
    "invocations for each, besides the step's",
    &[of_32!("invocations per execution, all in")],
);

/// By list prices of us-east-1, in dollars a million: see docs/reference/cost.md.
const TRANSITION: f64 = 25.0;
const WRITE_UNIT: f64 = 0.625;
const READ_UNIT: f64 = 0.125;
/// With its time and its logs.
const INVOCATION: f64 = 0.75;

macro_rules! dollars {
    ($label:literal, $crowd:literal) => {
        (
            $label,
            &[
                (
                    concat!("transitions per execution with one step, ", $crowd),
                    TRANSITION,
                ),
                (
                    concat!("write units per execution, all in, ", $crowd),
                    WRITE_UNIT,
                ),
                (
                    concat!("read units per execution, all in, ", $crowd),
                    READ_UNIT,
                ),
                (
                    concat!("invocations per execution, all in, ", $crowd),
                    INVOCATION,
                ),
            ],
        )
    };
}

const SUMMARIES: [Summary; 4] = [
    Summary {
        document: "README.md",
        mark: "summary",
        columns: &WAYS,
        rows: &[WAIT, STEP, REQUESTS, UNITS],
        written: short,
    },
    Summary {
        document: "docs/explain/performance.md",
        mark: "ways",
        columns: &ALL_WAYS,
        rows: &[WAIT, STEP, REQUESTS, UNITS, INVOCATIONS],
        written: short,
    },
    Summary {
        document: "docs/explain/performance.md",
        mark: "dollars",
        columns: &ALL_WAYS,
        rows: &[
            dollars!("2 for one key", "2 executions for one key"),
            dollars!("8 for one key", "8 executions for one key"),
            dollars!("32 for one key", "32 executions for one key"),
            dollars!("128 for one key", "128 executions for one key"),
            dollars!("32 of which 3 at once", "32 executions, 3 at once"),
            (
                "ten minutes of waiting more, for each",
                &[("transitions per ten minutes of waiting", TRANSITION)],
            ),
        ],
        written: in_dollars,
    },
    Summary {
        document: "docs/explain/performance.md",
        mark: "locks",
        columns: &LOCKS,
        rows: &[
            (
                "requests to acquire a free key",
                &[("requests per uncontended acquire", 1.0)],
            ),
            (
                "write units of acquire and release",
                &[
                    ("write units per uncontended acquire", 1.0),
                    ("write units per uncontended release", 1.0),
                ],
            ),
            (
                "requests until a lost response of acquire is settled",
                &[("requests until a lost answer is settled, acquire", 1.0)],
            ),
            (
                "lengths of the lease until a crashed holder's key is taken",
                &[("time to take over from a holder that crashed", 1.0)],
            ),
            (
                "requests for each of 32 waiters",
                &[(
                    "requests per served waiter, 32 waiters, from a program",
                    1.0,
                )],
            ),
            (
                "part of that time in which nobody had the key",
                &[(
                    "part of the time in which nobody was inside, 32 waiters, from a program",
                    1.0,
                )],
            ),
            (
                "pairs of them that were served out of turn",
                &[("pairs served out of turn, 32 waiters, from a program", 1.0)],
            ),
        ],
        written: fine,
    },
];

/// Writes every table, below this directory, from a document with the long tables of a run.
pub fn write_into(root: &Path, document: &Path) {
    let document = std::fs::read_to_string(document).unwrap();
    for summary in &SUMMARIES {
        let table = table(summary, &document);
        let table = table.unwrap_or_else(|name| panic!("no run has measured {name}"));
        put_between(&root.join(summary.document), summary.mark, &table);
    }
}

/// The table, of a document with the tables of a run, or the name of the first measure that is not in it.
fn table(summary: &Summary, document: &str) -> Result<String, String> {
    let measures: BTreeMap<_, _> = document.lines().filter_map(measure).collect();
    let headings: Vec<_> = summary
        .columns
        .iter()
        .map(|(heading, _)| *heading)
        .collect();
    let rule = "|---".repeat(summary.columns.len() + 1);
    let mut table = format!("| | {} |\n{rule}|\n", headings.join(" | "));
    for (label, parts) in summary.rows {
        let parts: Vec<_> = parts
            .iter()
            .map(|(name, factor)| Ok((measures.get(name).ok_or(*name)?, factor)))
            .collect::<Result<_, &str>>()?;
        let cells = summary.columns.iter().map(|(_, who)| {
            let values = parts
                .iter()
                .map(|(of, factor)| Some(of.get(who)? * **factor));
            let sum: Option<f64> = values.sum();
            sum.map_or_else(|| "–".to_owned(), summary.written)
        });
        let _ = writeln!(
            table,
            "| {label} | {} |",
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    Ok(table)
}

/// Whole dollars.
fn in_dollars(value: f64) -> String {
    format!("${}", grouped(value.round()))
}

/// To a hundredth.
fn fine(value: f64) -> String {
    grouped((value * 100.0).round() / 100.0)
}

/// What a row of a run's table says of everybody, if it is one.
fn measure(row: &str) -> Option<(&str, BTreeMap<&str, f64>)> {
    let cells: Vec<_> = row.strip_prefix("| ")?.split('|').map(str::trim).collect();
    let &[name, _, ours, _, peers, ""] = &cells[..] else {
        return None;
    };
    let mut values = BTreeMap::from([("Leasehold", number(ours)?)]);
    for peer in peers.split(" · ") {
        // Thousands are set apart by a blank, too.
        let figure = peer.trim_end_matches(|c: char| c.is_ascii_digit() || " .".contains(c));
        values.extend(number(&peer[figure.len()..]).map(|value| (figure, value)));
    }
    Some((name, values))
}

fn number(text: &str) -> Option<f64> {
    text.replace(' ', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use leasehold_proof::root;

    use super::*;

    #[test]
    fn pages_have_the_benchmarks_figures() {
        let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
        let measured = read("docs/contributing/benchmark.md");
        for summary in &SUMMARIES {
            let expected = table(summary, &measured).unwrap();
            let Summary { document, mark, .. } = summary;
            assert!(
                read(document).contains(&format!(
                    "<!-- measured: {mark} -->\n\n{expected}\n<!-- end of {mark} -->"
                )),
                "`make -C proof bench` writes {mark} of {document}; this is not it. Expected:\n{expected}"
            );
        }
    }

    #[test]
    fn row_sums_or_shows_dash() {
        let summary = |written, parts| Summary {
            document: "",
            mark: "",
            columns: &WAYS,
            rows: parts,
            written,
        };
        let measured = "| a | requests | 2.34 | | plain Retry 1 234.5 · polling 1 |\n| b | requests | 1 | | polling 7 |\n";
        let one = table(&summary(short, &[("one", &[("a", 1.0)])]), measured).unwrap();
        assert!(one.ends_with("| one | 2.3 | – | – | 1235 |\n"), "{one}");
        // The plain Retry has no figure of the second.
        let two: &[Row] = &[("two", &[("a", 1.0), ("b", 25.0)])];
        let two = table(&summary(in_dollars, two), measured).unwrap();
        assert!(two.ends_with("| two | $27 | – | – | – |\n"), "{two}");
    }

    #[test]
    fn missing_measure_is_named() {
        let name = SUMMARIES[0].rows[0].1[0].0;
        assert_eq!(table(&SUMMARIES[0], ""), Err(name.to_owned()));
    }
}
