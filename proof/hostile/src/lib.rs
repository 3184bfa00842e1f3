//! Judges of hostile input: events for every function, items in the place of rows and waiters, and names.
//!
//! Each judge takes bytes. Bytes in its own text format are judged as they are: that is what a person writes, what the
//! corpus is made of. Any other bytes are choices, from which [`arbitrary`] makes a case out of
//! a valid one, since what is random altogether never gets past the first check.
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

/// What is judged, each with a corpus in a directory of its name below `proof/hostile/corpus`.
pub const TARGETS: [(&str, Judge); 3] = [
    ("event", event::judge),
    ("key", key::judge),
    ("row", row::judge),
];

/// What a case ends with that a target passes over: its bytes are too few to make one.
pub const NO_CASE: &str = "no case";
