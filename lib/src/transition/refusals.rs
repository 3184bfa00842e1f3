//! The meaning of a refusal, according to the item that was stored.

use super::{Extend, Grant, Join, Release, TokenFloor, owned};
use crate::{
    outcomes::Ended,
    row::{Row, Stored},
};

/// What a refused [`Grant`] means.
#[derive(Debug)]
pub enum GrantRefusal {
    /// The request has this lease already.
    Replayed(Row),
    /// Its holder has this lease by another request, and the request is reentrant.
    Reentered(Row),
    /// The same, but it asks for what that lease has not: the field that says so.
    Differs(&'static str),
    /// The request has this lease already, but asked for other keys then.
    OtherKeys,
    /// The request had its lease, and that lease has ended.
    Consumed,
    /// An operator froze the key.
    Frozen(Row),
    /// It can be granted, with these tokens.
    Grantable(TokenFloor),
    /// Somebody holds it or waits for it, it is closed, or its limit is 0.
    Held(Row),
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Interprets the stored item when a grant was refused. The order matters: a request's own lease comes before
/// everything that would stop a new one. A `reentrant` request gets its holder's lease, as long as that has not expired, does not
/// wait for a permit of its pool, and is what the request asks for.
#[must_use]
pub fn why_not_granted(stored: Stored, grant: &Grant, reentrant: bool) -> GrantRefusal {
    let row = match stored {
        Stored::Row(row) => row,
        Stored::Foreign(reason) => return GrantRefusal::Corrupt(reason),
        Stored::Absent => {
            return match grant.tokens {
                TokenFloor::Below(floor) => GrantRefusal::Grantable(TokenFloor::Reached(floor)),
                TokenFloor::Reached(_) => GrantRefusal::Corrupt("the table refused to create it"),
            };
        }
    };
    let suits = grant.tokens.for_row(row.fencing_token);
    let held = row.holding();
    let lasts = held.is_some_and(|held| held.expires_at() > grant.now);
    if held.is_some() && row.request == grant.request.digest {
        if row.request_keys == grant.request.keys {
            GrantRefusal::Replayed(row)
        } else {
            GrantRefusal::OtherKeys
        }
    } else if row.remembers(&grant.request.digest) {
        GrantRefusal::Consumed
    } else if reentrant && lasts && row.granted_to == grant.request.holder && !row.waits_in_pool() {
        match grant.request.asks_for_more_than(&row) {
            Some(field) => GrantRefusal::Differs(field),
            None => GrantRefusal::Reentered(row),
        }
    } else if row.frozen.is_some() {
        GrantRefusal::Frozen(row)
    } else if row.head().is_some() || row.is_limited_to_none() {
        GrantRefusal::Held(row)
    } else if suits != grant.tokens && grant.over.allows(&row) {
        GrantRefusal::Grantable(suits)
    } else if held.is_some() || !grant.over.allows(&row) {
        GrantRefusal::Held(row)
    } else {
        GrantRefusal::Corrupt("it is free, but cannot be granted")
    }
}

/// What a refused [`Join`] means.
#[derive(Debug)]
pub enum JoinRefusal {
    /// The request is in the queue already.
    Queued,
    /// The queue has reached its cap.
    Full,
    /// Anything else: the next request for the key learns what.
    Changed,
}

/// Interprets the stored item when a join was refused.
#[must_use]
pub fn why_not_joined(stored: &Stored, join: &Join) -> JoinRefusal {
    let Stored::Row(row) = stored else {
        return JoinRefusal::Changed;
    };
    let is_full = row.waiting().len() >= usize::from(join.cap);
    if row.waiting().contains(&join.request) {
        JoinRefusal::Queued
    } else if is_full && !row.remembers(&join.request) && row.frozen.is_none() {
        JoinRefusal::Full
    } else {
        JoinRefusal::Changed
    }
}

/// What a refused [`Extend`] means.
#[derive(Debug)]
pub enum ExtendRefusal {
    /// Somebody has extended it by a later clock: this write is late, or its clock is behind.
    Behind,
    /// The lease lasts longer than requested: this write is late, and changes nothing.
    Longer(Row),
    /// The deadline has passed, and the caller required an unexpired lease.
    Expired,
    /// The deadline has passed, and an operator froze the key.
    Frozen(Row),
    /// The deadline has passed, and somebody waits.
    Awaited(Row),
    /// The grant has ended. The row shows how, if there still is one.
    Lost(Option<Row>),
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Interprets the stored item when an extend was refused.
#[must_use]
pub fn why_not_extended(stored: Stored, extend: &Extend) -> ExtendRefusal {
    let row = match stored {
        Stored::Row(row) => row,
        Stored::Foreign(reason) => return ExtendRefusal::Corrupt(reason),
        Stored::Absent => return ExtendRefusal::Lost(None),
    };
    match owned(&row, &extend.lease_id, extend.fencing_token) {
        None => ExtendRefusal::Lost(Some(row)),
        Some(held) if !extend.behind && held.is_written_after(extend.now) => ExtendRefusal::Behind,
        Some(held) if held.expires_at() > extend.now => ExtendRefusal::Longer(row),
        Some(_) if extend.require_unexpired => ExtendRefusal::Expired,
        Some(_) if row.frozen.is_some() => ExtendRefusal::Frozen(row),
        Some(_) => ExtendRefusal::Awaited(row),
    }
}

/// What a refused [`Release`] means.
#[derive(Debug, PartialEq, Eq)]
pub enum ReleaseRefusal {
    /// It was released or swept before, or the row is gone. This very call may have released it and lost the
    /// response, or an earlier call that died since. So the caller gets the row and can notify the next waiter.
    Already(Option<Box<Row>>),
    /// Somebody else was granted it, or an operator ended it: the row shows which.
    Lost(Box<Row>),
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Interprets the stored item when a release was refused.
#[must_use]
pub fn why_not_released(stored: Stored, release: &Release) -> ReleaseRefusal {
    let row = match stored {
        Stored::Absent => return ReleaseRefusal::Already(None),
        Stored::Foreign(reason) => return ReleaseRefusal::Corrupt(reason),
        Stored::Row(row) => row,
    };
    let (token, last) = (release.fencing_token, row.last_grant());
    // A grant that an operator ended was taken away, not released.
    if row.holding().is_none() && last.fencing_token == token && last.ended != Ended::Forced {
        ReleaseRefusal::Already(Some(Box::new(row)))
    } else if row.past_releases.contains(&Some(token)) {
        ReleaseRefusal::Already(None)
    } else {
        ReleaseRefusal::Lost(Box::new(row))
    }
}
