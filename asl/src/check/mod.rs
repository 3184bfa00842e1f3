//! Checking: finds faults in the use of leases by a walk over all abstract executions.

pub(crate) mod calls;
pub(crate) mod checker;
mod examples;
pub(crate) mod finding;
mod handle_flow;
pub(crate) mod items;
mod lease;
mod loops;
pub(crate) mod outcomes;
mod proofs;
pub mod report;
pub(crate) mod requests;
pub(crate) mod responses;
pub(crate) mod rule;
pub(crate) mod schema;
pub(crate) mod template;
mod variables;
mod waits;
pub(crate) mod walk;
