//! A table that counts what is written to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Error, Holder, Key, Memory, RequestDigest,
    row::Stored,
    store::{Address, Applied, AppliedAll, Joined, Page, Part, Position, Store},
    transition::{Change, Join},
    waiter::Waiter,
};

/// A table in memory, and how many writes it took. A clone is the same table.
#[derive(Clone, Default)]
pub struct Witness {
    pub table: Memory,
    writes: Arc<AtomicU64>,
}

impl Witness {
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    fn wrote(&self, wrote: bool) {
        self.writes.fetch_add(wrote.into(), Ordering::Relaxed);
    }
}

impl Store for Witness {
    fn name(&self) -> &str {
        self.table.name()
    }

    async fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> Result<Applied, Error> {
        let applied = self.table.apply(address, change, limit).await?;
        self.wrote(matches!(applied, Applied::Done { .. }));
        Ok(applied)
    }

    async fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> Result<AppliedAll, Error> {
        let applied = self.table.apply_all(changes, limit).await?;
        self.wrote(applied == AppliedAll::Done);
        Ok(applied)
    }

    async fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<Joined, Error> {
        let joined = self.table.join(key, join, waiter, limit).await?;
        self.wrote(joined == Joined::Done);
        Ok(joined)
    }

    async fn call_back_by(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> Result<Waiter, Error> {
        let stands = self.table.call_back_by(key, waiter, limit).await?;
        self.wrote(true);
        Ok(stands)
    }

    async fn forget(&self, key: &Key, waiter: &Waiter, limit: Duration) -> Result<(), Error> {
        self.wrote(true);
        self.table.forget(key, waiter, limit).await
    }

    async fn read(&self, address: &Address, limit: Duration) -> Result<Stored, Error> {
        self.table.read(address, limit).await
    }

    async fn read_all(
        &self,
        addresses: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        self.table.read_all(addresses, limit).await
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        self.table.read_key(key, limit).await
    }

    async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> Result<Option<Waiter>, Error> {
        self.table.waiter(key, request, limit).await
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
