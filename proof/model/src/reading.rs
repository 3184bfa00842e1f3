//! How a caller reads an answer of the table: by the library's own readers of refusals.

use leasehold::{
    row::Stored,
    transition::{
        ExtendRefusal, GrantRefusal, HandOver, JoinRefusal, ReleaseRefusal, why_not_extended,
        why_not_granted, why_not_joined, why_not_released,
    },
};

use crate::{
    message::{Floor, Message, Operation},
    names::{self, Count, LeaseNo, Tick},
    rows::{Held, Reservation, RowView},
    scope::Scope,
};

#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// The caller has the lease, until this time.
    Has(Handle),
    /// Somebody else has the lease, or the turn.
    Held(Count),
    /// The request had its lease, and that lease has ended.
    Consumed,
    /// It is in the queue.
    InLine,
    /// There is nobody to wait for.
    Grantable,
    /// The row is reserved for the caller, with this proof, after this number of notifications.
    ItsTurn(LeaseNo, u8),
    /// The caller has a reservation and believed that it had a grant; or the reverse.
    Promised(bool),
    /// The lease has expired and others wait: the caller ends it, by this version.
    Awaited(Count, Held),
    /// The lease is no longer the caller's.
    Lost,
    /// The lease has ended, and this call reserved the row for the next waiter, if there is one.
    Over(Option<Reservation>),
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
    /// Granted, and not only reserved.
    pub confirmed: bool,
}

impl Reading {
    /// Whether the caller knows that it has got what it wanted.
    pub const fn settles(self) -> bool {
        matches!(self, Self::Has(_) | Self::InLine | Self::Over(_))
    }
}

/// Of a change that was made.
pub fn of_success(message: &Message, facts: RowView) -> Reading {
    match message.what {
        Operation::Grant(..) | Operation::Extend(..) | Operation::Take(..) => has(facts),
        Operation::Join(_) => Reading::InLine,
        Operation::Release(..) | Operation::End(..) | Operation::Reserve | Operation::Pass(..) => {
            Reading::Over(facts.kept.filter(|kept| kept.lease == message.lease()))
        }
        Operation::TryAgain(..) => Reading::Over(facts.kept),
        Operation::StopRetries(..)
        | Operation::Cut(_)
        | Operation::Leave(..)
        | Operation::ResourceWrite(_)
        | Operation::NotifyTask(..) => Reading::Over(None),
    }
}

fn has(facts: RowView) -> Reading {
    facts.held.map_or(Reading::Nothing, |held| {
        Reading::Has(Handle {
            lease: held.lease,
            token: facts.token,
            until: held.until,
            confirmed: true,
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
        Operation::Join(_) => {
            let (join, grant) = (message.join(scope), message.grant(scope));
            match why_not_joined(stored, &join, &grant) {
                JoinRefusal::Grantable => Reading::Grantable,
                JoinRefusal::InLine => Reading::InLine,
                JoinRefusal::Full(_) => Reading::Nothing,
                JoinRefusal::Other(refusal) => not_granted(&refusal, facts),
            }
        }
        Operation::Extend(lease, token) => {
            not_extended(scope, message, (lease, token), (stored, facts), false)
        }
        Operation::Take(lease, token) => {
            not_extended(scope, message, (lease, token), (stored, facts), true)
        }
        Operation::Release(lease, token, promise) => {
            let release = message.release(lease, token, promise, scope);
            match why_not_released(stored, &release, &names::holder(message.from)) {
                ReleaseRefusal::Releasable(suited) => match suited.next {
                    HandOver::Now(heir) if suited.of == release.of => {
                        Reading::Suits(Floor::suited_to(heir.tokens))
                    }
                    _ => Reading::Promised(!promise),
                },
                ReleaseRefusal::Already(_) => ours(message, facts),
                ReleaseRefusal::Lost(_) => Reading::Lost,
                ReleaseRefusal::Corrupt(_) => Reading::Nothing,
            }
        }
        // Ours, and the answer was lost.
        Operation::End(..) | Operation::Reserve | Operation::Pass(..) => match ours(message, facts)
        {
            Reading::Over(Some(kept)) => Reading::Over(Some(kept)),
            _ => Reading::Nothing,
        },
        _ => Reading::Nothing,
    }
}

/// Nobody has notified the waiter of this reservation since.
fn ours(message: &Message, facts: RowView) -> Reading {
    let first = |kept: &Reservation| kept.lease == message.lease() && kept.tries == 1;
    Reading::Over(facts.kept.filter(first))
}

fn not_granted(refusal: &GrantRefusal, facts: RowView) -> Reading {
    match refusal {
        GrantRefusal::Replayed(_) => has(facts),
        GrantRefusal::Reserved(_) => facts.kept.map_or(Reading::Nothing, |kept| {
            Reading::ItsTurn(kept.lease, kept.tries)
        }),
        GrantRefusal::Consumed => Reading::Consumed,
        GrantRefusal::Held(_) => Reading::Held(facts.version),
        GrantRefusal::Grantable(tokens) => Reading::Suits(Floor::suited_to(*tokens)),
        GrantRefusal::OtherKeys | GrantRefusal::Frozen(_) | GrantRefusal::Corrupt(_) => {
            Reading::Nothing
        }
    }
}

fn not_extended(
    scope: &Scope,
    message: &Message,
    (lease, token): (LeaseNo, Count),
    (stored, facts): (Stored, RowView),
    confirming: bool,
) -> Reading {
    let extend = message.extend(lease, token, scope);
    match why_not_extended(stored, &extend, confirming, message.floor.least()) {
        ExtendRefusal::Longer(_) | ExtendRefusal::Taken(_) => has(facts),
        ExtendRefusal::Unconfirmed => Reading::Promised(true),
        ExtendRefusal::Confirmed => Reading::Promised(false),
        ExtendRefusal::Awaited(_) => facts.held.map_or(Reading::Nothing, |held| {
            Reading::Awaited(facts.version, held)
        }),
        ExtendRefusal::Expired | ExtendRefusal::Lost(_) => Reading::Lost,
        ExtendRefusal::Frozen(_) | ExtendRefusal::Corrupt(_) => Reading::Nothing,
    }
}
