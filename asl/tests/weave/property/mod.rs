//! For any machine and section, weaving refuses, or its output has these properties: it passes the checker, weaving it again gives
//! the same text, its executions visit the author's states as those of the plain machine under the same outcomes, and it can be
//! woven by another specification.

mod machine;
mod walk;

use crate::random::{name, runner};
use leasehold_asl::weave::{Refusal, Spec, weave};
use leasehold_asl::{Options, Source, check};
use machine::{Machine, Section, machines};
use proptest::test_runner::TestCaseError;
use serde_json::Value;
use std::cell::Cell;

const CASES: u32 = 200;

fn woven(machine: &Machine, text: &str, section: &Section) -> Result<String, Refusal> {
    let spec = Spec::read(&Source::new("s.yaml", section.spec(machine.jsonata))).unwrap();
    let file = if machine.yaml { "m.yaml" } else { "m.json" };
    weave(&Source::new(file, text), &spec, &Options::default())
}

fn parsed(text: &str) -> Value {
    yaml_serde::from_str(text).unwrap()
}

/// Checks all properties of one machine and one section.
fn hold(machine: &Machine, first: &Section, second: &Section) -> Result<bool, String> {
    let plain = machine.text();
    let once = match woven(machine, &plain, first) {
        Ok(once) => once,
        Err(refusal) if refusal.internal => return Err(refusal.to_string()),
        Err(_) => return Ok(false),
    };
    let read = Source::new("m.yaml", once.as_str()).read().unwrap();
    let known = check(
        &Source::new("m.yaml", plain.as_str()).read().unwrap(),
        &Options::default(),
    )
    .findings;
    for finding in check(&read, &Options::default()).findings {
        if !known
            .iter()
            .any(|other| (other.rule, &other.message) == (finding.rule, &finding.message))
        {
            return Err(format!("{finding:?}"));
        }
    }
    if woven(machine, &once, first) != Ok(once.clone()) {
        return Err("woven again it is another".to_owned());
    }
    let members: Vec<String> = first.members.iter().map(|nth| name(*nth)).collect();
    let guarded = walk::Woven {
        members: &members,
        of_execution: first.ttl.is_none(),
    };
    for seed in 0..20 {
        let without = walk::walk(&machine.definition, seed, None)?;
        let with = walk::walk(&parsed(&once), seed, Some(guarded))?;
        if without != with {
            return Err(format!("{without:?}\n{with:?}"));
        }
    }
    let anew = woven(machine, &plain, second).map(|text| parsed(&text));
    let over = woven(machine, &once, second).map(|text| parsed(&text));
    match (anew, over) {
        (Ok(anew), Ok(over)) if anew == over => Ok(true),
        (Err(_), Err(_)) => Ok(true),
        (anew, over) => Err(format!("anew {anew:#?}\nover {over:#?}")),
    }
}

#[test]
fn woven_machine_is_sound_and_equivalent() {
    let done = Cell::new(0);
    let run = runner(CASES).run(&machines(), |(machine, first, second)| {
        match hold(&machine, &first, &second) {
            Ok(is_woven) => {
                done.set(done.get() + u32::from(is_woven));
                Ok(())
            }
            Err(why) => Err(TestCaseError::fail(format!(
                "{why}\n{}\n{}",
                first.spec(machine.jsonata),
                machine.text()
            ))),
        }
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    // Most random machines are refused, but enough are not.
    assert!(done.get() * 10 >= CASES, "{} woven", done.get());
}
