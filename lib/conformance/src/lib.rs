//! A suite that every store of `leasehold` has to pass: sequences of writes, reads and pages on it and on
//! [`Memory`] have to come to the same end, answer and items. Run [`all`] on your own [`Bench`], as the memory store does on its
//! own:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(
//! leasehold_conformance::all(leasehold::Memory::new(), 0..20)
//! # );
//! ```
//!
//! The same seeds draw the same sequences on every machine. A failure says which, and the fewest steps that show it.
#![allow(
    clippy::must_use_candidate,
    clippy::unwrap_used,
    reason = "a suite fails by a panic, and drops no value"
)]

use std::{future::Future, ops::Range};

use leasehold::store::{ItemAddress, Memory, Slot, Store};

// For the mutations of the library's own expressions; not covered by versions.
#[doc(hidden)]
pub mod changes;
mod item_writes;
mod items;
mod reads;
#[doc(hidden)]
pub mod sequences;
#[doc(hidden)]
pub mod steps;
#[doc(hidden)]
pub mod stores;
#[cfg(test)]
mod wrong;

/// A store to be tested, and the acts of another writer on its table.
pub trait Bench: Sync {
    /// The store.
    type Store: Store + 'static;

    /// The store, on the same table each time.
    fn store(&self) -> Self::Store;

    /// Stores an item without the library, or deletes what is there. `pk` and `sk` follow from the address.
    fn put(&self, address: &ItemAddress, slot: &Slot) -> impl Future<Output = ()> + Send;
}

impl Bench for Memory {
    type Store = Self;

    fn store(&self) -> Self {
        self.clone()
    }

    async fn put(&self, address: &ItemAddress, slot: &Slot) {
        let (pk, sk) = address.keys();
        match slot.item() {
            Some(item) => self.put_at(&pk, &sk, item),
            None => self.delete_at(&pk, &sk),
        }
    }
}

/// Runs the whole suite, with a random sequence for each of these seeds. The table has to be empty, and nobody else
/// may use it. Its index is expected to have caught up whenever it is read.
///
/// # Panics
/// If the store fails.
pub async fn all<B: Bench>(bench: B, seeds: Range<u64>) {
    let checked = stores::Stores::on(bench).all(seeds).await;
    checked.unwrap_or_else(|difference| panic!("{difference}"));
}
