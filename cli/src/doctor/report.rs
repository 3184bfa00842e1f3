//! The report: an outcome for every check, as Markdown to paste into an issue, or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use leasehold::Timestamp;
use serde::Serialize;

use super::checks::{By, CHECKS, Check};

/// What a check has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Pass,
    /// What was found instead, one fact each.
    Fail(Vec<String>),
    /// Why it could not be told.
    NotChecked(String),
}

impl Outcome {
    /// Passes when nothing was found wrong.
    pub(super) fn of(found: Vec<String>) -> Self {
        if found.is_empty() {
            Self::Pass
        } else {
            Self::Fail(found)
        }
    }

    pub(super) fn fail(found: impl Into<String>) -> Self {
        Self::Fail(vec![found.into()])
    }

    pub(super) fn not_checked(why: impl Into<String>) -> Self {
        Self::NotChecked(why.into())
    }
}

/// What has been found so far.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) stack: String,
    pub(super) region: String,
    pub(super) at: Timestamp,
    pub(super) read_only: bool,
    outcomes: BTreeMap<&'static str, Outcome>,
    skipped: Vec<String>,
    /// What was left in the table.
    pub(super) left: Option<String>,
    /// What may not be printed, whoever said it.
    secrets: Vec<String>,
}

impl Report {
    pub(super) fn new(stack: String, region: String, at: Timestamp, read_only: bool) -> Self {
        Self {
            stack,
            region,
            at,
            read_only,
            outcomes: BTreeMap::new(),
            skipped: Vec::new(),
            left: None,
            secrets: Vec::new(),
        }
    }

    /// Leaves checks out, whatever they find.
    pub(super) fn skip(&mut self, ids: Vec<String>) {
        self.skipped = ids;
    }

    /// Keeps a text out of the report.
    pub(super) fn keep_secret(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.secrets.push(secret.to_owned());
        }
    }

    /// Records what a check has shown. A failure stays, whatever the same check shows later.
    pub(super) fn record(&mut self, id: &'static str, outcome: Outcome) {
        match (self.outcomes.get_mut(id), outcome) {
            (Some(Outcome::Fail(before)), Outcome::Fail(more)) => {
                for one in more {
                    if !before.contains(&one) {
                        before.push(one);
                    }
                }
            }
            (Some(Outcome::Fail(_)), _) => {}
            (_, outcome) => {
                self.outcomes.insert(id, outcome);
            }
        }
    }

    fn outcome(&self, check: &Check) -> Outcome {
        if self.skipped.iter().any(|id| id == check.id) {
            return Outcome::not_checked("left out by --skip");
        }
        match self.outcomes.get(check.id) {
            Some(outcome) => outcome.clone(),
            None if self.read_only && check.by == By::Doing => {
                Outcome::not_checked("it takes leases, which --read-only forbids")
            }
            None => Outcome::not_checked("a check before it failed"),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        let mut outcomes = CHECKS.iter().map(|check| self.outcome(check));
        outcomes.any(|outcome| matches!(outcome, Outcome::Fail(_)))
    }

    /// The report for people and for issues: failures first, with what to do.
    pub(super) fn markdown(&self) -> String {
        let rows: Vec<_> = CHECKS
            .iter()
            .map(|check| (check, self.outcome(check)))
            .collect();
        let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|(_, o)| is(o)).count();
        let failed = count(|outcome| matches!(outcome, Outcome::Fail(_)));
        let unchecked = count(|outcome| matches!(outcome, Outcome::NotChecked(_)));
        let passed = rows.len() - failed - unchecked;
        let mut told = format!(
            "leasehold doctor {}: stack {}, {}, {}{}\n{passed} passed, {failed} failed, {unchecked} not checked\n",
            env!("CARGO_PKG_VERSION"),
            self.stack,
            self.region,
            self.at,
            if self.read_only { ", read-only" } else { "" },
        );
        let mut section = |heading: &str, is: fn(&Outcome) -> bool| {
            let mut rows = rows.iter().filter(|(_, outcome)| is(outcome)).peekable();
            if rows.peek().is_none() {
                return;
            }
            let _ = write!(told, "\n{heading}\n\n");
            for (check, outcome) in rows {
                let Check {
                    id,
                    promise,
                    says,
                    action,
                    ..
                } = check;
                let _ = writeln!(told, "* **{id}** ({promise}) {says}");
                match outcome {
                    Outcome::Pass => {}
                    Outcome::Fail(found) => {
                        for one in found {
                            let _ = writeln!(told, "  * found: {one}");
                        }
                        let _ = writeln!(told, "  * do: {action}");
                    }
                    Outcome::NotChecked(why) => {
                        let _ = writeln!(told, "  * not checked: {why}");
                    }
                }
            }
        };
        section("## Failed", |outcome| matches!(outcome, Outcome::Fail(_)));
        section("## Not checked", |outcome| {
            matches!(outcome, Outcome::NotChecked(_))
        });
        section("## Passed", |outcome| matches!(outcome, Outcome::Pass));
        if let Some(left) = &self.left {
            let _ = write!(told, "\n{left}\n");
        }
        self.safe(&told)
    }

    /// The report for programs.
    pub(super) fn json(&self) -> Told {
        let checks = CHECKS.iter().map(|check| {
            let (outcome, found) = match self.outcome(check) {
                Outcome::Pass => ("passed", Vec::new()),
                Outcome::Fail(found) => ("failed", found),
                Outcome::NotChecked(why) => ("not_checked", vec![why]),
            };
            let found: Vec<_> = found.iter().map(|one| self.safe(one)).collect();
            ToldCheck {
                check: check.id,
                promise: check.promise,
                says: check.says,
                outcome,
                action: (outcome == "failed").then_some(check.action),
                found,
            }
        });
        Told {
            outcome: if self.has_failed() {
                "failed"
            } else {
                "passed"
            },
            version: env!("CARGO_PKG_VERSION"),
            stack: self.stack.clone(),
            region: self.region.clone(),
            at: self.at,
            read_only: self.read_only,
            checks: checks.collect(),
            left: self.left.as_deref().map(|left| self.safe(left)),
        }
    }

    /// Without secrets, and without the account's number, since issues are public.
    fn safe(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "(secret)");
        }
        without_account(&text)
    }
}

/// An account's number is what stands between two colons of an ARN and has twelve digits.
fn without_account(text: &str) -> String {
    let is_number = |part: &str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split(':');
    let parts: Vec<_> = parts
        .map(|part| if is_number(part) { "ACCOUNT" } else { part })
        .collect();
    parts.join(":")
}

#[derive(Debug, Serialize)]
pub(super) struct Told {
    outcome: &'static str,
    version: &'static str,
    stack: String,
    region: String,
    at: Timestamp,
    read_only: bool,
    checks: Vec<ToldCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

#[derive(Debug, Serialize)]
struct ToldCheck {
    check: &'static str,
    promise: &'static str,
    says: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(read_only: bool) -> Report {
        let at = Timestamp::from_millis(1_795_230_000_000);
        Report::new("leases".to_owned(), "eu-west-1".to_owned(), at, read_only)
    }

    #[test]
    fn a_failure_says_what_was_found_and_what_to_do_and_stays() {
        let mut report = report(false);
        assert!(!report.has_failed());
        report.record("ttl", Outcome::fail("its TTL attribute is not purge_at"));
        report.record("ttl", Outcome::Pass);
        report.record("roles", Outcome::fail("a"));
        report.record("roles", Outcome::Fail(vec!["a".to_owned(), "b".to_owned()]));
        assert!(report.has_failed());
        let told = report.markdown();
        let ttl = "* **ttl** (F10) A row that was released is purged after the retention, by the table's TTL.\n  \
                   * found: its TTL attribute is not purge_at\n  * do: switch the table's TTL on";
        assert!(told.contains(ttl), "{told}");
        assert!(told.contains("  * found: a\n  * found: b\n"), "{told}");
        assert!(told.contains("0 passed, 2 failed,"), "{told}");
        let json = serde_json::to_value(report.json()).unwrap();
        assert_eq!(json["outcome"], "failed");
    }

    #[test]
    fn what_was_left_out_is_no_failure_and_says_why() {
        let mut report = report(true);
        report.skip(vec!["alarms".to_owned()]);
        report.record("alarms", Outcome::fail("none"));
        assert!(!report.has_failed());
        let told = report.markdown();
        assert!(told.contains("not checked: left out by --skip"), "{told}");
        assert!(told.contains("which --read-only forbids"), "{told}");
    }

    #[test]
    fn neither_secrets_nor_the_account_are_told() {
        let mut report = report(false);
        report.keep_secret("c0ffee");
        let said = "arn:aws:states:eu-west-1:123456789012:execution:a:b has c0ffee at 123456789012";
        report.record("queue", Outcome::fail(said));
        let expected =
            "arn:aws:states:eu-west-1:ACCOUNT:execution:a:b has (secret) at 123456789012";
        assert!(report.markdown().contains(expected));
        let json = serde_json::to_string(&report.json()).unwrap();
        assert!(json.contains(expected) && !json.contains("c0ffee"));
    }
}
