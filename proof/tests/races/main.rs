//! Many at once on a real DynamoDB API: races of processes and of tasks, and what each way to wait or to hold costs.
#![allow(clippy::unwrap_used, missing_docs)]

mod guarded_writes;
mod processes;
#[path = "../programs/mod.rs"]
mod programs;
mod queue;
mod queue_cost;
mod semaphores;
mod sets;
mod sweep_cost;
mod transfers;
