//! A state of a world of executions.

use leasehold::Timestamp;

use super::{
    invariants::Invariant,
    library::{AskNo, Call, Handle, LeaseNo, NodeNo, TableNo},
    names::{Input, KEYS, KeyNo, Tick, Who},
    programs::Backup,
    results::Task,
    scope::{Budget, Kind},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    pub table: TableNo,
    pub executions: Vec<Executing>,
    /// How far the clock of sweep and reap is from the true time.
    pub sweeper: Tick,
    /// The table as the index shows it.
    pub index: TableNo,
    /// The table as it is in a backup; none once that was restored.
    pub backup: Option<Box<Backup>>,
    /// Tokens of writes that may yet reach the resource, and the last that it took.
    pub writes: Vec<u64>,
    pub fence: u64,
    /// Calls under way; in order, so that equal sets are equal.
    pub calls: Vec<NodeNo>,
    /// Requests that their senders have given up on: each arrives later, or never.
    pub late: Vec<Late>,
    /// Leases that an operator has taken away. Their holders may go on for a while.
    pub evicted: Vec<LeaseNo>,
    pub left: Budget,
    pub seen: Seen,
}

/// How many rows a key has at most.
pub const PERMITS: usize = 2;
/// The rows of all keys.
const ROWS: usize = KEYS * PERMITS;

/// The place of a row among those of all keys.
pub fn place(key: KeyNo, permit: usize) -> usize {
    usize::from(key) * PERMITS + permit
}

/// A request, and of which key it was granted a lease.
pub type Granted = ((Who, u8), KeyNo);
/// With whose request it is, and when it was sent.
pub type Late = (AskNo, Call, Tick);

/// What has been seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The largest token of a grant of each row.
    pub tokens: [u64; ROWS],
    /// When each row opens, as its last grant has said.
    pub opens_at: [Option<Timestamp>; ROWS],
    /// Who waited in the pool when it last served each key, and the time before that, and waits still, as bits.
    pub owed: [[u8; PERMITS]; KEYS],
    /// Requests that were granted the key, and not as if it had not been.
    pub granted: Vec<Granted>,
    /// Requests of which two calls were under way at once, and that may have been granted two permits.
    pub copied: Vec<(Who, u8)>,
    /// Requests that were sent away for a later one.
    pub superseded: Vec<(Who, u8)>,
    /// The inputs under which each start was accepted, as bits.
    pub accepted: [u8; 4],
    /// Starts whose items were purged, as bits.
    pub purged: u8,
    /// Starts of which somebody might not ask whether they have begun, as bits: they may count as failed.
    pub unasked: u8,
    /// Where it is looked ahead: what had happened by then for which a start may be given up.
    pub causes: Option<u8>,
    /// Leases with a deadline that were released.
    pub released: Vec<LeaseNo>,
    /// When the table was changed last, where that matters.
    pub wrote_at: Tick,
    pub broken: u32,
}

impl Seen {
    pub const fn has(&self, broken: Invariant) -> bool {
        self.broken & (1 << broken as u8) != 0
    }

    pub fn must(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.broken |= 1 << invariant as u8;
        }
    }

    /// A start is accepted, or told that its name has another input.
    pub fn answers(&mut self, (who, input): (Who, Input), accepted: bool) {
        let before = self.accepted[usize::from(who)];
        let is_first = before == 0 || self.purged & (1 << who) != 0;
        let same = before & (1 << input) != 0;
        self.must(is_first || accepted == same, Invariant::Same);
        if accepted {
            self.accepted[usize::from(who)] |= 1 << input;
        }
    }
}

/// An execution that wants the key once: for itself, or by a start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Executing {
    pub phase: Phase,
    /// How many task tokens it has had, or how often its start was asked for, and which request it is at.
    pub tokens: u8,
    pub request: u8,
    /// When it first asked by that request.
    pub asked: Tick,
    /// What it was told that it has, and the permit of the pool that goes with it.
    pub lease: Option<LeaseNo>,
    pub permit: Option<LeaseNo>,
    /// How far its clock is from the true time, and until when it trusts its lease by that: of a program.
    pub clock: Tick,
    pub until: Tick,
    /// The version that it was refused by, and when.
    pub observed: Option<(u64, Tick)>,
    /// The task that waits for its result, of one that is started.
    pub task: Task,
    /// How often it has released or proven that.
    pub calls: u8,
    /// Every lease that it was told of.
    pub shown: Vec<LeaseNo>,
    /// What a Lambda function of it still works under, and until when.
    pub work: Option<(LeaseNo, Tick)>,
    /// What Step Functions may say of it: since the last tick, the latest last.
    pub standings: Vec<Standing>,
    /// How it last ended.
    pub ended: Option<End>,
    /// With which input it began, and that as text; one that asks for itself has begun when its world does.
    pub began: Option<(Input, u32)>,
    /// How often it was redriven, and when that was last.
    pub redriven: u8,
    pub redriven_at: Tick,
    /// When it last ran by a redrive without what it needs.
    pub beside: Option<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Idle,
    /// Its task waits, with its latest token.
    Waiting,
    /// Its task has failed, or has timed out.
    Failed,
    /// It works under its lease.
    Section,
    Releasing,
    /// It carries on, and does not use the key.
    Without,
    /// It was started, has given the key back, and carries on.
    Released,
    /// It was redriven, and proves its lease before it goes on.
    Proving,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub stopped: Tick,
    pub redrivable: bool,
    pub all_answered: bool,
}

/// What Step Functions says of an execution, and what its history shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    pub over: Option<End>,
    pub shown: Vec<LeaseNo>,
    pub waits: bool,
    pub began: bool,
    pub redriven: u8,
}

impl Executing {
    /// It was redriven without its lease, and has not been granted all that it needs since.
    pub fn runs_without(&self, is_start: bool) -> bool {
        is_start && self.phase == Phase::Without && self.redriven > 0
    }

    pub fn new(kind: Kind) -> Self {
        let began = match kind {
            Kind::Start(_) => None,
            _ => Some((0, 0)),
        };
        let mut new = Self {
            phase: Phase::Idle,
            tokens: 0,
            request: 0,
            asked: 0,
            lease: None,
            permit: None,
            clock: 0,
            until: 0,
            observed: None,
            task: Task::default(),
            calls: 0,
            shown: Vec::new(),
            work: None,
            standings: Vec::new(),
            ended: None,
            began,
            redriven: 0,
            redriven_at: 0,
            beside: None,
        };
        new.stands();
        new
    }

    pub fn runs(&self) -> bool {
        self.phase != Phase::Over && self.began.is_some()
    }

    /// What it releases.
    pub fn handle(&self) -> Option<Handle> {
        Some((self.lease?, self.permit))
    }

    /// Whether one was begun with this input.
    pub fn ran(&self, input: Input) -> bool {
        self.began.is_some_and(|(with, _)| with == input)
    }

    pub fn stands(&mut self) {
        let standing = Standing {
            over: self.ended.filter(|_| !self.runs()),
            shown: self.shown.clone(),
            waits: self.phase == Phase::Waiting,
            began: self.began.is_some(),
            redriven: self.redriven,
        };
        if self.standings.last() != Some(&standing) {
            self.standings.push(standing);
        }
    }

    /// Whether its task waits with this token.
    pub fn waits_with(&self, token: u8) -> bool {
        self.phase == Phase::Waiting && self.tokens == token
    }
}

/// It ends. Whatever of it is at work goes on for as long as a Lambda function may.
pub fn is_over(executing: &mut Executing, now: Tick, redrivable: bool, all_answered: bool) {
    executing.phase = Phase::Over;
    executing.task.must_stop = false;
    executing.ended = Some(End {
        stopped: now,
        redrivable,
        all_answered: all_answered && executing.work.is_none(),
    });
    executing.stands();
}

impl State {
    pub fn ends_with(&mut self, who: Who, redrivable: bool, works: bool) {
        let now = self.now;
        let executing = &mut self.executions[usize::from(who)];
        if works && let Some(lease) = executing.lease {
            executing.work = Some((lease, now + 1));
        }
        is_over(executing, now, redrivable, !works);
    }
}
