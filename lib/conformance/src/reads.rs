//! What is read: items in their order, all rows of a key, and the index page by page. And writes that meet each other.

use std::fmt::Debug;

use futures_util::future::join_all;
use leasehold::{
    Error, Holder, Key,
    row::Stored,
    store::{Address, ItemAddress, Page, Position, ScanSegment, Slot, Store, Write, Written},
};

use crate::{
    Bench, changes,
    steps::grant,
    stores::{Checked, LIMIT, Stores, address, answered, same},
};

/// More than any walk here has.
const PAGES: usize = 1000;

/// A part of the index.
#[derive(Debug)]
enum Part {
    Of(Holder),
    Section(ScanSegment),
}

impl Part {
    async fn page<S: Store>(
        &self,
        store: &S,
        from: Option<&Position>,
        most: u32,
    ) -> Result<Page, Error> {
        match self {
            Self::Of(holder) => store.held_by(holder, from, most, LIMIT).await,
            Self::Section(section) => store.scan(*section, from, most, LIMIT).await,
        }
    }

    /// Every entry. The order is the store's own.
    async fn entries<S: Store>(&self, store: &S, most: u32) -> Checked<Vec<String>> {
        let (mut all, mut from) = (Vec::new(), None);
        for _ in 0..PAGES {
            let page = answered(self.page(store, from.as_ref(), most).await, self)?;
            if page.entries.len() > most as usize {
                return Err(format!("more than {most} on a page of {self:?}: {page:?}"));
            }
            all.extend(page.entries.iter().map(|entry| format!("{entry:?}")));
            from = page.next;
            if from.is_none() {
                return Ok(all);
            }
        }
        Err(format!("no end of the pages of {self:?}"))
    }
}

fn sections(total: u8) -> impl Iterator<Item = Part> {
    (0..total).map(move |segment| Part::Section(ScanSegment { segment, total }))
}

/// A grant of this row to whoever has this number.
fn granted(address: &Address, who: u8) -> Write {
    let change = changes::change(&Stored::Absent, &grant(who, 1));
    Write::Row(address.clone(), change.unwrap())
}

/// Rows of so many keys.
fn rows(keys: impl Iterator<Item = u8>) -> Vec<Address> {
    keys.map(|n| address(&format!("of many/{n}"))).collect()
}

fn items(rows: &[Address]) -> Vec<ItemAddress> {
    rows.iter().cloned().map(ItemAddress::Row).collect()
}

impl<B: Bench> Stores<B> {
    /// Whatever is in the index, of each holder and in however many sections, with so many entries on a page.
    pub(crate) async fn same_index(&self, most: u32, what: &(dyn Debug + Sync)) -> Checked {
        let (store, mut holders) = (self.table.store(), vec![changes::holder(99)]);
        for (_, _, item) in self.memory.all() {
            let holder = item.get("holder").and_then(|holder| holder.as_s().ok());
            holders.extend(holder.and_then(|holder| Holder::new(holder.clone()).ok()));
        }
        holders.sort();
        holders.dedup();
        let parts = holders.into_iter().map(|holder| vec![Part::Of(holder)]);
        let sections = [1, 3].map(|total| sections(total).collect());
        for parts in parts.chain(sections) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for part in &parts {
                ours.extend(part.entries(&self.memory, most).await?);
                theirs.extend(part.entries(&store, most).await?);
            }
            ours.sort();
            theirs.sort();
            same(&ours, &theirs, &(&parts, what))?;
        }
        Ok(())
    }

    async fn same_rows(&self, key: &Key) -> Checked {
        let ours = self.memory.read_key(key, LIMIT).await;
        let theirs = self.table.store().read_key(key, LIMIT).await;
        let what = ("the rows of", key);
        same(&answered(ours, &what)?, &answered(theirs, &what)?, &what)
    }

    async fn grants(&self, rows: &[Address], who: u8) -> Checked<bool> {
        let writes: Vec<_> = rows.iter().map(|row| granted(row, who)).collect();
        let what = ("grants of", rows.len(), "rows to", who);
        let happened = self.write(&writes, &what).await?;
        self.same_items(&items(rows), &what).await?;
        Ok(happened)
    }

    async fn clear(&self, rows: &[Address]) {
        for row in items(rows) {
            self.lay(&row, &Slot::EMPTY).await;
        }
    }

    pub(crate) async fn reads_agree(&self) -> Checked {
        // Permits of a key, and keys that begin like it.
        let permit = |permit| Address {
            permit,
            ..address("k")
        };
        let permits = [0, 1, 2, 10, 300].map(permit);
        let others = ["k/0", "kk", "K"].map(address);
        let mut all = [&permits[..], &others].concat();
        for (row, who) in all.iter().zip(0..) {
            self.grants(std::slice::from_ref(row), who % 3).await?;
        }
        let strange = ItemAddress::Row(permit(7));
        let colour = leasehold::store::AttributeValue::S("blue".to_owned());
        let colour = Slot::of(Some([("colour".to_owned(), colour)].into()));
        self.lay(&strange, &colour).await;
        all.push(permit(7));
        for key in ["k", "kk", "k/", "none"] {
            self.same_rows(&address(key).key).await?;
        }
        // In whichever order, and where there is nothing.
        let mut wanted = items(&all);
        wanted.insert(2, ItemAddress::Row(permit(5)));
        self.same_items(&wanted, &"several items").await?;
        wanted.reverse();
        self.same_items(&wanted, &"several items").await?;
        for most in [1, 2, 100] {
            self.same_index(most, &"grants").await?;
        }
        self.walks_on_from_what_is_gone().await?;
        self.clear(&all).await;
        // As many as may be written together, all or none of them.
        let many = rows(0..100);
        assert!(self.grants(&many[40..41], 0).await?, "it is free");
        assert!(!self.grants(&many, 1).await?, "one is held");
        self.clear(&many[40..41]).await;
        assert!(self.grants(&many, 1).await?, "all are free");
        self.clear(&many).await;
        // Both or neither also if the second is refused, or both are.
        let pair = rows(0..2);
        assert!(self.grants(&pair[1..], 0).await?, "it is free");
        assert!(!self.grants(&pair, 1).await?, "the second is held");
        assert!(self.grants(&pair[..1], 0).await?, "it is free");
        assert!(!self.grants(&pair, 1).await?, "both are held");
        self.clear(&pair).await;
        Ok(())
    }

    /// Sweep frees what it has just read, and goes on from there.
    async fn walks_on_from_what_is_gone(&self) -> Checked {
        let store = self.table.store();
        for part in sections(1).chain([Part::Of(changes::holder(0))]) {
            let first = answered(part.page(&store, None, 1).await, &part)?;
            let Some(next) = first.next else {
                return Err(format!("{part:?} has no second page"));
            };
            let mut before = part.entries(&store, 100).await?;
            let (pk, sk) = next.keys();
            let gone = ItemAddress::of(pk, sk).ok_or_else(|| format!("{next:?} is no item"))?;
            let slot = self.same_items(std::slice::from_ref(&gone), &part).await?;
            self.lay(&gone, &Slot::EMPTY).await;
            let mut after: Vec<_> = first.entries.iter().map(|e| format!("{e:?}")).collect();
            let mut from = Some(next);
            while let Some(position) = from {
                let page = part.page(&store, Some(&position), 1).await;
                let page = answered(page, &part)?;
                after.extend(page.entries.iter().map(|e| format!("{e:?}")));
                from = page.next;
            }
            self.lay(&gone, &slot[0]).await;
            before.sort();
            after.sort();
            same(&before, &after, &("a row is gone during", part))?;
        }
        Ok(())
    }

    /// Many at once, of one row and of two in either order: one writer gets all of them, and the others hear of it.
    pub(crate) async fn races_have_one_winner(&self) -> Checked {
        for number in [1, 2] {
            let rows = rows(0..number);
            let store = self.table.store();
            let ask = async |who: u8| {
                let mut writes: Vec<_> = rows.iter().map(|row| granted(row, who)).collect();
                if who % 2 == 1 {
                    writes.reverse();
                }
                loop {
                    match answered(store.write(&writes, LIMIT).await, &"a race")? {
                        Written::Conflict if number > 1 => {}
                        written => return Ok(written),
                    }
                }
            };
            let asked = join_all((0..16).map(ask)).await;
            let asked = asked.into_iter().collect::<Checked<Vec<_>>>()?;
            let stored = answered(store.read(&items(&rows), LIMIT).await, &"a race")?;
            let stored = stored.unwrap_or_default();
            let (mut won, mut heard) = (Vec::new(), true);
            for (written, who) in asked.iter().zip(0..) {
                match written {
                    Written::Done(_) => won.push(changes::holder(who)),
                    Written::Refused(parts) => {
                        let mut parts = parts.iter().flatten();
                        heard &= parts.all(|found| stored.contains(found));
                    }
                    Written::Conflict => heard = false,
                }
            }
            let holders = stored.iter().map(|slot| match Stored::read(slot.item()) {
                Stored::Row(row) => vec![row.granted_to],
                _ => Vec::new(),
            });
            if won.len() != 1 || !heard || !holders.into_iter().all(|holder| holder == won) {
                return Err(format!("of 16 at once won {won:?}: {asked:?}, {stored:?}"));
            }
            self.clear(&rows).await;
        }
        Ok(())
    }
}
