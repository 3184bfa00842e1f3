//! The queue's changes of a row: join and leave. The first waiter is granted the free row by a
//! [`ReplaceIfUnchanged`](super::ReplaceIfUnchanged).

use super::{Grant, TakeoverRule};
use crate::{row::Row, values::RequestDigest};

/// See [`Change::Join`](super::Change::Join).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Join {
    /// The request.
    pub request: RequestDigest,
    /// Which row it joins.
    pub rule: JoinRule,
    /// How many requests the queue takes.
    pub cap: u16,
}

/// In which row there is anything to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinRule {
    /// Of a mutex: where others wait, the lease may not be taken over, or the limit is 0.
    IfTaken(TakeoverRule),
    /// For a permit, of which the row says nothing: where others wait. The one that frees a permit serves them.
    BehindOthers,
    /// For a permit: in any row. One that joins an empty queue then looks for one that was released before.
    Always,
}

impl JoinRule {
    /// For a request that was not granted the key, or a permit, while the first row was this one.
    pub(crate) fn of(grant: &Grant, first: &Row) -> Self {
        match grant.request.permits {
            None => Self::IfTaken(grant.over),
            Some(_) if first.head().is_none() => Self::Always,
            Some(_) => Self::BehindOthers,
        }
    }
}

/// Who has to wait first where a row is replaced: the version does not count who joins the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Head {
    /// Any waiter, or nobody.
    #[default]
    Any,
    /// This request, which leaves the queue because the new row is its grant.
    Leaves(RequestDigest),
    /// Nobody: the new row is the grant of one that has not waited.
    Nobody,
}

/// See [`Change::Leave`](super::Change::Leave).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leave {
    /// The request.
    pub request: RequestDigest,
    /// The place at which it was seen, counted from 0.
    pub place: usize,
    /// Why it leaves.
    pub because: LeaveReason,
}

/// Why a request leaves the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaveReason {
    /// It waits no longer.
    GaveUp,
    /// This one came later, and leaves only as long as that waits.
    Superseded(RequestDigest),
    /// It is granted a permit that has a row of its own. Not while the key is frozen, or its limit is 0.
    Granted,
}

pub(super) fn joined(row: &Row, join: &Join) -> Option<Row> {
    let queue = &row.queue;
    let waits = row.head().is_some()
        || match join.rule {
            JoinRule::IfTaken(over) => !over.allows(row) || row.is_limited_to_none(),
            JoinRule::BehindOthers => false,
            JoinRule::Always => true,
        };
    let known = row.remembers(&join.request) || queue.contains(&join.request);
    let room = queue.len() < usize::from(join.cap);
    (waits && !known && room && row.frozen.is_none()).then(|| {
        let mut queue = queue.clone();
        queue.push(join.request.clone());
        let purge_at = row
            .purge_at
            .filter(|_| matches!(join.rule, JoinRule::IfTaken(_)));
        Row {
            // It may stay free for long while others have the permits, and has the queue.
            purge_at,
            ..with_queue(row, queue)
        }
    })
}

pub(super) fn left(row: &Row, leave: &Leave) -> Option<Row> {
    let mut queue = row.queue.clone();
    let may = match &leave.because {
        LeaveReason::GaveUp => true,
        LeaveReason::Superseded(later) => queue.contains(later),
        LeaveReason::Granted => row.may_be_granted(),
    };
    if queue.get(leave.place) != Some(&leave.request) || !may {
        return None;
    }
    queue.remove(leave.place);
    // It may join again: then the one that read its item before neither grants it the key nor takes its place away.
    let version = row.version.plus(1);
    Some(Row {
        version,
        ..with_queue(row, queue)
    })
}

/// The version stays, because observers watch the holder.
fn with_queue(row: &Row, queue: Vec<RequestDigest>) -> Row {
    Row {
        queue,
        ..row.clone()
    }
}
