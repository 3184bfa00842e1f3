//! A table of leases in `SQLite`.
//!
//! Everything that Leasehold knows of leases, queues and starts stands in [`Write::after`]. So a store is a transaction that
//! reads what is there, asks that function, and writes what it says.

mod json;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::{
    Error, Holder, Key,
    store::{
        Address, Entry, Item, ItemAddress, Page, Position, ScanSegment, Slot, Store, Stored, Write,
        Written,
    },
};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// The index is `holder`: rows that are held, and waiters.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS items (
    pk TEXT, sk TEXT, holder TEXT, item TEXT NOT NULL, PRIMARY KEY (pk, sk));
    CREATE INDEX IF NOT EXISTS held ON items (holder, pk, sk) WHERE holder IS NOT NULL";

/// A table in a `SQLite` database. A clone is the same table.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Mutex<Connection>>);

impl Sqlite {
    /// The table in this database, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database cannot be written.
    pub fn new(database: Connection) -> Result<Self, Error> {
        database.execute_batch(SCHEMA).map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(database))))
    }

    /// Stores an item as it is, or nothing, whatever was there.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn put(&self, (pk, sk): &(String, String), slot: &Slot) -> Result<(), Error> {
        put(&self.database(), pk, sk, slot).map_err(failed)
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, writes: &[Write]) -> rusqlite::Result<Written> {
        let mut database = self.database();
        // Dropped without a commit, it changes nothing.
        let transaction = database.transaction()?;
        let (mut found, mut refused) = (Slot::EMPTY, Vec::new());
        for write in writes {
            let (pk, sk) = write.address().keys();
            found = get(&transaction, &pk, &sk)?;
            let after = write.after(&found);
            refused.push(after.is_none().then(|| found.clone()));
            if let Some(after) = after {
                put(&transaction, &pk, &sk, &after)?;
            }
        }
        if refused.iter().any(Option::is_some) {
            return Ok(Written::Refused(refused));
        }
        transaction.commit()?;
        Ok(Written::Done(found))
    }

    /// A part of the index: after a position, and of one holder only or of all.
    fn page(
        &self,
        holder: Option<&Holder>,
        from: Option<&Position>,
        most: u32,
    ) -> rusqlite::Result<Page> {
        let database = self.database();
        let mut select = database.prepare_cached(
            "SELECT pk, sk, item FROM items WHERE holder IS NOT NULL AND holder = coalesce(?1, holder)
             AND (pk, sk) > (?2, ?3) ORDER BY pk, sk LIMIT ?4",
        )?;
        let (pk, sk) = from.map_or(("", ""), Position::keys);
        let holder = holder.map(Holder::as_str);
        let found = select.query_map(params![holder, pk, sk, u64::from(most) + 1], read)?;
        let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
        let has_more = found.len() > most as usize;
        found.truncate(most as usize);
        let last = found.last().filter(|_| has_more);
        Ok(Page {
            next: last.and_then(|(pk, sk, item)| Position::of(pk, sk, item)),
            entries: found
                .iter()
                .map(|(pk, sk, item)| Entry::of(pk, sk, item))
                .collect(),
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<(String, String, Item)> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        json::read(&row.get::<_, String>(2)?),
    ))
}

fn get(database: &Connection, pk: &str, sk: &str) -> rusqlite::Result<Slot> {
    let mut select =
        database.prepare_cached("SELECT pk, sk, item FROM items WHERE pk = ?1 AND sk = ?2")?;
    let found = select.query_row((pk, sk), read).optional()?;
    Ok(Slot::of(found.map(|(_, _, item)| item)))
}

fn put(database: &Connection, pk: &str, sk: &str, slot: &Slot) -> rusqlite::Result<()> {
    let Some(item) = slot.item() else {
        database.execute("DELETE FROM items WHERE pk = ?1 AND sk = ?2", (pk, sk))?;
        return Ok(());
    };
    let holder = item.get("holder").and_then(|holder| holder.as_s().ok());
    let mut insert =
        database.prepare_cached("INSERT OR REPLACE INTO items VALUES (?1, ?2, ?3, ?4)")?;
    insert.execute(params![pk, sk, holder, json::text(item)])?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: rusqlite::Error) -> Error {
    Error::Unavailable {
        problem: format!("SQLite: {error}"),
        source: None,
    }
}

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "in SQLite"
    }

    async fn write(&self, writes: &[Write], _limit: Duration) -> Result<Written, Error> {
        self.carry_out(writes).map_err(failed)
    }

    async fn read(
        &self,
        items: &[ItemAddress],
        _limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        let database = self.database();
        let slots = items.iter().map(|item| {
            let (pk, sk) = item.keys();
            get(&database, &pk, &sk)
        });
        slots
            .collect::<rusqlite::Result<_>>()
            .map(Some)
            .map_err(failed)
    }

    async fn read_key(&self, key: &Key, _limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        let database = self.database();
        let mut select = database
            .prepare_cached("SELECT pk, sk, item FROM items WHERE pk = ?1 ORDER BY sk")
            .map_err(failed)?;
        let found = select.query_map([key.as_str()], read).map_err(failed)?;
        let found = found
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(failed)?;
        let rows = found.iter().filter_map(|(pk, sk, item)| {
            let address = Address::of(pk, sk)?;
            Some((address.permit, Stored::read(Some(item))))
        });
        Ok(rows.collect())
    }

    async fn scan(
        &self,
        part: ScanSegment,
        from: Option<&Position>,
        most: u32,
        _limit: Duration,
    ) -> Result<Page, Error> {
        // The first part is the whole.
        if part.segment > 0 {
            return Ok(Page::default());
        }
        self.page(None, from, most).map_err(failed)
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        _limit: Duration,
    ) -> Result<Page, Error> {
        self.page(Some(holder), from, most).map_err(failed)
    }
}
