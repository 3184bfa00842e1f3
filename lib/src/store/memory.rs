//! A table in memory: for tests of your own, and for reading what a table does.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Address, Applied, AppliedAll, Entry, Page, Part, Position, Store, attributes as at, sweep_after,
};
use crate::{
    error::Error,
    row::{Item, Stored},
    transition::{Change, transition},
    values::{Holder, Key},
};

/// A table in memory. Nothing it does can fail. A clone is the same table.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<Address, Item>>>);

impl Memory {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an item there, whatever it is, as a stranger to this library might.
    pub fn put(&self, address: Address, item: &Item) {
        self.rows().insert(address, item.clone());
    }

    /// Deletes a row by hand.
    pub fn delete(&self, address: &Address) {
        self.rows().remove(address);
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, BTreeMap<Address, Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn walk(&self, from: Option<&Position>, most: usize, holder: Option<&Holder>) -> Page {
        let rows = self.rows();
        let after = from.and_then(|p| {
            Some(Address {
                key: Key::stored(&p.pk),
                permit: at::permit_of(&p.sk)?,
            })
        });
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        // The index holds whatever has a holder, a stranger's items too.
        let mut held = rows
            .range((start, Bound::Unbounded))
            .filter_map(|(address, item)| {
                let holds = item.get(at::HOLDER)?.as_s().ok()?;
                let wanted = holder.is_none_or(|holder| holder.as_str() == holds);
                wanted.then_some((address, holds, item))
            })
            .peekable();
        let mut page = Page::default();
        while let Some((address, holds, item)) = held.next() {
            page.entries.push(Entry {
                address: Some(address.clone()),
                sweep_after: sweep_after(item),
            });
            if page.entries.len() >= most && held.peek().is_some() {
                page.next = Some(Position {
                    holder: holds.clone(),
                    pk: address.key.as_str().to_owned(),
                    sk: at::lease_sk(address.permit),
                });
                break;
            }
        }
        page
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "in memory"
    }

    async fn apply(
        &self,
        address: &Address,
        change: &Change,
        _limit: Duration,
    ) -> Result<Applied, Error> {
        let mut rows = self.rows();
        let before = Stored::read(rows.get(address));
        Ok(match transition(&before, change) {
            Some(row) => {
                rows.insert(address.clone(), row.to_item());
                let deadline_before = match (before, change) {
                    (_, Change::Grant(_)) | (Stored::Absent | Stored::Foreign(_), _) => None,
                    (Stored::Row(row), _) => row.holding().map(|held| held.expires_at),
                };
                Applied::Done {
                    row,
                    deadline_before,
                }
            }
            None => Applied::Refused(before),
        })
    }

    async fn apply_all(
        &self,
        changes: &[(Address, Change)],
        _limit: Duration,
    ) -> Result<AppliedAll, Error> {
        let mut rows = self.rows();
        let before = changes
            .iter()
            .map(|(address, _)| Stored::read(rows.get(address)));
        let before: Vec<_> = before.collect();
        let after = changes.iter().zip(&before);
        let after: Vec<_> = after
            .map(|((_, change), before)| transition(before, change))
            .collect();
        if after.contains(&None) {
            let refused = after.iter().zip(before);
            return Ok(AppliedAll::Refused(
                refused
                    .map(|(after, before)| after.is_none().then_some(before))
                    .collect(),
            ));
        }
        for ((address, _), row) in changes.iter().zip(after.into_iter().flatten()) {
            rows.insert(address.clone(), row.to_item());
        }
        Ok(AppliedAll::Done)
    }

    async fn read_all(
        &self,
        addresses: &[Address],
        _limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        let rows = self.rows();
        let stored = addresses
            .iter()
            .map(|address| Stored::read(rows.get(address)));
        Ok(Some(stored.collect()))
    }

    async fn read(&self, address: &Address, _limit: Duration) -> Result<Stored, Error> {
        Ok(Stored::read(self.rows().get(address)))
    }

    async fn read_key(&self, key: &Key, _limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let rows = self.rows();
        let of_key = rows.iter().filter(|(address, _)| address.key == *key);
        Ok(of_key
            .map(|(address, item)| (address.permit, Stored::read(Some(item))))
            .collect())
    }

    async fn held(
        &self,
        part: Part,
        from: Option<&Position>,
        most: u32,
        _limit: Duration,
    ) -> Result<Page, Error> {
        // One part is enough for a map; the others are empty.
        if part.part > 0 {
            return Ok(Page::default());
        }
        Ok(self.walk(from, most as usize, None))
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        _limit: Duration,
    ) -> Result<Page, Error> {
        Ok(self.walk(from, most as usize, Some(holder)))
    }
}
