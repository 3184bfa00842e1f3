//! The one pure function that says what a write does to a lease row, and the pure functions that
//! read a refusal.
//!
//! The memory store runs it; the DynamoDB store says the same in condition and update expressions,
//! and takes from here what the row has become. A differential test holds the two together.

use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    row::{Holding, Row, State, Stored},
    values::{Counter, Holder, LeaseId, Metadata, RequestDigest, Ttl},
};

/// A conditional write of one lease row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Grants it, if it is free, or expired by the clock.
    Grant(Grant),
    /// Moves the deadline, if the grant is still the one named.
    Extend(Extend),
    /// Ends the grant named.
    Release(Release),
    /// Sweep's write: ends whatever grant the row carried when sweep read it.
    Expire(Expire),
}

/// See [`Change::Grant`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// To whom.
    pub holder: Holder,
    /// For which request.
    pub request: RequestDigest,
    /// Proof of the new grant.
    pub lease_id: LeaseId,
    /// The length asked for.
    pub ttl: Ttl,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// The taker's clock.
    pub now: Timestamp,
    /// A lease whose deadline is not after this instant has expired: now less the margin.
    pub takeable: Timestamp,
    /// The new deadline.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not look.
    pub sweep_after: Timestamp,
}

/// See [`Change::Extend`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extend {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// The length asked for.
    pub ttl: Ttl,
    /// The holder's clock.
    pub now: Timestamp,
    /// The new deadline, absolute: a duplicate of this write changes nothing.
    pub expires_at: Timestamp,
    /// Refuse to revive a lease whose deadline has passed.
    pub require_unexpired: bool,
}

/// See [`Change::Release`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// When DynamoDB may delete the row, in epoch seconds.
    pub purge_at: u64,
}

/// See [`Change::Expire`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expire {
    /// The version that was read as expired.
    pub version: Counter,
    /// When DynamoDB may delete the row, in epoch seconds.
    pub purge_at: u64,
}

/// The row after `change`, or nothing if the condition refuses it.
#[must_use]
pub fn transition(stored: &Stored, change: &Change) -> Option<Row> {
    match (stored, change) {
        (Stored::Absent, Change::Grant(grant)) => Some(first_grant(grant)),
        (Stored::Row(row), Change::Grant(grant)) => next_grant(row, grant),
        (Stored::Row(row), Change::Extend(extend)) => extended(row, extend),
        (Stored::Row(row), Change::Release(release)) => {
            owned(row, &release.lease_id, release.fencing_token)?;
            Some(ended(row, Ended::Released, release.purge_at))
        }
        (Stored::Row(row), Change::Expire(expire)) => {
            row.holding().filter(|_| row.version == expire.version)?;
            Some(ended(row, Ended::Expired, expire.purge_at))
        }
        _ => None,
    }
}

/// A new row counts from the clock, so that a row which was deleted starts above every token it
/// ever gave out, and above every version anybody ever saw.
fn first_grant(grant: &Grant) -> Row {
    let seed = Counter::new(grant.now.as_millis()).unwrap_or(Counter::MIN);
    Row {
        fencing_token: seed.plus(TOKEN_STEP),
        version: seed.plus(1),
        granted_to: grant.holder.clone(),
        request: grant.request.clone(),
        past_requests: [None, None, None],
        previous: None,
        frozen: false,
        state: State::Held(granted(grant)),
    }
}

/// A hand-over can promise the token between two grants without ever giving one out twice.
pub(crate) const TOKEN_STEP: u64 = 2;

fn next_grant(row: &Row, grant: &Grant) -> Option<Row> {
    let takeable = match &row.state {
        State::Free { .. } => true,
        State::Held(held) => held.expires_at <= grant.takeable,
    };
    if !takeable || row.frozen || row.remembers(&grant.request) {
        return None;
    }
    let [first, second, _] = row.past_requests.clone();
    Some(Row {
        fencing_token: row.fencing_token.plus(TOKEN_STEP),
        version: row.version.plus(1),
        granted_to: grant.holder.clone(),
        request: grant.request.clone(),
        past_requests: [Some(row.request.clone()), first, second],
        previous: Some(Previous {
            holder: row.granted_to.clone(),
            fencing_token: row.fencing_token,
            ended: match &row.state {
                State::Free { ended, .. } => *ended,
                State::Held(_) => Ended::Expired,
            },
        }),
        frozen: false,
        state: State::Held(granted(grant)),
    })
}

fn granted(grant: &Grant) -> Holding {
    Holding {
        lease_id: grant.lease_id.clone(),
        ttl: grant.ttl,
        acquired_at: grant.now,
        extended_at: None,
        expires_at: grant.expires_at,
        sweep_after: Some(grant.sweep_after),
        metadata: grant.metadata.clone(),
    }
}

fn owned<'a>(row: &'a Row, lease_id: &LeaseId, token: Counter) -> Option<&'a Holding> {
    row.holding()
        .filter(|held| held.lease_id == *lease_id && row.fencing_token == token)
}

fn extended(row: &Row, extend: &Extend) -> Option<Row> {
    let held = owned(row, &extend.lease_id, extend.fencing_token)?;
    let may_revive = !row.frozen && !extend.require_unexpired;
    let allowed = held.expires_at > extend.now || may_revive;
    (allowed && held.expires_at <= extend.expires_at).then(|| Row {
        version: row.version.plus(1),
        state: State::Held(Holding {
            ttl: extend.ttl,
            extended_at: Some(extend.now),
            expires_at: extend.expires_at,
            ..held.clone()
        }),
        ..row.clone()
    })
}

fn ended(row: &Row, ended: Ended, purge_at: u64) -> Row {
    Row {
        version: row.version.plus(1),
        state: State::Free {
            ended,
            purge_at: Some(purge_at),
        },
        ..row.clone()
    }
}

/// What a refused [`Grant`] means.
#[derive(Debug)]
pub enum GrantRefusal {
    /// The request has this lease already.
    Replayed(Row),
    /// The request had its lease, and that is over.
    Consumed,
    /// An operator froze the key.
    Frozen,
    /// Somebody holds it.
    Held(Row),
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Reads what stood there when a grant was refused. The order matters: a request's own lease
/// comes before everything that would stop a new one.
#[must_use]
pub fn why_not_granted(stored: Stored, request: &RequestDigest) -> GrantRefusal {
    let row = match stored {
        Stored::Row(row) => row,
        Stored::Foreign(reason) => return GrantRefusal::Corrupt(reason),
        Stored::Absent => return GrantRefusal::Corrupt("the table refused to create it"),
    };
    let held = row.holding().is_some();
    if row.request == *request && held {
        GrantRefusal::Replayed(row)
    } else if row.remembers(request) {
        GrantRefusal::Consumed
    } else if row.frozen {
        GrantRefusal::Frozen
    } else if held {
        GrantRefusal::Held(row)
    } else {
        GrantRefusal::Corrupt("it is free and yet cannot be granted")
    }
}

/// What a refused [`Extend`] means.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, for a moment"
)]
pub enum ExtendRefusal {
    /// The lease lasts longer than was asked for: this write is late, and changes nothing.
    Longer(Row),
    /// The deadline has passed, and the caller required that it has not.
    Expired,
    /// The deadline has passed, and an operator froze the key.
    Frozen,
    /// The grant is over.
    Lost,
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Reads what stood there when an extend was refused.
#[must_use]
pub fn why_not_extended(stored: Stored, extend: &Extend) -> ExtendRefusal {
    let row = match stored {
        Stored::Row(row) => row,
        Stored::Foreign(reason) => return ExtendRefusal::Corrupt(reason),
        Stored::Absent => return ExtendRefusal::Lost,
    };
    match owned(&row, &extend.lease_id, extend.fencing_token) {
        None => ExtendRefusal::Lost,
        Some(held) if held.expires_at > extend.now => ExtendRefusal::Longer(row),
        Some(_) if extend.require_unexpired => ExtendRefusal::Expired,
        Some(_) => ExtendRefusal::Frozen,
    }
}

/// What a refused [`Release`] means.
#[derive(Debug, PartialEq, Eq)]
pub enum ReleaseRefusal {
    /// It was released or swept before, or the row is gone.
    Already,
    /// Somebody else was granted it.
    Lost,
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Reads what stood there when a release was refused.
#[must_use]
pub fn why_not_released(stored: &Stored, token: Counter) -> ReleaseRefusal {
    match stored {
        Stored::Absent => ReleaseRefusal::Already,
        Stored::Foreign(reason) => ReleaseRefusal::Corrupt(reason),
        Stored::Row(row) => {
            let over = row.fencing_token == token && row.holding().is_none();
            let before = row
                .previous
                .as_ref()
                .is_some_and(|p| p.fencing_token == token && p.ended == Ended::Released);
            if over || before {
                ReleaseRefusal::Already
            } else {
                ReleaseRefusal::Lost
            }
        }
    }
}
