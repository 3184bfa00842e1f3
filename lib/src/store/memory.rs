//! A table in memory: for your own tests, and for those who want to read what a table does.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Address, Applied, AppliedAll, Entry, Joined, Page, Position, PutStart, ScanSegment, Settled,
    Settlement, Store, foreign_item, foreign_rules, sweep_after, what,
};
use crate::{
    clock::Timestamp,
    error::Error,
    redrivable::Redrivable,
    row::attributes as at,
    row::{Holding, Item, Stored, bytes, instant, n, s, time, whole},
    rules::TableRules,
    start::{FAILED, StartItem, StartStatus},
    transition::{Change, Join, Leave, transition},
    values::{Holder, Key, RequestDigest},
    waiter::Waiter,
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

fn place_of_waiter(key: &Key, request: &RequestDigest) -> (String, String) {
    (key.as_str().to_owned(), at::wait_sk(request))
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
                wanted.then_some((place, holds, item))
            })
            .peekable();
        let mut page = Page::default();
        while let Some(((pk, sk), holds, item)) = held.next() {
            page.entries.push(Entry {
                what: what(pk, sk),
                sweep_after: sweep_after(item),
            });
            if page.entries.len() >= most && held.peek().is_some() {
                page.next = Some(Position {
                    holder: holds.clone(),
                    pk: pk.clone(),
                    sk: sk.clone(),
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
        let mut items = self.items();
        let before = Stored::read(items.get(&place(address)));
        Ok(match transition(&before, change) {
            Some(row) => {
                items.insert(place(address), row.to_item());
                let deadline_before = match (before, change) {
                    (_, Change::Grant(_)) | (Stored::Absent | Stored::Foreign(_), _) => None,
                    (Stored::Row(row), _) => row.holding().map(Holding::expires_at),
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
        let mut items = self.items();
        let before = changes
            .iter()
            .map(|(address, _)| Stored::read(items.get(&place(address))));
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
            items.insert(place(address), row.to_item());
        }
        Ok(AppliedAll::Done)
    }

    async fn read_all(
        &self,
        addresses: &[Address],
        _limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        let items = self.items();
        let stored = addresses
            .iter()
            .map(|address| Stored::read(items.get(&place(address))));
        Ok(Some(stored.collect()))
    }

    async fn read(&self, address: &Address, _limit: Duration) -> Result<Stored, Error> {
        Ok(Stored::read(self.items().get(&place(address))))
    }

    async fn read_key(&self, key: &Key, _limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let items = self.items();
        let of_key = items.iter().filter(|((pk, _), _)| pk == key.as_str());
        Ok(of_key
            .filter_map(|((_, sk), item)| Some((at::permit_of(sk)?, Stored::read(Some(item)))))
            .collect())
    }

    async fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        _limit: Duration,
    ) -> Result<Joined, Error> {
        let mut items = self.items();
        let address = Address::first(key);
        let beside = place_of_waiter(key, &waiter.request);
        if let Some(by) = items.get(&beside).and_then(Waiter::superseded_by) {
            return Ok(Joined::Superseded(by));
        }
        let before = Stored::read(items.get(&place(&address)));
        let Some(row) = transition(&before, &Change::Join(join.clone())) else {
            return Ok(Joined::Refused(before));
        };
        if !is_vacant(items.get(&beside), waiter) {
            return Ok(Joined::ForeignItem);
        }
        if !is_latest(items.get(&beside), waiter) {
            return Ok(Joined::SupersededByLaterCall);
        }
        items.insert(place(&address), row.to_item());
        items.insert(beside, to_item(waiter));
        Ok(Joined::Done)
    }

    async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        _limit: Duration,
    ) -> Result<Option<Waiter>, Error> {
        let items = self.items();
        Ok(items
            .get(&place_of_waiter(key, request))
            .and_then(Waiter::read))
    }

    async fn update_task_token(
        &self,
        key: &Key,
        waiter: &Waiter,
        _limit: Duration,
    ) -> Result<Waiter, Error> {
        let mut items = self.items();
        let place = place_of_waiter(key, &waiter.request);
        if !is_vacant(items.get(&place), waiter) {
            return Err(foreign_item(key, &waiter.request));
        }
        if let Some(by) = items.get(&place).and_then(Waiter::superseded_by) {
            let key = key.clone();
            return Err(Error::Superseded { key, by });
        }
        let item = items.entry(place).or_insert_with(|| to_item(waiter));
        if is_latest(Some(item), waiter) {
            for (name, value) in to_item(waiter) {
                item.entry(name).or_insert(value);
            }
            item.insert(at::TASK_TOKEN.to_owned(), s(waiter.task_token.expose()));
            item.insert(at::ASKED_AT.to_owned(), instant(waiter.asked_at));
        }
        Waiter::read(item).ok_or_else(|| foreign_item(key, &waiter.request))
    }

    async fn delete_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        _limit: Duration,
    ) -> Result<(), Error> {
        let mut items = self.items();
        let place = place_of_waiter(key, &waiter.request);
        if !has_token(items.get(&place), waiter) {
            return Ok(());
        }
        match items.get_mut(&place) {
            Some(item) if waiter.superseded_by.is_some() => {
                for name in [at::HOLDER, at::SWEEP_AFTER, at::TASK_TOKEN] {
                    item.remove(name);
                }
            }
            _ => {
                items.remove(&place);
            }
        }
        Ok(())
    }

    async fn supersede_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        by: &Holder,
        leave: &Leave,
        _limit: Duration,
    ) -> Result<Settled, Error> {
        let mut items = self.items();
        let (address, beside) = (
            place(&Address::first(key)),
            place_of_waiter(key, &waiter.request),
        );
        let before = Stored::read(items.get(&address));
        let Some(row) = transition(&before, &Change::Leave(leave.clone())) else {
            return Ok(Settled::Refused(before));
        };
        if !has_token(items.get(&beside), waiter) {
            return Ok(Settled::NotWaiting);
        }
        items.insert(address, row.to_item());
        let item = items.entry(beside).or_default();
        item.insert(at::SUPERSEDED_BY.to_owned(), s(by.as_str()));
        item.insert(at::ASKED_AT.to_owned(), instant(Timestamp::MAX));
        Ok(Settled::Done)
    }

    async fn put_start(
        &self,
        item: &StartItem,
        repeat: bool,
        _limit: Duration,
    ) -> Result<PutStart, Error> {
        let mut items = self.items();
        let place = StartItem::address(&item.key, &item.request());
        if let Some(found) = items.get(&place) {
            match StartItem::read(found) {
                None => return Ok(PutStart::Foreign),
                Some(found) if !(repeat && matches!(found.status, StartStatus::Failed(_))) => {
                    return Ok(PutStart::Found(found));
                }
                Some(_) => {}
            }
        }
        let address = [(at::PK, s(&place.0)), (at::SK, s(&place.1))];
        let attributes = item.attributes().into_iter().chain(address);
        let stored = attributes.map(|(name, value)| (name.to_owned(), value));
        items.insert(place, stored.collect());
        Ok(PutStart::Done)
    }

    async fn start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        _limit: Duration,
    ) -> Result<Option<StartItem>, Error> {
        let items = self.items();
        let item = items.get(&StartItem::address(key, request));
        Ok(item.and_then(StartItem::read))
    }

    async fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        _limit: Duration,
    ) -> Result<Settled, Error> {
        let mut items = self.items();
        let beside = StartItem::address(&item.key, &item.request());
        let found = items.get(&beside).and_then(StartItem::read);
        let fits = found.is_some_and(|found| {
            let before = settlement.before();
            let is_it = |before| found.status.word() == before && found.asked_at == item.asked_at;
            before.is_none_or(is_it)
        });
        if let Some((address, change)) = with {
            let address = place(address);
            let before = Stored::read(items.get(&address));
            let Some(row) = transition(&before, change) else {
                return Ok(Settled::Refused(before));
            };
            if fits {
                items.insert(address, row.to_item());
            }
        }
        if !fits {
            return Ok(Settled::NotWaiting);
        }
        if settlement.deletes() {
            items.remove(&beside);
            return Ok(Settled::Done);
        }
        let stored = items.entry(beside).or_default();
        let mut set = |name: &str, value| stored.insert(name.to_owned(), value);
        set(at::STATUS, s(settlement.word()));
        match settlement {
            Settlement::Failed(reason) => {
                set(at::REASON, s(reason));
                set(at::HOLDER, s(FAILED));
            }
            Settlement::Begun { purge_at } | Settlement::Skipped { purge_at } => {
                set(at::PURGE_AT, n(*purge_at));
                for name in [at::HOLDER, at::REASON, at::SUPERSEDED_BY] {
                    stored.remove(name);
                }
            }
            Settlement::Superseded { by, purge_at } => {
                set(at::SUPERSEDED_BY, s(by.as_str()));
                set(at::PURGE_AT, n(*purge_at));
                stored.remove(at::HOLDER);
            }
            Settlement::Withdrawn | Settlement::Dismissed => {}
        }
        stored.remove(at::SWEEP_AFTER);
        Ok(Settled::Done)
    }

    async fn redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        _limit: Duration,
    ) -> Result<Option<Redrivable>, Error> {
        let items = self.items();
        let item = items.get(&Redrivable::address(key, request));
        Ok(item.and_then(Redrivable::read))
    }

    async fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        _limit: Duration,
    ) -> Result<bool, Error> {
        let mut items = self.items();
        let (pk, sk) = Redrivable::address(&noted.key, &noted.request());
        let place = (pk.clone(), sk.clone());
        let found = items.get(&place).map(|item| whole(item, at::VERSION));
        if found != seen.map(Some) {
            return Ok(false);
        }
        let attributes = noted.attributes(times).into_iter();
        let mut item: Item = attributes
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        item.insert(at::PK.to_owned(), s(&pk));
        item.insert(at::SK.to_owned(), s(&sk));
        items.insert(place, item);
        Ok(true)
    }

    async fn forget_redrivable(&self, noted: &Redrivable, _limit: Duration) -> Result<(), Error> {
        let mut items = self.items();
        let place = Redrivable::address(&noted.key, &noted.request());
        let found = items.get(&place).and_then(|item| whole(item, at::VERSION));
        if found == Some(noted.version) {
            items.remove(&place);
        }
        Ok(())
    }

    async fn scan_held(
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

    async fn rules(&self, _limit: Duration) -> Result<Option<TableRules>, Error> {
        let items = self.items();
        let item = items.get(&place_of_rules());
        item.map(|item| TableRules::read(item).ok_or_else(|| foreign_rules(self.name())))
            .transpose()
    }

    async fn publish_rules(&self, rules: &TableRules, _limit: Duration) -> Result<bool, Error> {
        let mut items = self.items();
        let item = items.entry(place_of_rules()).or_default();
        let floor = whole(item, TableRules::TOKEN_FLOOR);
        if floor.is_some_and(|floor| floor > rules.token_floor.get()) {
            return Ok(false);
        }
        for (name, value) in rules.attributes() {
            item.insert(name.to_owned(), value);
        }
        Ok(true)
    }
}

fn place_of_rules() -> (String, String) {
    (TableRules::PK.to_owned(), TableRules::SK.to_owned())
}

/// Whether the waiter has not asked again since.
fn has_token(item: Option<&Item>, waiter: &Waiter) -> bool {
    let found = item.and_then(Waiter::read);
    found.is_some_and(|found| found.task_token == waiter.task_token)
}

/// Whether there is no item, or an item of the same request.
fn is_vacant(item: Option<&Item>, waiter: &Waiter) -> bool {
    item.is_none_or(|item| bytes(item, at::REQUEST) == Some(waiter.request.as_bytes()))
}

fn to_item(waiter: &Waiter) -> Item {
    let attributes = waiter.attributes().into_iter();
    attributes
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Whether the stored item was not written later.
fn is_latest(item: Option<&Item>, waiter: &Waiter) -> bool {
    item.is_none_or(|item| {
        let earlier = |at| at <= waiter.asked_at;
        time(item, at::ASKED_AT).is_some_and(earlier)
    })
}
