//! What a refusal means, by what stood there.

use super::{Extend, Grant, Tokens, owned};
use crate::{
    outcomes::{Ended, Previous},
    row::{Row, Stored},
    values::Counter,
};

/// What a refused [`Grant`] means.
#[derive(Debug)]
pub enum GrantRefusal {
    /// The request has this lease already; or its holder has, and may have it again.
    Replayed(Row),
    /// The request has this lease already, and it asked for other keys then.
    OtherKeys,
    /// The request had its lease, and that is over.
    Consumed,
    /// An operator froze the key.
    Frozen(Row),
    /// It can be had, by a grant with these tokens.
    Suits(Tokens),
    /// Somebody holds it.
    Held(Row),
    /// The item is not ours.
    Corrupt(&'static str),
}

/// Reads what stood there when a grant was refused. The order matters: a request's own lease
/// comes before everything that would stop a new one. To a `reentrant` request its holder's lease
/// is its own, as long as it has not expired.
#[must_use]
pub fn why_not_granted(stored: Stored, grant: &Grant, reentrant: bool) -> GrantRefusal {
    let row = match stored {
        Stored::Row(row) => row,
        Stored::Foreign(reason) => return GrantRefusal::Corrupt(reason),
        Stored::Absent => {
            return match grant.tokens {
                Tokens::LiftedTo(floor) => GrantRefusal::Suits(Tokens::From(floor)),
                Tokens::From(_) => GrantRefusal::Corrupt("the table refused to create it"),
            };
        }
    };
    let suits = grant.tokens.for_row(row.fencing_token);
    let held = row.holding();
    let lasts = held.is_some_and(|held| held.expires_at > grant.now);
    if held.is_some() && row.request == grant.request {
        if row.request_keys == grant.keys {
            GrantRefusal::Replayed(row)
        } else {
            GrantRefusal::OtherKeys
        }
    } else if row.remembers(&grant.request) {
        GrantRefusal::Consumed
    } else if reentrant && lasts && row.granted_to == grant.holder {
        GrantRefusal::Replayed(row)
    } else if row.frozen.is_some() {
        GrantRefusal::Frozen(row)
    } else if suits != grant.tokens && grant.over.holds(&row) {
        GrantRefusal::Suits(suits)
    } else if held.is_some() {
        GrantRefusal::Held(row)
    } else {
        GrantRefusal::Corrupt("it is free and yet cannot be granted")
    }
}

/// What a refused [`Extend`] means.
#[derive(Debug)]
pub enum ExtendRefusal {
    /// The lease lasts longer than was asked for: this write is late, and changes nothing.
    Longer(Row),
    /// The deadline has passed, and the caller required that it has not.
    Expired,
    /// The deadline has passed, and an operator froze the key.
    Frozen(Row),
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
        Some(_) => ExtendRefusal::Frozen(row),
    }
}

/// What a refused [`Release`](super::Release) means.
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
            // A grant that an operator ended was taken away, not given back.
            let given_back =
                |p: &Previous, so: &[Ended]| p.fencing_token == token && so.contains(&p.ended);
            let last = row.holding().is_none()
                && given_back(&row.last_grant(), &[Ended::Released, Ended::Expired]);
            let before = row.previous.as_ref();
            if last || before.is_some_and(|p| given_back(p, &[Ended::Released])) {
                ReleaseRefusal::Already
            } else {
                ReleaseRefusal::Lost
            }
        }
    }
}
