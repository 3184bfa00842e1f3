//! What each way to wait or to hold costs on a real DynamoDB API, counted at the socket.
#![allow(clippy::unwrap_used, missing_docs)]

mod guarded_writes;
mod next;
mod queue;
mod sets;
mod starts;
mod sweep_cost;
