//! The report: the outcome of every check, as Markdown for an issue, or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use leasehold::Timestamp;
use serde::Serialize;

use super::checks::{Check, checks};

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Pass,
    /// The facts found instead.
    Fail(Vec<String>),
    /// Why the check could not be made.
    NotChecked(String),
}

impl Outcome {
    /// Passes if `found` is empty.
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

/// The result of a step of a check, or the check's outcome if the step failed.
pub(super) type Step<T> = Result<T, Outcome>;

/// The outcomes so far.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) stack: String,
    pub(super) region: String,
    pub(super) at: Timestamp,
    pub(super) read_only: bool,
    outcomes: BTreeMap<&'static str, Outcome>,
    skipped: Vec<String>,
    /// What remains in the table.
    pub(super) left: Option<String>,
    /// Texts that must not be printed, wherever they come from.
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

    /// Omits checks, whatever they find.
    pub(super) fn skip(&mut self, ids: Vec<String>) {
        self.skipped = ids;
    }

    /// Keeps a text out of the report.
    pub(super) fn keep_secret(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.secrets.push(secret.to_owned());
        }
    }

    /// Records the outcome of a check. A failure stays, whatever the same check records later.
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

    /// Records one outcome for several checks.
    pub(super) fn record_all(&mut self, ids: &[&'static str], outcome: &Outcome) {
        for id in ids {
            self.record(id, outcome.clone());
        }
    }

    fn outcome(&self, check: Check) -> Outcome {
        if self.skipped.iter().any(|id| id == check.id) {
            return Outcome::not_checked("omitted by --skip");
        }
        match self.outcomes.get(check.id) {
            Some(outcome) => outcome.clone(),
            None if self.read_only && check.takes_leases => {
                Outcome::not_checked("it takes leases, which --read-only forbids")
            }
            None => Outcome::not_checked("an earlier check failed"),
        }
    }

    /// What there is to report, without secrets.
    pub(super) fn answer(&self) -> Answer {
        let checks = checks().map(|check| {
            let (outcome, found) = match self.outcome(check) {
                Outcome::Pass => ("passed", Vec::new()),
                Outcome::Fail(found) => ("failed", found),
                Outcome::NotChecked(why) => ("not_checked", vec![why]),
            };
            ReportedCheck {
                check: check.id,
                promise: check.promise,
                says: check.says,
                outcome,
                action: (outcome == "failed").then_some(check.action),
                found: found.iter().map(|one| self.safe(one)).collect(),
            }
        });
        let checks: Vec<_> = checks.collect();
        let has_failed = checks.iter().any(|check| check.outcome == "failed");
        Answer {
            outcome: if has_failed { "failed" } else { "passed" },
            version: env!("CARGO_PKG_VERSION"),
            stack: self.stack.clone(),
            region: self.region.clone(),
            at: self.at,
            read_only: self.read_only,
            checks,
            left: self.left.as_deref().map(|left| self.safe(left)),
        }
    }

    /// Removes secrets and the account's number, because issues are public.
    fn safe(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "(secret)");
        }
        without_account(&text)
    }
}

/// Replaces account numbers: twelve digits, in an ARN, in the address of a queue, or alone.
fn without_account(text: &str) -> String {
    let is_number = |word: &str| word.len() == 12 && word.bytes().all(|b| b.is_ascii_digit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let words = words.map(|word| {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_number(bare) {
            word.replacen(bare, "ACCOUNT", 1)
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) outcome: &'static str,
    version: &'static str,
    stack: String,
    region: String,
    at: Timestamp,
    read_only: bool,
    checks: Vec<ReportedCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReportedCheck {
    check: &'static str,
    promise: &'static str,
    says: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
}

impl Answer {
    /// The report for people and for issues: failures first, with what to do.
    pub(super) fn markdown(&self) -> String {
        let of = |outcome| self.checks.iter().filter(move |one| one.outcome == outcome);
        let mut text = format!(
            "leasehold doctor {}: stack {}, {}, {}{}\n{} passed, {} failed, {} not checked\n",
            self.version,
            self.stack,
            self.region,
            self.at,
            if self.read_only { ", read-only" } else { "" },
            of("passed").count(),
            of("failed").count(),
            of("not_checked").count(),
        );
        for (heading, outcome, why) in [
            ("Failed", "failed", "found"),
            ("Not checked", "not_checked", "not checked"),
            ("Passed", "passed", ""),
        ] {
            if of(outcome).next().is_some() {
                let _ = write!(text, "\n## {heading}\n\n");
            }
            for one in of(outcome) {
                let (id, promise, says) = (one.check, one.promise, one.says);
                let _ = writeln!(text, "* **{id}** ({promise}) {says}");
                for found in &one.found {
                    let _ = writeln!(text, "  * {why}: {found}");
                }
                if let Some(action) = one.action {
                    let _ = writeln!(text, "  * do: {action}");
                }
            }
        }
        if let Some(left) = &self.left {
            let _ = write!(text, "\n{left}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(read_only: bool) -> Report {
        let at = Timestamp::from_millis(1_795_230_000_000);
        Report::new("leases".to_owned(), "eu-west-1".to_owned(), at, read_only)
    }

    #[test]
    fn failure_says_what_to_do() {
        let mut report = report(false);
        assert_eq!(report.answer().outcome, "passed");
        report.record("ttl", Outcome::fail("its TTL attribute is not purge_at"));
        report.record("ttl", Outcome::Pass);
        report.record("roles", Outcome::fail("a"));
        report.record("roles", Outcome::Fail(vec!["a".to_owned(), "b".to_owned()]));
        let answer = report.answer();
        assert_eq!(answer.outcome, "failed");
        let text = answer.markdown();
        let ttl = "* **ttl** (F10) The table's TTL purges a released row after the retention.\n  \
                   * found: its TTL attribute is not purge_at\n  * do: enable the table's TTL";
        assert!(text.contains(ttl), "{text}");
        assert!(text.contains("  * found: a\n  * found: b\n"), "{text}");
        assert!(text.contains("0 passed, 2 failed,"), "{text}");
    }

    #[test]
    fn skipped_check_says_why() {
        let mut report = report(true);
        report.skip(vec!["alarms".to_owned()]);
        report.record("alarms", Outcome::fail("none"));
        let answer = report.answer();
        assert_eq!(answer.outcome, "passed");
        let text = answer.markdown();
        assert!(text.contains("not checked: omitted by --skip"), "{text}");
        assert!(text.contains("which --read-only forbids"), "{text}");
    }

    #[test]
    fn report_hides_secrets_and_account() {
        let mut report = report(false);
        report.keep_secret("c0ffee");
        let said = "arn:aws:states:eu-west-1:123456789012:execution:a:b has c0ffee at \
                    https://sqs.eu-west-1.amazonaws.com/123456789012/q, 1234567890123";
        report.record("queue", Outcome::fail(said));
        let expected = "arn:aws:states:eu-west-1:ACCOUNT:execution:a:b has (secret) at \
                        https://sqs.eu-west-1.amazonaws.com/ACCOUNT/q, 1234567890123";
        let json = serde_json::to_string(&report.answer()).unwrap();
        for told in [report.answer().markdown(), json] {
            assert!(told.contains(expected) && !told.contains("c0ffee"));
        }
    }
}
