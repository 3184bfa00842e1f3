//! Linearizability, row by row.

use std::collections::BTreeMap;

use super::around;
use crate::history::{Op, Place};
use crate::linear::{Verdict, check};
use crate::violation::Violation;

/// Whether each row's calls have an order in which they tell what they told; and how many rows could not be decided.
#[must_use]
pub fn order(ops: &BTreeMap<Place, Vec<Op>>) -> (Vec<Violation>, u64) {
    let (mut violations, mut undecided) = (Vec::new(), 0);
    for (place, ops) in ops {
        match check(ops) {
            Verdict::Fine => {}
            Verdict::Undecided(at) => {
                undecided += 1;
                eprintln!("undecided: {place} at {}", ops[at]);
            }
            Verdict::Impossible(at) => violations.push(Violation {
                invariant: "linearizability",
                about: place.to_string(),
                what: format!("no order of the calls tells this: {}", ops[at]),
                around: around(ops, at),
            }),
        }
    }
    (violations, undecided)
}
