//! What the design of starts decides: about an item, about a call's answer, and which write of the row follows. The library
//! has none of this yet.

use std::time::Duration;

use leasehold::{
    Counter, Holder, KeepTime, LeaseId, Metadata, RequestDigest, Timestamp,
    row::{Holding, Row, State, Telling, Term},
    transition::{Change, ReplaceIfUnchanged},
};

/// The input that a start gives its execution, without the lease that it may be passed.
pub type Input = u8;

/// An item of a start: it waits for its key or holds it, it ran, or it is in the dead-letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    pub status: Status,
    pub input: Input,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Waiting,
    Served,
    Failed,
}

/// What a start is answered that finds an item of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is a duplicate of one that may have no place yet.
    Joins,
    /// It is a duplicate of one that is settled.
    Settled,
    /// The name is another start's.
    AnotherInput,
}

pub const fn arrival(item: Item, input: Input) -> Arrival {
    match item.status {
        _ if item.input != input => Arrival::AnotherInput,
        Status::Waiting => Arrival::Joins,
        Status::Served | Status::Failed => Arrival::Settled,
    }
}

/// What the service says of the execution that a start names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Unknown,
    /// It has this name, and another input.
    AnotherInput,
    Running,
    Ended {
        stopped_at: Timestamp,
        redrivable: bool,
    },
}

/// What follows from it for the holder of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The lease stays.
    Keep,
    /// Nobody has begun it: mark the row, then call.
    Begin,
    /// It never will begin: the row's grant is taken back and the item fails, in one transaction.
    Fail,
    /// It is over: the row ends, by one write.
    End,
}

/// How long after the last mark a call of `StartExecution` may still begin the execution without the service showing it.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// The time of a function: whoever marked the row may have called that late.
    pub function: Duration,
    /// How long a signed request is good.
    pub signature: Duration,
    /// How old an answer of the service may be.
    pub answer: Duration,
}

impl Delays {
    fn sum(self) -> Duration {
        self.function + self.signature + self.answer
    }
}

impl Said {
    /// The execution began, with our input: its item is served, and is marked so before anything else follows.
    pub const fn began(self) -> bool {
        matches!(self, Self::Running | Self::Ended { .. })
    }
}

/// What follows from what the service says of a holder whose item waits. The row was read before; `telling` is none if it has
/// changed since, so that no write of it would succeed.
///
/// A caller whom `StartExecution` answered that the name is in use does nothing if the service does not show the execution yet.
/// A caller who was refused for good at the only call for a grant does not wait: if the service knows no execution, it fails.
pub fn verdict(
    telling: Option<Telling>,
    said: Said,
    (keep, delays): (Duration, Delays),
    now: Timestamp,
) -> Verdict {
    match said {
        Said::AnotherInput => Verdict::Fail,
        Said::Unknown => match telling {
            Some(told) if told.refused_at.is_none() => Verdict::Begin,
            Some(told) if is_later(told, delays, now) => Verdict::Fail,
            Some(_) | None => Verdict::Keep,
        },
        Said::Running | Said::Ended { .. } => verdict_of_served(telling, said, (keep, delays), now),
    }
}

/// The same for a holder whose item is served, or is gone because it was: nobody begins it again.
pub fn verdict_of_served(
    telling: Option<Telling>,
    said: Said,
    (keep, delays): (Duration, Delays),
    now: Timestamp,
) -> Verdict {
    match said {
        Said::Ended {
            stopped_at,
            redrivable: true,
        } if keep > Duration::ZERO && now < stopped_at.plus(keep + delays.answer) => Verdict::Keep,
        // Another input: the service has forgotten it, and the name is used anew.
        Said::Ended { .. } | Said::AnotherInput => Verdict::End,
        Said::Unknown if telling.is_some_and(|told| is_later(told, delays, now)) => Verdict::End,
        Said::Running | Said::Unknown => Verdict::Keep,
    }
}

/// Whether no call of anybody who marked the row can begin the execution any more, and the service would show it.
fn is_later(told: Telling, delays: Delays, now: Timestamp) -> bool {
    now >= told.at.plus(delays.sum())
}

/// What becomes of the item of a start that does not hold the key. None: the service knows no execution of the name. Then one
/// that the row remembers has been served, one whose wait is over has failed, and any other joins.
pub const fn fate(said: Said) -> Option<Status> {
    match said {
        Said::AnotherInput => Some(Status::Failed),
        Said::Unknown => None,
        Said::Running | Said::Ended { .. } => Some(Status::Served),
    }
}

/// The grant of a free row to the first in the queue. It is written by the version and the head that were read, before
/// the head's item was.
pub fn grant_to_head(
    row: &Row,
    (holder, lease_id): (Holder, LeaseId),
    now: Timestamp,
) -> Option<Change> {
    let request = row.head()?.clone();
    let [first, second, _] = row.past_requests.clone();
    let after = Row {
        fencing_token: next(row.fencing_token),
        version: next(row.version),
        granted_to: holder,
        request: request.clone(),
        request_keys: None,
        past_requests: [Some(row.request.clone()), first, second],
        previous: Some(row.last_grant()),
        purge_at: None,
        state: State::Held(Holding {
            lease_id,
            term: execution(),
            acquired_at: now,
            extended_at: None,
            sweep_after: None,
            metadata: Metadata::default(),
            telling: Some(Telling::first(now, None)),
        }),
        ..row.clone()
    };
    Some(replace(row, after, Some(request)))
}

pub fn execution() -> Term {
    Term::Execution {
        keep: KeepTime::default(),
        looked_at: None,
        look_again_at: None,
    }
}

/// Before anybody but the writer of the grant calls `StartExecution`.
pub fn mark(row: &Row, now: Timestamp) -> Option<Change> {
    telling(row, |told| Telling {
        tries: next(told.tries),
        at: now,
        ..told
    })
}

/// After a refusal for good, or for an operator: nobody calls any more.
pub fn note_refusal(row: &Row, now: Timestamp) -> Option<Change> {
    telling(row, |told| Telling {
        refused_at: Some(now),
        ..told
    })
}

fn telling(row: &Row, change: impl FnOnce(Telling) -> Telling) -> Option<Change> {
    let held = row.holding()?;
    let after = Row {
        version: next(row.version),
        state: State::Held(Holding {
            telling: Some(change(held.telling?)),
            ..held.clone()
        }),
        ..row.clone()
    };
    Some(replace(row, after, None))
}

/// The row after the end of a grant whose execution never began: it forgets the request, so that the start may be repeated.
pub fn take_back(row: &Row, nobody: RequestDigest, purge_at: u64) -> Change {
    let [first, second, third] = row.past_requests.clone();
    let after = Row {
        version: next(row.version),
        request: first.unwrap_or(nobody),
        past_requests: [second, third, None],
        request_keys: None,
        previous: None,
        purge_at: Some(purge_at),
        state: State::Free {
            ended: leasehold::Ended::Released,
            last_token: row.fencing_token,
        },
        ..row.clone()
    };
    replace(row, after, None)
}

fn replace(row: &Row, after: Row, head: Option<RequestDigest>) -> Change {
    Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
        seen: Some(row.version),
        row: after,
        head,
    }))
}

/// The next token, version or count. One that leaves the queue because its item fails raises the version, unlike any other:
/// whoever has read that item can no longer grant it the key, also if a slow duplicate joins again meanwhile.
pub fn next(count: Counter) -> Counter {
    Counter::new(count.get() + 1).unwrap_or(count)
}
