//! A lease row: the contents of one item of the table, if this library wrote it.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    values::{
        Counter, Holder, KeepTime, KeysDigest, LeaseId, Metadata, Permits, RequestDigest, Ttl,
    },
};

pub(crate) mod attributes;
mod entries;
mod item;
mod pool;
mod record;

pub use entries::{Entries, Entry};
pub use pool::InPool;
pub(crate) use record::because;
pub use record::{Act, Record};

pub(crate) use item::{
    NULL, at_least, b, bytes, instant, metadata, metadata_value, n, permits, permits_value, s,
    text, time, whole,
};

/// An item as DynamoDB returns it.
pub type Item = HashMap<String, AttributeValue>;

/// What is stored at the address of a lease row.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "usually it is a row")]
pub enum Stored {
    /// No item.
    Absent,
    /// A row that this library wrote.
    Row(Row),
    /// An item that this library did not write, and the reason that shows it. It is never changed.
    Foreign(&'static str),
}

/// A lease row. A mutex is permit 0 of 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The largest token that was used. It is the token of the current or last grant, or a larger one: that of an
    /// operator, of a waiter that could not be notified, or the floor.
    pub fencing_token: Counter,
    /// Increases with every write except those that change the queue only, because observers watch the holder.
    pub version: Counter,
    /// Who holds it, or held it last.
    pub granted_to: Holder,
    /// The request of the current or last grant.
    pub request: RequestDigest,
    /// Which keys that request asked for, if it asked for several.
    pub request_keys: Option<KeysDigest>,
    /// Of how many permits that request asked for one: nobody else may make them more as long as the row is held or closed.
    /// None for the mutex, and where a version granted it that did not store this.
    pub permits: Option<Permits>,
    /// The requests of the three grants before that, latest first.
    pub past_requests: [Option<RequestDigest>; 3],
    /// The tokens of the last three grants that were released, latest first: a repeated release is answered so, also after
    /// others were granted the key.
    pub past_releases: [Option<Counter>; 3],
    /// The grant before the current or last one.
    pub previous: Option<Previous>,
    /// Whether and how the key is frozen, so that it cannot be granted.
    pub frozen: Option<Frozen>,
    /// How many may hold the key at once, whatever they ask for: in the first row, if an operator has set it.
    pub limit: Option<Box<Limit>>,
    /// Before this instant it is not granted again, also if it is free.
    pub opens_at: Option<Timestamp>,
    /// What an operator last did to the row.
    pub operator: Option<Record>,
    /// [`Row::NEVER`] in a row that says what an operator has decided for the time to come: in place of every later
    /// [`Row::purge_at`].
    pub kept_until: Option<u64>,
    /// When DynamoDB may delete the row, in epoch seconds.
    pub purge_at: Option<u64>,
    /// The queue, first come first: the digests of the requests. Everything else about the waiters is stored in items
    /// of their own.
    pub queue: Vec<RequestDigest>,
    /// Of a pool: who is in it. Nobody holds the row of one.
    pub entries: Option<Box<Entries>>,
    /// Held or free.
    pub state: State,
}

/// How a row came to be frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frozen {
    /// By an operator, with a record.
    By(Record),
    /// By an attribute that somebody set by hand, whatever its value.
    ByHand,
}

/// How many may hold a key at once, whatever they ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// So many. 0 for nobody, and so is one that cannot be read.
    pub permits: u16,
    /// Who has set it, and why.
    #[serde(flatten)]
    pub by: Option<Record>,
}

/// Whether a row is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody holds it, perhaps past its deadline.
    Held(Holding),
    /// Nobody holds it.
    Free {
        /// How the last grant ended.
        ended: Ended,
        /// Its token.
        last_token: Counter,
    },
}

/// What a row contains only while it is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// How long it lasts.
    pub term: Term,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it was last extended; an execution lease, when it was last verified.
    pub extended_at: Option<Timestamp>,
    /// Before this instant sweep need not read the row.
    pub sweep_after: Option<Timestamp>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// How its holder is notified of the grant: none if the response of acquire said it, or if it has shown since that it
    /// knows.
    pub notification: Option<Notification>,
    /// The pool that it needs besides.
    pub pool: Option<Box<InPool>>,
}

/// How a holder that waits with a task token is notified of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    /// How often somebody began to tell it. The one that wrote the grant is the first.
    pub tries: Counter,
    /// When that was last.
    pub at: Timestamp,
    /// The [`ticket`](crate::waiter::TokenItem::ticket) of the waiter's item that has the task token; none if the grant did
    /// not come from the queue, so that an item of the same request is of an earlier wait.
    pub ticket: Option<u64>,
    /// When its task token was found dead, although somebody may have notified it before. From then on nobody can notify it
    /// any more.
    pub refused_at: Option<Timestamp>,
}

impl Notification {
    /// That of a new grant.
    #[must_use]
    pub const fn first(now: Timestamp, ticket: Option<u64>) -> Self {
        Self {
            tries: Counter::MIN,
            at: now,
            ticket,
            refused_at: None,
        }
    }
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// Until a deadline.
    Ttl {
        /// The length last requested.
        ttl: Ttl,
        /// The deadline.
        expires_at: Timestamp,
    },
    /// While the holder, an execution, runs.
    Execution {
        /// How long it stays after a failure, for a redrive.
        keep: KeepTime,
        /// When the execution was last asked about.
        looked_at: Option<Timestamp>,
        /// The execution has ended and something of it may still be at work: from this instant on, a look that finds it so
        /// again may end the lease.
        look_again_at: Option<Timestamp>,
    },
}

impl Term {
    /// How long the lease stays after a failure of its holder.
    #[must_use]
    pub fn keep(self) -> KeepTime {
        match self {
            Self::Ttl { .. } => KeepTime::default(),
            Self::Execution { keep, .. } => keep,
        }
    }

    /// From when on a look may end the lease, if its execution was found to be over.
    #[must_use]
    pub const fn look_again_at(self) -> Option<Timestamp> {
        match self {
            Self::Ttl { .. } => None,
            Self::Execution { look_again_at, .. } => look_again_at,
        }
    }
}

/// For so long after it was signed a request is accepted.
pub(crate) const LATEST_COPY: Duration = Duration::from_mins(5);

impl Holding {
    /// The deadline. An execution lease has none, which is one that never passes.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        match self.term {
            Term::Ttl { expires_at, .. } => expires_at,
            Term::Execution { .. } => Timestamp::MAX,
        }
    }

    /// Whether somebody has extended or verified it later than at this instant, which a copy of before must not hide: an answer of before
    /// a redrive would end the lease then. No copy comes later than its signature is good; what lies further ahead is a wrong clock.
    pub(crate) fn is_written_after(&self, now: Timestamp) -> bool {
        let late = now.plus(LATEST_COPY);
        self.extended_at.is_some_and(|at| now < at && at <= late)
    }

    /// When the holder last wrote the row, or was last notified of its grant.
    #[must_use]
    pub fn written_at(&self) -> Timestamp {
        let told_at = self.notification.map(|notification| notification.at);
        let later = [self.extended_at, told_at].into_iter().flatten();
        later.fold(self.acquired_at, Timestamp::max)
    }
}

impl Row {
    /// A [`Row::purge_at`] in the far future: the end of the year 9999.
    pub const NEVER: u64 = 253_402_300_799;

    /// When DynamoDB may delete the row, once it is free.
    #[must_use]
    pub fn purge_once_free(&self, purge_at: u64) -> u64 {
        self.kept_until.unwrap_or(purge_at)
    }

    /// Whether its limit is 0: nobody is granted it, and everybody keeps the place in the queue.
    #[must_use]
    pub fn is_limited_to_none(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.permits == 0)
    }

    /// Whether operators let it be granted.
    #[must_use]
    pub fn may_be_granted(&self) -> bool {
        self.frozen.is_none() && !self.is_limited_to_none()
    }

    /// Whether it is not granted yet, by the clock of a taker: now minus the margin.
    #[must_use]
    pub fn is_closed(&self, passed: Timestamp) -> bool {
        self.opens_at.is_some_and(|at| at > passed)
    }

    /// When somebody else may be granted it by the clock, as far as the row says.
    #[must_use]
    pub fn free_at(&self) -> Option<Timestamp> {
        self.holding().map(Holding::expires_at).max(self.opens_at)
    }

    /// The current or last grant, as the next grant's `previous`. A grant that is taken over has expired.
    #[must_use]
    pub fn last_grant(&self) -> Previous {
        let (ended, fencing_token) = match &self.state {
            State::Free {
                ended, last_token, ..
            } => (*ended, *last_token),
            State::Held(_) => (Ended::Expired, self.fencing_token),
        };
        Previous {
            holder: self.granted_to.clone(),
            fencing_token,
            ended,
        }
    }

    /// Whom a row was granted to that only operators have written. No holder has a control character.
    pub(crate) const NOBODY: &'static str = "\t";

    /// The grant before the one that it carries; none if there was none.
    pub(crate) fn grant_before(&self) -> Option<Previous> {
        self.previous.clone().filter(was_granted)
    }

    /// The name of the pool in which the grant waits.
    pub(crate) fn waited_for_pool(&self) -> Option<&str> {
        let pool = self.holding()?.pool.as_ref()?;
        pool.key.pool_name().filter(|_| !pool.entered)
    }

    /// Whether the grant has not entered its pool yet: nobody has been notified of it.
    pub(crate) fn waits_in_pool(&self) -> bool {
        let pool = self.holding().and_then(|held| held.pool.as_ref());
        pool.is_some_and(|pool| !pool.entered)
    }

    /// Whether it was granted again to an execution that runs, by a redrive: nobody is to be notified.
    #[must_use]
    pub fn is_of_a_redrive(&self) -> bool {
        self.waits_in_pool()
            && self
                .holding()
                .is_some_and(|held| held.notification.is_none())
    }

    /// Who is in the pool that this is the row of.
    pub(crate) fn in_pool(&self) -> Entries {
        self.entries.as_deref().cloned().unwrap_or_default()
    }

    /// Whether nobody is to call for this grant any more.
    pub(crate) fn is_refused(&self) -> bool {
        let notification = self.holding().and_then(|held| held.notification);
        notification.is_some_and(|notification| notification.refused_at.is_some())
    }

    /// Whether it was granted to a start of which no look has shown yet that it began.
    pub(crate) fn is_unbegun_start(&self) -> bool {
        self.request.is_start()
            && self
                .holding()
                .is_some_and(|held| held.notification.is_some())
    }

    /// The holding, while it is held.
    #[must_use]
    pub const fn holding(&self) -> Option<&Holding> {
        match &self.state {
            State::Held(holding) => Some(holding),
            State::Free { .. } => None,
        }
    }

    /// Who holds it.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holding().map(|_| &self.granted_to)
    }

    /// The queue, first come first.
    #[must_use]
    pub fn waiting(&self) -> &[RequestDigest] {
        &self.queue
    }

    /// The first request in the queue.
    #[must_use]
    pub fn head(&self) -> Option<&RequestDigest> {
        self.waiting().first()
    }

    /// The last grant that has ended. While the row is free, this is the `previous` of the next grant; while it is
    /// held, of this grant.
    #[must_use]
    pub fn last_ended(&self) -> Option<Previous> {
        match &self.state {
            State::Held(_) => self.grant_before(),
            State::Free { .. } => Some(self.last_grant()).filter(was_granted),
        }
    }

    /// Whether `request` is one of the granted requests that the row remembers.
    #[must_use]
    pub fn remembers(&self, request: &RequestDigest) -> bool {
        self.request == *request || self.past_requests.iter().flatten().any(|p| p == request)
    }
}

fn was_granted(previous: &Previous) -> bool {
    previous.holder.as_str() != Row::NOBODY
}

/// How the grant with this token, which is no longer the row's, ended: as far as the row shows, in words for its holder.
pub(crate) fn how_ended(row: Option<&Row>, token: Counter) -> String {
    let Some(row) = row else {
        return "its row is gone".to_owned();
    };
    let (last, last_ended) = (row.last_grant(), row.last_ended());
    let mut of_token = last_ended.iter().chain(&row.previous);
    let mut how = match of_token.find(|of| of.fencing_token == token) {
        Some(of) => match of.ended {
            Ended::Released => "it was released".to_owned(),
            Ended::Expired => "it expired".to_owned(),
            Ended::Forced => {
                // The record is of the operators' last act, which may be a later one.
                let is_last = last_ended.as_ref() == Some(of);
                let record = row.operator.as_ref().filter(|_| is_last);
                let record = record.filter(|record| record.act == Act::ForceRelease);
                format!("an operator ended it{}", because(record))
            }
        },
        None if token < last.fencing_token => "it ended".to_owned(),
        None if token == last.fencing_token => "the row has another lease_id".to_owned(),
        None => "the row has never had its fencing token".to_owned(),
    };
    let Previous {
        holder,
        fencing_token: since,
        ..
    } = last;
    if since > token {
        how = format!("{how}; {holder} was granted the key since, with fencing token {since}");
    }
    how
}
