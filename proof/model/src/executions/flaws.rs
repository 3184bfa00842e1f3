//! Designs that are wrong in one point each: what the library writes is changed on its way, or what it is answered.

use leasehold::{
    row::{Holding, Row, State, Stored, Telling},
    transition::{Change, ReplaceIfUnchanged, transition},
};

use super::{
    invariants::Invariant,
    library::{Call, Table},
    names,
    scope::{self, Scope},
    seam::Ask,
};
use crate::{design::flawed::past_the_line, lists::flaws};

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
    WaitersAreTakenForDead S12 RETOLD "a history without the lease is enough, although a task waits"
    HistoriesAreReadAtOnce S12 RETOLD "a history is believed at once, and not half a minute after the telling"
    HistoriesAreNotRead L4 CARRIES_ON "nobody asks whether a holder that runs was ever told of its grant"
    ProofsLeaveTheGrace S12 GRACE "a proof does not end the wait for the grace, and a second end has none of its own"
    GrantsForgetWhoIsFirst L3 PARTING "a grant from the queue takes out whoever is first by now"
    GrantsKeepTheToken S1 ENDS "a grant from the queue keeps the token"
    PassedOverIsSpent L2 CRASHES "a request that was passed over counts as spent"
    ReleasesForgetTheRequest S9 RETOLD "a release forgets the request of its grant"
    ReleasesHaveNoCondition S4 UNHEARD "a release that is sent again frees whoever holds the key by now"
    GrantsIgnoreTheQueue L3 PROGRAM "a grant does not look at the queue"
    ExpiredHoldersComeBack L3 PROGRAM "a holder that has expired comes back before those in the queue"
    NobodyIsSentAway L4 LEAVING "whoever has waited too long leaves the queue, and is not told so"
    PermitsLeaveTheQueue S9 PERMITS_CRASHES "a permit is granted by its own row alone, and not together with the queue"
    ReleasesOpen S13 PACE "a release opens the key, whatever its grant has said"
    LimitsLeaveTheVersion S14 LIMITED "a limit does not change the version of the row"
    NotesAreDeleted L6 NEWEST "no note is left of who was sent away for a later one and told so"
}

fn held(row: &Row) -> Option<(&Holding, Telling)> {
    let held = row.holding()?;
    Some((held, held.telling?))
}

/// What is written instead of what the library asks for.
pub fn written(flaw: Flaw, before: &Table, mut ask: Ask, call: Call) -> Ask {
    if let (Flaw::NotesAreDeleted, Ask::Delete(item)) = (flaw, &mut ask) {
        item.0.superseded_by = None;
    }
    if let (Flaw::PermitsLeaveTheQueue, Ask::ApplyAll(changes)) = (flaw, &mut ask) {
        changes.retain(|(permit, _)| *permit > 0);
    }
    let (Ask::Apply(0, change), Some(row)) = (&mut ask, &before.row) else {
        return ask;
    };
    let looks = matches!(call, Call::Sweep(_) | Call::Reap(..));
    match (flaw, change) {
        (Flaw::LooksEndWhateverIsThere, Change::EndIfUnchanged(end)) if looks => {
            end.version = row.version;
        }
        (Flaw::GrantsKeepTheToken, Change::ReplaceIfUnchanged(swap)) if swap.head.is_some() => {
            swap.row.fencing_token = row.fencing_token;
        }
        (Flaw::GrantsForgetWhoIsFirst, Change::ReplaceIfUnchanged(swap)) if swap.head.is_some() => {
            swap.head = row.waiting().first().cloned();
        }
        (Flaw::HistoriesAreReadAtOnce, Change::ReplaceIfUnchanged(swap)) => {
            if let State::Held(Holding {
                telling: Some(told),
                ..
            }) = &mut swap.row.state
            {
                told.at = told.at.minus(names::TICK);
                told.refused_at = told.refused_at.map(|at| at.minus(names::TICK));
            }
        }
        (Flaw::PassedOverIsSpent, Change::ReplaceIfUnchanged(swap))
            if row.holding().is_some()
                && swap.row.holding().is_none()
                && !matches!(call, Call::Evict(_)) =>
        {
            swap.row.request = row.request.clone();
            swap.row.past_requests.clone_from(&row.past_requests);
        }
        (Flaw::ReleasesHaveNoCondition, Change::Release(release)) => {
            if let Some(held) = row.holding() {
                release.lease_id = held.lease_id.clone();
                release.fencing_token = row.fencing_token;
            }
        }
        (Flaw::GrantsIgnoreTheQueue, change @ Change::Grant(_))
        | (Flaw::ExpiredHoldersComeBack, change @ Change::Extend(_)) => {
            if let Some(next) = past_the_line(row, change) {
                *change = instead(row, next);
            }
        }
        (Flaw::ProofsLeaveTheGrace, change @ Change::Prove(_)) => {
            if let Some(mut next) = transition(&Stored::Row(row.clone()), change) {
                if let (State::Held(was), State::Held(is)) = (&row.state, &mut next.state) {
                    is.term = was.term;
                }
                *change = instead(row, next);
            }
        }
        (Flaw::ReleasesOpen, change @ Change::Release(_)) => {
            if let Some(next) = transition(&Stored::Row(row.clone()), change) {
                let opens_at = None;
                *change = instead(row, Row { opens_at, ..next });
            }
        }
        (Flaw::LimitsLeaveTheVersion, Change::ReplaceIfUnchanged(swap))
            if matches!(call, Call::Limit(..)) =>
        {
            swap.row.version = row.version;
        }
        (Flaw::ReleasesForgetTheRequest, change @ Change::Release(_)) => {
            if let Some(next) = transition(&Stored::Row(row.clone()), change) {
                let request = names::nobody();
                *change = instead(row, Row { request, ..next });
            }
        }
        _ => {}
    }
    ask
}

/// A write of this row in the place of the other.
fn instead(seen: &Row, row: Row) -> Change {
    Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
        seen: Some(seen.version),
        row,
        head: None,
    }))
}

/// Whether the library is told that this was written, and it was not.
pub fn is_not_written(flaw: Flaw, before: &Table, ask: &Ask) -> bool {
    match (flaw, ask, &before.row) {
        (
            Flaw::RetriesAreNotCounted,
            Ask::Apply(0, Change::ReplaceIfUnchanged(swap)),
            Some(row),
        ) => match (held(row), held(&swap.row)) {
            (Some((was, before)), Some((is, after))) => {
                was.lease_id == is.lease_id && after.tries > before.tries
            }
            _ => false,
        },
        (Flaw::ProofsAreReads, Ask::Apply(0, Change::Prove(_)), _)
        | (Flaw::NewTokensAreNotStored, Ask::NewToken(_), _) => true,
        _ => false,
    }
}
