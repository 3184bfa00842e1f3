//! Whether the run kept its promises: those of the history, which the judge of all histories checks, and those of the demo's own
//! story.

use leasehold_local::history::{Promise, judge as judge_history};
use serde::Serialize;

use super::queue::Left;
use super::record::{Execution, Record};

/// One promise, and whether it was kept.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    /// The violations. Empty if the promise was kept.
    pub(super) violations: Vec<String>,
}

/// Checks the whole run.
pub(super) fn judge(record: &Record, left: &Left) -> Vec<Check> {
    let findings = judge_history(&record.history);
    let promises = Promise::ALL.map(|promise| {
        let of_it = findings.iter().filter(|finding| finding.promise == promise);
        Check {
            name: promise.to_string(),
            violations: of_it
                .map(|finding| format!("{}: {}", finding.key, finding.what))
                .collect(),
        }
    });
    let some = |count: u64, what: &str| {
        let some = (count > 0).then(|| format!("{count} {what}"));
        some.into_iter().collect()
    };
    let story: [(&str, Vec<String>); 4] = [
        (
            "the resource saw one holder at a time",
            some(record.overlaps, "times it did"),
        ),
        ("executions ended as expected", ends(record)),
        (
            "every invocation was seen",
            some(record.missed, "went by unseen"),
        ),
        (
            "the key is free, and nothing is left of the queue",
            left_over(left),
        ),
    ];
    let story = story.into_iter().map(|(name, violations)| Check {
        name: name.to_owned(),
        violations,
    });
    promises.into_iter().chain(story).collect()
}

/// Whether all promises were kept.
pub(super) fn passed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.violations.is_empty())
}

fn ends(record: &Record) -> Vec<String> {
    let wrong = |one: &&Execution| one.status != one.expected_status;
    let text = |one: &Execution| {
        let error = one.error.as_deref().unwrap_or("no error");
        format!(
            "{} ended {} ({error}), not {}",
            one.name, one.status, one.expected_status
        )
    };
    record.executions.iter().filter(wrong).map(text).collect()
}

fn left_over(left: &Left) -> Vec<String> {
    let mut violations = Vec::new();
    if left.key["state"] != "free" {
        violations.push(format!("the key is {}", left.key["state"]));
    }
    if left.key["waiting"] != 0 {
        violations.push(format!("{} wait", left.key["waiting"]));
    }
    if left.items > 1 {
        violations.push(format!("{} items in addition to the row", left.items - 1));
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cast::{contenders, waiters};
    use super::*;

    /// A correct run.
    fn kept() -> (Record, Left) {
        let mut record = Record::default();
        for role in contenders(8, 1).iter().chain(&waiters()) {
            record.start(role, &role.name);
        }
        for one in &mut record.executions {
            one.expected_status.clone_into(&mut one.status);
        }
        let left = Left {
            given_back: 0,
            key: json!({"state": "free", "waiting": 0}),
            items: 1,
        };
        (record, left)
    }

    #[test]
    fn each_broken_promise_of_the_story_is_reported() {
        type Change = fn(&mut Record, &mut Left);
        let cases: [(&str, Change); 7] = [
            ("", |_, _| {}),
            ("the resource saw one holder at a time", |r, _| {
                r.overlaps = 1;
            }),
            ("executions ended as expected", |r, _| {
                "FAILED".clone_into(&mut r.executions[0].status);
            }),
            ("every invocation was seen", |r, _| r.missed = 1),
            ("the key is free, and nothing", |_, l| l.items = 2),
            ("the key is free, and nothing", |_, l| {
                l.key["waiting"] = json!(1);
            }),
            ("the key is free, and nothing", |_, l| {
                l.key["state"] = json!("held");
            }),
        ];
        for (name, change) in cases {
            let (mut record, mut left) = kept();
            change(&mut record, &mut left);
            let checks = judge(&record, &left);
            let broken: Vec<_> = checks
                .iter()
                .filter(|one| !one.violations.is_empty())
                .collect();
            assert_eq!(
                broken.len(),
                usize::from(!name.is_empty()),
                "{name}: {broken:?}"
            );
            assert!(
                broken.iter().all(|one| one.name.starts_with(name)),
                "{name}: {broken:?}"
            );
        }
    }
}
