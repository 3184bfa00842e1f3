//! The report as text, as JSON, and as SARIF for code scanning.

use crate::check::checker::Checked;
use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::escape::{plain, plain_lines};
use crate::read::source::{Source, Unreadable};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A definition that was checked.
#[derive(Debug)]
pub struct Report {
    /// The source of the definition.
    pub source: Source,
    /// The resource of the template, if the definition is in one.
    pub resource: Option<String>,
    /// The result.
    pub checked: Checked,
}

/// Text: each finding with its line, a caret below the place, its path and the cure. The last line has the counts.
#[must_use]
pub fn human(reports: &[Report], unreadable: &[Unreadable], colour: bool) -> String {
    let red = |text: &str| {
        if colour {
            format!("\x1b[1;31m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let mut out = String::new();
    for error in unreadable {
        let error = plain(&error.to_string());
        _ = writeln!(out, "{}: {error}\n", red("unreadable"));
    }
    for report in reports {
        for finding in &report.checked.findings {
            out += &shown(&report.source, finding, &red);
        }
    }
    out + &summary(reports, unreadable)
}

/// A finding: its line, a caret below the place, its path and the cure.
fn shown(source: &Source, finding: &Finding, red: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let place = source.place(finding.at.start);
    let (line, width) = source.line(finding.at);
    let name = plain(&source.name);
    let who = if finding.state.is_empty() {
        String::new()
    } else {
        format!("{}: ", plain(&finding.state))
    };
    _ = writeln!(
        out,
        "{name}:{}:{}: {}: {who}{}",
        place.line,
        place.column,
        red(finding.rule.id()),
        plain(&finding.message)
    );
    let number = place.line.to_string();
    let gap = " ".repeat(number.len());
    let before_line = line.as_ptr().addr() - source.text.as_ptr().addr();
    let (line, shift) = cut(line, finding.at.start.saturating_sub(before_line));
    let part = |from: usize, count: usize| {
        plain_lines(&line.chars().skip(from).take(count).collect::<String>())
    };
    let before: String = part(0, shift)
        .chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let carets = "^".repeat(part(shift, width).chars().count().max(1));
    _ = writeln!(
        out,
        "  {number} | {}\n  {gap} | {before}{}",
        plain_lines(&line),
        red(&carets)
    );
    if finding.path.len() > 1 {
        _ = writeln!(out, "  {gap} = path: {}", plain(&finding.trail()));
    }
    _ = writeln!(out, "  {gap} = cure: {}\n", finding.rule.remedy());
    out
}

/// The last line, with the counts.
fn summary(reports: &[Report], unreadable: &[Unreadable]) -> String {
    let findings = reports
        .iter()
        .map(|report| report.checked.findings.len())
        .sum::<usize>();
    let states: usize = reports.iter().map(|report| report.checked.states).sum();
    let acquires: usize = reports.iter().map(|report| report.checked.acquires).sum();
    let counted = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    let what = match (findings, reports) {
        (0, []) => "nothing was checked".to_owned(),
        (0, _) => "nothing found".to_owned(),
        _ => counted(findings, "finding", "findings"),
    };
    format!(
        "check: {what} in {}, {}, {}{}\n",
        counted(reports.len(), "state machine", "state machines"),
        counted(states, "state", "states"),
        counted(acquires, "acquire", "acquires"),
        if unreadable.is_empty() {
            String::new()
        } else {
            format!("; {} not read", counted(unreadable.len(), "file", "files"))
        }
    )
}

/// The part of a line around a byte that fits a screen, and how many characters of that part precede the byte. A definition may
/// be on a single line.
fn cut(line: &str, at: usize) -> (String, usize) {
    const WIDTH: usize = 160;
    let at = line.floor_char_boundary(at);
    let is_long = line.chars().nth(WIDTH).is_some();
    let before = line[..at].char_indices().rev().nth(WIDTH / 4 - 1);
    let from = before.filter(|_| is_long).map_or(0, |(from, _)| from);
    let shown = line[from..].chars().take(WIDTH).collect();
    (shown, line[from..at].chars().count())
}

/// JSON: one object.
#[must_use]
pub fn json(reports: &[Report], unreadable: &[Unreadable]) -> Value {
    let machines: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "file": report.source.name,
                "resource": report.resource,
                "states": report.checked.states,
                "acquires": report.checked.acquires,
                "findings": report.checked.findings.iter().map(|finding| one(&report.source, finding)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let errors: Vec<Value> = unreadable
        .iter()
        .map(|error| {
            json!({
                "file": error.name,
                "line": error.place.map(|place| place.line),
                "column": error.place.map(|place| place.column),
                "message": error.message,
            })
        })
        .collect();
    json!({ "machines": machines, "unreadable": errors })
}

fn one(source: &Source, finding: &Finding) -> Value {
    let place = source.place(finding.at.start);
    json!({
        "rule": finding.rule.id(),
        "state": finding.state,
        "message": finding.message,
        "line": place.line,
        "column": place.column,
        "path": finding.path,
        "cure": finding.rule.remedy(),
    })
}

/// SARIF 2.1.0, for code scanning.
#[must_use]
pub fn sarif(reports: &[Report], unreadable: &[Unreadable]) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id(),
                "shortDescription": { "text": rule.statement() },
                "help": { "text": rule.remedy() },
                "defaultConfiguration": { "level": "error" },
            })
        })
        .collect();
    let results = reports.iter().flat_map(|report| {
        let findings = report.checked.findings.iter();
        findings.map(|finding| result(&report.source, finding))
    });
    let results: Vec<Value> = results.collect();
    let notes: Vec<Value> = unreadable
        .iter()
        .map(|error| json!({ "level": "error", "message": { "text": error.to_string() } }))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "leasehold-check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{ "executionSuccessful": unreadable.is_empty(), "toolExecutionNotifications": notes }],
            "results": results,
        }],
    })
}

fn result(source: &Source, finding: &Finding) -> Value {
    let place = source.place(finding.at.start);
    let (_, width) = source.line(finding.at);
    let index = Rule::ALL.iter().position(|rule| *rule == finding.rule);
    let path = if finding.path.len() > 1 {
        format!(" Path: {}.", finding.trail())
    } else {
        String::new()
    };
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": index,
        "level": "error",
        "message": { "text": format!("{}: {}.{path}", finding.state, finding.message) },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": source.name.replace('\\', "/").replace(' ', "%20") },
                "region": {
                    "startLine": place.line,
                    "startColumn": place.column,
                    "endLine": place.line,
                    "endColumn": place.column + width,
                },
            },
            "logicalLocations": [{ "fullyQualifiedName": finding.state }],
        }],
    })
}
