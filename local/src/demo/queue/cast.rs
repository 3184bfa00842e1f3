//! Who waits in line, and what becomes of whom.

use serde_json::{Value, json};

/// The key that all of them want.
pub(super) const KEY: &str = "payouts/eu";
/// How many wait.
pub(super) const WAITERS: usize = 16;
/// Long, so that nothing but the end of an execution can free the key in time.
pub(super) const TTL_SECONDS: u64 = 30;
/// After how many turns a waiter is stopped.
pub(super) const STOP_AFTER_TURNS: usize = 3;

const STOPPED_HOLDING: usize = 7;
const STOPPED_WAITING: usize = 11;

/// What is special about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Waits, has its turn, goes.
    Waits,
    /// Is stopped while it waits.
    StoppedWaiting,
    /// Is stopped while it holds; its work, which nobody can stop, goes on for a while.
    StoppedHolding,
}

/// An execution to be started.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) part: Part,
}

impl Role {
    /// The input of the execution.
    pub(super) fn input(&self) -> Value {
        let first = match self.part {
            Part::StoppedHolding => 1.5,
            Part::Waits | Part::StoppedWaiting => 0.1,
        };
        json!({
            "key": KEY, "ttl_seconds": TTL_SECONDS, "wait_seconds": 300,
            "first": {"seconds": first}, "second": {"seconds": 0.0},
        })
    }
}

/// Everybody, in the order in which they come.
pub(super) fn cast() -> Vec<Role> {
    let roles = (1..=WAITERS).map(|number| Role {
        name: format!("waiter-{number}"),
        part: match number {
            STOPPED_HOLDING => Part::StoppedHolding,
            STOPPED_WAITING => Part::StoppedWaiting,
            _ => Part::Waits,
        },
    });
    roles.collect()
}
