//! The queue's changes of a row: join, leave, reserve, confirm.

use super::{State, TakeoverRule, TokenFloor, succeeded};
use crate::{
    clock::Timestamp,
    row::{Holding, Reservation, Row, Term},
    values::{Counter, Holder, LeaseId, Metadata, RequestDigest, Ttl},
};

/// What happens to the queue when a grant ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandOver {
    /// The row is reserved for the first waiter, if there is one. Not for a frozen key.
    Now(Successor),
    /// Somebody else makes the reservation, because the writer cannot notify.
    Later,
}

/// The reservation for the first waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Successor {
    /// Proof of the grant to come.
    pub lease_id: LeaseId,
    /// When the reservation expires.
    pub until: Timestamp,
    /// Which tokens the row may have, and which one is reserved: the one above the row's, or above the floor.
    pub tokens: TokenFloor,
}

impl HandOver {
    /// Whether the row's token suits this reservation.
    pub(super) fn matches(&self, row: &Row) -> Option<()> {
        match self {
            Self::Now(successor) => successor.tokens.matches(row).then_some(()),
            Self::Later => Some(()),
        }
    }

    /// The same, for a row with this token.
    #[must_use]
    pub fn for_row(&self, token: Counter) -> Self {
        match self {
            Self::Now(successor) => Self::Now(Successor {
                tokens: successor.tokens.for_row(token),
                ..successor.clone()
            }),
            Self::Later => Self::Later,
        }
    }
}

/// See [`Change::Join`](super::Change::Join).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Join {
    /// The request.
    pub request: RequestDigest,
    /// When a lease may be taken over: nobody waits for a lease that may be taken.
    pub over: TakeoverRule,
    /// How many requests the queue takes.
    pub cap: u16,
}

/// See [`Change::Leave`](super::Change::Leave).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leave {
    /// The request.
    pub request: RequestDigest,
    /// The place at which it was seen, counted from 0.
    pub place: usize,
}

/// See [`Change::Reserve`](super::Change::Reserve).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reserve {
    /// The reservation for the first waiter.
    pub heir: Successor,
}

/// See [`Change::RenewReservation`](super::Change::RenewReservation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewReservation {
    /// The lease id of the reservation.
    pub lease_id: LeaseId,
    /// How many notifications had been attempted when the row was read.
    pub tries: Counter,
    /// When the reservation expires now.
    pub until: Timestamp,
    /// Which tokens the row may have, and which one is reserved now.
    pub tokens: TokenFloor,
}

/// See [`Change::PassReservation`](super::Change::PassReservation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassReservation {
    /// The lease id of the reservation.
    pub lease_id: LeaseId,
    /// How many notifications had been attempted when the row was read: there must have been none since.
    pub tries: Counter,
    /// The reservation for the next waiter.
    pub heir: Successor,
}

/// See [`Change::ConfirmReservation`](super::Change::ConfirmReservation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfirmReservation {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// The reserved token.
    pub fencing_token: Counter,
    /// The token must be larger than this: a reservation from before a restore is void.
    pub floor: Counter,
    /// The waiter's holder.
    pub holder: Holder,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// The requested length.
    pub ttl: Ttl,
    /// When the waiter was notified.
    pub acquired_at: Timestamp,
    /// The holder's clock.
    pub now: Timestamp,
    /// The deadline.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not read the row.
    pub sweep_after: Timestamp,
    /// Refuse if the reservation has expired.
    pub require_unexpired: bool,
}

pub(super) fn joined(row: &Row, join: &Join) -> Option<Row> {
    let queue = &row.queue;
    let waits = row.is_reserved_or_queued() || !join.over.allows(row);
    let known = row.remembers(&join.request) || queue.contains(&join.request);
    let theirs = row.reserved().is_some_and(|r| r.request == join.request);
    let room = queue.len() < usize::from(join.cap);
    (waits && !known && !theirs && room && row.frozen.is_none()).then(|| {
        let mut queue = queue.clone();
        queue.push(join.request.clone());
        with_queue(row, queue)
    })
}

pub(super) fn left(row: &Row, leave: &Leave) -> Option<Row> {
    let mut queue = row.queue.clone();
    if queue.get(leave.place) != Some(&leave.request) {
        return None;
    }
    queue.remove(leave.place);
    Some(with_queue(row, queue))
}

/// The version stays, because observers watch the holder.
fn with_queue(row: &Row, queue: Vec<RequestDigest>) -> Row {
    Row {
        queue,
        ..row.clone()
    }
}

pub(super) fn reserved(row: &Row, reserve: &Reserve) -> Option<Row> {
    row.head()?;
    if !reserve.heir.tokens.matches(row) {
        return None;
    }
    if row.holding().is_some() || row.reserved().is_some() {
        return None;
    }
    let row = Row {
        version: row.version.plus(1),
        ..row.clone()
    };
    kept_for_the_first(row, &reserve.heir)
}

/// A free row, reserved for the first waiter, or for nobody if the queue is empty.
pub(super) fn kept_for_the_first(row: Row, successor: &Successor) -> Option<Row> {
    let row = lifted(row, successor.tokens);
    let State::Free {
        ended, last_token, ..
    } = row.state
    else {
        return None;
    };
    let mut queue = row.queue.into_iter();
    let reserved = queue.next().map(|request| Reservation {
        request,
        lease_id: successor.lease_id.clone(),
        until: successor.until,
        tries: Counter::MIN,
    });
    row.frozen.is_none().then(|| Row {
        queue: queue.collect(),
        state: State::Free {
            ended,
            last_token,
            reserved,
        },
        ..row
    })
}

/// A row below the floor gets the floor as its token, and the next one is reserved.
fn lifted(row: Row, tokens: TokenFloor) -> Row {
    match tokens {
        TokenFloor::Reached(_) => row,
        TokenFloor::Below(floor) => Row {
            fencing_token: row.fencing_token.max(floor),
            ..row
        },
    }
}

/// The reservation that this proof belongs to.
pub(super) fn kept<'a>(
    row: &'a Row,
    lease_id: &LeaseId,
    fencing_token: Counter,
) -> Option<&'a Reservation> {
    let promised = row.fencing_token.plus(1) == fencing_token;
    row.reserved()
        .filter(|reserved| promised && reserved.lease_id == *lease_id)
}

fn of_try<'a>(row: &'a Row, lease_id: &LeaseId, tries: Counter) -> Option<&'a Reservation> {
    row.reserved()
        .filter(|reserved| reserved.lease_id == *lease_id && reserved.tries == tries)
}

pub(super) fn renewed(row: &Row, again: &RenewReservation) -> Option<Row> {
    let reserved = of_try(row, &again.lease_id, again.tries)?;
    if !again.tokens.matches(row) {
        return None;
    }
    let State::Free {
        ended, last_token, ..
    } = row.state
    else {
        return None;
    };
    let row = lifted(row.clone(), again.tokens);
    Some(Row {
        version: row.version.plus(1),
        state: State::Free {
            ended,
            last_token,
            reserved: Some(Reservation {
                until: again.until,
                tries: again.tries.plus(1),
                ..reserved.clone()
            }),
        },
        ..row
    })
}

/// The reserved token is used up, whether or not its waiter knows of it.
pub(super) fn passed_on(row: &Row, pass: &PassReservation) -> Option<Row> {
    of_try(row, &pass.lease_id, pass.tries)?;
    if !pass.heir.tokens.matches(row) {
        return None;
    }
    let row = Row {
        fencing_token: row.fencing_token.plus(1),
        version: row.version.plus(1),
        ..row.clone()
    };
    kept_for_the_first(row, &pass.heir)
}

pub(super) fn confirmed(row: &Row, take: &ConfirmReservation) -> Option<Row> {
    let reserved = kept(row, &take.lease_id, take.fencing_token)?;
    let late = reserved.until <= take.now && take.require_unexpired;
    let void = take.fencing_token <= take.floor;
    (!late && !void && row.frozen.is_none()).then(|| Row {
        purge_at: None,
        state: State::Held(Holding {
            lease_id: take.lease_id.clone(),
            term: Term::Ttl {
                ttl: take.ttl,
                expires_at: take.expires_at,
            },
            acquired_at: take.acquired_at,
            extended_at: Some(take.now),
            sweep_after: Some(take.sweep_after),
            metadata: take.metadata.clone(),
        }),
        ..succeeded(row, &take.holder, &reserved.request, take.fencing_token)
    })
}
