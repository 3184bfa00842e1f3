//! What happens by itself: events and rules, queues, task tokens.
#![allow(clippy::unwrap_used, missing_docs)]

mod bus;
mod ends;
mod fixture;
mod redrives;
mod rules;
mod sources;
mod template;
mod tokens;
