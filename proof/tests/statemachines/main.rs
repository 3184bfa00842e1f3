//! The shipped state machines, as the template deploys them: real function binaries, a real interpreter, a
//! resource that notices when two are inside.
#![allow(clippy::unwrap_used, missing_docs)]

mod adopting;
mod critical_section;
mod execution;
mod forged;
mod line;
mod observe;
mod queued_ends;
mod queued_redrive;
mod queued_section;
mod queued_turns;
mod redrive;
mod resource;
mod semaphore;
mod transfer;
mod transfer_outcome;
mod with_lease;
mod with_lease_queue;
mod world;
mod woven;
mod woven_ends;
