//! What breaks, row by row: every fault X1 to X17 of docs/PROOFS.md, done to acquire, extend and release on a real DynamoDB
//! API behind a proxy that breaks requests and answers, or to the real function binaries.
#![allow(clippy::unwrap_used, missing_docs)]

mod clocks;
mod duplicates;
mod events;
mod network;
mod operations;
mod processes;
mod rows;
