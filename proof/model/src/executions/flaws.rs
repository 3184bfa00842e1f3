//! Designs that are wrong in one point each: what the library writes is changed on its way, or what it is answered.

use leasehold::{
    row::{Holding, Row, State, Telling},
    transition::Change,
};

use super::{
    invariants::Invariant,
    library::{Call, Table},
    names,
    scope::{self, Scope},
    seam::Ask,
};

/// A flaw, in words, what it breaks, and in which world.
pub type Broken = (Flaw, &'static str, Invariant, Scope);

/// Each flaw in words, the invariant that it breaks, and the world that shows it.
macro_rules! flaws {
    ($($flaw:ident $invariant:ident $scope:ident $words:literal)*) => {
        /// What is wrong with a design.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($flaw,)*
        }

        /// All of them.
        pub const FLAWS: &[Broken] = &[$((Flaw::$flaw, $words, Invariant::$invariant, scope::$scope),)*];
    };
}

flaws! {
    LooksEndWhateverIsThere S12 REDRIVES "a look ends the lease whatever its version is by now"
    LooksTrustStaleAnswers S12 REDRIVES "a look trusts an answer that is older than a redrive"
    EventsAreBelieved S12 REDRIVES "a look believes that what has ended is still over"
    NoGrace S12 REDRIVES "what a failed execution held is free at once, with a Lambda function of it at work"
    KeepIsIgnored S12 KEPT "a lease that is kept for a redrive ends with the failure"
    KeepEndsOnTime S12 KEPT "a kept lease ends when its time does, and not half a minute later"
    ProofsAreReads S12 REDRIVES "a proof does not change the version"
    NobodyLooks L4 ENDS "nobody ends the lease of an execution that is over"
    RetriesAreNotCounted S12 TELLING "a retry's new token is told, and the telling not counted"
    NewTokensAreNotStored L4 TELLING "a retry's new token is not stored"
    NoAnswerIsARefusal S12 TELLING "a call with a token that is not answered counts as refused"
    HistoriesAreReadAtOnce S12 RETOLD "a refused token's history is read at once"
    WaitersAreTakenForDead S12 TELLING "a history without the lease is enough, although a task waits"
    GrantsKeepTheToken S1 ENDS "a grant from the queue keeps the token"
    HeadsAreNotChecked L4 LEAVING "a grant from the queue does not require the head that was read"
    PassedOverIsSpent L2 CRASHES "a request that was passed over counts as spent"
    ReleasesHaveNoCondition S4 ENDS "a release that is sent again frees whoever holds the key by now"
    GrantsIgnoreTheLine L3 PROGRAM "a grant does not look at the line"
    ExpiredHoldersComeBack L3 PROGRAM "a holder that has expired comes back before those in line"
    NobodyIsSentAway L4 LEAVING "whoever has waited too long leaves the line, and is not told so"
    LeasesAreForgottenByReplays S9 RETOLD "the row does not remember the request of its grant"
}

fn held(row: &Row) -> Option<(&Holding, Telling)> {
    let held = row.holding()?;
    Some((held, held.telling?))
}

/// What is written instead of what the library asks for.
pub fn written(flaw: Flaw, before: &Table, mut ask: Ask, call: Call) -> Ask {
    let (Ask::Apply(change), Some(row)) = (&mut ask, &before.row) else {
        return ask;
    };
    let looks = matches!(call, Call::Sweep(_) | Call::Reap(..));
    match (flaw, change) {
        (Flaw::LooksEndWhateverIsThere, Change::EndIfUnchanged(end)) if looks => {
            end.version = row.version;
        }
        (Flaw::HistoriesAreReadAtOnce, Change::ReplaceIfUnchanged(swap)) => {
            if let State::Held(held) = &mut swap.row.state
                && let Some(telling) = &mut held.telling
                && let Some(refused_at) = &mut telling.refused_at
            {
                *refused_at = refused_at.minus(2 * names::TICK);
            }
        }
        (Flaw::GrantsKeepTheToken, Change::ReplaceIfUnchanged(swap)) if swap.head.is_some() => {
            swap.row.fencing_token = row.fencing_token;
        }
        (Flaw::HeadsAreNotChecked, Change::ReplaceIfUnchanged(swap)) if swap.head.is_some() => {
            swap.head = row.head().cloned();
        }
        (Flaw::PassedOverIsSpent, Change::ReplaceIfUnchanged(swap))
            if row.holding().is_some() && swap.row.holding().is_none() && !matches!(call, Call::Evict(_)) =>
        {
            swap.row.request = row.request.clone();
            swap.row.past_requests = row.past_requests.clone();
        }
        (Flaw::ReleasesHaveNoCondition, Change::Release(release)) => {
            if let Some(held) = row.holding() {
                release.lease_id = held.lease_id.clone();
                release.fencing_token = row.fencing_token;
            }
        }
        (Flaw::LeasesAreForgottenByReplays, Change::Grant(grant)) if grant.request == row.request => {
            grant.request = names::nobody();
        }
        _ => {}
    }
    ask
}

/// Whether the library is told that this was written, and it was not.
pub fn is_not_written(flaw: Flaw, before: &Table, ask: &Ask) -> bool {
    match (flaw, ask, &before.row) {
        (Flaw::RetriesAreNotCounted, Ask::Apply(Change::ReplaceIfUnchanged(swap)), Some(row)) => {
            match (held(row), held(&swap.row)) {
                (Some((was, before)), Some((is, after))) => {
                    was.lease_id == is.lease_id && after.tries > before.tries
                }
                _ => false,
            }
        }
        (Flaw::ProofsAreReads, Ask::Apply(Change::Prove(_)), _) => true,
        (Flaw::NewTokensAreNotStored, Ask::NewToken(_), _) => true,
        _ => false,
    }
}
