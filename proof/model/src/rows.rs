//! Every row that the table has ever held, by number; and the effect of each message on each row, computed
//! once, by the library.

use std::sync::{
    RwLock,
    atomic::{AtomicU64, Ordering},
};

use dashmap::DashMap;
use leasehold::row::{Row, Stored};

use crate::{
    design::Design,
    message::Message,
    names::{self, Count, LeaseNo, Tick, Who},
    reading::{self, Reading},
    scope::Scope,
};

pub type RowNo = u32;
pub const ABSENT: RowNo = 0;
pub const FOREIGN: RowNo = 1;

/// What the rest of the model asks about a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowView {
    pub token: Count,
    pub version: Count,
    pub holder: Who,
    pub held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub lease: LeaseNo,
    pub until: Tick,
    /// When its holder last wrote it, by its own clock.
    pub written: Tick,
}

/// What a message did.
#[derive(Clone, Copy, Debug)]
pub struct ApplyResult {
    pub after: RowNo,
    pub applied: bool,
}

/// The table's answer: the row as stored if the message was applied, the row that prevented it if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    pub row: RowNo,
    pub applied: bool,
}

pub struct Rows {
    scope: Scope,
    design: Design,
    all: RwLock<Vec<(Stored, RowView)>>,
    numbers: DashMap<Row, RowNo>,
    done: DashMap<(RowNo, Message), ApplyResult>,
    readings: DashMap<(RowNo, bool, Message), Reading>,
    applied: AtomicU64,
    refused: AtomicU64,
}

impl Rows {
    pub fn new(scope: Scope, design: Design) -> Self {
        let strange = Stored::Foreign("somebody else's");
        let facts = RowView::default();
        Self {
            scope,
            design,
            all: RwLock::new(vec![(Stored::Absent, facts), (strange, facts)]),
            numbers: DashMap::new(),
            done: DashMap::new(),
            readings: DashMap::new(),
            applied: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// What the table does with `message`.
    pub fn apply(&self, row: RowNo, message: Message) -> ApplyResult {
        if let Some(done) = self.done.get(&(row, message)) {
            return *done;
        }
        let stored = self.stored(row);
        let after = self.design.apply(&self.scope, &stored, &message);
        let counter = if after.is_some() {
            &self.applied
        } else {
            &self.refused
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let done = ApplyResult {
            applied: after.is_some(),
            after: after.map_or(row, |after| self.number(after)),
        };
        self.done.insert((row, message), done);
        done
    }

    /// What the sender of `message` takes the answer to mean.
    pub fn reading(&self, message: Message, reply: Reply) -> Reading {
        let asked = (reply.row, reply.applied, message);
        if let Some(reading) = self.readings.get(&asked) {
            return *reading;
        }
        let stored = self.stored(reply.row);
        let facts = self.facts(reply.row);
        let reading = if reply.applied {
            reading::of_success(&message, facts)
        } else {
            let reading = reading::of_refusal(&self.scope, &message, stored, facts);
            self.design.misread(&message, reading)
        };
        self.readings.insert(asked, reading);
        reading
    }

    pub fn facts(&self, row: RowNo) -> RowView {
        self.at(row, |(_, facts)| *facts)
    }

    /// How many rows there were, and how many ways to change them or not to.
    pub fn counts(&self) -> (usize, u64, u64) {
        let all = self.all.read().map_or(0, |all| all.len());
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (all, count(&self.applied), count(&self.refused))
    }

    fn stored(&self, row: RowNo) -> Stored {
        self.at(row, |(stored, _)| stored.clone())
    }

    fn at<T>(&self, row: RowNo, look: impl Fn(&(Stored, RowView)) -> T) -> T {
        let all = self.all.read().expect("no thread has panicked");
        look(&all[row as usize])
    }

    fn number(&self, stored: Stored) -> RowNo {
        let row = match stored {
            Stored::Absent => return ABSENT,
            Stored::Foreign(_) => return FOREIGN,
            Stored::Row(row) => row,
        };
        let entry = self.numbers.entry(row.clone());
        *entry.or_insert_with(|| {
            let facts = facts_of(&row);
            let mut all = self.all.write().expect("no thread has panicked");
            all.push((Stored::Row(row), facts));
            RowNo::try_from(all.len() - 1).expect("fewer rows than that")
        })
    }
}

fn facts_of(row: &Row) -> RowView {
    RowView {
        token: names::count(row.fencing_token),
        version: names::count(row.version),
        holder: names::who(&row.granted_to),
        held: row.holding().map(|held| Held {
            lease: names::lease_no(&held.lease_id),
            until: names::tick(held.expires_at()),
            written: names::tick(held.extended_at.unwrap_or(held.acquired_at)),
        }),
    }
}
