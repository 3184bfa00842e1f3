//! The pure function that computes a write to a lease row, and the pure functions that interpret a refusal.
//!
//! The memory store runs it. The DynamoDB store expresses the same rule in condition and update expressions, and
//! computes the new row here. A differential test compares the two.

use crate::{
    clock::Timestamp,
    outcomes::Ended,
    request::Request,
    row::{Holding, Notification, Row, State, Stored, Term},
    values::{Counter, LeaseId, ObservedVersion, Ttl},
};

mod queue;
mod refusals;

pub use queue::{Head, Join, JoinRule, Leave, LeaveReason};
pub use refusals::{
    ExtendRefusal, GrantRefusal, JoinRefusal, ReleaseRefusal, why_not_extended, why_not_granted,
    why_not_joined, why_not_released,
};

/// A conditional write of one lease row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Grants the lease, if the row is free or its lease may be taken over.
    Grant(Grant),
    /// Moves the deadline, if the named grant is still the current one, and nobody has extended it by a later clock.
    Extend(Extend),
    /// Verifies that the named grant, of an execution lease, is still the current one, and that nobody has verified it by a later clock.
    Prove(Prove),
    /// Records a look at the execution that holds the lease, which the lease survived.
    Look(Look),
    /// Shortens the lease; no other write may.
    ShortenDeadline(ShortenDeadline),
    /// Ends the named grant.
    Release(Release),
    /// Ends the grant that the row had at the version that was read: by sweep, by reap, or by an extend that came too
    /// late.
    EndIfUnchanged(EndIfUnchanged),
    /// Replaces the row that was read: an operator's write, or one that concerns a waiter's grant.
    ReplaceIfUnchanged(Box<ReplaceIfUnchanged>),
    /// Puts a request at the end of the queue.
    Join(Join),
    /// Removes a request from the queue.
    Leave(Leave),
    /// Writes nothing. In a set of changes, it requires that the named grant is still the current one and has not
    /// expired.
    CheckHeld(CheckHeld),
}

/// See [`Change::Grant`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// What is granted, and to whom.
    pub request: Request,
    /// Proof of the new grant.
    pub lease_id: LeaseId,
    /// The taker's clock.
    pub now: Timestamp,
    /// When the lease of another holder may be taken over.
    pub over: TakeoverRule,
    /// Which tokens a row may have, and what its next token is.
    pub tokens: TokenFloor,
    /// Before this instant sweep need not read the row.
    pub sweep_after: Timestamp,
    /// Whether the holder waits for the grant with a task token, so that it may not learn of it.
    pub by_token: bool,
}

/// When the lease of another holder may be taken over, and a row granted that stayed closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TakeoverRule {
    /// By the clock: a deadline or an opening is this instant or earlier. The instant is now minus the margin.
    pub passed: Timestamp,
    /// By observation: the lease's version is the one that was seen a whole ttl ago. No clock is compared with its deadline.
    pub unchanged: Option<ObservedVersion>,
}

/// Which tokens a row may have, and what the next one is. Conditions have no maximum
/// function, so a row below the floor takes another write than one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenFloor {
    /// The floor or more: the next token is counted from the row's. A row that does not exist counts from the clock
    /// or the floor, whichever is larger.
    Reached(Counter),
    /// Less than the floor: the next is counted from the floor.
    Below(Counter),
}

impl TokenFloor {
    /// The floor: every new token is above it.
    #[must_use]
    pub const fn floor(self) -> Counter {
        match self {
            Self::Reached(floor) | Self::Below(floor) => floor,
        }
    }

    /// The variant for a row with this token.
    #[must_use]
    pub fn for_row(self, token: Counter) -> Self {
        let floor = self.floor();
        if token < floor {
            Self::Below(floor)
        } else {
            Self::Reached(floor)
        }
    }

    fn matches(self, row: &Row) -> bool {
        self == self.for_row(row.fencing_token)
    }
}

impl Grant {
    /// The same grant, for a row with other tokens.
    #[must_use]
    pub fn with_tokens(&self, tokens: TokenFloor) -> Self {
        Self {
            tokens,
            ..self.clone()
        }
    }

    /// Where a row that does not exist starts to count.
    pub(crate) fn seed(&self) -> Counter {
        seed(self.now).max(self.tokens.floor())
    }
}

impl TakeoverRule {
    /// By the clock.
    #[must_use]
    pub const fn by_clock(passed: Timestamp) -> Self {
        let unchanged = None;
        Self { passed, unchanged }
    }

    /// Whether `row`, once nobody waits for it, may be granted.
    pub(crate) fn allows(self, row: &Row) -> bool {
        !row.is_closed(self.passed) && row.holding().is_none_or(|held| self.is_over(row, held))
    }

    fn is_over(self, row: &Row, held: &Holding) -> bool {
        match self.unchanged {
            None => held.expires_at() <= self.passed,
            // An execution does not show that it lives: a look at it need not change the version.
            Some(version) => matches!(held.term, Term::Ttl { .. }) && version == row.version.into(),
        }
    }
}

/// See [`Change::Extend`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extend {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// The requested length.
    pub ttl: Ttl,
    /// The holder's clock.
    pub now: Timestamp,
    /// The new deadline. It is absolute, so a duplicate of this write changes nothing.
    pub expires_at: Timestamp,
    /// Refuse to revive a lease whose deadline has passed.
    pub require_unexpired: bool,
    /// The row was written by a later clock, and stays as new as that says.
    pub behind: bool,
}

/// See [`Change::Prove`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prove {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// The holder's clock.
    pub now: Timestamp,
    /// The row was written by a later clock, and stays as new as that says.
    pub behind: bool,
}

/// See [`Change::Look`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The version that was read. It stays, because observers watch the holder.
    pub version: Counter,
    /// The looker's clock.
    pub now: Timestamp,
    /// From this instant on another look may end the lease, if the execution has ended and something of it may still be at
    /// work.
    pub look_again_at: Option<Timestamp>,
    /// Before this instant sweep need not look again.
    pub sweep_after: Timestamp,
    /// The execution's history shows that it knows of its grant.
    pub known: bool,
}

/// See [`Change::ShortenDeadline`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShortenDeadline {
    /// The version that was read.
    pub version: Counter,
    /// The new deadline, earlier than the current one.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not read the row.
    pub sweep_after: Timestamp,
}

/// See [`Change::Release`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// When DynamoDB may delete the row, in epoch seconds.
    pub purge_at: u64,
}

/// See [`Change::EndIfUnchanged`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndIfUnchanged {
    /// The version that was read.
    pub version: Counter,
    /// How the row records the end.
    pub ended: Ended,
    /// When DynamoDB may delete the row, in epoch seconds.
    pub purge_at: u64,
}

/// See [`Change::ReplaceIfUnchanged`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplaceIfUnchanged {
    /// The version of the row that was read; none if there was no row.
    pub seen: Option<Counter>,
    /// The new row. The queue in it is ignored; the stored one stays.
    pub row: Row,
    /// Who has to wait first.
    pub head: Head,
}

/// See [`Change::CheckHeld`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckHeld {
    /// Proof of the grant.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
    /// The holder's clock.
    pub now: Timestamp,
}

/// The row after `change`, or none if the condition refuses it.
#[must_use]
pub fn transition(stored: &Stored, change: &Change) -> Option<Row> {
    let row = match (stored, change) {
        (Stored::Row(row), _) => row,
        (Stored::Absent, Change::Grant(grant)) => return first_grant(grant),
        (Stored::Absent, Change::ReplaceIfUnchanged(swap)) if swap.seen.is_none() => {
            return Some(swap.row.clone());
        }
        _ => return None,
    };
    match change {
        Change::Grant(grant) => next_grant(row, grant),
        Change::Extend(extend) => extended(row, extend),
        Change::Prove(prove) => proven(row, prove),
        Change::Look(look) => looked_at(row, look),
        Change::ShortenDeadline(cut) => shortened(row, cut),
        Change::Release(release) => released(row, release),
        Change::EndIfUnchanged(end) => ended_as_read(row, end),
        Change::ReplaceIfUnchanged(swap) => replaced(row, swap),
        Change::Join(join) => queue::joined(row, join),
        Change::Leave(leave) => queue::left(row, leave),
        Change::CheckHeld(check) => {
            let held = owned(row, &check.lease_id, check.fencing_token)?;
            (held.expires_at() > check.now).then(|| row.clone())
        }
    }
}

fn first_grant(grant: &Grant) -> Option<Row> {
    matches!(grant.tokens, TokenFloor::Reached(_)).then(|| Row {
        opens_at: grant.request.opens_at(grant.now),
        state: State::Held(granted(grant)),
        ..first_row(grant.now, grant.tokens.floor(), &grant.request)
    })
}

/// The row after its first grant, which has ended.
pub(crate) fn first_row(now: Timestamp, floor: Counter, request: &Request) -> Row {
    let token = seed(now).max(floor).plus(1);
    Row {
        fencing_token: token,
        version: seed(now).plus(1),
        granted_to: request.holder.clone(),
        request: request.digest.clone(),
        request_keys: request.keys.clone(),
        permits: request.permits,
        past_requests: [None, None, None],
        past_releases: [None; 3],
        previous: None,
        frozen: None,
        limit: None,
        opens_at: None,
        kept_until: None,
        operator: None,
        purge_at: None,
        queue: Vec::new(),
        entries: None,
        state: State::Free {
            ended: Ended::Released,
            last_token: token,
        },
    }
}

/// A new row counts from the clock. So a row that was deleted starts above every token that it ever granted, and
/// above every version that anybody saw.
pub(crate) fn seed(now: Timestamp) -> Counter {
    Counter::new(now.as_millis()).unwrap_or(Counter::MIN)
}

fn next_grant(row: &Row, grant: &Grant) -> Option<Row> {
    let may = grant.over.allows(row) && row.may_be_granted() && row.head().is_none();
    if !may || row.remembers(&grant.request.digest) {
        return None;
    }
    if !grant.tokens.matches(row) {
        return None;
    }
    let token = row.fencing_token.max(grant.tokens.floor()).plus(1);
    Some(Row {
        purge_at: None,
        opens_at: grant.request.opens_at(grant.now),
        state: State::Held(granted(grant)),
        ..succeeded(row, &grant.request, token)
    })
}

/// The row after a new grant, with its last grant moved to the history.
pub(crate) fn succeeded(row: &Row, request: &Request, token: Counter) -> Row {
    let [first, second, _] = row.past_requests.clone();
    Row {
        fencing_token: token,
        version: row.version.plus(1),
        granted_to: request.holder.clone(),
        request: request.digest.clone(),
        request_keys: request.keys.clone(),
        permits: request.permits,
        past_requests: [Some(row.request.clone()), first, second],
        previous: Some(row.last_grant()),
        ..row.clone()
    }
}

fn granted(grant: &Grant) -> Holding {
    Holding {
        lease_id: grant.lease_id.clone(),
        term: grant.request.term(grant.now),
        acquired_at: grant.now,
        extended_at: None,
        sweep_after: Some(grant.sweep_after),
        metadata: grant.request.metadata.clone(),
        notification: grant.by_token.then(|| Notification::first(grant.now, None)),
        pool: grant.request.in_pool().map(Box::new),
    }
}

fn replaced(row: &Row, swap: &ReplaceIfUnchanged) -> Option<Row> {
    let mut queue = row.queue.clone();
    match &swap.head {
        Head::Any => {}
        Head::Leaves(head) => drop((row.head() == Some(head)).then(|| queue.remove(0))?),
        Head::Nobody if queue.is_empty() => {}
        Head::Nobody => return None,
    }
    (swap.seen == Some(row.version)).then(|| Row {
        queue,
        ..swap.row.clone()
    })
}

pub(crate) fn owned<'a>(row: &'a Row, lease_id: &LeaseId, token: Counter) -> Option<&'a Holding> {
    row.holding()
        .filter(|held| held.lease_id == *lease_id && row.fencing_token == token)
}

/// When a row was last extended or verified, after a write at this instant, which may be known to be behind.
fn written_at(held: &Holding, (now, behind): (Timestamp, bool)) -> Option<Timestamp> {
    if behind { held.extended_at } else { Some(now) }
}

fn extended(row: &Row, extend: &Extend) -> Option<Row> {
    let held = owned(row, &extend.lease_id, extend.fencing_token)?;
    let Term::Ttl { expires_at, .. } = held.term else {
        return None;
    };
    let may_revive = row.frozen.is_none() && row.head().is_none() && !extend.require_unexpired;
    let allowed = expires_at > extend.now || may_revive;
    let is_latest = extend.behind || !held.is_written_after(extend.now);
    (allowed && is_latest && expires_at <= extend.expires_at).then(|| Row {
        version: row.version.plus(1),
        state: State::Held(Holding {
            term: Term::Ttl {
                ttl: extend.ttl,
                expires_at: extend.expires_at,
            },
            extended_at: written_at(held, (extend.now, extend.behind)),
            ..held.clone()
        }),
        ..row.clone()
    })
}

/// A write, because a look that is under way would end what was only read. It also ends the wait of an earlier look, and
/// shows that the holder knows of its grant.
fn proven(row: &Row, prove: &Prove) -> Option<Row> {
    let held = owned(row, &prove.lease_id, prove.fencing_token)?;
    let held = Some(held).filter(|held| prove.behind || !held.is_written_after(prove.now))?;
    let Term::Execution {
        keep, looked_at, ..
    } = held.term
    else {
        return None;
    };
    Some(Row {
        version: row.version.plus(1),
        state: State::Held(Holding {
            term: Term::Execution {
                keep,
                looked_at,
                look_again_at: None,
            },
            extended_at: written_at(held, (prove.now, prove.behind)),
            notification: None,
            ..held.clone()
        }),
        ..row.clone()
    })
}

fn looked_at(row: &Row, look: &Look) -> Option<Row> {
    let held = row.holding().filter(|_| row.version == look.version)?;
    let Term::Execution { keep, .. } = held.term else {
        return None;
    };
    Some(Row {
        state: State::Held(Holding {
            term: Term::Execution {
                keep,
                looked_at: Some(look.now),
                look_again_at: look.look_again_at,
            },
            sweep_after: Some(look.sweep_after),
            notification: held.notification.filter(|_| !look.known),
            ..held.clone()
        }),
        ..row.clone()
    })
}

fn shortened(row: &Row, cut: &ShortenDeadline) -> Option<Row> {
    let held = row.holding().filter(|_| row.version == cut.version)?;
    let Term::Ttl { ttl, expires_at } = held.term else {
        return None;
    };
    (expires_at > cut.expires_at).then(|| Row {
        version: row.version.plus(1),
        state: State::Held(Holding {
            term: Term::Ttl {
                ttl,
                expires_at: cut.expires_at,
            },
            sweep_after: Some(cut.sweep_after),
            ..held.clone()
        }),
        ..row.clone()
    })
}

fn released(row: &Row, release: &Release) -> Option<Row> {
    owned(row, &release.lease_id, release.fencing_token)?;
    Some(ended(row, Ended::Released, release.purge_at))
}

fn ended_as_read(row: &Row, end: &EndIfUnchanged) -> Option<Row> {
    row.holding().filter(|_| row.version == end.version)?;
    Some(ended(row, end.ended, end.purge_at))
}

/// The row after the end of its current grant. What a waiter is granted is written over it.
fn ended(row: &Row, ended: Ended, purge_at: u64) -> Row {
    let [first, second, _] = row.past_releases;
    Row {
        version: row.version.plus(1),
        past_releases: match ended {
            Ended::Released => [Some(row.fencing_token), first, second],
            Ended::Expired | Ended::Forced => row.past_releases,
        },
        purge_at: Some(row.purge_once_free(purge_at)),
        state: State::Free {
            ended,
            last_token: row.fencing_token,
        },
        ..row.clone()
    }
}
