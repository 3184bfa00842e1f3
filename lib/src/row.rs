//! A lease row: the contents of one item of the table, if this library wrote it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    values::{Counter, Holder, KeepTime, KeysDigest, LeaseId, Metadata, RequestDigest, Ttl},
};

pub(crate) mod attributes;
mod item;
mod record;

pub(crate) use record::because;
pub use record::{Act, Record};

pub(crate) use item::{
    NULL, b, bytes, instant, metadata, metadata_value, n, s, text, time, ttl, whole,
};

/// An item as DynamoDB returns it.
pub type Item = HashMap<String, AttributeValue>;

/// What is stored at the address of a lease row.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "usually it is a row")]
pub enum Stored {
    /// Nothing.
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
    /// operator, of a waiter that did not confirm, or the floor.
    pub fencing_token: Counter,
    /// Increases with every write except those that change the queue only, because observers watch the holder.
    pub version: Counter,
    /// Who holds it, or held it last.
    pub granted_to: Holder,
    /// The request of the current or last grant.
    pub request: RequestDigest,
    /// Which keys that request asked for, if it asked for several.
    pub request_keys: Option<KeysDigest>,
    /// The requests of the three grants before that, latest first.
    pub past_requests: [Option<RequestDigest>; 3],
    /// The tokens of the last three grants that were released, latest first: a repeated release is told so, also after
    /// others were granted the key.
    pub past_releases: [Option<Counter>; 3],
    /// The grant before the current or last one.
    pub previous: Option<Previous>,
    /// Whether and how the key is frozen, so that it cannot be granted.
    pub frozen: Option<Frozen>,
    /// What an operator last did to the row.
    pub operator: Option<Record>,
    /// When DynamoDB may delete the row, in epoch seconds. While the row is frozen it is [`Row::NEVER`], so that the
    /// freeze is not purged after a release.
    pub purge_at: Option<u64>,
    /// The queue, first come first: the digests of the requests. Everything else about the waiters is stored in items
    /// of their own.
    pub queue: Vec<RequestDigest>,
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
        /// The reservation for a waiter, if there is one.
        reserved: Option<Reservation>,
    },
}

/// A free row that is reserved for the first waiter, until that waiter confirms by its first extend. The waiter's
/// token is the one above [`Row::fencing_token`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The waiter's request.
    pub request: RequestDigest,
    /// Proof of the grant to come.
    pub lease_id: LeaseId,
    /// When the reservation expires. A later confirmation counts as long as nobody passed the key on.
    pub until: Timestamp,
    /// How often a notification of the waiter was attempted.
    pub tries: Counter,
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
    /// When it was last extended; an execution lease, when it was last proven.
    pub extended_at: Option<Timestamp>,
    /// Before this instant sweep need not read the row.
    pub sweep_after: Option<Timestamp>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
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
        /// The execution is over and something of it may still be at work: from this instant on, a look that finds it so
        /// again may end the lease.
        look_again_at: Option<Timestamp>,
    },
}

impl Holding {
    /// The deadline. An execution lease has none, which is one that never passes.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        match self.term {
            Term::Ttl { expires_at, .. } => expires_at,
            Term::Execution { .. } => Timestamp::MAX,
        }
    }

    /// When the holder last wrote the row.
    #[must_use]
    pub fn written_at(&self) -> Timestamp {
        self.extended_at
            .map_or(self.acquired_at, |at| at.max(self.acquired_at))
    }
}

impl Row {
    /// A [`Row::purge_at`] in the far future: the end of the year 9999.
    pub const NEVER: u64 = 253_402_300_799;

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

    /// The holding, while it is held.
    #[must_use]
    pub const fn holding(&self) -> Option<&Holding> {
        match &self.state {
            State::Held(holding) => Some(holding),
            State::Free { .. } => None,
        }
    }

    /// The reservation, if the row is free and reserved.
    #[must_use]
    pub const fn reserved(&self) -> Option<&Reservation> {
        match &self.state {
            State::Held(_) => None,
            State::Free { reserved, .. } => reserved.as_ref(),
        }
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

    /// Whether the next grant belongs to a waiter, or to the request with the reservation: nobody else gets it.
    #[must_use]
    pub fn is_reserved_or_queued(&self) -> bool {
        self.head().is_some() || self.reserved().is_some()
    }

    /// The last grant that has ended. While the row is free, this is the `previous` of the next grant; while it is
    /// held, of this grant.
    #[must_use]
    pub fn last_ended(&self) -> Option<Previous> {
        match &self.state {
            State::Held(_) => self.previous.clone(),
            State::Free { .. } => Some(self.last_grant()),
        }
    }

    /// Whether `request` is one of the granted requests that the row remembers.
    #[must_use]
    pub fn remembers(&self, request: &RequestDigest) -> bool {
        self.request == *request || self.past_requests.iter().flatten().any(|p| p == request)
    }
}

/// How the grant or the reservation with this token, which is no longer the row's, ended: as far as the row shows, in words
/// for its holder.
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
        None if row.reserved().is_some() && row.fencing_token < token => {
            "the token floor is above its reservation".to_owned()
        }
        None => "its reservation was not confirmed in time".to_owned(),
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
