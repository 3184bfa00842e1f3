//! Designs that are wrong in one point each: what the library writes is changed on its way, or what it is answered.

use leasehold::{
    Ended,
    row::{Entry, Holding, Notification, Row, State},
    store::{Address, AttributeValue, Settlement, Slot, Write, Written},
    transition::{Change, EndIfUnchanged, Head, LeaveReason, ReplaceIfUnchanged},
};

use super::{
    invariants::Invariant,
    library::{Call, Table},
    names::{self, POOL, Who},
    scope::{self, Scope},
    seam::{Answer, Ask, with},
};
use crate::{lists::flaws, rows};

flaws! {
    TheResourceIgnoresTheToken S3 JUMPS "the resource ignores the token"
    ReleaseDeletesTheRow S1 MUTEX "release deletes the row, and the counter in it"
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
    GrantsIgnoreTheFloor S1 RESTORED "a grant ignores the floor"
    WhatEndedIsReleasedAtOnce S8 BRANCHES "what a failed execution held is free at once, with a branch of it at work"
    ReapLooksUpBeforeItReads S8 BRANCHES "reap looks up before it reads, and writes whatever the version"
    ReapTrustsAStaleAnswer S8 BRANCHES "reap trusts an answer that is older than a redrive"
    ReapComparesClocksAsTheyAre S5 BRANCHES "reap tells what a redrive wrote by clocks, without the margin"
    CutsWhoeverHoldsItByNow S5 BRANCHES "a cut that comes late cuts whoever holds it by now"
    NobodySweeps L1 SWEPT "nobody frees what has expired"
    ReleaseIsADeadline S6 MUTEX "a release only sets the deadline to now"
    EachCopyIsARequest S9 MUTEX "a copy of an acquire is granted anew"
    TokensAreTheClocks S1 MUTEX "the token is the clock's"
    DeadlineIsTheTablesTtl S8 PURGES "the deadline is the table's TTL"
    LooksEndWhateverIsThere S12 REDRIVES "a look ends the lease whatever its version is by now"
    LooksTrustStaleAnswers S12 REDRIVES "a look trusts an answer that is older than a redrive"
    EventsAreBelieved S12 REDRIVES "a look believes that what has ended is still over"
    NoGrace S12 REDRIVES "what a failed execution held is free at once, with a Lambda function of it at work"
    KeepIsIgnored S12 KEPT "a lease that is kept for a redrive ends with the failure"
    KeepEndsOnTime S12 KEPT "a kept lease ends when its time does, and not half a minute later"
    ProofsAreReads S12 REDRIVES "a proof does not change the version"
    LateProofsCount S12 PROVEN "a proof that comes late makes a row look as if it had been written before a redrive"
    WhoJoinsIsFirst L3 JOINING "who joins the queue is put first"
    GrantsDropTheNext L3 THREE "a grant from the queue drops the waiter after it"
    ItemsAreReadOnce L4 CRASHES "whoever reads a waiter's item deletes it, although it was not told yet"
    GrantsAreTakenBackBlindly S12 CARRIES_ON "a grant is taken back without a check of whom somebody has told since"
    ExtendsHaveNoMargin S12 BRANCHES_QUEUE "an extend that finds a queue ends what has expired by its own clock"
    QueuesIgnoreTheFloor S1 RESTORED_QUEUE "a grant from the queue counts on from the row's token, whatever the floor"
    NobodyLooks L4 ENDS "nobody ends the lease of an execution that is over"
    RetriesAreNotCounted S12 NOTIFICATION "a retry's new token is told, and the notification not counted"
    NewTokensAreNotStored L4 NOTIFICATION "a retry's new token is not stored"
    DeadTokensAreStored L4 RETRIED "a token that nobody waits with takes the place of the one that waits"
    NoAnswerIsARefusal S12 NOTIFICATION "a call with a token that is not answered counts as refused"
    WaitersAreTakenForDead S12 RETOLD "a history without the lease is enough, although a task waits"
    HistoriesAreReadAtOnce S12 RETOLD "a history is believed at once, and not half a minute after the notification"
    HistoriesAreNotRead L4 CARRIES_ON "nobody asks whether a holder that runs was ever told of its grant"
    ProofsLeaveTheGrace S12 GRACE "a proof does not end the wait for the grace, and a second end has none of its own"
    GrantsKeepTheToken S1 ENDS "a grant from the queue keeps the token"
    PassedOverIsSpent L2 CRASHES "a request that was passed over counts as spent"
    ReleasesForgetTheRequest S9 RETOLD "a release forgets the request of its grant"
    ReleasesHaveNoCondition S4 UNHEARD "a release that is sent again frees whoever holds the key by now"
    GrantsIgnoreTheQueue L3 PROGRAM "a grant does not look at the queue"
    ExpiredHoldersComeBack L3 PROGRAM "a holder that has expired comes back before those in the queue"
    NobodyIsSentAway L4 LEAVING "whoever has waited too long leaves the queue, and is not told so"
    WaitsAreOverAtOnce Early LEAVING "whoever waits gives up at once"
    StartsAreOverAtOnce Early S_LEAVING "a start that waits gives up at once"
    PermitsLeaveTheQueue S9 PERMITS_CRASHES "a permit is granted by its own row alone, and not together with the queue"
    ReleasesOpen S13 PACE "a release opens the key, whatever its grant has said"
    LimitsLeaveTheVersion S14 LIMITED "a limit does not change the version of the row"
    NotesAreDeleted L6 NEWEST "no note is left of who was sent away for a later one and told so"
    LaterOnesNeedNotWait L6 NEWEST "one is sent away for a later one that waits no more"
    NamesAreUsedAgain Twice S_CRASHES "a name of an execution may be used again"
    NobodyAsks Both S_RELEASED "nobody asks whether an execution of a name has begun"
    UnknownIsOver S12 S_CRASHES "an execution that Step Functions does not know yet counts as over"
    AnswersAreOlder Both S_DENIED "Step Functions shows later than half a minute after it what has begun (no design holds)"
    CallsAreLater Both S_DENIED "a call arrives after its signature has expired (no design holds)"
    FunctionsAreSlower Both S_SLOW "functions call later than a minute after they have marked the row (no design holds)"
    MarksAreNotWritten Both S_SLOW "a look calls StartExecution, and does not mark the row before"
    ForcedIsFree S12 S_FORCED_SLOW "a force-release of a start that has not begun frees the key at once"
    WaitsEndBlindly Both S_LEAVING "a start whose wait is over fails, whether it has its turn or not"
    NobodyBegins L4 S_CRASHES "only who wrote a grant calls StartExecution"
    PlacesAreWrittenAlone Lost S_CRASHES "a start's place, or its grant, is written without its item"
    ReenteredIsReleased S12 S_NESTED "a section gives back the lease that it re-entered"
    ReleasesAreNotWritten L1 S_RELEASED "an early release leaves the row to the looks"
    InputsAreNotCompared Same S_OTHER "a start with another input is taken for a duplicate"
    BegunItemsAreDeleted Same S_OTHER "the item of a start that has begun is deleted, and its name may be used again"
    ItemsAreGoneTooEarly S12 S_PURGED "a start's item is purged while its execution runs"
    FailedItemsArePurged Lost S_PURGED "a failed start's item is purged while its event may come again"
    GrantsForgetThePool S15 P_TOKENS "a row does not say that its grant waits in the pool, so that its holder is notified before it has entered"
    PoolsHaveNoCondition S15 P_STARTS_FREE "who enters a pool is written there, whatever it has become"
    KeysAreGivenUp S12 P_TURNS "a key is given up while its holder waits in the pool"
    PoolsForgetTheirQueue L8 P_TURNS "whoever asks a pool is put before who waits there"
    NobodyServesThePool L7 P_TOKENS "an end serves the queue of the key, and nobody that of the pool"
    NobodyEntersAgain L7 P_STARTS_ASKS "only who grants a key asks the pool for a place"
    EntriesStay S15 P_FORCED "an entry is taken out of a pool by nobody, and whoever did so believes it"
    NotesHaveNoCondition S1 P_FORCED "that one has entered is noted in the row of its key, whatever that has become"
    ResultsComeEarly Tells R_ENDS "a task is told before its start has ended"
    TasksAreForgottenFirst Answers R_ENDS "the item of a task is deleted before it is answered, and the function dies"
    TasksAreNotStored Answers R_ENDS "the token of a task stays with the function that brought it"
    NewTasksAreNotStored Answers R_AGAIN "a retried task's new token is not stored"
    CallersSeemOver Stops R_CALLER "a caller counts as ended while it runs"
    CalledOnesRunOn Stopped R_CALLER "what is to stop with its caller is not stopped"
    RedrivenOnesRunOn Stopped S_WATCHED "what runs beside others after a redrive is not stopped"
    RedrivesAreNotNoted Stopped S_WATCHED "nobody notes that an execution may be redriven whose lease ends"
    TasksStay Listed R_ENDS "the item of an answered task is not deleted"
    RedrivesCount S8 S_REDRIVEN "a redrive that kept nothing counts (no design holds)"
}

fn held(row: &Row) -> Option<(&Holding, Notification)> {
    let held = row.holding()?;
    Some((held, held.notification?))
}

/// What is written instead of what the library asks for.
pub fn written(flaw: Flaw, before: &Table, mut ask: Ask, call: Call) -> Ask {
    if let Ask::Write(writes) = &mut ask {
        instead_of_items(flaw, writes);
        instead_in_pool(flaw, before, writes);
    }
    let (Some(change), row) = (ask.first_row_mut(), before.row(0)) else {
        return ask;
    };
    let Some(row) = row else {
        if let Some(row) = rows::instead(flaw, None, change) {
            *change = written_over(None, row);
        }
        return ask;
    };
    if let Some(next) = rows::instead(flaw, Some(row), change) {
        *change = instead(row, next);
        return ask;
    }
    let looks = matches!(call, Call::Sweep(_) | Call::Reap(..));
    match (flaw, change) {
        (
            Flaw::LooksEndWhateverIsThere | Flaw::ReapLooksUpBeforeItReads,
            Change::EndIfUnchanged(end),
        ) if looks => {
            end.version = row.version;
        }
        (Flaw::GrantsKeepTheToken, Change::ReplaceIfUnchanged(swap))
            if matches!(swap.head, Head::Leaves(_)) =>
        {
            swap.row.fencing_token = row.fencing_token;
        }
        (Flaw::HistoriesAreReadAtOnce, Change::ReplaceIfUnchanged(swap)) => {
            if let State::Held(Holding {
                notification: Some(told),
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
                && !matches!(call, Call::Evict(..)) =>
        {
            swap.row.request = row.request.clone();
            swap.row.past_requests.clone_from(&row.past_requests);
        }
        (
            Flaw::ReleasesHaveNoCondition | Flaw::ReleaseWithoutCondition,
            Change::Release(release),
        ) => {
            if let Some(held) = row.holding() {
                release.lease_id = held.lease_id.clone();
                release.fencing_token = row.fencing_token;
            }
        }
        (Flaw::GrantsAreTakenBackBlindly, Change::ReplaceIfUnchanged(swap))
            if looks && row.holding().is_some() && swap.row.holding().is_none() =>
        {
            swap.seen = Some(row.version);
        }
        (Flaw::LimitsLeaveTheVersion, Change::ReplaceIfUnchanged(swap))
            if matches!(call, Call::Limit(..)) =>
        {
            swap.row.version = row.version;
        }
        (Flaw::ForcedIsFree, change @ Change::ReplaceIfUnchanged(_))
            if matches!(call, Call::Evict(..)) =>
        {
            *change = Change::EndIfUnchanged(EndIfUnchanged {
                version: row.version,
                ended: Ended::Forced,
                purge_at: Row::NEVER,
            });
        }
        _ => {}
    }
    ask
}

/// What is written of items that are no rows, and of which rows beside them.
fn instead_of_items(flaw: Flaw, writes: &mut Vec<Write>) {
    match (flaw, &mut writes[..]) {
        (
            Flaw::LaterOnesNeedNotWait,
            [
                Write::Row(_, Change::Leave(leave)),
                Write::Supersede(..) | Write::Settle(_, Settlement::Superseded { .. }),
            ],
        ) => leave.because = LeaveReason::GaveUp,
        (Flaw::WaitsAreOverAtOnce, [.., Write::Wait(_, waiter, _)]) => {
            waiter.deadline = names::instant(0);
        }
        (Flaw::StartsAreOverAtOnce, [Write::Row(..), Write::Start(item)]) => {
            item.deadline = names::instant(0);
        }
        (Flaw::NotesAreDeleted, [Write::Forget(_, waiter)]) => waiter.superseded_by = None,
        (Flaw::WaitsEndBlindly, [Write::Row(..), Write::Settle(_, Settlement::Failed(_))]) => {
            writes.remove(0);
        }
        (Flaw::PlacesAreWrittenAlone, [Write::Row(..), Write::Start(_)])
        | (Flaw::TasksAreNotStored, [.., Write::Result(_)]) => {
            writes.pop();
        }
        (Flaw::PermitsLeaveTheQueue, [Write::Row(..), Write::Row(..)]) => {
            writes.retain(|write| matches!(write, Write::Row(at, _) if at.permit > 0));
        }
        _ => {}
    }
}

/// What is written of the pool, and of a grant that needs a permit of it.
fn instead_in_pool(flaw: Flaw, before: &Table, writes: &mut Vec<Write>) {
    let Some(Write::Row(at, change)) = writes.first_mut() else {
        return;
    };
    let Some(key) = names::which(at.key.as_str()) else {
        return;
    };
    match (flaw, change) {
        (Flaw::GrantsForgetThePool, Change::ReplaceIfUnchanged(swap)) => {
            if let State::Held(held) = &mut swap.row.state {
                held.pool = held.pool.take().filter(|pool| pool.entered);
            }
        }
        (Flaw::PoolsForgetTheirQueue, Change::ReplaceIfUnchanged(swap)) if key == POOL => {
            let Some(entries) = &mut swap.row.entries else {
                return;
            };
            let waited = |entry: &Entry| {
                names::entry(entry).is_some_and(|entry| before.waiting.contains(&entry))
            };
            let mut inside = entries.inside.values_mut();
            let newest = entries.waiting.last_mut().filter(|entry| !waited(entry));
            if let (Some(enters), Some(newest)) = (inside.find(|entry| waited(entry)), newest) {
                std::mem::swap(enters, newest);
            }
        }
        (Flaw::PoolsHaveNoCondition, Change::ReplaceIfUnchanged(swap)) if key == POOL => {
            swap.seen = before.row(key).map(|row| row.version);
        }
        (Flaw::NotesHaveNoCondition, Change::ReplaceIfUnchanged(swap)) => {
            let pool = swap.row.holding().and_then(|held| held.pool.as_ref());
            if pool.is_some_and(|pool| pool.entered) {
                swap.seen = before.row(key).map(|row| row.version);
            }
        }
        (Flaw::KeysAreGivenUp, Change::ReplaceIfUnchanged(swap)) if key == POOL => {
            let entries = swap.row.entries.iter().flat_map(|entries| &entries.waiting);
            let mut waiting = entries.filter_map(names::entry);
            let joins = waiting.find(|entry| !before.waiting.contains(entry));
            let of = joins.map(|(who, _)| who);
            let key = (0..POOL).find(|key| of.is_some() && before.view(*key, 0).holder == of);
            if let Some((key, row)) = key.and_then(|key| Some((key, before.row(key)?))) {
                let end = EndIfUnchanged {
                    version: row.version,
                    ended: Ended::Released,
                    purge_at: Row::NEVER,
                };
                let key = names::key(key);
                let at = Address { key, permit: 0 };
                writes.push(Write::Row(at, Change::EndIfUnchanged(end)));
            }
        }
        _ => {}
    }
}

/// Whether this never arrives.
pub fn is_lost(flaw: Flaw, before: &Table, ask: &Ask, call: Call) -> bool {
    let ends = matches!(ask.row(), Some((_, Change::EndIfUnchanged(_))));
    if flaw == Flaw::NobodySweeps && ends {
        return true;
    }
    let Some((inside, waiting)) = entries(ask) else {
        return false;
    };
    let is_new = |entry: &&_| !before.inside.contains(entry) && !before.waiting.contains(entry);
    let asks = inside.iter().chain(&waiting).any(|entry| is_new(&entry));
    let serves = inside.iter().any(|entry| before.waiting.contains(entry));
    match flaw {
        Flaw::NobodyServesThePool => serves,
        Flaw::NobodyEntersAgain => asks && matches!(call, Call::Sweep(_)),
        _ => false,
    }
}

/// Grants of keys: whose, and the tokens.
type Grants = Vec<(Who, u64)>;

/// Who is inside the pool, and who waits there, once this is written.
fn entries(ask: &Ask) -> Option<(Grants, Grants)> {
    let [Write::Row(at, Change::ReplaceIfUnchanged(swap))] = ask.writes() else {
        return None;
    };
    let is_in_pool = names::which(at.key.as_str()) == Some(POOL);
    let entries = swap.row.entries.as_ref().filter(|_| is_in_pool)?;
    let inside = entries.inside.values().filter_map(names::entry);
    let waiting = entries.waiting.iter().filter_map(names::entry);
    Some((inside.collect(), waiting.collect()))
}

/// A write of this row in the place of the other.
fn instead(seen: &Row, row: Row) -> Change {
    written_over(Some(seen), row)
}

fn written_over(seen: Option<&Row>, row: Row) -> Change {
    Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
        seen: seen.map(|seen| seen.version),
        row,
        head: Head::Any,
    }))
}

/// Whether the library is told that this was written, and it was not.
pub fn is_not_written(flaw: Flaw, before: &Table, ask: &Ask) -> bool {
    match (flaw, ask.writes()) {
        (Flaw::NewTokensAreNotStored, [Write::NewToken(..)])
        | (Flaw::RedrivesAreNotNoted, [Write::Note(_)])
        | (Flaw::TasksStay, [Write::ForgetResult(_)])
        | (Flaw::NewTasksAreNotStored, [Write::Result(_)]) => return true,
        (Flaw::EntriesStay, _) => {
            let inside = entries(ask).map(|(inside, _)| inside);
            let leaves = |inside: Vec<_>| !before.inside.iter().all(|it| inside.contains(it));
            return inside.is_some_and(leaves);
        }
        _ => {}
    }
    match (flaw, ask.row(), before.row(0)) {
        (Flaw::RetriesAreNotCounted, Some((0, Change::ReplaceIfUnchanged(swap))), Some(row)) => {
            match (held(row), held(&swap.row)) {
                (Some((was, before)), Some((is, after))) => {
                    was.lease_id == is.lease_id && after.tries > before.tries
                }
                _ => false,
            }
        }
        (Flaw::MarksAreNotWritten, Some((0, Change::ReplaceIfUnchanged(swap))), Some(row)) => {
            row.request.is_start()
                && row.request == swap.row.request
                && swap.row.holding().is_some()
        }
        (Flaw::ReleasesAreNotWritten, Some((0, Change::Release(_))), _)
        | (Flaw::ProofsAreReads, Some((0, Change::Prove(_))), _) => true,
        _ => false,
    }
}

/// What the library is told instead of what the table answers.
pub fn answered(flaw: Flaw, ask: &Ask, mut answer: Answer) -> Answer {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    match (flaw, ask, &mut answer) {
        (Flaw::InputsAreNotCompared, ask, Answer::Written(Written::Refused(parts))) => {
            if let ([.., Write::Start(asked)], [.., Some(found)]) = (ask.writes(), &mut parts[..]) {
                with(found, "input", text(asked.input.as_str()));
            }
        }
        (Flaw::OneOwnLeaseIsSomebodyElses, ask, Answer::Written(Written::Refused(parts))) => {
            if let (Some((_, Change::Grant(_))), [Some(found)]) = (ask.row(), &mut parts[..])
                && let Some(Ok(row)) = found.item().map(Row::read)
            {
                let request = names::nobody();
                *found = Slot::of(Some(Row { request, ..row }.to_item()));
            }
        }
        (Flaw::KeysAreGivenUp, ask, Answer::Written(Written::Refused(parts))) => {
            parts.truncate(ask.writes().len());
        }
        (
            Flaw::WaitsEndBlindly | Flaw::PlacesAreWrittenAlone,
            ask,
            Answer::Written(Written::Refused(parts)),
        ) if parts.len() < ask.writes().len() => {
            parts.resize(ask.writes().len(), None);
            if flaw == Flaw::WaitsEndBlindly {
                parts.rotate_right(1);
            }
        }
        _ => {}
    }
    answer
}
