//! The suite that every store has to pass.
#![allow(clippy::unwrap_used, missing_docs)]

use leasehold::store::{ItemAddress, Slot};
use rusqlite::Connection;
use sqlite_store::Sqlite;

struct Bench(Sqlite);

impl leasehold_conformance::Bench for Bench {
    type Store = Sqlite;

    fn store(&self) -> Sqlite {
        self.0.clone()
    }

    async fn put(&self, address: &ItemAddress, slot: &Slot) {
        self.0.put(&address.keys(), slot).unwrap();
    }
}

#[tokio::test]
async fn it_conforms() {
    let database = Connection::open_in_memory().unwrap();
    let bench = Bench(Sqlite::new(database).unwrap());
    Box::pin(leasehold_conformance::all(bench, 0..250)).await;
}
