//! The soak: many processes of the real functions at work on one table, with faults of every kind. Requests
//! and answers are recorded, and checked against the promises.
//!
//! [`row`] is what one lease row may do, written anew and not taken from the library; [`linear`] asks whether a
//! history follows it; [`checks`] are the promises that need no order. [`plan`] draws what everybody is going
//! to do from a seed, [`fixture`] is where they do it, [`round`] is thirty seconds of it.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "what keeps the soak from running ends it where it happens, as in every proof; what it finds is no failure of it"
)]

pub mod calls;
pub mod checks;
pub mod client;
pub mod context;
pub mod faults;
pub mod fixture;
pub mod history;
pub mod judge;
pub mod keys;
pub mod late_waiters;
pub mod linear;
pub mod operators;
pub mod plan;
pub mod rng;
pub mod round;
pub mod row;
pub mod run;
pub mod starts;
pub mod watch;
