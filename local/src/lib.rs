//! Leasehold on a laptop: an embedded DynamoDB behind a counting proxy, the real function binaries behind
//! Lambda's own APIs, and a state machine engine, in one process tree on 127.0.0.1.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod dynamodb;
mod error;
mod lambda;
mod process;
mod proxy;
mod task;
#[allow(dead_code)]
mod template;

pub use dynamodb::DynamoDb;
pub use dynoxide::storage_backend::ManualClock;
pub use error::Error;
pub use lambda::{Function, Invocation, LambdaHost, Outcome};
pub use proxy::{Counts, Fault, Proxy, Tally};
