//! What flawed designs write to a row: for the most part what ours would have written to another row.

use leasehold::{
    Counter, Ended,
    row::{Row, State, Stored, Term},
    transition::{Change, EndIfUnchanged, Extend, Grant, Head, TokenFloor, transition},
};

use crate::{flaws::Flaw, names};

/// The row after a change in a design with this flaw, if it is another than after ours.
pub fn instead(flaw: Flaw, row: Option<&Row>, change: &Change) -> Option<Row> {
    match (flaw, change, row) {
        (Flaw::ReleaseDeletesTheRow, Change::Grant(_), None) => {
            let fencing_token = Counter::new(1)?;
            let granted = transition(&Stored::Absent, change)?;
            Some(Row {
                fencing_token,
                ..granted
            })
        }
        (Flaw::TokensAreTheClocks, Change::Grant(grant), _) => {
            let stored = row.cloned().map_or(Stored::Absent, Stored::Row);
            let fencing_token = Counter::new(grant.now.as_millis())?;
            let granted = transition(&stored, change)?;
            Some(Row {
                fencing_token,
                ..granted
            })
        }
        (_, Change::Grant(grant), Some(row)) => granted(flaw, row, grant),
        (_, Change::Extend(extend), Some(row)) => extended(flaw, row, extend.clone()),
        (Flaw::ReleaseIsADeadline, Change::Release(_), Some(row)) => {
            ours(row, change)?;
            let mut row = row.clone();
            shortened(&mut row);
            row.version = Counter::new(row.version.get() + 1)?;
            Some(row)
        }
        (Flaw::CutsWhoeverHoldsItByNow, Change::ShortenDeadline(cut), Some(row)) => {
            let mut cut = cut.clone();
            cut.version = row.version;
            ours(row, &Change::ShortenDeadline(cut))
        }
        (Flaw::SweepFreesWhateverIsThere, Change::EndIfUnchanged(end), Some(row)) => {
            let mut end = end.clone();
            end.version = row.version;
            ours(row, &Change::EndIfUnchanged(end))
        }
        (_, _, Some(row)) => in_a_queue(flaw, row, change),
        _ => None,
    }
}

/// The same, where executions wait, prove and release.
fn in_a_queue(flaw: Flaw, row: &Row, change: &Change) -> Option<Row> {
    match (flaw, change) {
        (Flaw::GrantsDropTheNext, Change::ReplaceIfUnchanged(swap))
            if matches!(swap.head, Head::Leaves(_)) && row.waiting().len() > 1 =>
        {
            let queue = row.queue[2..].to_vec();
            let next = swap.row.clone();
            Some(Row { queue, ..next })
        }
        (Flaw::QueuesIgnoreTheFloor, Change::ReplaceIfUnchanged(swap))
            if matches!(swap.head, Head::Leaves(_)) =>
        {
            let fencing_token = Counter::new(row.fencing_token.get() + 1)?;
            let next = swap.row.clone();
            Some(Row {
                fencing_token,
                ..next
            })
        }
        (Flaw::LateProofsCount, Change::Prove(_)) => {
            let mut unproven = row.clone();
            if let State::Held(held) = &mut unproven.state {
                held.extended_at = None;
            }
            ours(&unproven, change)
        }
        (Flaw::ProofsLeaveTheGrace, Change::Prove(_)) => {
            let mut next = ours(row, change)?;
            if let (State::Held(was), State::Held(is)) = (&row.state, &mut next.state) {
                is.term = was.term;
            }
            Some(next)
        }
        (Flaw::ReleasesOpen, Change::Release(_)) => {
            let (opens_at, next) = (None, ours(row, change)?);
            Some(Row { opens_at, ..next })
        }
        (Flaw::ReleasesForgetTheRequest, Change::Release(_)) => {
            let (request, next) = (names::nobody(), ours(row, change)?);
            Some(Row { request, ..next })
        }
        _ => None,
    }
}

/// What a caller would write that knows of no floor.
pub fn without_the_floor(mut change: Change) -> Change {
    if let Change::Grant(grant) = &mut change {
        grant.tokens = TokenFloor::Reached(Counter::MIN);
    }
    change
}

fn ours(row: &Row, change: &Change) -> Option<Row> {
    transition(&Stored::Row(row.clone()), change)
}

fn granted(flaw: Flaw, row: &Row, grant: &Grant) -> Option<Row> {
    let change = Change::Grant(grant.clone());
    match flaw {
        Flaw::GrantsIgnoreTheQueue => past_the_line(row, &change),
        Flaw::GrantsIgnoreTheFloor => ours(row, &without_the_floor(change)),
        Flaw::NoMemoryOfRequests => ours(&forgetful(row), &change),
        Flaw::OneRequestLessIsRemembered => {
            let [first, second, _] = row.past_requests.clone();
            let past_requests = [first, second, None];
            let row = Row {
                past_requests,
                ..row.clone()
            };
            ours(&row, &change)
        }
        Flaw::EachCopyIsARequest if row.request == grant.request.digest => {
            let over = Row {
                state: State::Free {
                    ended: Ended::Released,
                    last_token: row.fencing_token,
                },
                ..forgetful(row)
            };
            ours(&over, &change)
        }
        Flaw::ObservesTheToken => {
            let mut grant = grant.clone();
            if grant.over.unchanged == Some(row.fencing_token.into()) {
                grant.over.unchanged = Some(row.version.into());
            }
            ours(row, &Change::Grant(grant))
        }
        _ => None,
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
        request: names::nobody(),
        past_requests: [None, None, None],
        ..row.clone()
    }
}

fn extended(flaw: Flaw, row: &Row, mut extend: Extend) -> Option<Row> {
    let held = row.holding()?;
    let mut row = row.clone();
    match flaw {
        Flaw::ExtendAdds => extend.expires_at = held.expires_at().plus(extend.ttl.as_duration()),
        Flaw::ExtendWithoutProof => {
            extend.lease_id = held.lease_id.clone();
            extend.fencing_token = row.fencing_token;
        }
        Flaw::ExtendShortens => shortened(&mut row),
        Flaw::ExpiredHoldersComeBack => {
            return past_the_line(&row, &Change::Extend(extend));
        }
        Flaw::ExtendsHaveNoMargin if held.expires_at() <= extend.now && row.head().is_some() => {
            let end = EndIfUnchanged {
                version: row.version,
                ended: Ended::Expired,
                purge_at: Row::NEVER,
            };
            return ours(&row, &Change::EndIfUnchanged(end));
        }
        _ => return None,
    }
    ours(&row, &Change::Extend(extend))
}

/// The row as it was granted, with a deadline that is over: so that any other is later.
fn shortened(row: &mut Row) {
    if let State::Held(held) = &mut row.state
        && let Term::Ttl { expires_at, .. } = &mut held.term
    {
        *expires_at = held.acquired_at;
        held.extended_at = None;
    }
}
