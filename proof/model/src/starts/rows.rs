//! Every row that the table has ever held, by number; its changes are made by the library.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use dashmap::DashMap;
use leasehold::{
    AtLeast, Counter, Holder, LeaseId, Metadata, RequestDigest, RequestId, Timestamp,
    row::{Row, Stored, Telling},
    transition::{
        Change, EndIfUnchanged, Grant, Join, JoinRule, Leave, LeaveReason, Release, TakeoverRule,
        TokenFloor, transition,
    },
};

use super::design;
pub use crate::names::Tick;

/// A start; its number is the name of its execution.
pub type Start = u8;
pub type RowNo = u32;
/// A token or a version, counted from the first row's.
pub type Count = u16;

/// How many starts there may be in a world.
pub const MOST: usize = 3;
/// What the service says is at most this old.
pub const TICK: Duration = Duration::from_secs(30);
const BEGINNING: u64 = 1_800_000_000_000;
/// When DynamoDB may delete a free row: not in these worlds.
const PURGE_AT: u64 = 2_000_000_000;

/// What the rest of the model asks about a row.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub holder: Option<Start>,
    pub token: Count,
    pub version: Count,
    pub telling: Option<Telling>,
    pub queue: Vec<Start>,
    /// The starts whose ended grants the row remembers.
    pub remembered: Vec<Start>,
}

impl View {
    pub fn is_queued(&self, start: Start) -> bool {
        self.queue.contains(&start)
    }

    pub fn has(&self, start: Start) -> bool {
        self.holder == Some(start) || self.is_queued(start)
    }
}

type Seen = (Arc<Row>, Arc<View>);

pub struct Rows {
    all: RwLock<Vec<Seen>>,
    numbers: DashMap<Row, RowNo>,
}

pub fn instant(at: Tick) -> Timestamp {
    let beginning = Timestamp::from_millis(BEGINNING);
    if at < 0 {
        beginning.minus(length(-at))
    } else {
        beginning.plus(length(at))
    }
}

pub fn length(ticks: Tick) -> Duration {
    TICK * u32::from(ticks.unsigned_abs())
}

/// The ARN that follows from machine and name.
fn holder(start: Start) -> Holder {
    let arn = format!("arn:aws:states:eu-west-1:123456789012:execution:machine:{start}");
    Holder::new(arn).expect("a short name")
}

fn request(start: Start) -> RequestDigest {
    RequestDigest::of(&holder(start), &RequestId::new("start").expect("short"))
}

fn nobody() -> RequestDigest {
    request(Start::MAX)
}

/// Proof of the grant with this token.
fn lease_id(token: Counter) -> LeaseId {
    LeaseId::try_from(format!("l{}", token.get())).expect("short")
}

fn count(counter: Counter) -> Count {
    Count::try_from(counter.get() - BEGINNING).expect("near the beginning")
}

fn counter(count: Count) -> Counter {
    Counter::new(BEGINNING + u64::from(count)).expect("positive")
}

impl Rows {
    /// With the first row: free, after a grant to somebody else.
    pub fn new() -> (Self, RowNo) {
        let rows = Self {
            all: RwLock::new(Vec::new()),
            numbers: DashMap::new(),
        };
        let change = granted(Start::MAX, Counter::MIN, 0);
        let first = transition(&Stored::Absent, &change).expect("there is no row");
        let free = transition(&Stored::Row(first.clone()), &ended(&first)).expect("it is held");
        let free = rows.number(free);
        (rows, free)
    }

    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    pub fn view(&self, row: RowNo) -> Arc<View> {
        self.at(row).1
    }

    /// Grants the free key.
    pub fn grant(&self, row: RowNo, start: Start, now: Tick) -> Option<RowNo> {
        let next = design::next(self.at(row).0.fencing_token);
        self.apply(row, &granted(start, next, now))
    }

    pub fn join(&self, row: RowNo, start: Start, now: Tick) -> Option<RowNo> {
        let change = Change::Join(Join {
            request: request(start),
            rule: JoinRule::IfTaken(TakeoverRule::by_clock(instant(now))),
            cap: 100,
        });
        self.apply(row, &change)
    }

    /// Takes a start out of the queue; the version is raised, or it is not.
    pub fn leave(&self, row: RowNo, start: Start, raises: bool) -> Option<RowNo> {
        let before = self.at(row);
        let place = before.1.queue.iter().position(|other| *other == start)?;
        let change = Change::Leave(Leave {
            request: request(start),
            place: Some(place),
            because: LeaveReason::GaveUp,
        });
        let left = transition(&Stored::Row((*before.0).clone()), &change)?;
        let version = if raises {
            design::next(left.version)
        } else {
            left.version
        };
        Some(self.number(Row { version, ..left }))
    }

    /// Grants the free row that was read to the first in the queue.
    pub fn grant_to_head(&self, row: RowNo, version: Count, now: Tick) -> Option<RowNo> {
        let seen = self.seen(row, version)?;
        let holder = holder(*seen.1.queue.first()?);
        let lease_id = lease_id(design::next(seen.0.fencing_token));
        let change = design::grant_to_head(&seen.0, (holder, lease_id), instant(now))?;
        self.apply(row, &change)
    }

    /// The row after a grant, with the token that it had before.
    pub fn keep_token(&self, before: RowNo, after: RowNo) -> RowNo {
        self.number(Row {
            fencing_token: self.at(before).0.fencing_token,
            ..(*self.at(after).0).clone()
        })
    }

    pub fn mark(&self, row: RowNo, version: Count, now: Tick) -> Option<RowNo> {
        let change = design::mark(&self.seen(row, version)?.0, instant(now))?;
        self.apply(row, &change)
    }

    pub fn note_refusal(&self, row: RowNo, version: Count, now: Tick) -> Option<RowNo> {
        let change = design::note_refusal(&self.seen(row, version)?.0, instant(now))?;
        self.apply(row, &change)
    }

    pub fn take_back(&self, row: RowNo, version: Count) -> Option<RowNo> {
        let seen = self.seen(row, version)?;
        seen.1.holder?;
        self.apply(row, &design::take_back(&seen.0, nobody(), PURGE_AT))
    }

    pub fn end(&self, row: RowNo, version: Count) -> Option<RowNo> {
        let seen = self.seen(row, version)?;
        self.apply(row, &ended(&seen.0))
    }

    pub fn release(&self, row: RowNo, token: Count) -> Option<RowNo> {
        let change = Change::Release(Release {
            lease_id: lease_id(counter(token)),
            fencing_token: counter(token),
            purge_at: PURGE_AT,
        });
        self.apply(row, &change)
    }

    /// The row days later: it was purged meanwhile, or granted to many others.
    pub fn forget(&self, row: RowNo) -> RowNo {
        let row = (*self.at(row).0).clone();
        let request = match row.holding() {
            Some(_) => row.request.clone(),
            None => nobody(),
        };
        self.number(Row {
            request,
            past_requests: [None, None, None],
            ..row
        })
    }

    fn seen(&self, row: RowNo, version: Count) -> Option<Seen> {
        Some(self.at(row)).filter(|seen| seen.1.version == version)
    }

    fn at(&self, row: RowNo) -> Seen {
        self.all.read().expect("no thread has panicked")[row as usize].clone()
    }

    fn apply(&self, row: RowNo, change: &Change) -> Option<RowNo> {
        let before = Stored::Row((*self.at(row).0).clone());
        transition(&before, change).map(|after| self.number(after))
    }

    fn number(&self, row: Row) -> RowNo {
        if let Some(number) = self.numbers.get(&row) {
            return *number;
        }
        *self.numbers.entry(row.clone()).or_insert_with(|| {
            let view = view_of(&row);
            let mut all = self.all.write().expect("no thread has panicked");
            all.push((Arc::new(row), Arc::new(view)));
            RowNo::try_from(all.len() - 1).expect("fewer than that")
        })
    }
}

fn granted(start: Start, token: Counter, now: Tick) -> Change {
    let now = instant(now);
    Change::Grant(Grant {
        holder: holder(start),
        request: request(start),
        keys: None,
        permits: None,
        lease_id: lease_id(token),
        term: design::execution(),
        metadata: Metadata::default(),
        now,
        over: TakeoverRule::by_clock(now),
        tokens: TokenFloor::Reached(Counter::MIN),
        sweep_after: now,
        at_least: AtLeast::default(),
        by_token: true,
    })
}

fn ended(row: &Row) -> Change {
    Change::EndIfUnchanged(EndIfUnchanged {
        version: row.version,
        ended: leasehold::Ended::Released,
        purge_at: PURGE_AT,
    })
}

fn view_of(row: &Row) -> View {
    let starts = || 0..Start::try_from(MOST).expect("few");
    let start = |of: &RequestDigest| starts().find(|start| request(*start) == *of);
    let held = row.holding();
    let remembers = |at: &Start| row.remembers(&request(*at));
    let holder = held.and_then(|_| start(&row.request));
    View {
        holder,
        token: count(row.fencing_token),
        version: count(row.version),
        telling: held.and_then(|held| held.telling),
        queue: row.waiting().iter().filter_map(start).collect(),
        remembered: starts()
            .filter(remembers)
            .filter(|at| holder != Some(*at))
            .collect(),
    }
}
