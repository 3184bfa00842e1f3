//! Leasehold on a laptop: an embedded DynamoDB behind a counting proxy, the real function binaries behind
//! Lambda's own APIs, a state machine engine, and the rules and queues between them, in one process tree
//! on 127.0.0.1.
//!
//! [`Stack`] is the whole, wired as in `template.yaml`. A test may use the parts [`DynamoDb`], [`Proxy`] and [`LambdaHost`]
//! alone. Nothing in the library or the functions depends on this crate.

mod arn;
mod cloudformation;
mod dynamodb;
mod engine;
mod error;
mod events;
mod guard;
mod iam;
pub mod installation;
mod lambda;
mod observer;
pub mod process;
mod proxy;
mod stack;
mod tables;
mod task;
mod template;
mod venv;
mod wiring;

pub use dynamodb::DynamoDb;
pub use dynoxide::storage_backend::ManualClock;
pub use error::Error;
pub use guard::{guard, session_token};
pub use iam::{AuthorizationRequest, Roles};
pub use lambda::{Code, Function, Invocation, LambdaHost, Outcome};
pub use observer::Observer;
pub use proxy::{Counts, Fault, Proxy, Tally, Units};
pub use stack::{EnvironmentChanges, Options, Ports, Schedules, Stack};
pub use tables::create_table;
pub use template::{Allowed, Condition, Context};
pub use venv::{PythonEnvironment, prepare as prepare_python};
