//! A slice of the hostile events; `make hostile` runs a million of them.

use leasehold_hostile::{Function, census, events};

const SEED: u64 = 1;

#[test]
fn a_hostile_event_is_refused_by_name_and_writes_nothing_and_shows_nothing() {
    let census = census::take(0..30_000, |number| {
        let case = events::case(SEED, number);
        let end = events::judge(case.function, &case.event)?;
        Ok(format!("{} {end}", case.function))
    });
    assert_eq!(census.faults, [], "make hostile shows more");
    // They are hostile, and they get further than the first check.
    for function in Function::ALL {
        let invalid = format!("{function} Lease.Invalid");
        let ends = census.ends.iter();
        let ours = ends.filter(|(end, _)| end.starts_with(function.name()));
        let others: u64 = ours
            .filter(|(end, _)| **end != invalid)
            .map(|(_, times)| times)
            .sum();
        assert!(census.ends[&invalid] > 100 && others > 100, "{census:#?}");
    }
}

#[test]
fn a_case_is_the_same_whenever_it_is_asked_for() {
    for number in 0..100 {
        let (once, again) = (events::case(SEED, number), events::case(SEED, number));
        assert_eq!((once.function, once.event), (again.function, again.event));
    }
}
