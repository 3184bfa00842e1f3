//! Judges of hostile input: events for every function, items in the place of rows and waiters, and names.
//!
//! Each judge takes bytes. Bytes in its own text format are judged as they are: that is what a person writes, what the
//! corpus is made of and what libFuzzer mutates. Any other bytes are choices, from which [`arbitrary`] makes a case out of
//! a valid one, since what is random altogether never gets past the first check. The fuzz targets in `proof/fuzz/` and the
//! tests call the same judges.
//!
//! A judge returns how the case ended, or what must not be: a panic, a write by a refused request, a change of an item that
//! is not ours, a secret in an answer, an error or a log.

mod event;
mod fixture;
mod functions;
mod key;
mod log;
mod mutate;
mod mutate_item;
mod operations;
mod row;
mod secrets;
mod step_functions;
mod wire;

pub use functions::Function;

/// How a case ended, or what must not be.
pub type Verdict = Result<String, String>;

/// Judges the input of one target.
pub type Judge = fn(&[u8]) -> Verdict;

/// What can be fuzzed, each with a corpus in a directory of its name below `proof/fuzz/corpus`.
pub const TARGETS: [(&str, Judge); 3] = [
    ("event", event::judge),
    ("key", key::judge),
    ("row", row::judge),
];

/// What a case ends with that a target passes over: its bytes are too few to make one.
pub const NO_CASE: &str = "no case";

/// Judges the input of this target: for the fuzzer, which takes a panic for a finding.
///
/// # Panics
/// If something is found, or there is no such target.
pub fn must_hold(target: &str, bytes: &[u8]) {
    let mut named = TARGETS.into_iter().filter(|(name, _)| *name == target);
    let (_, judge) = named.next().expect("a target");
    if let Err(fault) = judge(bytes) {
        panic!("{fault}");
    }
}
