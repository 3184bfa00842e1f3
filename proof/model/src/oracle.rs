//! Sees every write in the order in which it takes effect, and knows what must never happen.

use crate::{
    lists::invariants,
    message::{Floor, Message, Operation},
    names::{Attempt, Count, FLOOR, LeaseNo, Tick, Who},
    rows::{ABSENT, FOREIGN, RowNo, RowView},
    scope::Scope,
};

// What must hold, by name. S11, that no secret reaches a log, does not depend on order: the functions' own
// tests check it.
invariants! {
    S1 "S1 no two grants share a token"
    S2 "S2 the order of grants is the order of tokens"
    S3 "S3 no guarded write with an older token commits"
    S4 "S4 only the current grant's proof extends, releases or frees"
    S5 "S5 an extend never shortens"
    S6 "S6 an extend never brings back what is over"
    S7 "S7 copies of one acquire are one grant"
    S8 "S8 no two believe that they hold"
    S9 "S9 a spent request is never granted again"
    S10 "S10 an item that is not ours is left alone"
    L1 "L1 what crashed is free within ttl, margin and a sweep"
    L2 "L2 a lost answer costs one more request"
}

/// How many requests a row remembers.
const REMEMBERED: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Oracle {
    /// The largest token of a grant.
    pub granted: Count,
    /// The proof of the last grant, until that grant ends.
    pub owner: Option<LeaseNo>,
    /// The requests that the row has to remember, latest first.
    recent: [Option<(Who, Attempt)>; REMEMBERED],
    /// The call that wrote last.
    last: Option<(Who, u8)>,
    /// When that was, where it matters.
    pub at: Tick,
    broken: u16,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            granted: Count::MIN,
            owner: None,
            recent: [None; REMEMBERED],
            last: None,
            at: 0,
            broken: 0,
        }
    }
}

impl Oracle {
    pub const fn has(&self, broken: Invariant) -> bool {
        self.broken & (1 << broken as u8) != 0
    }

    pub fn must(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.broken |= 1 << invariant as u8;
        }
    }

    /// Whether the last write was this very call's.
    pub fn wrote_last(&self, message: &Message) -> bool {
        self.last == Some((message.from, message.call))
    }

    /// The row is gone.
    pub fn gone(&mut self) {
        self.owner = None;
        self.recent = [None; REMEMBERED];
        self.last = None;
    }

    /// The row is as it was when this had been seen. Tokens given out since remain given out.
    pub fn is_set_back(&mut self, seen: &Self) {
        *self = Self {
            granted: self.granted,
            broken: self.broken,
            last: None,
            ..seen.clone()
        };
    }

    /// A write that took effect.
    pub fn saw(
        &mut self,
        scope: &Scope,
        message: &Message,
        (row, before): (RowNo, RowView),
        after: RowView,
    ) {
        self.must(row != FOREIGN, Invariant::S10);
        self.last = Some((message.from, message.call));
        if let Operation::Grant(..) = message.what {
            self.is_above_the_floor(message, after.token);
        }
        match message.what {
            Operation::Grant(attempt, _) => {
                self.grants((message.from, attempt), message.lease(), after, row);
                // However late it arrives: no longer than it asked for when it was sent.
                let deadline = after.held.map(|held| held.until);
                self.must(deadline == Some(message.sent + scope.ttl), Invariant::S9);
            }
            Operation::Extend(lease, _) => {
                self.must(self.owner == Some(lease), Invariant::S4);
                self.must(self.owner == Some(lease), Invariant::S6);
                let was = before.held.map(|held| held.until);
                self.must(after.held.map(|held| held.until) >= was, Invariant::S5);
            }
            Operation::Release(lease, _) | Operation::End(_, lease, _) => {
                self.must(self.owner == Some(lease), Invariant::S4);
                self.owner = None;
            }
            Operation::Cut(_) | Operation::ResourceWrite(_) => {}
        }
    }

    fn grants(&mut self, request: (Who, Attempt), lease: LeaseNo, after: RowView, row: RowNo) {
        let known = self.recent.contains(&Some(request));
        // Its own grant, which nobody ended; or one that has ended.
        let twice = known && self.owner.is_some() && self.recent[0] == Some(request);
        self.must(!twice, Invariant::S7);
        self.must(!known || twice, Invariant::S9);
        if row == ABSENT {
            self.must(!known, Invariant::S9);
        }
        self.counts(after.token);
        self.remembers(request);
        self.owner = Some(lease);
    }

    /// A restored row may have forgotten tokens that it gave out: those below the floor.
    fn is_above_the_floor(&mut self, message: &Message, token: Count) {
        self.must(message.floor == Floor::None || token > FLOOR, Invariant::S1);
    }

    /// A token of a grant.
    fn counts(&mut self, token: Count) {
        self.must(token != self.granted, Invariant::S1);
        self.must(token >= self.granted, Invariant::S2);
        self.granted = self.granted.max(token);
    }

    fn remembers(&mut self, request: (Who, Attempt)) {
        if self.recent[0] != Some(request) {
            self.recent.rotate_right(1);
            self.recent[0] = Some(request);
        }
    }
}
