//! Messages under way. A message is never used up: it may arrive never, late, often, and in any order.

use leasehold::transition::{
    Change, EndIfUnchanged, Extend, Grant, Release, ShortenDeadline, TakeoverRule, TokenFloor,
};
use leasehold::{AtLeast, Counter, Metadata, request::Request};

use crate::{
    names::{self, Attempt, Count, FLOOR, LeaseNo, Tick, Who, instant},
    scope::Scope,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    pub from: Who,
    /// Which of its sender's calls.
    pub call: u8,
    /// Its sender's clock when it was sent.
    pub sent: Tick,
    pub what: Operation,
    pub floor: Floor,
}

/// What its sender knows of a floor for tokens, and of the row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Floor {
    /// There is none.
    None,
    /// The row has reached it, and counts on from its own token.
    Reached,
    /// The row is below it, and is lifted.
    Lifts,
}

impl Floor {
    /// For a row with this token.
    pub const fn of(deployed: bool, token: Count) -> Self {
        match deployed {
            false => Self::None,
            true if token < FLOOR => Self::Lifts,
            true => Self::Reached,
        }
    }

    /// By what the library says of the row.
    pub fn suited_to(tokens: TokenFloor) -> Self {
        match tokens {
            TokenFloor::Reached(Counter::MIN) => Self::None,
            TokenFloor::Reached(_) => Self::Reached,
            TokenFloor::Below(_) => Self::Lifts,
        }
    }

    pub fn least(self) -> Counter {
        match self {
            Self::None => Counter::MIN,
            Self::Reached | Self::Lifts => names::counter(FLOOR),
        }
    }

    fn tokens(self) -> TokenFloor {
        match self {
            Self::None | Self::Reached => TokenFloor::Reached(self.least()),
            Self::Lifts => TokenFloor::Below(self.least()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Acquire; with the version that was seen a whole ttl ago, if observation decides.
    Grant(Attempt, Option<Count>),
    Extend(LeaseNo, Count),
    Release(LeaseNo, Count),
    /// Sweep's and reap's: of the version it read, which was this grant's.
    End(Count, LeaseNo, Ended),
    /// Reap's: of the version it read.
    Cut(Count),
    /// To the resource, with the token.
    ResourceWrite(Count),
}

/// How a grant ended that nobody forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    Released,
    Expired,
}

impl From<Ended> for leasehold::Ended {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Released => Self::Released,
            Ended::Expired => Self::Expired,
        }
    }
}

impl Message {
    /// The proof that this call creates, if it creates one.
    pub const fn lease(&self) -> LeaseNo {
        names::lease(self.from, self.call)
    }

    /// What it would do to the row; nothing if it is not for the table.
    pub fn change(&self, scope: &Scope) -> Option<Change> {
        Some(match self.what {
            Operation::Grant(..) => Change::Grant(self.grant(scope)),
            Operation::Extend(lease, token) => Change::Extend(self.extend(lease, token, scope)),
            Operation::Release(lease, token) => Change::Release(release(lease, token)),
            Operation::End(version, _, ended) => Change::EndIfUnchanged(EndIfUnchanged {
                version: names::counter(version),
                ended: ended.into(),
                purge_at: 0,
            }),
            Operation::Cut(version) => {
                let expires_at = instant(self.sent + scope.grace);
                Change::ShortenDeadline(ShortenDeadline {
                    version: names::counter(version),
                    expires_at,
                    sweep_after: expires_at,
                })
            }
            Operation::ResourceWrite(_) => return None,
        })
    }

    const fn attempt(&self) -> Attempt {
        match self.what {
            Operation::Grant(attempt, _) => attempt,
            _ => 0,
        }
    }

    /// The grant that it asks for.
    pub fn grant(&self, scope: &Scope) -> Grant {
        let over = match self.what {
            Operation::Grant(_, Some(seen)) => TakeoverRule {
                unchanged: Some(names::version(seen)),
                ..self.over(scope)
            },
            _ => self.over(scope),
        };
        let expires_at = instant(self.sent + scope.ttl);
        Grant {
            request: Request {
                holder: names::holder(self.from),
                digest: names::request(self.from, self.attempt()),
                keys: None,
                lifetime: names::ttl(scope.ttl).into(),
                permits: None,
                pool: None,
                at_least: AtLeast::default(),
                metadata: Metadata::default(),
                instead_of: None,
            },
            lease_id: names::lease_id(self.lease()),
            now: instant(self.sent),
            over,
            tokens: self.floor.tokens(),
            sweep_after: expires_at,
            by_token: false,
        }
    }

    fn over(&self, scope: &Scope) -> TakeoverRule {
        TakeoverRule::by_clock(instant(self.sent - scope.margin))
    }

    pub fn extend(&self, lease: LeaseNo, token: Count, scope: &Scope) -> Extend {
        Extend {
            lease_id: names::lease_id(lease),
            fencing_token: names::counter(token),
            ttl: names::ttl(scope.ttl),
            now: instant(self.sent),
            expires_at: instant(self.sent + scope.ttl),
            require_unexpired: false,
        }
    }
}

pub fn release(lease: LeaseNo, token: Count) -> Release {
    Release {
        lease_id: names::lease_id(lease),
        fencing_token: names::counter(token),
        purge_at: 0,
    }
}
