//! Notes of executions whose leases end although they may be redriven.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    pool::Pool,
    redrivable::Redrivable,
    row::{Row, Term},
    store::{Address, ItemAddress, Operations, Store},
    values::{Holder, KeepTime, Key, Permits, RequestDigest},
};

/// The service lets an execution be redriven for two weeks, and each look makes the item last again.
const KEPT_FOR: Duration = Duration::from_hours(15 * 24);

/// How often a write is tried that others are faster at.
const TRIES: usize = 3;

/// Entries of the index that are read at a time.
const PAGE: u32 = 100;

/// A lease that an execution has, or had until its end: by what it may be acquired again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// The key.
    pub key: Key,
    /// Of how many permits it asked for one; none for the mutex.
    pub permits: Option<Permits>,
    /// The pool that it was in besides.
    pub pool: Option<Pool>,
    /// How long it stays after a failure.
    pub keep: KeepTime,
}

impl LeaseTerms {
    /// Of a mutex.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Self {
            key,
            permits: None,
            pool: None,
            keep: KeepTime::default(),
        }
    }
}

impl<S: Store> Leases<S> {
    /// Before an operator ends the lease in `row`, whatever its execution does: notes that it may be redriven. Only a later redrive
    /// counts.
    pub(crate) async fn note_forced(&self, address: &Address, row: &Row) -> Result<(), Error> {
        let is_execution = matches!(
            row.holding().map(|held| held.term),
            Some(Term::Execution { .. })
        );
        if !is_execution || row.granted_to.is_durable_execution() {
            return Ok(());
        }
        match self.note(address, row, None).await {
            // A caller that may only write the rows of the key may end its leases all the same.
            Err(Error::Denied { .. }) => Ok(()),
            noted => noted,
        }
    }

    pub(crate) async fn note(
        &self,
        address: &Address,
        row: &Row,
        redrives: Option<u32>,
    ) -> Result<(), Error> {
        let (key, execution) = (&address.key, &row.granted_to);
        let request = RequestDigest::of_start(execution);
        let (now, is_start) = (self.now(), row.request.is_start());
        let asked = if is_start {
            let item = self.store().start_item(key, &request, self.limit()).await?;
            item.map(|item| (item.request.permits, item.request.pool))
        } else {
            None
        };
        let (permits, pool) = asked.unwrap_or_default();
        let mut noted = Redrivable {
            key: key.clone(),
            execution: execution.clone(),
            started: is_start,
            permits,
            pool,
            keep: row
                .holding()
                .map(|held| held.term.keep())
                .unwrap_or_default(),
            redrives,
            ended_at: now,
            version: 1,
        };
        let mut seen = None;
        for _ in 0..TRIES {
            if self
                .watch(&noted, seen, now.plus(self.settings().look))
                .await?
            {
                return Ok(());
            }
            // It was noted before: it ended before, was redriven, and ends again. What the first end knew stays; after an operator's
            // end only later redrives count.
            if let Some(before) = self.store().redrivable(key, &request, self.limit()).await? {
                seen = Some(before.version);
                noted.started |= before.started;
                noted.permits = before.permits.or(noted.permits);
                noted.pool = before.pool.or(noted.pool);
                noted.redrives =
                    redrives.map(|count| before.redrives.map_or(count, |known| known.max(count)));
                noted.version = before.version + 1;
            }
        }
        Err(self.contention_error())
    }

    /// Stores a note with when to look next, if its version is the one that was seen. False if it is not.
    pub(crate) async fn watch(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        next: Timestamp,
    ) -> Result<bool, Error> {
        let until = self
            .now()
            .plus(KEPT_FOR)
            .as_seconds_rounded_up()
            .min(Row::NEVER);
        self.store()
            .note_redrivable(noted, seen, (next, until), self.limit())
            .await
    }

    /// The leases that this execution has, or had until its end.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn keys_of(&self, execution: &Holder) -> Result<Vec<LeaseTerms>, Error> {
        let (mut keys, mut from) = (Vec::new(), None);
        let started = RequestDigest::of_start(execution);
        loop {
            let page = self
                .store()
                .held_by(execution, from.as_ref(), PAGE, self.limit())
                .await?;
            for entry in page.entries {
                let Some(ItemAddress::Row(Address { key, .. }) | ItemAddress::Redrivable(key, _)) =
                    entry.address
                else {
                    continue;
                };
                let is_known = keys.iter().any(|known: &LeaseTerms| known.key == key);
                if is_known {
                    continue;
                }
                let noted = self
                    .store()
                    .redrivable(&key, &started, self.limit())
                    .await?;
                let (permits, pool, keep) = if let Some(noted) = noted {
                    (noted.permits, noted.pool, noted.keep)
                } else {
                    let start = self.store().start_item(&key, &started, self.limit());
                    let start = start.await?.map(|start| {
                        let keep = start.request.keep();
                        (start.request.permits, start.request.pool, keep)
                    });
                    start.unwrap_or_default()
                };
                keys.push(LeaseTerms {
                    key,
                    permits,
                    pool,
                    keep,
                });
            }
            from = page.next;
            if from.is_none() {
                return Ok(keys);
            }
        }
    }
}
