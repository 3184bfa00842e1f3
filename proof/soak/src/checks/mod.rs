//! The promises that a round's history is held to: the linearizability of each row, what the shared judge knows
//! ([`crate::judge`]), and what only the soak can see.

mod promises;
mod results;
mod secrets;
mod starts;
mod strangers;
#[cfg(test)]
mod tests;

use std::fmt;

pub use promises::{grants, holders, lasting, once, waiters, writes};
pub use results::results;
pub use secrets::secrets;
pub use starts::starts;
pub use strangers::Strangers;

use crate::history::{Op, Place};
use crate::linear::{Verdict, check};

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// The key, or what else it is about.
    pub about: String,
    /// What is wrong.
    pub what: String,
    /// What happened around it, line by line.
    pub around: Vec<String>,
}

impl Violation {
    /// One without anything around it.
    #[must_use]
    pub fn new(
        invariant: &'static str,
        about: &(impl ToString + ?Sized),
        what: impl Into<String>,
    ) -> Self {
        Self {
            invariant,
            about: about.to_string(),
            what: what.into(),
            around: Vec::new(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "VIOLATION {} of {}: {}",
            self.invariant, self.about, self.what
        )?;
        for line in &self.around {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// Whether each row's calls have an order in which they answer what they answered; and how many rows could not be decided.
#[must_use]
pub fn order<'a>(ops: impl IntoIterator<Item = (&'a Place, &'a Vec<Op>)>) -> (Vec<Violation>, u64) {
    let (mut violations, mut undecided) = (Vec::new(), 0);
    for (place, ops) in ops {
        match check(ops) {
            Verdict::Linearizable => {}
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

/// The calls around one of them, as lines; as many as help.
fn around(ops: &[Op], at: usize) -> Vec<String> {
    let here = &ops[at];
    let mut near: Vec<&Op> = ops
        .iter()
        .filter(|op| op.begin <= here.end && op.end + 4_000_000 >= here.begin)
        .collect();
    near.sort_by_key(|op| op.begin);
    let line = |op: &&Op| {
        let mark = if std::ptr::eq(*op, here) { ">" } else { " " };
        format!("{mark} {op}")
    };
    near[near.len().saturating_sub(14)..]
        .iter()
        .map(line)
        .collect()
}
