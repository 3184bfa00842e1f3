//! Known bugs of other locks, each on the lock itself, as published, and then on ours, under the same fault.
//!
//! A test fails when the other lock does not do it any more, too: then its row in docs/contributing/benchmark.md has to go.

mod dynamodb_lease;
mod fixture;
mod idempotency;
mod lost_answer;
mod ours;
mod python_lock;
mod sample;
mod semaphore;

use leasehold_bench::python::Python;
use rustix::process::{Pid, Signal, kill_process};

/// Stops a process in the middle of what it does, or lets it go on.
fn signal(process: &Python, signal: Signal) {
    let pid = i32::try_from(process.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
