//! What is promised, as callers and what they protect can see it: one file for each promise, with a sentence, and a
//! function over a list of what was observed. Nothing here knows how it was observed.

mod alone;
mod answers;
mod expiry;
mod kept;
mod order;
mod results;
mod secrets;
mod settled;
mod starts;
mod strangers;
#[cfg(test)]
mod tests;
mod tokens;
mod writes;

use std::collections::BTreeMap;
use std::fmt;

/// Microseconds since the observer began, by a clock that only goes forward.
pub type At = u64;

/// Something that was observed.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: At,
    /// Of which key, permit of a key, pool, item or text.
    pub place: String,
    /// Who asked, held, waited, or was started.
    pub who: String,
    /// What it was.
    pub what: What,
}

/// What can be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each says what its fields are")]
pub enum What {
    /// A request, of which every copy has the same id, was granted the place by a token. It was first sent at `asked`, or sent again
    /// after a refusal.
    Granted {
        token: u64,
        request: String,
        asked: At,
    },
    /// From here on it may work by this token, as one of so many at once, until then at most if a clock says so.
    Entered {
        token: u64,
        room: usize,
        until: Option<At>,
    },
    /// From here on it need not be inside any more: it has ended, or is about to be released or evicted.
    Left { token: u64 },
    /// It was told when its lease expires: until then nobody else hears that it has the place by the clock. Whether it has the place
    /// itself by the clock, or by an observation.
    Expires {
        token: u64,
        until: At,
        is_by_clock: bool,
    },
    /// It heard that its lease is over.
    Lost { token: u64 },
    /// What the place protects has accepted this write, after those before in the list: one more than its writer had read.
    Wrote { token: u64, number: u64 },
    /// It heard that it waits in the queue.
    Queued,
    /// It does not wait any more: it was told that its turn does not come, or it has gone.
    GaveUp,
    /// At the end somebody asked for the place: what came of it, if it was not granted.
    Tried(Option<String>),
    /// An answer that nobody should get.
    Unexpected(String),
    /// Somebody else's item was there, as it is now.
    Item(String),
    /// A lease id, or a task token: the name of whom this is of.
    Secret,
    /// Something that people read.
    Read(String),
    /// Somebody asked for an execution to be started, with this input.
    Asked(String),
    /// A call that asked for it, and was sent then, was answered.
    Heard { asked: At, answer: Answer },
    /// The execution began, with this input.
    Began(String),
    /// It ended, with this status of Step Functions.
    Ended(&'static str),
    /// A task of a caller waits for the result of the execution.
    Waits,
    /// The caller has ended, and the execution may be stopped.
    CallerEnded,
    /// The task was told.
    Told(Told),
}

/// What was heard of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has begun.
    Started,
    /// It waits for its turn.
    Queued,
    /// Somebody had the key, and it never begins.
    Skipped,
    /// It has failed to start, and never begins.
    Failed,
    /// Somebody had the key, and it was not accepted.
    Refused,
}

/// What a task was told of the execution that it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its output.
    Output,
    /// That it never begins.
    Skipped,
    /// An error.
    Error(String),
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise, as the documents call it.
    pub promise: &'static str,
    /// Where.
    pub place: String,
    /// How.
    pub what: String,
}

impl Broken {
    fn new(promise: &'static str, place: &str, what: String) -> Self {
        let place = place.to_owned();
        Self {
            promise,
            place,
            what,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.promise, self.place, self.what)
    }
}

/// Every promise that these events break. Those at the same time are in the order of the list.
#[must_use]
pub fn broken(events: &[Event]) -> Vec<Broken> {
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| event.at);
    let all = [
        alone::broken,
        answers::broken,
        expiry::broken,
        kept::broken,
        order::broken,
        results::broken,
        secrets::broken,
        settled::broken,
        starts::broken,
        strangers::broken,
        tokens::broken,
        writes::broken,
    ];
    all.iter().flat_map(|promise| promise(&events)).collect()
}

/// The events of each place.
fn by_place<'a>(events: &[&'a Event]) -> BTreeMap<&'a str, Vec<&'a Event>> {
    grouped(events, |event| &event.place)
}

/// The events of each caller, waiter or execution.
fn by_who<'a>(events: &[&'a Event]) -> BTreeMap<&'a str, Vec<&'a Event>> {
    grouped(events, |event| &event.who)
}

fn grouped<'a>(
    events: &[&'a Event],
    by: impl Fn(&'a Event) -> &'a str,
) -> BTreeMap<&'a str, Vec<&'a Event>> {
    let mut groups: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        groups.entry(by(event)).or_default().push(event);
    }
    groups
}
