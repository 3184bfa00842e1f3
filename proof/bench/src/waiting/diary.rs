//! What the clients of one run live through, as it happens.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

/// One line of the diary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which client, counted from zero.
    pub client: usize,
    /// When, in nanoseconds since the epoch. The wall clock, since other processes write here too.
    pub at: u64,
    /// What happened.
    pub what: What,
}

/// What can happen to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It wants the key, and waits from here on.
    Asked,
    /// The key is its own; said by the client, once it knows.
    Entered,
    /// It is about to give the key back.
    Left,
    /// A call failed.
    Failed(String),
}

/// The events of one run, in the order in which they became known.
#[derive(Debug, Default)]
pub struct Diary {
    events: Mutex<Vec<Event>>,
    entered: Notify,
}

impl Diary {
    /// Writes down what happens now.
    pub fn write(&self, client: usize, what: What) {
        self.write_at(client, now(), what);
    }

    /// Writes down what happened at an instant that somebody else read.
    pub fn write_at(&self, client: usize, at: u64, what: What) {
        let entered = what == What::Entered;
        self.events().push(Event { client, at, what });
        if entered {
            self.entered.notify_waiters();
        }
    }

    /// Waits until a client enters.
    pub async fn next_entry(&self) {
        self.entered.notified().await;
    }

    /// Everything written so far.
    #[must_use]
    pub fn read(&self) -> Vec<Event> {
        self.events().clone()
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        // Nothing panics while it holds the lock.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time by the wall clock, in nanoseconds since the epoch.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
