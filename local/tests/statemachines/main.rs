//! The shipped state machines, as the template deploys them: real function binaries, a real interpreter, a
//! resource that notices when two are inside.
#![allow(clippy::unwrap_used, missing_docs)]

mod critical_section;
mod execution;
mod observe;
mod redrive;
mod resource;
mod semaphore;
mod transfer;
mod transfer_outcome;
mod with_lease;
mod world;
