//! Keys that the list of leases does not show, because it has only what is held: those with a queue, and those that an operator
//! has frozen or limited.

use std::collections::BTreeSet;

use crate::{
    error::Error,
    leases::{Inspection, Leases},
    pagination::Cursor,
    row::Stored,
    store::{Address, DynamoDb, ItemAddress, Operations, Store},
};

/// Entries of the index per request.
const PAGE: u32 = 1000;

/// The keys that an operator has frozen or limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestrictedKeys {
    /// The first permit of each, in the order of the keys.
    pub keys: Vec<Inspection>,
    /// Whether the whole table was read.
    pub complete: bool,
}

impl<S: Store> Leases<S> {
    /// The keys that somebody waits for: the first permit of each, which has the queue, in the order of the keys. It reads the index,
    /// which lags a little behind the rows, and then the row of each key.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn keys_with_waiters(&self) -> Result<Vec<Inspection>, Error> {
        let mut keys = BTreeSet::new();
        let mut cursor = Some(Cursor::start(0));
        while let Some(at) = cursor {
            let (entries, next) = self.page(at, PAGE).await?;
            keys.extend(
                entries
                    .into_iter()
                    .filter_map(|entry| match entry.address? {
                        ItemAddress::Waiter(key, _) | ItemAddress::Start(key, _) => Some(key),
                        _ => None,
                    }),
            );
            cursor = next;
        }
        let mut seen = Vec::new();
        for key in keys {
            let address = Address::first(&key);
            // Of starts that have failed the index has items too. They are in no queue.
            if let Stored::Row(row) = self.store().read_row(&address, self.limit()).await?
                && row.head().is_some()
            {
                seen.push(self.inspection(address, &row));
            }
        }
        Ok(seen)
    }
}

impl Leases<DynamoDb> {
    /// The keys that an operator has frozen or limited, whoever holds them. No index has them, so this reads the table, a thousand
    /// items per request, and makes at most so many requests.
    ///
    /// # Errors
    /// [`Error::Denied`] without `dynamodb:Scan` on the table, and those of [`Store::write`].
    pub async fn restricted_keys(&self, requests: usize) -> Result<RestrictedKeys, Error> {
        let mut found = RestrictedKeys::default();
        let mut from = None;
        for _ in 0..requests {
            let (rows, next) = self.store().scan_restricted(from, self.limit()).await?;
            let rows = rows.iter();
            let seen = rows.map(|(address, row)| self.inspection(address.clone(), row));
            found.keys.extend(seen);
            from = next;
            if from.is_none() {
                found.complete = true;
                break;
            }
        }
        found.keys.sort_by(|a, b| a.lease.key.cmp(&b.lease.key));
        Ok(found)
    }
}
