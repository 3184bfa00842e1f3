//! What flawed designs write: for the most part what ours would have written to another row, or by another call.

use leasehold::{
    Counter, Ended, LeaseId, Timestamp,
    row::{Row, State, Stored, Term},
    transition::{
        Change, EndIfUnchanged, Extend, Grant, Release, ShortenDeadline, TokenFloor, transition,
    },
};

use super::Flaw;
use crate::{
    message::Message,
    names::{self, Count},
    scope::Scope,
};

/// What is stored after a message in a design with this flaw.
pub fn apply(
    flaw: Flaw,
    scope: &Scope,
    stored: &Stored,
    (message, change): (&Message, &Change),
) -> Option<Stored> {
    let change = &without_the_floor(flaw, change.clone());
    let row = match stored {
        Stored::Row(row) => Some(row),
        _ => None,
    };
    match (change, row) {
        (Change::Grant(grant), _) => granted(flaw, stored, (message, grant)),
        (Change::Extend(extend), Some(row)) => extended(flaw, scope, row, extend),
        (Change::Release(release), Some(row)) => released(flaw, row, (message, release)),
        (Change::EndIfUnchanged(expire), Some(row)) => expired(flaw, row, expire),
        (Change::ShortenDeadline(cut), Some(row)) if flaw == Flaw::CutsWhoeverHoldsItByNow => {
            let cut = ShortenDeadline {
                version: row.version,
                ..cut.clone()
            };
            ours(row, &Change::ShortenDeadline(cut))
        }
        _ => transition(stored, change),
    }
    .map(|row| match (flaw, change) {
        (Flaw::ReleaseDeletesTheRowAndTheCounter, Change::Release(_)) => Stored::Absent,
        _ => Stored::Row(row),
    })
}

/// What a caller would write that knows of no floor.
pub fn without_the_floor(flaw: Flaw, mut change: Change) -> Change {
    if let (Flaw::GrantsIgnoreTheFloor, Change::Grant(grant)) = (flaw, &mut change) {
        grant.tokens = TokenFloor::Reached(Counter::MIN);
    }
    change
}

fn ours(row: &Row, change: &Change) -> Option<Row> {
    transition(&Stored::Row(row.clone()), change)
}

fn granted(flaw: Flaw, stored: &Stored, (message, grant): (&Message, &Grant)) -> Option<Row> {
    let change = Change::Grant(grant.clone());
    match (flaw, stored) {
        (Flaw::ReleaseDeletesTheRowAndTheCounter, Stored::Absent) => {
            // Where counting starts, whatever the time.
            let fencing_token = names::counter(0);
            transition(stored, &change).map(|row| Row {
                fencing_token,
                ..row
            })
        }
        (Flaw::TokensAreTheClocks, _) => {
            let fencing_token = names::counter(Count::from(message.sent) * 1000);
            transition(stored, &change).map(|row| Row {
                fencing_token,
                ..row
            })
        }
        (Flaw::StrangersAreOverwritten, Stored::Foreign(_)) => transition(&Stored::Absent, &change),
        (Flaw::NoMemoryOfRequests, Stored::Row(row)) => ours(&forgetful(row), &change),
        (Flaw::OneRequestLessIsRemembered, Stored::Row(row)) => {
            let [first, second, _] = row.past_requests.clone();
            let past_requests = [first, second, None];
            let row = Row {
                past_requests,
                ..row.clone()
            };
            ours(&row, &change)
        }
        (Flaw::EachCopyIsARequest, Stored::Row(row)) if row.request == grant.request.digest => {
            let over = Row {
                state: State::Free {
                    ended: Ended::Released,
                    last_token: row.fencing_token,
                },
                ..forgetful(row)
            };
            ours(&over, &change)
        }
        (Flaw::ObservesTheToken, Stored::Row(row)) => {
            let mut grant = grant.clone();
            if grant.over.unchanged == Some(row.fencing_token.into()) {
                grant.over.unchanged = Some(row.version.into());
            }
            ours(row, &Change::Grant(grant))
        }
        _ => transition(stored, &change),
    }
}

/// What a change makes of a row as if nobody waited.
pub fn past_the_line(row: &Row, change: &Change) -> Option<Row> {
    let nobody = Row {
        queue: Vec::new(),
        entries: None,
        ..row.clone()
    };
    let queue = row.queue.clone();
    ours(&nobody, change).map(|row| Row { queue, ..row })
}

fn forgetful(row: &Row) -> Row {
    Row {
        request: names::request(names::STRANGER, 0),
        past_requests: [None, None, None],
        ..row.clone()
    }
}

fn extended(flaw: Flaw, scope: &Scope, row: &Row, extend: &Extend) -> Option<Row> {
    let mut extend = extend.clone();
    let mut row = row.clone();
    match flaw {
        Flaw::ExtendAdds => {
            extend.expires_at = row.holding()?.expires_at().plus(names::length(scope.ttl));
        }
        Flaw::ExtendWithoutProof => {
            extend.lease_id = proof(&row)?;
            extend.fencing_token = row.fencing_token;
        }
        Flaw::ExtendShortens => {
            shortened(&mut row, extend.expires_at);
        }
        _ => {}
    }
    ours(&row, &Change::Extend(extend))
}

/// The row with this deadline, if it is the earlier one.
fn shortened(row: &mut Row, to: Timestamp) {
    if let State::Held(held) = &mut row.state
        && let Term::Ttl { expires_at, .. } = &mut held.term
    {
        *expires_at = to.min(*expires_at);
    }
}

fn released(flaw: Flaw, row: &Row, (message, release): (&Message, &Release)) -> Option<Row> {
    let mut release = release.clone();
    match flaw {
        Flaw::ReleaseWithoutCondition => {
            release.lease_id = proof(row)?;
            release.fencing_token = row.fencing_token;
        }
        Flaw::ReleaseIsADeadline => {
            ours(row, &Change::Release(release))?;
            let mut row = row.clone();
            shortened(&mut row, names::instant(message.sent));
            row.version = names::counter(names::count(row.version) + 1);
            return Some(row);
        }
        _ => {}
    }
    ours(row, &Change::Release(release))
}

fn expired(flaw: Flaw, row: &Row, expire: &EndIfUnchanged) -> Option<Row> {
    let mut expire = expire.clone();
    if flaw == Flaw::SweepFreesWhateverIsThere {
        expire.version = row.version;
    }
    ours(row, &Change::EndIfUnchanged(expire))
}

fn proof(row: &Row) -> Option<LeaseId> {
    row.holding().map(|held| held.lease_id.clone())
}
