//! The record of a round: requests and answers, with their times.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::late_waiters::PendingWait;
use crate::starts::Task;

/// Microseconds since the soak began, by a clock that only goes forward.
pub type Micros = u64;

/// Milliseconds since the epoch.
pub type Millis = i64;

/// A name that was seen in this round, such as a lease's secret id or a request's. 0 is none that is known.
pub type Name = u32;

/// One call as far as it concerns one row.
#[derive(Clone, Debug)]
pub struct Op {
    /// When it was sent.
    pub begin: Micros,
    /// When it was answered, or its process was gone.
    pub end: Micros,
    /// Between which instants the function read its clock, by that clock.
    pub clock: (Millis, Millis),
    /// The request.
    pub ask: Invocation,
    /// The answer.
    pub response: Response,
    /// Its possible further effect.
    pub besides: ExtraEffect,
    /// Who, and where in the plan.
    pub by: String,
}

/// What a call may have done in addition to its answer: an attempt whose answer was lost was followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraEffect {
    /// It had no other effect.
    Nothing,
    /// Its effect may have happened earlier in the call.
    Within,
    /// Its effect may happen after the call, too: a request was on its way when the caller gave it up.
    Later,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// The key, or one of its permits.
    Acquire {
        /// Who asks.
        holder: Name,
        /// Holder and request id.
        request: Name,
        /// For how long.
        ttl: Millis,
        /// The version that stood still for a whole ttl.
        observed: Option<u64>,
        /// Takes its holder's own lease for an answer.
        reentrant: bool,
    },
    /// More time.
    Extend {
        /// The handle's token.
        token: u64,
        /// The handle's proof.
        lease: Name,
        /// For how long.
        ttl: Millis,
        /// Refused once the lease has expired.
        require_unexpired: bool,
    },
    /// The end.
    Release {
        /// The handle's token.
        token: u64,
        /// The handle's proof.
        lease: Name,
    },
    /// An operator ends the grant of this token.
    Force {
        /// Whose grant.
        token: u64,
    },
    /// The row is looked at.
    Inspect,
    /// Whatever has expired is freed.
    Sweep,
    /// Whatever somebody holds who is no more is freed.
    Reap {
        /// The holder that has ended.
        holder: Name,
    },
    /// The row is deleted without anybody's knowledge.
    Delete,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// A grant, or the same grant once more.
    Granted {
        /// Which of the two, or that it was taken over.
        kind: Kind,
        /// Its token.
        token: u64,
        /// Its proof.
        lease: Name,
        /// The row's.
        version: u64,
        /// By the function's clock.
        acquired_at: Millis,
        /// The deadline.
        expires_at: Millis,
        /// The grant before.
        previous: Option<Before>,
    },
    /// Somebody else has it.
    Held {
        /// The holder.
        holder: Name,
        /// Their token.
        token: u64,
        /// The row's.
        version: u64,
        /// Their deadline.
        expires_at: Millis,
    },
    /// The request had its lease.
    Consumed,
    /// More time was given.
    Extended {
        /// After the deadline.
        revived: bool,
        /// The row's.
        version: u64,
        /// The deadline in force.
        expires_at: Millis,
    },
    /// The lease has expired, and the caller asked to be refused then.
    Expired,
    /// An extend of a grant that is over; a release of one that others were granted since.
    Lost,
    /// It ended with this call.
    Released,
    /// It had ended before.
    AlreadyReleased,
    /// It goes on, for the request of the same holder that it was granted to.
    Kept,
    /// The operator ended it.
    Forced {
        /// The operator's token.
        token: u64,
    },
    /// There was nothing to end, or to see.
    Nobody,
    /// The row is gone, or sweep or reap has been here.
    Done,
    /// Nobody knows.
    Unknown,
}

/// How a grant came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The row was free.
    New,
    /// Response again.
    Replayed,
    /// The holder before had not released it.
    Takeover,
}

/// A grant that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Before {
    /// Whose it was.
    pub holder: Name,
    /// Its token; 0 if nobody knows.
    pub token: u64,
    /// How it ended.
    pub ended: Ended,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// By its holder.
    Released,
    /// By its deadline.
    Expired,
    /// By an operator.
    Forced,
}

/// Which row: a key, and which of its permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The key.
    pub key: String,
    /// The permit; 0 of a mutex.
    pub permit: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.permit {
            0 => f.write_str(&self.key),
            permit => write!(f, "{} permit {permit}", self.key),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |at: Micros| format!("{}.{:03}", at / 1000, at % 1000);
        write!(
            f,
            "[{} – {} ms] {}: {:?} -> {:?}",
            millis(self.begin),
            millis(self.end),
            self.by,
            self.ask,
            self.response
        )?;
        if self.besides != ExtraEffect::Nothing {
            write!(f, " (besides: {:?})", self.besides)?;
        }
        Ok(())
    }
}

/// Everything that is recorded in a round.
#[derive(Debug, Default)]
pub struct History {
    /// The calls, by the row that they were about.
    pub ops: BTreeMap<Place, Vec<Op>>,
    /// Calls that were made, however many rows each was about.
    pub calls: u64,
    /// Of these, calls with an answer.
    pub answered: u64,
    /// While somebody believed that a lease was theirs.
    pub beliefs: Vec<Belief>,
    /// Answers that an execution lease is over.
    pub denials: Vec<Denial>,
    /// The waiters in a queue.
    pub waits: Vec<Wait>,
    /// Those who have waited long without an answer, and where it would come.
    pub pending: Vec<PendingWait>,
    /// How many of these got one in the end.
    pub late: u64,
    /// What must not be seen anywhere: lease ids and task tokens.
    pub secrets: BTreeSet<String>,
    /// Text that people read: messages of errors, listings.
    pub messages: Vec<String>,
    /// Answers that nobody should get.
    pub unexpected: Vec<String>,
    /// Writes to the resource that were answered as done, by key.
    pub writes: HashMap<String, u64>,
    /// Writes that the fence refused.
    pub fenced: u64,
    /// Starts through a key.
    pub starts: Vec<StartAsked>,
    /// The tasks that wait for the results of some.
    pub tasks: Vec<Task>,
    /// Faults of the processes and the wire, with their times.
    pub fault_log: Vec<(Micros, String)>,
    /// Faults of processes and of the wire as a whole, by kind.
    pub faults: BTreeMap<String, u64>,
}

/// Somebody believes to be alone with something.
#[derive(Clone, Debug)]
pub struct Belief {
    /// With what.
    pub place: Place,
    /// By which grant.
    pub token: u64,
    /// Since when.
    pub from: Micros,
    /// Whose clock, and whose lease.
    pub holder: String,
    /// Until when, if nothing else happens.
    pub until: Micros,
    /// The client or operator that did it.
    pub by: String,
}

/// Somebody heard that an execution lease is over.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The permit, or the key.
    pub place: Place,
    /// The fencing token of the grant that was over.
    pub token: u64,
    /// When the caller heard it.
    pub at: Micros,
}

/// A waiter in the queue, or a caller that asks for a key that others wait for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// For what.
    pub key: String,
    /// When it asked.
    pub begin: Micros,
    /// When it knew that it was in the queue; none if it never was.
    pub queued: Option<Micros>,
    /// Its grant's token.
    pub token: Option<u64>,
    /// Whether its task token was answered, or needed no answer.
    pub answered: bool,
    /// The client or operator that did it.
    pub by: String,
}

/// A start through a key, and all calls that asked for it.
#[derive(Clone, Debug)]
pub struct StartAsked {
    /// The key.
    pub key: String,
    /// The execution that it names.
    pub execution: String,
    /// The request, which every call repeats.
    pub request: Value,
    /// It begins in the end: it waits for as long as that takes, and nobody sends it away.
    pub is_certain: bool,
    /// How many may run at once.
    pub permits: u16,
    /// The pool of which it needs a permit besides.
    pub pool: Option<String>,
    /// What it does while somebody else has the key.
    pub if_held: &'static str,
    /// The execution whose task waits for its result ends before, and it ends with that.
    pub leaves: bool,
    /// How long the key stays closed after its grant.
    pub at_least: Micros,
    /// How long its execution has the key after a failure.
    pub keep: Micros,
    /// The calls, in any order.
    pub calls: Vec<StartCall>,
}

/// One call of start.
#[derive(Clone, Debug)]
pub struct StartCall {
    /// When it was sent.
    pub begin: Micros,
    /// When it was answered.
    pub end: Micros,
    /// The answer.
    pub answer: StartAnswer,
}

/// What a caller heard of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartAnswer {
    /// Its execution has begun.
    Started,
    /// It waits for its turn.
    Queued,
    /// Somebody had the key.
    Skipped,
    /// This later one waits instead.
    Superseded(String),
    /// Its wait was over.
    Failed,
    /// It was not accepted.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// An execution while it ran: from its beginning, or from a redrive, to its end.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its ARN.
    pub execution: String,
    /// The fencing token in its input.
    pub token: u64,
    /// The permit there.
    pub permit: u64,
    /// Whether it ran by a redrive.
    pub is_redrive: bool,
    /// When it began.
    pub from: Micros,
    /// When it ended.
    pub until: Option<Micros>,
    /// How it ended, or that it runs.
    pub status: &'static str,
    /// Whether nothing of it may be at work after its end.
    pub is_answered: bool,
}

/// The names of a round: comparing numbers is quick, and a number is no secret.
#[derive(Debug, Default)]
pub struct Names(Mutex<HashMap<String, Name>>);

impl Names {
    /// The number of this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Name {
        let mut all = self.all();
        let next = Name::try_from(all.len() + 1).unwrap_or(Name::MAX);
        *all.entry(name.to_owned()).or_insert(next)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
