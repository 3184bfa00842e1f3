//! A table where somebody else is quicker: something happens just before a request of ours.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use super::{Address, Applied, AppliedAll, Memory, Page, Part, Position, Store};
use crate::{
    error::Error,
    row::Stored,
    transition::Change,
    values::{Holder, Key},
};

/// Which request is preceded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Apply,
    ApplyAll,
    ReadAll,
}

type Meddling = Box<dyn FnOnce(&Memory) + Send>;

#[derive(Clone)]
pub(crate) struct Meddled {
    pub(crate) table: Memory,
    /// What happens before the so-many-th such request, counted down.
    plan: Arc<Mutex<Option<(Before, u32, Meddling)>>>,
    /// How many transactions meet another writer.
    conflicts: Arc<AtomicU32>,
}

impl Meddled {
    pub(crate) fn new(
        before: Before,
        nth: u32,
        meddling: impl FnOnce(&Memory) + Send + 'static,
    ) -> Self {
        Self {
            table: Memory::new(),
            plan: Arc::new(Mutex::new(Some((before, nth, Box::new(meddling))))),
            conflicts: Arc::default(),
        }
    }

    pub(crate) fn conflicting(times: u32) -> Self {
        let store = Self::new(Before::Apply, u32::MAX, |_| {});
        store.conflicts.store(times, Ordering::Relaxed);
        store
    }

    fn conflicts(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let counter = &self.conflicts;
        counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }

    /// Whether it has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.plan.lock().expect("no panic").is_none()
    }

    fn at(&self, request: Before) {
        let mut plan = self.plan.lock().expect("no panic");
        match plan.take() {
            Some((before, 1, meddling)) if before == request => meddling(&self.table),
            Some((before, nth, meddling)) if before == request => {
                *plan = Some((before, nth - 1, meddling));
            }
            other => *plan = other,
        }
    }
}

impl Store for Meddled {
    fn name(&self) -> &str {
        self.table.name()
    }

    async fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> Result<Applied, Error> {
        self.at(Before::Apply);
        self.table.apply(address, change, limit).await
    }

    async fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> Result<AppliedAll, Error> {
        if self.conflicts() {
            return Ok(AppliedAll::Conflict);
        }
        self.at(Before::ApplyAll);
        self.table.apply_all(changes, limit).await
    }

    async fn read_all(
        &self,
        rows: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        if self.conflicts() {
            return Ok(None);
        }
        self.at(Before::ReadAll);
        self.table.read_all(rows, limit).await
    }

    async fn read(&self, address: &Address, limit: Duration) -> Result<Stored, Error> {
        self.table.read(address, limit).await
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        self.table.read_key(key, limit).await
    }

    async fn held(
        &self,
        part: Part,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        self.table.held(part, from, most, limit).await
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        self.table.held_by(holder, from, most, limit).await
    }
}
