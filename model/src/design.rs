//! Designs that are wrong in one point each, most of them somebody's before us. Each must be found out.

use leasehold::{
    row::{Row, State, Stored},
    transition::{self, Change, transition},
};

use crate::{
    message::{Message, What},
    names::{self, Count, Tick},
    reading::Reading,
    scope::{self, Scope},
    witness::Invariant,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// The library's.
    Ours,
    Broken(Flaw),
}

/// What is wrong with a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    TheResourceIgnoresTheToken,
    ReleaseDeletesTheRowAndTheCounter,
    NoMargin,
    ClocksThatJump,
    ReleaseWithoutCondition,
    NoMemoryOfRequests,
    ExtendAdds,
    ExtendByNameAlone,
    ExtendShortens,
    GrantsStepByOne,
    PassingKeepsTheToken,
    GrantsPassTheLineBy,
    WakesWithoutKeeping,
    ObservesTheToken,
    SweepFreesWhateverStands,
    StrangersAreOverwritten,
    OneOwnLeaseIsSomebodyElses,
    DeadlineCountsFromTheAnswer,
    WhoeverIsRefusedPassesOn,
    StoppedIsReleasedAtOnce,
    NobodySweeps,
    NobodyTendsTheLine,
}

/// Each flaw, what it breaks, and in which world.
pub const FLAWS: [(Flaw, &str, Invariant, Scope); 22] = {
    use Flaw as F;
    use Invariant as I;
    [
        (
            F::TheResourceIgnoresTheToken,
            "the resource ignores the token",
            I::S3,
            scope::MUTEX,
        ),
        (
            F::ReleaseDeletesTheRowAndTheCounter,
            "release deletes the row, and the counter in it",
            I::S1,
            scope::MUTEX,
        ),
        (
            F::NoMargin,
            "leases are taken without a margin",
            I::S8,
            scope::MUTEX,
        ),
        (
            F::ClocksThatJump,
            "deadlines by clocks that jump further than half the margin",
            I::S8,
            scope::JUMPS,
        ),
        (
            F::ReleaseWithoutCondition,
            "release has no condition",
            I::S4,
            scope::MUTEX,
        ),
        (
            F::NoMemoryOfRequests,
            "the row does not remember the requests of its grants",
            I::S9,
            scope::MUTEX,
        ),
        (
            F::ExtendAdds,
            "an extend adds to the deadline",
            I::L1,
            scope::MUTEX,
        ),
        (
            F::ExtendByNameAlone,
            "an extend goes by the holder's name and not by the proof",
            I::S6,
            scope::SWEPT,
        ),
        (
            F::ExtendShortens,
            "a late extend sets an earlier deadline",
            I::S5,
            scope::MUTEX,
        ),
        (
            F::GrantsStepByOne,
            "grants step by one, over the promised token",
            I::S1,
            scope::LINE,
        ),
        (
            F::PassingKeepsTheToken,
            "a turn is passed on with the same token",
            I::S1,
            scope::LINE,
        ),
        (
            F::GrantsPassTheLineBy,
            "a grant does not look at the line",
            I::L3,
            scope::LINE,
        ),
        (
            F::WakesWithoutKeeping,
            "the first in line is taken out and told, and the row not kept",
            I::L4,
            scope::LINE,
        ),
        (
            F::ObservesTheToken,
            "observers compare the token, which no extend moves",
            I::S8,
            scope::OBSERVERS,
        ),
        (
            F::SweepFreesWhateverStands,
            "sweep frees whatever stands there by now",
            I::S4,
            scope::SWEPT,
        ),
        (
            F::StrangersAreOverwritten,
            "an item without a token counts as absent",
            I::S10,
            scope::STRANGERS,
        ),
        (
            F::OneOwnLeaseIsSomebodyElses,
            "a refusal by one's own lease is taken for somebody else's",
            I::L2,
            scope::MUTEX,
        ),
        (
            F::DeadlineCountsFromTheAnswer,
            "the holder counts from the answer",
            I::S8,
            scope::MUTEX,
        ),
        (
            F::WhoeverIsRefusedPassesOn,
            "whoever's wake-up is refused passes the turn on",
            I::S8,
            scope::LINE,
        ),
        (
            F::StoppedIsReleasedAtOnce,
            "what a stopped execution held is free at once",
            I::S8,
            scope::REAPED,
        ),
        (
            F::NobodySweeps,
            "nobody frees what has expired",
            I::L1,
            scope::SWEPT,
        ),
        (
            F::NobodyTendsTheLine,
            "nobody repeats a wake-up that was lost",
            I::L4,
            scope::LINE,
        ),
    ]
};

impl Design {
    /// The world that shows the flaw, if it is one of worlds.
    pub const fn in_its_world(self, scope: Scope) -> Scope {
        match self {
            Self::Broken(Flaw::NoMargin) => Scope { margin: 0, ..scope },
            Self::Broken(Flaw::ClocksThatJump) => Scope {
                clocks: scope::Clocks::Agree,
                ..scope
            },
            _ => scope,
        }
    }

    const fn is(self, flaw: Flaw) -> bool {
        matches!(self, Self::Broken(is) if is as u8 == flaw as u8)
    }

    pub const fn ignores_tokens(self) -> bool {
        self.is(Flaw::TheResourceIgnoresTheToken)
    }

    pub const fn passes_whoever_sends(self) -> bool {
        self.is(Flaw::WhoeverIsRefusedPassesOn)
    }

    pub const fn reaps_at_once(self) -> bool {
        self.is(Flaw::StoppedIsReleasedAtOnce)
    }

    pub const fn frees_what_expired(self) -> bool {
        !self.is(Flaw::NobodySweeps)
    }

    pub const fn tends_lines(self) -> bool {
        !self.is(Flaw::NobodyTendsTheLine)
    }

    /// Until when a holder believes that it holds.
    pub const fn believed_until(self, deadline: Tick, clock: Tick, scope: &Scope) -> Tick {
        if self.is(Flaw::DeadlineCountsFromTheAnswer) {
            clock + scope.ttl
        } else {
            deadline
        }
    }

    /// What an observer keeps of what it saw.
    pub const fn observes(self, version: Count, token: Count) -> Count {
        if self.is(Flaw::ObservesTheToken) {
            token
        } else {
            version
        }
    }

    pub fn misread(self, message: &Message, reading: Reading) -> Reading {
        match (message.what, reading) {
            (What::Grant(..), Reading::Has(_)) if self.is(Flaw::OneOwnLeaseIsSomebodyElses) => {
                Reading::Held(0)
            }
            _ => reading,
        }
    }

    /// What stands there after `message`; nothing if it is refused.
    pub fn apply(self, scope: &Scope, stored: &Stored, message: &Message) -> Option<Stored> {
        let change = message.change(scope)?;
        let Self::Broken(flaw) = self else {
            return transition(stored, &change).map(Stored::Row);
        };
        let row = match stored {
            Stored::Row(row) => Some(row),
            _ => None,
        };
        let ours = || transition(stored, &change).map(Stored::Row);
        match (flaw, &change, row) {
            (Flaw::ReleaseDeletesTheRowAndTheCounter, Change::Release(_), _) => {
                ours().map(|_| Stored::Absent)
            }
            (Flaw::ReleaseDeletesTheRowAndTheCounter, Change::Grant(_), None) => {
                let Stored::Row(row) = ours()? else {
                    return None;
                };
                let fencing_token = leasehold::Counter::MIN;
                Some(Stored::Row(Row {
                    fencing_token,
                    ..row
                }))
            }
            (Flaw::ReleaseWithoutCondition, Change::Release(release), Some(row)) => {
                let held = row.holding()?;
                let mut release = release.clone();
                (release.lease_id, release.fencing_token) =
                    (held.lease_id.clone(), row.fencing_token);
                transition(stored, &Change::Release(release)).map(Stored::Row)
            }
            (Flaw::NoMemoryOfRequests, Change::Grant(_), Some(row)) => {
                let forgetful = Row {
                    request: names::request(names::STRANGER, 0),
                    past_requests: [None, None, None],
                    ..row.clone()
                };
                transition(&Stored::Row(forgetful), &change).map(Stored::Row)
            }
            (Flaw::ExtendAdds, Change::Extend(extend), Some(row)) => {
                let mut extend = extend.clone();
                extend.expires_at = row.holding()?.expires_at.plus(names::length(scope.ttl));
                transition(stored, &Change::Extend(extend)).map(Stored::Row)
            }
            (Flaw::ExtendByNameAlone, Change::Extend(extend), Some(row)) => {
                let held = row.holding()?;
                let mut extend = extend.clone();
                (extend.lease_id, extend.fencing_token) =
                    (held.lease_id.clone(), row.fencing_token);
                transition(stored, &Change::Extend(extend)).map(Stored::Row)
            }
            (Flaw::ExtendShortens, Change::Extend(extend), Some(row)) => {
                let mut before = row.clone();
                if let State::Held(held) = &mut before.state {
                    held.expires_at = held.expires_at.min(extend.expires_at);
                }
                transition(&Stored::Row(before), &change).map(Stored::Row)
            }
            (Flaw::GrantsStepByOne, Change::Grant(_), Some(_)) => {
                let Stored::Row(row) = ours()? else {
                    return None;
                };
                let fencing_token = names::counter(names::count(row.fencing_token) - 1);
                Some(Stored::Row(Row {
                    fencing_token,
                    ..row
                }))
            }
            (Flaw::PassingKeepsTheToken, Change::Pass(_), Some(before)) => {
                let Stored::Row(row) = ours()? else {
                    return None;
                };
                let fencing_token = before.fencing_token;
                Some(Stored::Row(Row {
                    fencing_token,
                    ..row
                }))
            }
            (Flaw::GrantsPassTheLineBy, Change::Grant(_), Some(row)) => {
                let empty = Row {
                    line: Some(Vec::new()),
                    ..row.clone()
                };
                let Stored::Row(after) =
                    transition(&Stored::Row(empty), &change).map(Stored::Row)?
                else {
                    return None;
                };
                let line = row.line.clone();
                Some(Stored::Row(Row { line, ..after }))
            }
            (Flaw::WakesWithoutKeeping, Change::Release(_) | Change::Expire(_), _) => {
                let Stored::Row(row) = ours()? else {
                    return None;
                };
                let state = match row.state {
                    State::Free {
                        ended, last_token, ..
                    } => State::Free {
                        ended,
                        last_token,
                        reserved: None,
                    },
                    held @ State::Held(_) => held,
                };
                Some(Stored::Row(Row { state, ..row }))
            }
            (Flaw::ObservesTheToken, Change::Grant(grant), Some(row)) => {
                let mut grant = grant.clone();
                if let transition::Over::Unmoved(seen) = &mut grant.over
                    && *seen == row.fencing_token.into()
                {
                    *seen = row.version.into();
                }
                transition(stored, &Change::Grant(grant)).map(Stored::Row)
            }
            (Flaw::SweepFreesWhateverStands, Change::Expire(expire), Some(row)) => {
                let mut expire = expire.clone();
                expire.version = row.version;
                transition(stored, &Change::Expire(expire)).map(Stored::Row)
            }
            (Flaw::StrangersAreOverwritten, Change::Grant(_), None) => {
                transition(&Stored::Absent, &change).map(Stored::Row)
            }
            _ => ours(),
        }
    }
}
