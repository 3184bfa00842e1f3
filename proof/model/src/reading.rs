//! How a caller reads an answer of the table: by the library's own readers of refusals.

use leasehold::{
    row::Stored,
    transition::{
        ExtendRefusal, GrantRefusal, ReleaseRefusal, why_not_extended, why_not_granted,
        why_not_released,
    },
};

use crate::{
    message::{self, Floor, Message, Operation},
    names::{Count, LeaseNo, Tick},
    rows::RowView,
    scope::Scope,
};

#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// The caller has the lease, until this time.
    Has(Handle),
    /// Somebody else has the lease.
    Held(Count),
    /// The request had its lease, and that lease has ended.
    Consumed,
    /// The lease is no longer the caller's.
    Lost,
    /// The lease has ended.
    Over,
    /// The key can be acquired, by a call that knows on which side of the floor the row is.
    Suits(Floor),
    /// Nothing came of it.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    pub lease: LeaseNo,
    pub token: Count,
    /// Until when its holder believes that it holds, by its own clock.
    pub until: Tick,
}

impl Reading {
    /// Whether the caller knows that it has got what it wanted.
    pub const fn settles(self) -> bool {
        matches!(self, Self::Has(_) | Self::Over)
    }
}

/// Of a change that was made.
pub fn of_success(message: &Message, facts: RowView) -> Reading {
    match message.what {
        Operation::Grant(..) | Operation::Extend(..) => has(facts),
        Operation::Release(..)
        | Operation::End(..)
        | Operation::Cut(_)
        | Operation::ResourceWrite(_) => Reading::Over,
    }
}

fn has(facts: RowView) -> Reading {
    facts.held.map_or(Reading::Nothing, |held| {
        Reading::Has(Handle {
            lease: held.lease,
            token: facts.token,
            until: held.until,
        })
    })
}

/// Of a change that was not, and what stood there.
pub fn of_refusal(scope: &Scope, message: &Message, stored: Stored, facts: RowView) -> Reading {
    match message.what {
        Operation::Grant(..) => not_granted(
            &why_not_granted(stored, &message.grant(scope), false),
            facts,
        ),
        Operation::Extend(lease, token) => {
            let extend = message.extend(lease, token, scope);
            match why_not_extended(stored, &extend) {
                ExtendRefusal::Longer(_) => has(facts),
                ExtendRefusal::Awaited(_) | ExtendRefusal::Expired | ExtendRefusal::Lost(_) => {
                    Reading::Lost
                }
                ExtendRefusal::Frozen(_) | ExtendRefusal::Corrupt(_) => Reading::Nothing,
            }
        }
        Operation::Release(lease, token) => {
            match why_not_released(stored, &message::release(lease, token)) {
                ReleaseRefusal::Already(_) => Reading::Over,
                ReleaseRefusal::Lost(_) => Reading::Lost,
                ReleaseRefusal::Corrupt(_) => Reading::Nothing,
            }
        }
        _ => Reading::Nothing,
    }
}

fn not_granted(refusal: &GrantRefusal, facts: RowView) -> Reading {
    match refusal {
        GrantRefusal::Replayed(_) | GrantRefusal::Reentered(_) => has(facts),
        GrantRefusal::Consumed => Reading::Consumed,
        GrantRefusal::Held(_) => Reading::Held(facts.version),
        GrantRefusal::Grantable(tokens) => Reading::Suits(Floor::suited_to(*tokens)),
        GrantRefusal::Differs(_)
        | GrantRefusal::OtherKeys
        | GrantRefusal::Frozen(_)
        | GrantRefusal::Corrupt(_) => Reading::Nothing,
    }
}
