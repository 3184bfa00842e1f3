//! Many at once on a real DynamoDB API: processes that are killed, permits, and money that moves between accounts.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;
#[path = "../programs/mod.rs"]
mod programs;
mod semaphores;
mod transfers;
