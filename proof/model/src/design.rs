//! Designs that are wrong in one point each, most of them somebody's before us. Each must be found out.

mod flawed;

use leasehold::{row::Stored, transition::transition};

use crate::{
    message::{Message, What},
    names::{Count, Tick},
    reading::Reading,
    rows::{Facts, Held},
    scope::{self, Scope},
    witness::Invariant,
    world::End,
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
    OneRequestLessIsRemembered,
    ExtendAdds,
    ExtendWithoutProof,
    ExtendShortens,
    PassingKeepsTheToken,
    GrantsPassTheLineBy,
    KeepsWhatIsKept,
    JoinsWhatItWasPromised,
    ExpiredHoldersComeBack,
    WakesWithoutKeeping,
    ObservesTheToken,
    SweepFreesWhateverStands,
    StrangersAreOverwritten,
    OneOwnLeaseIsSomebodyElses,
    DeadlineCountsFromTheAnswer,
    WhoeverIsRefusedPassesOn,
    LateExtendsHandOverByABareClock,
    HandOversIgnoreTheFloor,
    PromisesOfBeforeAreTaken,
    WhatEndedIsReleasedAtOnce,
    ReapLooksUpBeforeItReads,
    ReapTrustsAStaleAnswer,
    ReapComparesClocksAsTheyAre,
    CutsWhoeverHoldsItByNow,
    NobodySweeps,
    NobodyTendsTheLine,
    TellsAsTheFirstWhateverWasTried,
    ReleaseIsADeadline,
    EachCopyIsARequest,
    TokensAreTheClocks,
    DeadlineIsTheTablesTtl,
}

/// A flaw, in words, what it breaks, and in which world.
pub type Broken = (Flaw, &'static str, Invariant, Scope);

/// All of them.
pub const FLAWS: [Broken; 37] = {
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
            F::OneRequestLessIsRemembered,
            "the row remembers one request less",
            I::S9,
            scope::MEMORY,
        ),
        (
            F::ExtendAdds,
            "an extend adds to the deadline",
            I::L1,
            scope::MUTEX,
        ),
        (
            F::ExtendWithoutProof,
            "an extend does not ask for the proof",
            I::S6,
            scope::MUTEX,
        ),
        (
            F::ExtendShortens,
            "a late extend sets an earlier deadline",
            I::S5,
            scope::MUTEX,
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
            scope::POLLED,
        ),
        (
            F::JoinsWhatItWasPromised,
            "one whose turn has come is put in line once more",
            I::S7,
            scope::HAND_OVER,
        ),
        (
            F::KeepsWhatIsKept,
            "a row that is kept for one is kept for the next",
            I::S1,
            scope::UNTOLD,
        ),
        (
            F::ExpiredHoldersComeBack,
            "a holder that has expired comes back before those in line",
            I::L3,
            scope::HAND_OVER,
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
            scope::OBSERVED,
        ),
        (
            F::SweepFreesWhateverStands,
            "sweep frees whatever stands there by now",
            I::S4,
            Scope {
                clients: 2,
                calls: 3,
                ..scope::SWEPT
            },
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
            I::L4,
            scope::HAND_OVER,
        ),
        (
            F::LateExtendsHandOverByABareClock,
            "a late extend hands over by its bare clock",
            I::S8,
            scope::JOINED,
        ),
        (
            F::HandOversIgnoreTheFloor,
            "a hand-over ignores the floor",
            I::S1,
            scope::JOINED,
        ),
        (
            F::PromisesOfBeforeAreTaken,
            "a promise from before a restore is taken up",
            I::S1,
            scope::JOINED,
        ),
        (
            F::WhatEndedIsReleasedAtOnce,
            "what a failed execution held is free at once, with a branch of it at work",
            I::S8,
            scope::JOINED,
        ),
        (
            F::ReapLooksUpBeforeItReads,
            "reap looks up before it reads, and writes whatever the version",
            I::S8,
            scope::JOINED,
        ),
        (
            F::ReapTrustsAStaleAnswer,
            "reap trusts an answer that is older than a redrive",
            I::S8,
            scope::JOINED,
        ),
        (
            F::ReapComparesClocksAsTheyAre,
            "reap tells what a redrive wrote by clocks, without the margin",
            I::S5,
            scope::JOINED,
        ),
        (
            F::CutsWhoeverHoldsItByNow,
            "a cut that comes late cuts whoever holds it by now",
            I::S5,
            scope::JOINED,
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
        (
            F::TellsAsTheFirstWhateverWasTried,
            "a release that is sent again tells as if it were the first to",
            I::L4,
            scope::HAND_OVER,
        ),
        (
            F::ReleaseIsADeadline,
            "a release only sets the deadline to now",
            I::S6,
            scope::MUTEX,
        ),
        (
            F::EachCopyIsARequest,
            "a copy of an acquire is granted anew",
            I::S7,
            scope::MUTEX,
        ),
        (
            F::TokensAreTheClocks,
            "the token is the clock's",
            I::S2,
            scope::MUTEX,
        ),
        (
            F::DeadlineIsTheTablesTtl,
            "the deadline is the table's TTL",
            I::S8,
            scope::PURGES,
        ),
    ]
};

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

    const fn is(self, flaw: Flaw) -> bool {
        matches!(self, Self::Broken(is) if is as u8 == flaw as u8)
    }

    pub const fn ignores_tokens(self) -> bool {
        self.is(Flaw::TheResourceIgnoresTheToken)
    }

    pub const fn passes_whoever_sends(self) -> bool {
        self.is(Flaw::WhoeverIsRefusedPassesOn)
    }

    /// How long before an extend the lease must have expired for it to hand over.
    pub const fn margin_of_late_extends(self, scope: &Scope) -> Tick {
        if self.is(Flaw::LateExtendsHandOverByABareClock) {
            0
        } else {
            scope.margin
        }
    }

    pub const fn looks_up_before_it_reads(self) -> bool {
        self.is(Flaw::ReapLooksUpBeforeItReads)
    }

    /// Whether what an execution held can be freed that ended like this.
    pub const fn may_be_freed(self, end: End) -> bool {
        end.all_answered || self.is(Flaw::WhatEndedIsReleasedAtOnce)
    }

    /// Whether a redrive may have written this that the answer does not show yet. Two clocks may be a margin apart.
    pub const fn spares(self, scope: &Scope, held: Held, end: End, now: Tick) -> bool {
        let margin = if self.is(Flaw::ReapComparesClocksAsTheyAre) {
            0
        } else {
            scope.margin
        };
        let at_most = held.written + margin;
        let may_be = at_most >= end.stopped_at && at_most + scope.stale > now;
        may_be && !self.is(Flaw::ReapTrustsAStaleAnswer) && !self.looks_up_before_it_reads()
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

    pub const fn purges_at_the_deadline(self) -> bool {
        self.is(Flaw::DeadlineIsTheTablesTtl)
    }

    pub fn misread(self, message: &Message, reading: Reading, facts: Facts) -> Reading {
        match (message.what, reading) {
            (What::Release(..), Reading::Over(None))
                if self.is(Flaw::TellsAsTheFirstWhateverWasTried) =>
            {
                Reading::Over(facts.kept.filter(|kept| kept.lease == message.lease()))
            }
            (What::Grant(..), Reading::Has(_)) if self.is(Flaw::OneOwnLeaseIsSomebodyElses) => {
                Reading::Held(0)
            }
            _ => reading,
        }
    }

    /// What stands there after `message`; nothing if it is refused.
    pub fn apply(self, scope: &Scope, stored: &Stored, message: &Message) -> Option<Stored> {
        let change = message.change(scope)?;
        match self {
            Self::Ours => transition(stored, &change).map(Stored::Row),
            Self::Broken(flaw) => flawed::apply(flaw, scope, stored, (message, &change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invariant_is_broken_by_some_design() {
        for (invariant, name) in Invariant::ALL {
            assert!(
                FLAWS.iter().any(|(_, _, broken, _)| *broken == invariant),
                "{name}"
            );
        }
    }
}
