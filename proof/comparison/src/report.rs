//! What is left of a run: `report.json`, one object a measure; `report.md`, the same as tables; and the charts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Part;

/// One measure, as it is in `report.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What was measured, so that it is understood by itself.
    pub name: String,
    /// What is counted: `requests`, `write units`, `transitions`, `instructions`, `ratio` …
    pub unit: String,
    /// The figure of this library.
    pub ours: f64,
    /// The others', by name, as far as they can do it at all.
    pub peers: BTreeMap<String, f64>,
    /// The most that ours may be, if something was promised.
    pub target: Option<f64>,
    /// Whether it is; nothing if nothing was promised.
    pub met: Option<bool>,
}

/// What is reported of a run: what it is, in what, how much, and the most that ours may be.
pub type Figure = (&'static str, &'static str, f64, Option<f64>);

impl Measure {
    /// A measure of ours alone, without a target.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: &str, ours: f64) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            ours: rounded(ours),
            peers: BTreeMap::new(),
            target: None,
            met: None,
        }
    }

    /// The same of somebody else.
    #[must_use]
    pub fn peer(mut self, name: &str, value: f64) -> Self {
        self.peers.insert(name.to_owned(), rounded(value));
        self
    }

    /// A figure of everybody's runs, the first of which is ours; without those of which it says nothing.
    #[must_use]
    pub fn of_all<T>(
        name: impl Into<String>,
        unit: &str,
        runs: &[(&'static str, T)],
        figure: impl Fn(&T) -> f64,
    ) -> Self {
        let mut values = runs.iter().map(|(who, run)| (*who, figure(run)));
        let ours = values.next().map_or(f64::NAN, |(_, value)| value);
        let peers = values.filter(|(_, value)| value.is_finite());
        peers.fold(Self::new(name, unit, ours), |all, (who, value)| {
            all.peer(who, value)
        })
    }

    /// Holds ours to `target` at most, if something was promised.
    #[must_use]
    pub fn held_to(self, target: Option<f64>) -> Self {
        match target {
            Some(target) => self.at_most(target),
            None => self,
        }
    }

    /// Holds ours to `target` at most. What cannot be computed misses it.
    #[must_use]
    pub fn at_most(mut self, target: f64) -> Self {
        self.target = Some(target);
        self.met = Some(self.ours <= target);
        self
    }
}

/// What a part answers.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its measures.
    pub measures: Vec<Measure>,
    /// Its charts, as SVG, by name.
    pub charts: Vec<(&'static str, String)>,
}

/// To three digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Measures as a Markdown table.
#[must_use]
pub fn table(measures: &[Measure]) -> String {
    let mut table = "| | unit | Leasehold | at most | others |\n|---|---|---|---|---|\n".to_owned();
    for measure in measures {
        let peers = measure.peers.iter();
        let peers: Vec<_> = peers
            .map(|(name, value)| format!("{name} {}", grouped(*value)))
            .collect();
        let target = match (measure.target, measure.met) {
            (Some(target), Some(true)) => grouped(target),
            (Some(target), _) => format!("{}, **missed**", grouped(target)),
            (None, _) => String::new(),
        };
        let ours = grouped(measure.ours);
        let Measure { name, unit, .. } = measure;
        let _ = writeln!(
            table,
            "| {name} | {unit} | {ours} | {target} | {} |",
            peers.join(" · ")
        );
    }
    table
}

/// A number with its thousands set apart.
#[must_use]
pub fn grouped(value: f64) -> String {
    let text = value.to_string();
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && whole.len() > 4 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

/// A number as it is read, not compared: to a tenth below a hundred, and whole above.
#[must_use]
pub fn short(value: f64) -> String {
    let tens = if value < 100.0 { 10.0 } else { 1.0 };
    grouped((value * tens).round() / tens)
}

/// Writes everything below `directory`.
pub fn write(directory: &Path, all: &[(Part, Found)]) {
    let measures: Vec<&Measure> = all.iter().flat_map(|(_, found)| &found.measures).collect();
    let json = serde_json::to_string_pretty(&measures).unwrap();
    put(&directory.join("report.json"), &format!("{json}\n"));
    let tables = all
        .iter()
        .map(|(part, found)| format!("## {}\n\n{}", part.name(), table(&found.measures)));
    put(
        &directory.join("report.md"),
        &tables.collect::<Vec<_>>().join("\n"),
    );
    charts(directory, all);
}

/// Puts each part's table into a document, and the charts into this directory.
pub fn write_into(document: &Path, pictures: &Path, all: &[(Part, Found)]) {
    for (part, found) in all {
        put_between(document, &part.name(), &table(&found.measures));
    }
    charts(pictures, all);
}

/// Puts a table into a document, between `<!-- measured: NAME -->` and `<!-- end of NAME -->`.
pub(crate) fn put_between(document: &Path, name: &str, table: &str) {
    let mut text = std::fs::read_to_string(document).unwrap();
    let (begin, end) = (
        format!("<!-- measured: {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (Some(from), Some(until)) = (text.find(&begin), text.find(&end)) else {
        panic!("{} has no place for {name}", document.display());
    };
    text.replace_range(from + begin.len()..until, &format!("\n{table}\n"));
    put(document, &text);
}

fn charts(directory: &Path, all: &[(Part, Found)]) {
    for (name, svg) in all.iter().flat_map(|(_, found)| &found.charts) {
        put(&directory.join(format!("{name}.svg")), svg);
    }
}

fn put(file: &Path, text: &str) {
    let directory = file.parent().unwrap();
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(file, text));
    written.unwrap_or_else(|error| panic!("could not write {}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_shows() {
        let measure = |ours| Measure::new("requests per acquire", "requests", ours).at_most(1.0);
        assert_eq!(measure(1.0).met, Some(true));
        assert_eq!(measure(f64::NAN).met, Some(false));
        let missed = measure(1234.5).peer("other", 12_345.0);
        assert!(table(&[missed]).ends_with(
            "| requests per acquire | requests | 1234.5 | 1, **missed** | other 12 345 |\n"
        ));
    }
}
