//! What it costs to wait for a key that is held.
//!
//! Several clients want one key, each again as soon as it has released it, and hold it for a while. [`contestants`]
//! are the ways to wait; each is run on a database of its own behind a counting proxy ([`site`]), for a warm-up and
//! a window ([`course`]). What the clients live through is written down ([`diary`]) and afterwards measured
//! ([`measure`]): requests per cycle, utilisation, waits, and to whom the key went. [`report`] tells it,
//! [`promises`] judges it.

pub mod contestants;
pub mod course;
pub mod crew;
pub mod diary;
mod error;
pub mod measure;
pub mod promises;
pub mod report;
pub mod run;
pub mod site;

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
