//! What a lease costs, measured beside what a user would pick instead.
//!
//! Each [part](parts) looks at something else and answers with [measures]: a figure of ours, the same of the others, and
//! the target it is held to. What is counted is counted where it costs money: at the socket of the embedded database
//! ([`site`]), in an execution's history, by a processor that counts instructions. [`report`] writes it all down.

mod counts;
pub mod document;
mod error;
pub mod instructions;
pub mod measures;
pub mod parts;
pub mod picture;
mod python;
pub mod report;
pub mod scale;
pub mod site;
pub mod waiting;
pub mod workflows;

pub use error::Error;

/// `part` of `whole`, as a number; of nothing it is zero.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds of one run are far below 2^53"
)]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// To three places: more is noise.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Progress, for who watches. Not `eprintln!`, which panics when the terminal has gone.
pub fn tell(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}
