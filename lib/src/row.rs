//! A lease row: what one item of the table says, once it is known to be ours.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    values::{Counter, Holder, KeysDigest, LeaseId, Metadata, RequestDigest, Ttl},
};

pub(crate) mod attributes;
mod item;
mod record;

pub use record::{Act, Record};

pub(crate) use item::{
    NULL, b, bytes, instant, metadata, metadata_value, n, s, text, time, ttl, whole,
};

/// An item as DynamoDB gives it.
pub type Item = HashMap<String, AttributeValue>;

/// What is stored at the address of a lease row.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "mostly it is a row")]
pub enum Stored {
    /// Nothing.
    Absent,
    /// A row that this library wrote.
    Row(Row),
    /// An item that this library did not write, and why one can tell. It is never touched.
    Foreign(&'static str),
}

/// A lease row. A mutex is permit 0 of 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The largest number that was given out: the token of the current or last grant, or one above
    /// it that was an operator's, or was promised to somebody who did not come.
    pub fencing_token: Counter,
    /// Bumped by every write that is not about the line alone: an observer watches the holder.
    pub version: Counter,
    /// Who holds it, or held it last.
    pub granted_to: Holder,
    /// The request of the current or last grant.
    pub request: RequestDigest,
    /// Which keys that request asked for, if for several.
    pub request_keys: Option<KeysDigest>,
    /// The requests of the grants before that, latest first.
    pub past_requests: [Option<RequestDigest>; 3],
    /// The grant before the current or last one.
    pub previous: Option<Previous>,
    /// An operator keeps the key from being granted.
    pub frozen: Option<Frozen>,
    /// What an operator last did to the row.
    pub operator: Option<Record>,
    /// When DynamoDB may delete the row, in epoch seconds: [`Row::NEVER`] while it is frozen, so
    /// that a release in the meantime does not let the freeze be purged.
    pub purge_at: Option<u64>,
    /// Who waits, first come first: the digests of their requests. What else is to be known of
    /// them is stored in items of their own.
    pub line: Vec<RequestDigest>,
    /// Held or free.
    pub state: State,
}

/// How a row came to be frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frozen {
    /// By an operator, who has signed for it.
    By(Record),
    /// By an attribute that somebody else has set, whatever its value.
    ByHand,
}

/// Whether a row is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody holds it, though perhaps past its deadline.
    Held(Holding),
    /// Nobody holds it.
    Free {
        /// How the last grant ended.
        ended: Ended,
        /// Its token.
        last_token: Counter,
        /// It is kept for somebody who was in line.
        reserved: Option<Reservation>,
    },
}

/// A free row that is kept for the one who was first in line, until that one confirms by its first
/// extend. It promises the token above [`Row::fencing_token`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// For which request.
    pub request: RequestDigest,
    /// Proof of the grant to come.
    pub lease_id: LeaseId,
    /// Until when it is to be confirmed. A later confirmation counts as long as nobody passed the
    /// key on.
    pub until: Timestamp,
    /// How often somebody has set out to tell the one it is kept for.
    pub tries: Counter,
}

/// What a row says only while it is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// The length last asked for.
    pub ttl: Ttl,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it was last extended.
    pub extended_at: Option<Timestamp>,
    /// The deadline.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not look at it.
    pub sweep_after: Option<Timestamp>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
}

impl Row {
    /// A [`Row::purge_at`] that does not come: the end of the year 9999.
    pub const NEVER: u64 = 253_402_300_799;

    /// The current or last grant, as the next one is told of it: one that is taken over has
    /// expired.
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

    /// For whom it is kept, if it is free and kept for somebody.
    #[must_use]
    pub const fn reserved(&self) -> Option<&Reservation> {
        match &self.state {
            State::Held(_) => None,
            State::Free { reserved, .. } => reserved.as_ref(),
        }
    }

    /// Who waits, first come first.
    #[must_use]
    pub fn waiting(&self) -> &[RequestDigest] {
        &self.line
    }

    /// Who is first in line.
    #[must_use]
    pub fn head(&self) -> Option<&RequestDigest> {
        self.waiting().first()
    }

    /// Whether the next grant is somebody's who waits, or waited until now: nobody else gets it.
    #[must_use]
    pub fn is_spoken_for(&self) -> bool {
        self.head().is_some() || self.reserved().is_some()
    }

    /// The last grant that is over: what the next grant will be told as `previous`, or, while the
    /// row is held, what this grant was told.
    #[must_use]
    pub fn last_ended(&self) -> Option<Previous> {
        match &self.state {
            State::Held(_) => self.previous.clone(),
            State::Free { .. } => Some(self.last_grant()),
        }
    }

    /// Whether `request` was ever granted here, as far as the row remembers.
    #[must_use]
    pub fn remembers(&self, request: &RequestDigest) -> bool {
        self.request == *request || self.past_requests.iter().flatten().any(|p| p == request)
    }
}
