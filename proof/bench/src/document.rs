//! The figures of a run in a document that is written by hand: between two marks, and nowhere else.

use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum;

use crate::Error;
use crate::error::io;
use crate::measures::Measure;
use crate::parts::{Found, Part};
use crate::report::put;

/// The place of everything that is held to a target.
const TARGETS: &str = "targets";

/// Writes the figures of these parts into `document`, each between the marks of its part, and the pictures beside it, into
/// a directory of its name in small letters. What has no marks stays out, and what is not among the parts stays as it is.
///
/// # Errors
/// [`Error::Io`] when the document cannot be read or something cannot be written.
pub fn write(document: &Path, parts: &[(Part, Found)]) -> Result<(), Error> {
    let name = document.display();
    let mut text = std::fs::read_to_string(document).map_err(io(format!("read {name}")))?;
    let judged = parts.iter().flat_map(|(_, found)| &found.measures);
    let judged: Vec<&Measure> = judged.filter(|measure| measure.target.is_some()).collect();
    // Some parts do not replace what all of them came to.
    if parts.len() == Part::value_variants().len() {
        text = between(&text, TARGETS, &table(&judged));
    }
    let directory = document.with_extension("").to_string_lossy().to_lowercase();
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory).map_err(io(format!("create {}", directory.display())))?;
    // What could not be measured stays as it was.
    for (part, found) in parts.iter().filter(|(_, found)| !found.measures.is_empty()) {
        let others: Vec<&Measure> = found.measures.iter().collect();
        text = between(&text, part.told(), &table(&others));
        for picture in &found.pictures {
            put(directory, &format!("{}.svg", picture.name), &picture.svg)?;
        }
    }
    std::fs::write(document, text).map_err(io(format!("write {name}")))
}

/// `text` with `new` between the marks of `name`, if it has them.
fn between(text: &str, name: &str, new: &str) -> String {
    let (begin, end) = (
        format!("<!-- measured: {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let found = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    match found {
        Some((before, after)) => format!("{before}{begin}\n{new}\n{end}{after}"),
        None => text.to_owned(),
    }
}

/// The most who have a column each; more are told in one.
const COLUMNS: usize = 4;

/// The measures, a row each, with a column for everybody who is in one of them.
fn table(measures: &[&Measure]) -> String {
    let peers: BTreeSet<&str> = measures
        .iter()
        .flat_map(|measure| measure.peers.keys().map(String::as_str))
        .collect();
    let judged = measures.iter().any(|measure| measure.target.is_some());
    let crowded = peers.len() > COLUMNS;
    let mut head = vec!["", "unit", "Leasehold"];
    if crowded {
        head.push("others");
    } else {
        head.extend(&peers);
    }
    if judged {
        head.extend(["at most", "met"]);
    }
    let mut rows = vec![row(&head), row(&vec!["---"; head.len()])];
    let mut notes: Vec<&str> = Vec::new();
    for measure in measures {
        let mark = measure.note.as_deref().map(|note| {
            let known = notes.iter().position(|other| *other == note);
            known.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            }) + 1
        });
        let mark = mark.map_or_else(String::new, |mark| format!(" ({mark})"));
        let mut cells = vec![
            format!("{}{mark}", measure.name),
            measure.unit.clone(),
            figure(measure.ours),
        ];
        if crowded {
            let others = measure.peers.iter();
            let others = others.map(|(name, value)| format!("{name} {}", figure(*value)));
            cells.push(others.collect::<Vec<_>>().join("; "));
        } else {
            cells.extend(peers.iter().map(|peer| {
                let value = measure.peers.get(*peer).copied();
                value.map_or_else(String::new, figure)
            }));
        }
        if judged {
            cells.push(measure.target.map_or_else(String::new, figure));
            cells.push(match measure.met {
                Some(true) => "yes".to_owned(),
                Some(false) => "**no**".to_owned(),
                None => String::new(),
            });
        }
        rows.push(row(&cells));
    }
    let numbered = notes.iter().zip(1..);
    let notes: Vec<String> = numbered.map(|(note, n)| format!("({n}) {note}")).collect();
    if !notes.is_empty() {
        rows.extend([String::new(), notes.join("; ") + "."]);
    }
    rows.join("\n") + "\n"
}

fn row(cells: &[impl AsRef<str>]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// As people read it: `1 980 829`, `3`, `0.25`.
fn figure(value: f64) -> String {
    let text = if value.abs() < 10.0 {
        format!("{:.3}", (value * 1000.0).round() / 1000.0)
    } else if value.abs() < 100.0 {
        format!("{:.2}", (value * 100.0).round() / 100.0)
    } else {
        format!("{value:.0}")
    };
    let text = match text.split_once('.') {
        Some((whole, part)) if part.trim_end_matches('0').is_empty() => whole.to_owned(),
        Some((whole, part)) => format!("{whole}.{}", part.trim_end_matches('0')),
        None => text,
    };
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    if part.is_empty() {
        grouped
    } else {
        format!("{grouped}.{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_people_read_them() {
        for (value, told) in [
            (0.0, "0"),
            (3.0, "3"),
            (2.5, "2.5"),
            (0.1264, "0.126"),
            (12.346, "12.35"),
            (99.996, "100"),
            (1234.5, "1 234"),
            (1_980_829.0, "1 980 829"),
            (-0.02, "-0.02"),
            (-1500.0, "-1 500"),
        ] {
            assert_eq!(figure(value), told);
        }
    }

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let text = "a\n<!-- measured: x -->\nold\n<!-- end of x -->\nb\n";
        let new = between(text, "x", "new");
        assert_eq!(
            new,
            "a\n<!-- measured: x -->\n\nnew\n<!-- end of x -->\nb\n"
        );
        assert_eq!(between(&new, "x", "new"), new);
        assert_eq!(between(text, "y", "new"), text);
    }

    #[test]
    fn a_table_has_a_column_for_everybody_and_its_notes_below() {
        let one = Measure::new("one", "requests", 1.0)
            .peer("b", 2.0)
            .at_most(1.0);
        let two = Measure::new("two", "bytes", 9.0).peer("a", 1.5).note("n");
        let three = Measure::new("three", "bytes", 9.0).note("n");
        let lines = [
            "|  | unit | Leasehold | a | b | at most | met |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            "| one | requests | 1 |  | 2 | 1 | yes |",
            "| two (1) | bytes | 9 | 1.5 |  |  |  |",
            "| three (1) | bytes | 9 |  |  |  |  |",
            "",
            "(1) n.",
        ];
        assert_eq!(table(&[&one, &two, &three]), lines.join("\n") + "\n");
    }

    #[test]
    fn many_others_share_a_column() {
        let names = ["a", "b", "c", "d", "e"].into_iter();
        let many = names.fold(Measure::new("many", "bytes", 1.0), |measure, name| {
            measure.peer(name, 2.0)
        });
        let lines = [
            "|  | unit | Leasehold | others |",
            "| --- | --- | --- | --- |",
            "| many | bytes | 1 | a 2; b 2; c 2; d 2; e 2 |",
        ];
        assert_eq!(table(&[&many]), lines.join("\n") + "\n");
    }
}
