//! README's table: of each comparison one row, computed from the tables of `docs/contributing/benchmark.md`, with those in it in
//! which ours costs more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::report::{put_between, short};

/// The headings, and by which name the tables know each: ours is the one that waits in the queue.
const COLUMNS: [(&str, &str); 4] = [
    ("Leasehold, one state", "Leasehold"),
    ("Leasehold, start", "started through the key"),
    ("AWS's semaphore sample", "AWS's semaphore"),
    ("plain Retry", "plain Retry"),
];

/// The rows, and the measures of which each is the sum.
const ROWS: [(&str, &[&str]); 4] = [
    (
        "transitions for ten minutes of waiting",
        &["transitions per ten minutes of waiting"],
    ),
    (
        "transitions of an execution with one step",
        &["transitions per execution with one step, 32 executions for one key"],
    ),
    (
        "requests to DynamoDB for each",
        &["requests per execution, all in, 32 executions for one key"],
    ),
    (
        "write units for each",
        &["write units per execution, all in, 32 executions for one key"],
    ),
];

/// Puts the table into README, from a document with the tables of a run.
pub fn write_into(readme: &Path, document: &Path) {
    let document = std::fs::read_to_string(document).unwrap();
    let table = table(&document).unwrap_or_else(|name| panic!("no run has measured {name}"));
    put_between(readme, "summary", &table);
}

/// The table, of a document with the tables of a run.
///
/// # Errors
///
/// The name of the first measure that is not in the document.
pub fn table(document: &str) -> Result<String, String> {
    let measures: BTreeMap<_, _> = document.lines().filter_map(measure).collect();
    let headings: Vec<_> = COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let rule = "|---".repeat(COLUMNS.len() + 1);
    let mut table = format!("| | {} |\n{rule}|\n", headings.join(" | "));
    for (label, names) in ROWS {
        let mut sums = BTreeMap::new();
        for name in names {
            let values = measures.get(name).ok_or_else(|| (*name).to_owned())?;
            for (who, value) in values {
                *sums.entry(*who).or_insert(0.0) += value;
            }
        }
        let cells = COLUMNS.iter().map(|(_, who)| {
            let sum = sums.get(who);
            sum.map_or_else(|| "–".to_owned(), |sum| short(*sum))
        });
        let _ = writeln!(
            table,
            "| {label} | {} |",
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    Ok(table)
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
    fn readme_has_performance_pages_figures() {
        let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
        let expected = table(&read("docs/contributing/benchmark.md")).unwrap();
        let readme = read("README.md");
        assert!(
            readme.contains(&format!("-->\n\n{expected}\n<!--")),
            "`make -C proof bench` writes README's table; this is not it. Expected:\n{expected}"
        );
    }

    #[test]
    fn row_sums_or_shows_dash() {
        let names = ROWS.iter().flat_map(|(_, names)| *names);
        let rows =
            names.map(|name| format!("| {name} | requests | 2.34 | | plain Retry 1 234.5 |"));
        let table = table(&rows.collect::<Vec<_>>().join("\n")).unwrap();
        let row = |label: &str| {
            let row = table.lines().find(|line| line.contains(label));
            row.unwrap().to_owned()
        };
        assert!(
            row("ten minutes").ends_with(" | 2.3 | – | – | 1235 |"),
            "{table}"
        );
    }

    #[test]
    fn missing_measure_is_named() {
        assert_eq!(table(""), Err(ROWS[0].1[0].to_owned()));
    }
}
