//! The suite that every store has to pass.
#![allow(clippy::unwrap_used, missing_docs)]

use leasehold::store::{Address, Item, ItemAddress, Slot};
use leasehold_conformance as conformance;
use rusqlite::Connection;
use sqlite_store::Sqlite;

struct Bench(Sqlite);

impl Bench {
    fn lay(&self, address: &Address, slot: &Slot) {
        let keys = ItemAddress::Row(address.clone()).keys();
        self.0.put(&keys, slot).unwrap();
    }
}

impl conformance::Bench for Bench {
    type Store = Sqlite;

    fn store(&self) -> Sqlite {
        self.0.clone()
    }

    async fn put(&self, address: &Address, item: Item) {
        self.lay(address, &Slot::of(Some(item)));
    }

    async fn delete(&self, address: &Address) {
        self.lay(address, &Slot::EMPTY);
    }
}

#[tokio::test]
async fn it_conforms() {
    let database = Connection::open_in_memory().unwrap();
    let bench = Bench(Sqlite::new(database).unwrap());
    Box::pin(conformance::all(&bench)).await;
}
