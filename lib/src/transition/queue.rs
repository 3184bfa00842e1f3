//! What the line does to a row: joining, leaving, being first.

use super::{State, TakeoverRule, Tokens, succeeded};
use crate::{
    clock::Timestamp,
    row::{Holding, Reservation, Row},
    values::{Counter, Holder, LeaseId, Metadata, RequestDigest, Ttl},
};

/// What becomes of the line when a grant ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The row is kept for whoever is first, if anybody is. Not for a frozen key.
    Is(Successor),
    /// Somebody else will see to it: the writer cannot tell anybody.
    Later,
}

/// What the one who is first in line gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Successor {
    /// Proof of the grant to come.
    pub lease_id: LeaseId,
    /// Until when it is to be confirmed.
    pub until: Timestamp,
    /// Which tokens the row may have, and which one is promised: the one above the row's, or above
    /// the floor.
    pub tokens: Tokens,
}

impl Next {
    /// Whether the row's token is one that this may promise from.
    pub(super) fn suits(&self, row: &Row) -> Option<()> {
        match self {
            Self::Is(successor) => successor.tokens.suit(row).then_some(()),
            Self::Later => Some(()),
        }
    }

    /// The same, in the way that suits a row with this token.
    #[must_use]
    pub fn suited_to(&self, token: Counter) -> Self {
        match self {
            Self::Is(successor) => Self::Is(Successor {
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
    /// Who.
    pub request: RequestDigest,
    /// By what a lease that somebody holds counts as over: what can be taken is not waited for.
    pub over: TakeoverRule,
    /// How many the line takes.
    pub cap: u16,
}

/// See [`Change::Leave`](super::Change::Leave).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leave {
    /// Who.
    pub request: RequestDigest,
    /// At which place it was seen, counted from 0.
    pub place: usize,
}

/// See [`Change::Reserve`](super::Change::Reserve).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reserve {
    /// What the first in line gets.
    pub heir: Successor,
}

/// See [`Change::TryAgain`](super::Change::TryAgain).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TryAgain {
    /// What it is kept by.
    pub lease_id: LeaseId,
    /// How often it had been tried when that was read.
    pub tries: Counter,
    /// Until when it is to be confirmed now.
    pub until: Timestamp,
    /// Which tokens the row may have, and which one is promised now.
    pub tokens: Tokens,
}

/// See [`Change::Pass`](super::Change::Pass).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// What it was kept by.
    pub lease_id: LeaseId,
    /// How often that had been tried when it was read: nobody must have tried since.
    pub tries: Counter,
    /// What the next in line gets.
    pub heir: Successor,
}

/// See [`Change::Take`](super::Change::Take).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Take {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// The token that was promised.
    pub fencing_token: Counter,
    /// It must be above this one: a promise from before a restore is void.
    pub floor: Counter,
    /// Whom it was promised to.
    pub holder: Holder,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// The length asked for.
    pub ttl: Ttl,
    /// When it was promised.
    pub acquired_at: Timestamp,
    /// The holder's clock.
    pub now: Timestamp,
    /// The deadline.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not look.
    pub sweep_after: Timestamp,
    /// Refuse if the time for it has passed.
    pub require_unexpired: bool,
}

pub(super) fn joined(row: &Row, join: &Join) -> Option<Row> {
    let line = &row.line;
    let waits = row.is_spoken_for() || !join.over.holds(row);
    let known = row.remembers(&join.request) || line.contains(&join.request);
    let theirs = row.reserved().is_some_and(|r| r.request == join.request);
    let room = line.len() < usize::from(join.cap);
    (waits && !known && !theirs && room && row.frozen.is_none()).then(|| {
        let mut line = line.clone();
        line.push(join.request.clone());
        in_line(row, line)
    })
}

pub(super) fn left(row: &Row, leave: &Leave) -> Option<Row> {
    let mut line = row.line.clone();
    if line.get(leave.place) != Some(&leave.request) {
        return None;
    }
    line.remove(leave.place);
    Some(in_line(row, line))
}

/// The version stays: who watches it watches the holder.
fn in_line(row: &Row, line: Vec<RequestDigest>) -> Row {
    Row {
        line,
        ..row.clone()
    }
}

pub(super) fn reserved(row: &Row, reserve: &Reserve) -> Option<Row> {
    row.head()?;
    if !reserve.heir.tokens.suit(row) {
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

/// A free row, kept for whoever is first in line; for nobody if nobody is.
pub(super) fn kept_for_the_first(row: Row, successor: &Successor) -> Option<Row> {
    let row = lifted(row, successor.tokens);
    let State::Free {
        ended, last_token, ..
    } = row.state
    else {
        return None;
    };
    let mut line = row.line.into_iter();
    let reserved = line.next().map(|request| Reservation {
        request,
        lease_id: successor.lease_id.clone(),
        until: successor.until,
        tries: Counter::MIN,
    });
    row.frozen.is_none().then(|| Row {
        line: line.collect(),
        state: State::Free {
            ended,
            last_token,
            reserved,
        },
        ..row
    })
}

/// A row below the floor has the floor for its token: the next one is promised.
fn lifted(row: Row, tokens: Tokens) -> Row {
    match tokens {
        Tokens::From(_) => row,
        Tokens::LiftedTo(floor) => Row {
            fencing_token: row.fencing_token.max(floor),
            ..row
        },
    }
}

/// The reservation that the caller can prove is meant for it.
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

pub(super) fn tried_again(row: &Row, again: &TryAgain) -> Option<Row> {
    let reserved = of_try(row, &again.lease_id, again.tries)?;
    if !again.tokens.suit(row) {
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

/// The token that was promised is used up, whether the one it was promised to knows it or not.
pub(super) fn passed_on(row: &Row, pass: &Pass) -> Option<Row> {
    of_try(row, &pass.lease_id, pass.tries)?;
    if !pass.heir.tokens.suit(row) {
        return None;
    }
    let row = Row {
        fencing_token: row.fencing_token.plus(1),
        version: row.version.plus(1),
        ..row.clone()
    };
    kept_for_the_first(row, &pass.heir)
}

pub(super) fn taken(row: &Row, take: &Take) -> Option<Row> {
    let reserved = kept(row, &take.lease_id, take.fencing_token)?;
    let late = reserved.until <= take.now && take.require_unexpired;
    let void = take.fencing_token <= take.floor;
    (!late && !void && row.frozen.is_none()).then(|| Row {
        purge_at: None,
        state: State::Held(Holding {
            lease_id: take.lease_id.clone(),
            ttl: take.ttl,
            acquired_at: take.acquired_at,
            extended_at: Some(take.now),
            expires_at: take.expires_at,
            sweep_after: Some(take.sweep_after),
            metadata: take.metadata.clone(),
        }),
        ..succeeded(row, &take.holder, &reserved.request, take.fencing_token)
    })
}
