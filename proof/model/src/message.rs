//! Messages under way. A message is never used up: it may arrive never, late, often, and in any order.

use leasehold::transition::{
    Change, ConfirmReservation, EndIfUnchanged, Extend, Grant, HandOver, Join, Leave,
    PassReservation, Release, ReleaseTarget, RenewReservation, Reserve, ShortenDeadline, Successor,
    TakeoverRule, TokenFloor,
};
use leasehold::{Counter, Metadata, row::Term};

use crate::{
    names::{self, Attempt, Count, FLOOR, LeaseNo, SWEEPER, Tick, Who, instant},
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
    Join(Attempt),
    Extend(LeaseNo, Count),
    /// The first extend of a reservation.
    Take(LeaseNo, Count),
    /// Of a grant, or of a reservation.
    Release(LeaseNo, Count, bool),
    /// Sweep's, reap's, and a late extend's: of the version it read, which was this grant's.
    End(Count, LeaseNo, Ended),
    /// Reap's: of the version it read.
    Cut(Count),
    Reserve,
    TryAgain(LeaseNo, u8),
    Pass(LeaseNo, u8),
    /// Reap's: a waiter that was notified is not notified again, and has until then.
    StopRetries(LeaseNo, u8, Tick),
    Leave(Who, Attempt, u8),
    /// To the resource, with the token.
    ResourceWrite(Count),
    /// To a waiting task: the proof, the token, and until when it is to be confirmed.
    NotifyTask(Who, Attempt, LeaseNo, Count, Tick),
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
            Operation::Join(_) => Change::Join(self.join(scope)),
            Operation::Extend(lease, token) => Change::Extend(self.extend(lease, token, scope)),
            Operation::Take(lease, token) => {
                Change::ConfirmReservation(self.take(lease, token, scope))
            }
            Operation::Release(lease, token, promise) => {
                Change::Release(self.release(lease, token, promise, scope))
            }
            Operation::End(version, _, ended) => Change::EndIfUnchanged(EndIfUnchanged {
                version: names::counter(version),
                ended: ended.into(),
                next: self.next(scope),
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
            Operation::Reserve => Change::Reserve(Reserve {
                heir: self.heir(scope),
            }),
            Operation::TryAgain(lease, tries) => {
                Change::RenewReservation(self.try_again(lease, tries, self.sent + scope.claim))
            }
            Operation::StopRetries(lease, tries, until) => {
                Change::RenewReservation(self.try_again(lease, tries, until))
            }
            Operation::Pass(lease, tries) => Change::PassReservation(PassReservation {
                lease_id: names::lease_id(lease),
                tries: names::tries(tries),
                heir: self.heir(scope),
            }),
            Operation::Leave(who, attempt, place) => Change::Leave(Leave {
                request: names::request(who, attempt),
                place: place.into(),
            }),
            Operation::ResourceWrite(_) | Operation::NotifyTask(..) => return None,
        })
    }

    fn try_again(&self, lease: LeaseNo, tries: u8, until: Tick) -> RenewReservation {
        RenewReservation {
            lease_id: names::lease_id(lease),
            tries: names::tries(tries),
            until: instant(until),
            tokens: self.floor.tokens(),
        }
    }

    const fn attempt(&self) -> Attempt {
        match self.what {
            Operation::Grant(attempt, _) | Operation::Join(attempt) => attempt,
            _ => 0,
        }
    }

    /// The grant that it asks for: a join would, if there were nobody to wait for.
    pub fn grant(&self, scope: &Scope) -> Grant {
        let over = match self.what {
            Operation::Grant(_, Some(seen)) => TakeoverRule::VersionUnchanged(names::version(seen)),
            _ => self.over(scope),
        };
        let expires_at = instant(self.sent + scope.ttl);
        Grant {
            holder: names::holder(self.from),
            request: names::request(self.from, self.attempt()),
            keys: scope.polls(self.from).then(names::keys).flatten(),
            lease_id: names::lease_id(self.lease()),
            term: Term::Ttl {
                ttl: names::ttl(scope.ttl),
                expires_at,
            },
            metadata: Metadata::default(),
            now: instant(self.sent),
            over,
            tokens: self.floor.tokens(),
            sweep_after: expires_at,
        }
    }

    fn over(&self, scope: &Scope) -> TakeoverRule {
        TakeoverRule::ExpiredBy(instant(self.sent - scope.margin))
    }

    pub fn join(&self, scope: &Scope) -> Join {
        Join {
            request: names::request(self.from, self.attempt()),
            over: self.over(scope),
            cap: 128,
        }
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

    fn take(&self, lease: LeaseNo, token: Count, scope: &Scope) -> ConfirmReservation {
        let expires_at = instant(self.sent + scope.ttl);
        ConfirmReservation {
            lease_id: names::lease_id(lease),
            fencing_token: names::counter(token),
            floor: self.floor.least(),
            holder: names::holder(self.from),
            metadata: Metadata::default(),
            ttl: names::ttl(scope.ttl),
            acquired_at: instant(self.sent),
            now: instant(self.sent),
            expires_at,
            sweep_after: expires_at,
            require_unexpired: false,
        }
    }

    pub fn release(&self, lease: LeaseNo, token: Count, promise: bool, scope: &Scope) -> Release {
        Release {
            lease_id: names::lease_id(lease),
            fencing_token: names::counter(token),
            of: if promise {
                ReleaseTarget::Reservation(names::holder(self.from))
            } else {
                ReleaseTarget::Grant
            },
            ended: Ended::Released.into(),
            next: self.next(scope),
            purge_at: 0,
        }
    }

    fn next(&self, scope: &Scope) -> HandOver {
        if scope.mute && self.from != SWEEPER {
            HandOver::Later
        } else {
            HandOver::Now(self.heir(scope))
        }
    }

    fn heir(&self, scope: &Scope) -> Successor {
        Successor {
            lease_id: names::lease_id(self.lease()),
            until: instant(self.sent + scope.claim),
            tokens: self.floor.tokens(),
        }
    }
}
