//! A scheduled sweep stays for what is due before its own time has passed.
//!
//! A key that opens, a lease that expires, a wait or a grace that ends: of these nobody is notified. The rows say when, and sweep reads
//! the rows of every key for which somebody waits. So it notes the earliest instant of each key (`Agenda`), sleeps until then, and looks
//! at that key again as it did before. It remembers names and instants only: whatever it does then, it reads first, so that a process
//! that was suspended while it stayed does nothing that another sweep would not do.
//!
//! It stays for those who wait and for nobody else, until shortly before its invocation has to end; with nothing due it ends at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Queue,
    maintenance::{DueWaiter, Waiting},
    pool::RowsInPools,
    sweep::Page,
};
use crate::{
    clock::Timestamp,
    error::Error,
    leases::Rows,
    queue::sweep::Swept,
    row::{Row, Term},
    store::{Address, Store},
    values::{Counter, Key},
};

/// So much of the invocation is left for what is due at the last instant for which a sweep stays.
const TO_SERVE: Duration = Duration::from_secs(2);

/// How often a sweep looks again at most: a key may be due every millisecond.
const LOOKS: usize = 1000;

/// How many keys it remembers at most: those that are due first.
const KEYS: usize = 1000;

/// What there is to be done for those who wait for a key.
#[derive(Debug)]
pub(crate) struct Later {
    at: Timestamp,
    /// Who waits, and until when.
    waiting: Vec<DueWaiter>,
}

/// What is due for which key, before a sweep has to end.
#[derive(Debug)]
pub(super) struct Agenda {
    until: Timestamp,
    due: BTreeMap<(Timestamp, Key), Vec<DueWaiter>>,
}

impl Agenda {
    /// Nothing, for a sweep that stays until this instant, or not at all.
    pub(super) fn until(until: Option<Timestamp>) -> Self {
        Self {
            until: until.unwrap_or(Timestamp::from_millis(0)),
            due: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, key: &Key, later: Later) {
        if later.at > self.until {
            return;
        }
        // It may be on two pages of the index, with others who wait.
        let due = self.due.entry((later.at, key.clone())).or_default();
        due.extend(later.waiting);
        if self.due.len() > KEYS {
            self.due.pop_last();
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// What is due by now.
    fn take_due(&mut self, now: Timestamp) -> Waiting {
        let mut due = Waiting::new();
        while let Some(first) = self.due.first_entry()
            && first.key().0 <= now
        {
            let ((_, key), waiting) = first.remove_entry();
            due.entry(key).or_default().extend(waiting);
        }
        due
    }
}

/// The grants that this run of sweep has written, by the row.
///
/// A cooldown is counted from the grant, by the clock of the one that wrote that. Anybody else allows for a clock that differs by
/// the margin. The one that wrote it need not.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnGrants(Option<Arc<Mutex<GrantByRow>>>);

/// The fencing token of the last grant and when the row opens after it, by key and permit.
type GrantByRow = BTreeMap<(Key, u16), (Counter, Timestamp)>;

impl OwnGrants {
    pub(super) fn note(&self, at: &Address, row: &Row) {
        let Some(grants) = &self.0 else { return };
        let mut grants = grants.lock().unwrap_or_else(PoisonError::into_inner);
        let address = (at.key.clone(), at.permit);
        if let Some(opens_at) = row.opens_at {
            grants.insert(address, (row.fencing_token, opens_at));
        } else {
            grants.remove(&address);
        }
    }

    /// Whether the last grant of this row is one of them.
    fn has(&self, key: &Key, permit: u16, row: &Row) -> bool {
        let Some(grants) = &self.0 else { return false };
        let grants = grants.lock().unwrap_or_else(PoisonError::into_inner);
        let own = grants.get(&(key.clone(), permit));
        own.is_some_and(|(token, at)| row.fencing_token == *token && row.opens_at == Some(*at))
    }
}

impl<S: Store> Queue<S> {
    /// The same for one scheduled sweep.
    pub(super) fn on_schedule(&self) -> Self {
        Self {
            own_grants: OwnGrants(Some(Arc::default())),
            ..self.clone()
        }
    }

    /// Until when a scheduled sweep stays for what is due, if it may.
    pub(super) fn stays_until(&self) -> Option<Timestamp> {
        self.deadline().map(|end| end.minus(TO_SERVE))
    }

    /// Stays for what is due.
    pub(super) async fn stay(&self, mut agenda: Agenda, swept: &mut Swept) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let Some(at) = agenda.next() else { break };
            let now = self.now();
            if at > now {
                self.sleep(at.since(now)).await;
            }
            // It may have been suspended for longer.
            if self.is_nearly_over() {
                break;
            }
            let now = self.now();
            let due = agenda.take_due(now);
            if due.is_empty() {
                continue;
            }
            self.follow_rules().await?;
            let page = Page::seen_before(due, now);
            let inside = &mut RowsInPools::new();
            self.sweep_page(page, (swept, &mut agenda), inside).await?;
        }
        Ok(())
    }

    /// What there is to be done later for those who wait in these rows, of whom the index has these: what becomes due after `since`, when
    /// the sweep began to see to them. It may be due by now.
    pub(super) fn later(
        &self,
        key: &Key,
        rows: &Rows,
        (waiting, since): (&[DueWaiter], Timestamp),
    ) -> Option<Later> {
        let first = rows.first().filter(|first| first.head().is_some())?;
        let queue = rows.waiting();
        let waits = |(request, end): &&DueWaiter| {
            end.is_some_and(|end| end > since) && queue.contains(request)
        };
        let waiting: Vec<_> = waiting.iter().filter(waits).cloned().collect();
        let ends = waiting.iter().filter_map(|(_, end)| *end);
        let may_be_granted = first.may_be_granted() && !self.settings().stopped;
        let rows = rows.each().filter(|_| may_be_granted);
        let changes = rows.flat_map(|(permit, row)| self.changes_at(key, permit, row));
        let at = ends.chain(changes).filter(|at| *at > since).min()?;
        Some(Later { at, waiting })
    }

    /// When this row may be granted, or its execution is due for a look.
    fn changes_at(
        &self,
        key: &Key,
        permit: u16,
        row: &Row,
    ) -> impl Iterator<Item = Timestamp> + use<S> {
        let (margin, is_frozen) = (self.settings().clock_margin, row.frozen.is_some());
        let ends = row.holding().and_then(|held| match held.term {
            Term::Ttl { expires_at, .. } => Some(expires_at.plus(margin)),
            Term::Execution { .. } => held.sweep_after,
        });
        // The one that ends a lease after that serves the next one. An end before it cannot.
        let opens = row.opens_at.map(|at| at.plus(margin));
        let opens_here = row.opens_at;
        let opens_here = opens_here.filter(|_| self.own_grants.has(key, permit, row));
        let all = [ends, opens, opens_here].into_iter().flatten();
        all.filter(move |_| !is_frozen)
    }

    /// Opens what this run of sweep has closed, as far as its own clock says.
    pub(super) fn open_by_own_clock(&self, key: &Key, rows: &mut Rows) {
        let now = self.now();
        let closed = rows.each().filter(|(permit, row)| {
            row.opens_at.is_some_and(|at| at <= now) && self.own_grants.has(key, *permit, row)
        });
        let closed: Vec<_> = closed.map(|(permit, row)| (permit, row.clone())).collect();
        for (permit, row) in closed {
            let opens_at = None;
            rows.write(permit, Row { opens_at, ..row });
        }
    }
}

#[cfg(test)]
mod tests;
