//! The keys of a round, by what is done with them. Every round has its own, so that the one before can be forgotten.

use crate::starts::WAYS;

/// How many permits the semaphores have.
pub const PERMITS: u16 = 3;

/// The keys of one round.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The few that all clients want.
    pub hot: Vec<String>,
    /// Of these, and of those that clients wait for, operators evict holders.
    pub plain: Vec<String>,
    /// Their rows are deleted now and then.
    pub gone: Vec<String>,
    /// Keys with several permits.
    pub permits: Vec<String>,
    /// Several of these are asked for at once.
    pub sets: Vec<String>,
    /// Clients wait for these in the queue.
    pub lines: Vec<String>,
    /// Executions are started through these.
    pub starts: Vec<String>,
    /// Items that are not ours are there.
    pub strange: Vec<String>,
}

impl Keys {
    /// The keys of a round.
    #[must_use]
    pub fn of(round: u64) -> Self {
        let named = |kind: &str, count: u64| {
            let name = |n| format!("round-{round}/{kind}-{n}");
            (0..count).map(name).collect()
        };
        Self {
            hot: named("hot", 3),
            plain: named("key", 14),
            gone: named("gone", 4),
            permits: named("permits", 2),
            sets: named("set", 6),
            lines: named("line", 3),
            starts: named("start", WAYS.len() as u64),
            strange: named("strange", 3),
        }
    }

    /// Those whose rows behave like rows of a mutex and are checked as such.
    pub fn mutexes(&self) -> impl Iterator<Item = &String> {
        let two = self.hot.iter().chain(&self.plain);
        two.chain(&self.gone).chain(&self.sets)
    }
}
