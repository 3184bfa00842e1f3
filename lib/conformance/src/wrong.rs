//! The suite on the memory store, which passes, and on stores that are wrong in one thing, which do not.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    Error, Holder, Key, Memory,
    row::Stored,
    store::{ItemAddress, Page, Position, ScanSegment, Slot, Store, Write, Written},
};

use crate::{Bench, all, stores::Stores};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Grants what is held.
    IgnoresACondition,
    RefusesWithAnEarlierItem,
    RefusesWithoutTheItem,
    TellsWhatItWrote,
    DropsTheSecondWrite,
    WritesBesideARefusal,
    LooksBeforeItWrites,
    KeepsAnAttribute,
    ReadsInItsOwnOrder,
    ReadsKeysThatBeginSo,
    ReadsOnePermit,
    SkipsThePagesLast,
    ReturnsLongPages,
    BeginsAtTheCursor,
    EndsWhereTheCursorIsGone,
    HasSectionsThatOverlap,
    ListsRowsOnly,
    ListsOthers,
}

/// A memory store with a fault.
#[derive(Clone)]
struct Wrong {
    table: Memory,
    fault: Fault,
    /// What each item was before it was written last.
    before: Arc<Mutex<HashMap<ItemAddress, Slot>>>,
}

impl Wrong {
    fn with(fault: Fault) -> Self {
        Self {
            table: Memory::new(),
            fault,
            before: Arc::default(),
        }
    }

    async fn slots(&self, writes: &[Write]) -> Vec<Slot> {
        let items: Vec<_> = writes.iter().map(Write::address).collect();
        let read = self.table.read(&items, Duration::ZERO).await;
        read.unwrap().unwrap()
    }

    /// What is there after a write of the memory store, and what is said of it.
    async fn done(
        &self,
        writes: &[Write],
        before: &[Slot],
        after: &[Slot],
        found: Slot,
    ) -> Written {
        for (write, slot) in writes.iter().zip(before) {
            let mut known = self.before.lock().unwrap();
            known.insert(write.address(), slot.clone());
        }
        if self.fault == Fault::DropsTheSecondWrite && writes.len() > 1 {
            self.put(&writes[1].address(), &before[1]).await;
        }
        if self.fault == Fault::KeepsAnAttribute {
            let left = before[0].item().and_then(|item| item.get("purge_at"));
            if let (Some(left), Some(item)) = (left, after[0].item()) {
                let mut item = item.clone();
                item.entry("purge_at".to_owned()).or_insert(left.clone());
                self.put(&writes[0].address(), &Slot::of(Some(item))).await;
            }
        }
        Written::Done(if self.fault == Fault::TellsWhatItWrote {
            after[0].clone()
        } else {
            found
        })
    }

    async fn refused(&self, writes: &[Write], mut parts: Vec<Option<Slot>>) -> Written {
        for (write, part) in writes.iter().zip(&mut parts) {
            let address = write.address();
            match (self.fault, &part) {
                (Fault::RefusesWithAnEarlierItem, Some(_)) => {
                    *part = self.before.lock().unwrap().get(&address).cloned();
                }
                (Fault::RefusesWithoutTheItem, Some(_)) => *part = Some(Slot::EMPTY),
                (Fault::WritesBesideARefusal, None) => {
                    self.put(&address, &write.after(&Slot::EMPTY).unwrap_or_default())
                        .await;
                }
                _ => {}
            }
        }
        Written::Refused(parts)
    }

    fn page(&self, mut page: Page, from: Option<&Position>) -> Page {
        let is_gone = |position: &Position| {
            let (pk, sk) = position.keys();
            let all = self.table.all();
            !all.iter().any(|(key, sort, _)| key == pk && sort == sk)
        };
        match self.fault {
            Fault::SkipsThePagesLast if page.next.is_some() => drop(page.entries.pop()),
            Fault::EndsWhereTheCursorIsGone if from.is_some_and(is_gone) => page = Page::default(),
            Fault::ListsRowsOnly => page
                .entries
                .retain(|entry| matches!(entry.address, Some(ItemAddress::Row(_)))),
            Fault::BeginsAtTheCursor if from.is_some() => {
                let again = page.entries.first().cloned();
                page.entries.extend(again);
            }
            _ => {}
        }
        page
    }

    fn most(&self, most: u32) -> u32 {
        most + u32::from(self.fault == Fault::ReturnsLongPages)
    }
}

impl Store for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    async fn write(&self, writes: &[Write], limit: Duration) -> Result<Written, Error> {
        let before = self.slots(writes).await;
        if self.fault == Fault::LooksBeforeItWrites {
            tokio::task::yield_now().await;
            let after = writes.iter().zip(&before);
            let after: Option<Vec<_>> = after.map(|(write, slot)| write.after(slot)).collect();
            for (write, slot) in writes.iter().zip(after.iter().flatten()) {
                self.put(&write.address(), slot).await;
            }
            if after.is_some() {
                return Ok(Written::Done(before[0].clone()));
            }
        }
        let mut written = self.table.write(writes, limit).await?;
        let is_refused = matches!(written, Written::Refused(_)) && writes.len() == 1;
        if self.fault == Fault::IgnoresACondition && is_refused {
            self.put(&writes[0].address(), &Slot::EMPTY).await;
            written = self.table.write(writes, limit).await?;
        }
        Ok(match written {
            Written::Done(found) => {
                let after = self.slots(writes).await;
                self.done(writes, &before, &after, found).await
            }
            Written::Refused(parts) => self.refused(writes, parts).await,
            Written::Conflict => Written::Conflict,
        })
    }

    async fn read(
        &self,
        items: &[ItemAddress],
        limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        let mut items = items.to_vec();
        if self.fault == Fault::ReadsInItsOwnOrder {
            items.sort_by_key(ItemAddress::keys);
        }
        self.table.read(&items, limit).await
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let mut rows = self.table.read_key(key, limit).await?;
        if self.fault == Fault::ReadsOnePermit {
            rows.truncate(1);
        }
        if self.fault == Fault::ReadsKeysThatBeginSo {
            let longer = Key::new(format!("{key}k")).unwrap();
            rows.extend(self.table.read_key(&longer, limit).await?);
        }
        Ok(rows)
    }

    async fn scan(
        &self,
        section: ScanSegment,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        let first = ScanSegment {
            segment: 0,
            ..section
        };
        let overlap = self.fault == Fault::HasSectionsThatOverlap;
        let section = if overlap { first } else { section };
        let page = self.table.scan(section, from, self.most(most), limit);
        Ok(self.page(page.await?, from))
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        if self.fault == Fault::ListsOthers {
            let (segment, total) = (0, 1);
            return self
                .scan(ScanSegment { segment, total }, from, most, limit)
                .await;
        }
        let page = self.table.held_by(holder, from, self.most(most), limit);
        Ok(self.page(page.await?, from))
    }
}

impl Bench for Wrong {
    type Store = Self;

    fn store(&self) -> Self {
        self.clone()
    }

    async fn put(&self, address: &ItemAddress, slot: &Slot) {
        Bench::put(&self.table, address, slot).await;
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    all(Wrong::with(Fault::None), 0..250).await;
}

#[tokio::test]
async fn wrong_stores_are_refused() {
    use Fault::{
        BeginsAtTheCursor, DropsTheSecondWrite, EndsWhereTheCursorIsGone, HasSectionsThatOverlap,
        IgnoresACondition, KeepsAnAttribute, ListsOthers, ListsRowsOnly, LooksBeforeItWrites,
        ReadsInItsOwnOrder, ReadsKeysThatBeginSo, ReadsOnePermit, RefusesWithAnEarlierItem,
        RefusesWithoutTheItem, ReturnsLongPages, SkipsThePagesLast, TellsWhatItWrote,
        WritesBesideARefusal,
    };
    for (fault, by) in [
        (IgnoresACondition, "after"),
        (RefusesWithAnEarlierItem, "after"),
        (RefusesWithoutTheItem, "after"),
        (TellsWhatItWrote, "after"),
        (DropsTheSecondWrite, "after"),
        (WritesBesideARefusal, "after"),
        (LooksBeforeItWrites, "of 16 at once won"),
        (KeepsAnAttribute, "after"),
        (ReadsInItsOwnOrder, "several items"),
        (ReadsKeysThatBeginSo, "the rows of"),
        (ReadsOnePermit, "the rows of"),
        (SkipsThePagesLast, "Of("),
        (ReturnsLongPages, "more than 1 on a page"),
        (BeginsAtTheCursor, "on a page"),
        (EndsWhereTheCursorIsGone, "a row is gone during"),
        (HasSectionsThatOverlap, "Section("),
        (ListsRowsOnly, "a written sequence: [Grant"),
        (ListsOthers, "Of("),
    ] {
        let failed = Stores::on(Wrong::with(fault)).all(0..1).await;
        let difference = failed.expect_err(&format!("{fault:?} passes"));
        assert!(difference.contains(by), "{fault:?}: {difference}");
    }
}

/// What random sequences find is the same each time, and as short as can be.
#[tokio::test]
async fn seed_and_fewest_steps_are_told() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let failed = Stores::on(Wrong::with(Fault::KeepsAnAttribute))
            .random(0..250)
            .await;
        all.push(failed.expect_err("it is wrong"));
    }
    let (seed, steps) = all[0].split_once(": ").unwrap();
    assert!(seed.starts_with("seed "), "{seed}");
    let steps = steps.lines().next().unwrap();
    assert_eq!(steps.split(", ").count(), 3, "{steps}");
    assert_eq!(all[0], all[1]);
}
