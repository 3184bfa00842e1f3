//! A table in memory: for your own tests, and for those who want to read what a table does.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Address, Entry, ItemAddress, Page, Position, ScanSegment, Slot, Store, Write, Written,
};
use crate::{
    error::Error,
    row::attributes as at,
    row::{Item, Stored},
    values::{Holder, Key},
};

/// A table in memory. Its operations cannot fail. A clone is the same table.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Items>>);

/// The table contains lease ids and task tokens, so only the number of items is shown.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} items)", self.items().len())
    }
}

/// By key and sort key, as in DynamoDB.
type Items = BTreeMap<(String, String), Item>;

fn place(address: &Address) -> (String, String) {
    (
        address.key.as_str().to_owned(),
        at::lease_sk(address.permit),
    )
}

impl Memory {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores any item at a row's address, as another writer might.
    #[expect(clippy::needless_pass_by_value, reason = "part of what is public")]
    pub fn put(&self, address: Address, item: &Item) {
        self.items().insert(place(&address), item.clone());
    }

    /// Stores any item at any address of the table, as [`Memory::put`] does at a row's.
    pub fn put_at(&self, pk: &str, sk: &str, item: &Item) {
        let place = (pk.to_owned(), sk.to_owned());
        self.items().insert(place, item.clone());
    }

    /// Everything that is stored in the table, by key and sort key, secrets included.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String, Item)> {
        let items = self.items();
        let all = items.iter();
        all.map(|((pk, sk), item)| (pk.clone(), sk.clone(), item.clone()))
            .collect()
    }

    /// Deletes a row, as somebody might by hand.
    pub fn delete(&self, address: &Address) {
        self.items().remove(&place(address));
    }

    /// Deletes any item of the table, as [`Memory::delete`] does a row.
    pub fn delete_at(&self, pk: &str, sk: &str) {
        self.items().remove(&(pk.to_owned(), sk.to_owned()));
    }

    fn items(&self) -> std::sync::MutexGuard<'_, Items> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn walk(&self, from: Option<&Position>, most: usize, holder: Option<&Holder>) -> Page {
        let items = self.items();
        let after = from.map(|p| (p.pk.clone(), p.sk.clone()));
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        // The index contains every item with a holder, including items that are not ours.
        let mut held = items
            .range((start, Bound::Unbounded))
            .filter_map(|(place, item)| {
                let holds = item.get(at::HOLDER)?.as_s().ok()?;
                let wanted = holder.is_none_or(|holder| holder.as_str() == holds);
                wanted.then_some((place, item))
            })
            .peekable();
        let mut page = Page::default();
        while let Some(((pk, sk), item)) = held.next() {
            page.entries.push(Entry::of(pk, sk, item));
            if page.entries.len() >= most && held.peek().is_some() {
                page.next = Position::of(pk, sk, item);
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

    async fn write(&self, writes: &[Write], _limit: Duration) -> Result<Written, Error> {
        let mut items = self.items();
        let places: Vec<_> = writes.iter().map(|write| write.address().keys()).collect();
        let mut before: Vec<_> = places
            .iter()
            .map(|place| Slot::of(items.get(place).cloned()))
            .collect();
        let after = writes.iter().zip(&before);
        let after: Vec<_> = after.map(|(write, before)| write.after(before)).collect();
        if after.contains(&None) {
            let refused = after.iter().zip(before);
            let refused = refused.map(|(after, before)| after.is_none().then_some(before));
            return Ok(Written::Refused(refused.collect()));
        }
        for (place, after) in places.into_iter().zip(after.into_iter().flatten()) {
            match after.into_item() {
                Some(item) => items.insert(place, item),
                None => items.remove(&place),
            };
        }
        Ok(Written::Done(before.pop().unwrap_or_default()))
    }

    async fn read(
        &self,
        wanted: &[ItemAddress],
        _limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        let items = self.items();
        let stored = wanted
            .iter()
            .map(|at| Slot::of(items.get(&at.keys()).cloned()));
        Ok(Some(stored.collect()))
    }

    async fn read_key(&self, key: &Key, _limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let items = self.items();
        let of_key = items.iter().filter(|((pk, _), _)| pk == key.as_str());
        Ok(of_key
            .filter_map(|((_, sk), item)| Some((at::permit_of(sk)?, Stored::read(Some(item)))))
            .collect())
    }

    async fn scan(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        _limit: Duration,
    ) -> Result<Page, Error> {
        // One part is enough for a map; the others are empty.
        if segment.segment > 0 {
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
