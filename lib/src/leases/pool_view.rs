//! What an operator sees of a pool, and may do to who is inside: each is shown as the permit in whose place it is, by the row of its key.

use std::collections::BTreeMap;

use super::{ForceReleaseOptions, ForceReleaseOutcome, Leases};
use crate::{
    error::Error,
    pool::Pool,
    retry::{AT_ONCE, some_at_a_time},
    row::{Entries, Entry, Row},
    store::{Address, Store},
    values::{Holder, Key},
};

/// The most permits that a pool may have: everybody inside is written with every change of it.
const MOST: u16 = 300;

/// Fails for more permits than a pool may have.
pub(crate) fn check_pool(pool: Option<&Pool>) -> Result<(), Error> {
    let number = pool.map_or(0, |pool| pool.permits.get());
    check_size_of_pool(number, "pool")
}

/// The same of a number that an operator sets.
pub(crate) fn check_size_of_pool(permits: u16, field: &'static str) -> Result<(), Error> {
    if permits <= MOST {
        return Ok(());
    }
    let problem = format!(
        "a pool has at most {MOST} permits, because it is one item: use several pools for more"
    );
    Err(Error::invalid(field, problem))
}

impl Entry {
    /// That of the grant in this row; none if it needs no pool.
    pub(crate) fn in_row(at: &Address, row: &Row) -> Option<Self> {
        let pool = row.holding()?.pool.as_ref()?;
        Some(Self {
            request: row.request.clone(),
            key: at.key.clone(),
            permit: at.permit,
            fencing_token: row.fencing_token,
            number: pool.permits,
        })
    }

    /// The row that has the grant.
    #[must_use]
    pub fn at(&self) -> Address {
        Address {
            key: self.key.clone(),
            permit: self.permit,
        }
    }
}

impl<S: Store> Leases<S> {
    /// The rows to show of a key, or of a pool as if each place in it were a permit with a row.
    pub(crate) async fn rows_to_show(&self, key: &Key) -> Result<Vec<(u16, Row)>, Error> {
        let rows = self.read_own_rows(key).await?;
        let Some((_, pool)) = rows.first().filter(|_| key.pool_name().is_some()) else {
            return Ok(rows);
        };
        let mut shown = self.rows_inside(&pool.in_pool()).await?;
        for row in shown.values_mut() {
            row.frozen.clone_from(&pool.frozen);
        }
        // The first shows the rest of the pool.
        let first = shown.remove(&0).map(|inside| Row {
            limit: pool.limit.clone(),
            operator: pool.operator.clone(),
            entries: pool.entries.clone(),
            ..inside
        });
        shown.insert(0, first.unwrap_or_else(|| pool.clone()));
        Ok(shown.into_iter().collect())
    }

    /// The rows of those who are inside, as those of permits.
    async fn rows_inside(&self, entries: &Entries) -> Result<BTreeMap<u16, Row>, Error> {
        let reads = entries.inside.iter().map(async |(place, entry)| {
            let row = self.read_row(&entry.at()).await?;
            let row = row.filter(|row| entry.is_held_in(row));
            Ok(row.map(|row| {
                let shown = Row {
                    permits: Some(entry.number),
                    limit: None,
                    operator: None,
                    opens_at: None,
                    queue: Vec::new(),
                    ..row
                };
                (*place, shown)
            }))
        });
        let read = some_at_a_time(AT_ONCE, reads.collect()).await;
        read.into_iter().filter_map(Result::transpose).collect()
    }

    /// Who is inside a pool: the places, and the rows of the keys.
    async fn all_inside(&self, pool: &Key) -> Result<Vec<(u16, Entry, Row)>, Error> {
        let row = self.read_queue_row(pool).await?;
        let entries = row.as_ref().map(Row::in_pool).unwrap_or_default();
        let mut rows = self.rows_inside(&entries).await?;
        let inside = entries.inside.into_iter();
        let inside = inside.filter_map(|(place, entry)| Some((place, entry, rows.remove(&place)?)));
        Ok(inside.collect())
    }

    /// The one inside a pool whose grant is to be ended.
    pub(crate) async fn inside(
        &self,
        pool: &Key,
        which: ForceReleaseOptions,
    ) -> Result<Option<(u16, Entry)>, Error> {
        let mut inside = self.all_inside(pool).await?;
        inside.retain(|(place, entry, _)| which.names(*place, entry.fencing_token));
        super::operate::only_one(inside.iter().map(|(place, ..)| *place))?;
        Ok(inside.pop().map(|(place, entry, _)| (place, entry)))
    }

    /// The keys by which an execution is in a pool.
    pub(crate) async fn keys_inside(
        &self,
        pool: &Key,
        execution: &Holder,
    ) -> Result<Vec<Key>, Error> {
        let inside = self.all_inside(pool).await?.into_iter();
        let its = inside.filter(|(_, _, row)| row.granted_to == *execution);
        Ok(its.map(|(_, entry, _)| entry.key).collect())
    }
}

impl ForceReleaseOutcome {
    /// The same of the place in a pool by which it was named.
    pub(crate) fn of(mut self, place: Option<(Key, u16)>) -> Self {
        if let (Self::Forced { evicted, .. }, Some((pool, place))) = (&mut self, place) {
            (evicted.key, evicted.permit) = (pool, place);
        }
        self
    }
}
