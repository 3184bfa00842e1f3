//! What breaks, row by row: every fault of the table in docs/PROOFS.md, done to acquire, extend
//! and release on a real DynamoDB API or to the real function binaries. The name of a test says its row.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../bench/mod.rs"]
mod bench;
mod calls;
mod clocks;
mod duplicates;
mod events;
#[path = "../contract/functions.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod functions;
mod killed;
mod lost;
mod names;
mod purged;
mod refused;
mod stopped;
mod strangers;
mod sweeping;
mod twice;
mod unfit;
