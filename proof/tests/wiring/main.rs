//! What happens by itself: records of a stream, events and rules, queues, task tokens.
#![allow(clippy::unwrap_used, missing_docs)]

mod bus;
mod ends;
mod fixture;
mod streams;
mod template;
mod tokens;
