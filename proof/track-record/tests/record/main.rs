//! Known bugs of other locks, each on the lock itself and then on ours, under the same fault in the same world.
//! The name of a test is the name of its entry in `src/entries.rs`.
#![allow(clippy::unwrap_used, missing_docs)]

mod back_off;
mod dynamodb_lease;
mod idempotency;
mod lost_answer;
mod ours;
mod python;
mod python_lock;
mod sample;
mod semaphore;
mod world;

use leasehold_track_record::{ENTRIES, Finding};

/// Keeps what a test has found, for the table.
fn found(entry: &str, there: impl Into<String>, here: impl Into<String>) {
    assert!(ENTRIES.iter().any(|known| known.name == entry), "{entry}");
    let (there, here) = (there.into(), here.into());
    println!("{entry}\n  there  {there}\n  here   {here}");
    Finding { there, here }.keep(entry).unwrap();
}
