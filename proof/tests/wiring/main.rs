//! What happens by itself: records of a stream, events and rules, queues, task tokens.
#![allow(clippy::unwrap_used, missing_docs)]

mod bus;
mod ends;
mod fixture;
mod rules;
mod streams;
mod template;
mod tokens;
