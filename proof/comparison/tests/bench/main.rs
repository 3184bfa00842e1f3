//! The benchmark on a small scale, and the known bugs of other locks.
#![allow(clippy::unwrap_used, missing_docs)]

mod known_bugs;
mod small;
