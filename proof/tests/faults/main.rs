//! What breaks, row by row: the faults X1 to X17 of docs/contributing/proofs.md, done to acquire, extend and release on a real DynamoDB
//! API behind a proxy that breaks requests and answers, or to the real function binaries.
#![allow(clippy::unwrap_used, missing_docs)]

mod back_off;
mod clocks;
mod duplicates;
mod histories;
mod names;
mod network;
mod operations;
mod processes;
mod rows;
mod sizes;
