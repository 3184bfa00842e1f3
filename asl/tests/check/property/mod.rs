//! Whenever `check` is silent, no execution outlasts its lease, forgets its release, or works without the lease it has elsewhere.
//!
//! Small definitions at random, in both languages, and a second opinion on each: [`execution`] goes through all their executions by
//! itself, second by second, knowing nothing of how `check` thinks. And the test can fail: with a rule left out it does.

mod definition;
mod execution;

use crate::checked;
use definition::{Definition, definitions};
use leasehold_asl::Rule;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::cell::Cell;

const CASES: u32 = 4000;
/// The rules that speak of what the second opinion looks at.
const PROVEN: [Rule; 4] = [
    Rule::NoRelease,
    Rule::Outlasts,
    Rule::Unbounded,
    Rule::WithoutLease,
];

/// The same cases in every run.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Runs the property with some rules left out; how many definitions were found sound, or what was overlooked.
fn sound(left_out: &[Rule]) -> Result<u32, String> {
    let silent = Cell::new(0);
    let run = runner(CASES).run(&definitions(), |definition| {
        if !is_silent(&definition, left_out) {
            return Ok(());
        }
        silent.set(silent.get() + 1);
        match execution::worst(&definition) {
            None => Ok(()),
            Some(fault) => Err(TestCaseError::fail(format!(
                "{fault}\n{:#}",
                definition.written()
            ))),
        }
    });
    run.map(|()| silent.get())
        .map_err(|error| error.to_string())
}

fn is_silent(definition: &Definition, left_out: &[Rule]) -> bool {
    let findings = checked(&definition.written()).findings;
    findings
        .iter()
        .all(|finding| left_out.contains(&finding.rule))
}

#[test]
fn silence_means_that_no_execution_outlasts_forgets_or_goes_without_its_lease() {
    let silent = sound(&[]).unwrap();
    // Not by being silent about nothing.
    assert!(silent > CASES / 20, "{silent} of {CASES}");
}

#[test]
fn with_a_rule_left_out_a_fault_is_overlooked() {
    for rule in PROVEN {
        assert!(
            sound(&[rule]).is_err(),
            "nothing is overlooked without {}",
            rule.id()
        );
    }
}

#[test]
fn most_of_what_is_found_is_there() {
    // The other way round nothing is promised, since the walk knows less than an execution. But it should not cry wolf.
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
