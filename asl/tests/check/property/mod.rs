//! If `check` has no findings, no execution outlasts its lease, ends without its release, or works without a lease that it has on
//! another path.
//!
//! The test generates small random definitions in both languages, and compares each with a second opinion: [`execution`] walks
//! through all executions, second by second, independently of `check`. The test fails if a rule is left out.

mod definition;
mod execution;

use crate::checked;
use crate::random::runner;
use definition::definitions;
use leasehold_asl::Rule;
use proptest::test_runner::TestCaseError;
use serde_json::Value;
use std::cell::Cell;

const CASES: u32 = 4000;
/// The rules that the second opinion covers.
const PROVEN: [Rule; 4] = [
    Rule::NoRelease,
    Rule::Outlasts,
    Rule::Unbounded,
    Rule::WithoutLease,
];

/// Runs the property without some rules. Returns how many definitions were sound, or the first overlooked fault.
fn sound(left_out: &[Rule]) -> Result<u32, String> {
    let silent = Cell::new(0);
    let run = runner(CASES).run(&definitions(), |definition| {
        if !is_silent(&definition, left_out) {
            return Ok(());
        }
        silent.set(silent.get() + 1);
        match execution::worst(&definition) {
            None => Ok(()),
            Some(fault) => Err(TestCaseError::fail(format!("{fault}\n{definition:#}"))),
        }
    });
    run.map(|()| silent.get())
        .map_err(|error| error.to_string())
}

fn is_silent(definition: &Value, left_out: &[Rule]) -> bool {
    let findings = checked(definition).findings;
    findings
        .iter()
        .all(|finding| left_out.contains(&finding.rule))
}

#[test]
fn machine_without_findings_keeps_lease() {
    let silent = sound(&[]).unwrap();
    // The silent cases must not be trivial.
    assert!(silent > CASES / 20, "{silent} of {CASES}");
}

#[test]
fn omitting_any_rule_overlooks_fault() {
    for rule in PROVEN {
        assert!(
            sound(&[rule]).is_err(),
            "nothing is overlooked without {}",
            rule.id()
        );
    }
}

#[test]
fn most_findings_are_real_faults() {
    // The reverse is not guaranteed, because the walk has less information than an execution. But false alarms must be rare.
    let (reported, real) = (Cell::new(0), Cell::new(0));
    let run = runner(CASES / 4).run(&definitions(), |definition| {
        let others: Vec<Rule> = Rule::ALL
            .iter()
            .copied()
            .filter(|rule| !PROVEN.contains(rule))
            .collect();
        if !is_silent(&definition, &others) {
            reported.set(reported.get() + 1);
            real.set(real.get() + u32::from(execution::worst(&definition).is_some()));
        }
        Ok(())
    });
    run.unwrap();
    assert!(
        real.get() * 100 >= reported.get() * 90,
        "{} of {}",
        real.get(),
        reported.get()
    );
}
