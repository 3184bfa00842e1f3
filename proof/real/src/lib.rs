//! What only real processes can show: many of them at work on one table, killed and stopped in the middle, on sockets that fail, by
//! clocks that differ.
//!
//! `actors` do what is drawn from a seed (`plan`) in a `world`, a `round` is half a minute of it, and what they observe is held to
//! the [`promises`].
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "what keeps it from running ends it where it happens, as in every proof; what it finds is no failure of it"
)]

mod actors;
mod call;
mod faults;
mod plan;
pub mod promises;
mod resource;
mod round;
mod run;
mod watch;
mod world;

pub use run::{Run, Totals};
pub use world::MARGIN;
