//! Designs that are wrong in one point each, most of them known from other locks. Each must be rejected.

pub mod flawed;

use leasehold::{row::Stored, transition::transition};

use crate::{
    lists::flaws,
    message::{Message, Operation},
    names::{Count, Tick},
    oracle::Invariant,
    reading::Reading,
    rows::Held,
    scope::{self, Scope},
    world::End,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// The library's.
    Ours,
    Broken(Flaw),
}

flaws! {
    TheResourceIgnoresTheToken S3 MUTEX "the resource ignores the token"
    ReleaseDeletesTheRowAndTheCounter S1 MUTEX "release deletes the row, and the counter in it"
    NoMargin S8 MUTEX "leases are taken without a margin"
    ClocksThatJump S8 JUMPS "deadlines by clocks that jump further than half the margin"
    ReleaseWithoutCondition S4 MUTEX "release has no condition"
    NoMemoryOfRequests S9 MUTEX "the row does not remember the requests of its grants"
    OneRequestLessIsRemembered S9 MEMORY "the row remembers one request less"
    ExtendAdds L1 MUTEX "an extend adds to the deadline"
    ExtendWithoutProof S6 MUTEX "an extend does not ask for the proof"
    ExtendShortens S5 MUTEX "a late extend sets an earlier deadline"
    ObservesTheToken S8 OBSERVED "observers compare the token, which no extend moves"
    SweepFreesWhateverIsThere S4 SWEPT_BY_TWO "sweep frees whatever is there by now"
    StrangersAreOverwritten S10 STRANGERS "an item without a token counts as absent"
    OneOwnLeaseIsSomebodyElses L2 MUTEX "a refusal by one's own lease is taken for somebody else's"
    DeadlineCountsFromTheAnswer S8 MUTEX "the holder counts from the answer"
    GrantsIgnoreTheFloor S1 JOINED "a grant ignores the floor"
    WhatEndedIsReleasedAtOnce S8 JOINED "what a failed execution held is free at once, with a branch of it at work"
    ReapLooksUpBeforeItReads S8 JOINED "reap looks up before it reads, and writes whatever the version"
    ReapTrustsAStaleAnswer S8 JOINED "reap trusts an answer that is older than a redrive"
    ReapComparesClocksAsTheyAre S5 JOINED "reap tells what a redrive wrote by clocks, without the margin"
    CutsWhoeverHoldsItByNow S5 JOINED "a cut that comes late cuts whoever holds it by now"
    NobodySweeps L1 SWEPT "nobody frees what has expired"
    ReleaseIsADeadline S6 MUTEX "a release only sets the deadline to now"
    EachCopyIsARequest S7 MUTEX "a copy of an acquire is granted anew"
    TokensAreTheClocks S2 MUTEX "the token is the clock's"
    DeadlineIsTheTablesTtl S8 PURGES "the deadline is the table's TTL"
}

impl Design {
    /// The world that shows the flaw, if it is one of worlds.
    pub const fn in_its_world(self, scope: Scope) -> Scope {
        match self {
            Self::Broken(Flaw::NoMargin) => Scope { margin: 0, ..scope },
            // Even if no answer is old.
            Self::Broken(Flaw::ReapLooksUpBeforeItReads) => Scope { stale: 0, ..scope },
            Self::Broken(Flaw::ClocksThatJump) => Scope {
                clocks: scope::Clocks::Agree,
                ..scope
            },
            _ => scope,
        }
    }

    pub const fn is(self, flaw: Flaw) -> bool {
        matches!(self, Self::Broken(is) if is as u8 == flaw as u8)
    }

    /// Whether the leases of an execution that ended like this can be freed.
    pub const fn may_be_freed(self, end: End) -> bool {
        end.all_answered || self.is(Flaw::WhatEndedIsReleasedAtOnce)
    }

    /// Whether a redrive that the answer does not show yet may have written this. Two clocks may differ by a margin.
    pub const fn spares(self, scope: &Scope, held: Held, end: End, now: Tick) -> bool {
        let margin = if self.is(Flaw::ReapComparesClocksAsTheyAre) {
            0
        } else {
            scope.margin
        };
        let at_most = held.written + margin;
        let may_be = at_most >= end.stopped_at && at_most + scope.stale > now;
        may_be && !self.is(Flaw::ReapTrustsAStaleAnswer) && !self.is(Flaw::ReapLooksUpBeforeItReads)
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
            (Operation::Grant(..), Reading::Has(_))
                if self.is(Flaw::OneOwnLeaseIsSomebodyElses) =>
            {
                Reading::Held(0)
            }
            _ => reading,
        }
    }

    /// What is stored after `message`; nothing if it is refused.
    pub fn apply(self, scope: &Scope, stored: &Stored, message: &Message) -> Option<Stored> {
        let change = message.change(scope)?;
        match self {
            Self::Ours => transition(stored, &change).map(Stored::Row),
            Self::Broken(flaw) => flawed::apply(flaw, scope, stored, (message, &change)),
        }
    }
}
