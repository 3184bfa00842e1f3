//! What happens by itself: records of a stream, events and rules, queues, task tokens.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;
mod bus;
mod ends;
mod streams;
mod template;
mod tokens;
