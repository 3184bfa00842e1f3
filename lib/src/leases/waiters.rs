//! Who waits for a key, for people who look.

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    retry::some_at_a_time,
    row::Row,
    start::{FAILED, StartItem, StartStatus},
    store::{ItemAddress, Operations, Position, Store},
    values::{Holder, Key, Metadata, Permits, RequestDigest},
};

/// One that waits for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaiterView {
    /// Its place in the queue, counted from 1.
    pub place: usize,
    /// Who waits: the execution, or the one that is to be started.
    pub holder: Holder,
    /// Whether it is a start: its execution begins when it is granted the key.
    pub start: bool,
    /// Of how many permits it asks for one; none for the mutex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<Permits>,
    /// Since when.
    pub since: Timestamp,
    /// When it gives up.
    pub until: Timestamp,
    /// What it wants others to see.
    pub metadata: Metadata,
}

const AT_ONCE: usize = 10;

impl<S: Store> Leases<S> {
    /// Who waits for `key`, in the order of the queue. One that leaves the queue while it is read may be missing, so that a place
    /// is left out. One read for each.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::write`].
    pub async fn waiters(&self, key: &Key) -> Result<Vec<WaiterView>, Error> {
        match self.read_queue_row(key).await? {
            Some(row) => self.waiters_of(key, &row, usize::MAX).await,
            None => Ok(Vec::new()),
        }
    }

    /// The same for the row that has the queue, as it was read, and the first of them. In a pool wait who has been granted a key.
    pub(crate) async fn waiters_of(
        &self,
        key: &Key,
        row: &Row,
        most: usize,
    ) -> Result<Vec<WaiterView>, Error> {
        let queue = row.waiting().iter().map(|request| (key, request));
        let in_pool = row.entries.iter().flat_map(|entries| &entries.waiting);
        let in_pool = in_pool.map(|entry| (&entry.key, &entry.request));
        let reads = queue.chain(in_pool).take(most).zip(1..);
        let reads = reads.map(|((key, request), place)| self.seen(key, request, place));
        let read = some_at_a_time(AT_ONCE, reads.collect()).await;
        let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(read.into_iter().flatten().collect())
    }

    /// The starts that have failed, with their requests and reasons, up to `most` at a time.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn failed_starts(
        &self,
        most: u32,
        from: Option<&Position>,
    ) -> Result<(Vec<StartItem>, Option<Position>), Error> {
        let failed = Holder::stored(FAILED);
        let page = self
            .store()
            .held_by(&failed, from, most, self.limit())
            .await?;
        let mut items = Vec::new();
        for entry in page.entries {
            if let Some(ItemAddress::Start(key, request)) = entry.address
                && let Some(item) = self
                    .store()
                    .start_item(&key, &request, self.limit())
                    .await?
                && matches!(item.status, StartStatus::Failed(_))
            {
                items.push(item);
            }
        }
        Ok((items, page.next))
    }

    async fn seen(
        &self,
        key: &Key,
        request: &RequestDigest,
        place: usize,
    ) -> Result<Option<WaiterView>, Error> {
        let waiter = self.waiter(key, request).await?;
        Ok(waiter.map(|waiter| WaiterView {
            place,
            holder: waiter.request().holder.clone(),
            start: request.is_start(),
            permits: waiter.request().permits,
            since: waiter.since(),
            until: waiter.deadline(),
            metadata: waiter.request().metadata.clone(),
        }))
    }
}
