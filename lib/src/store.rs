//! What the rules need from a table, and the two tables that provide it.

use std::{future::Future, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    row::Row,
    row::attributes,
    rules::TableRules,
    start::{ResultItem, StartItem},
    values::{Holder, Key, RequestDigest},
    waiter::TokenItem,
};

mod dynamodb;
mod expressions;
mod failures;
mod memory;
mod operations;
#[cfg(test)]
pub(crate) mod wire;
mod write;

pub use crate::row::{Item, Stored};
/// What an [`Item`] consists of.
pub use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
pub use dynamodb::{Connection, DynamoDb};
pub(crate) use failures::failed;
// For the client of Step Functions in `leasehold-lambda`; not covered by versions.
#[doc(hidden)]
pub use failures::{lacks_credentials, refusal};
pub use memory::Memory;
pub use operations::Operations;
pub use write::{AwaitedResult, ItemAddress, Note, Slot, Write};

/// The address of a lease row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The key.
    pub key: Key,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
}

impl Address {
    /// Of the row at these two keys; none if they are no row's.
    #[must_use]
    pub fn of(pk: &str, sk: &str) -> Option<Self> {
        match ItemAddress::of(pk, sk)? {
            ItemAddress::Row(address) => Some(address),
            _ => None,
        }
    }

    /// The row of a mutex, which also has the queue of the key.
    pub(crate) fn first(key: &Key) -> Self {
        Self {
            key: key.clone(),
            permit: 0,
        }
    }
}

/// The outcome of a conditional write.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Applied {
    /// The write happened.
    Done {
        /// The row that is stored now.
        row: Row,
        /// The deadline before the write. A grant does not report it.
        deadline_before: Option<Timestamp>,
    },
    /// The condition refused it; nothing was written.
    Refused(Stored),
}

/// The outcome of several conditional writes that happen together or not at all.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum AppliedAll {
    /// All of them happened.
    Done,
    /// Some conditions failed; nothing was written. For each change: the item that was stored, or none if its own
    /// condition held.
    Refused(Vec<Option<Stored>>),
    /// Somebody was writing one of the rows at that moment; nothing was written, and nothing is known about the
    /// holders. Ask again.
    Conflict,
}

/// The outcome of a request to join the queue.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub enum Joined {
    /// It is in the queue, and the waiter's item is stored.
    Done,
    /// The row refused it; nothing was written.
    Refused(Stored),
    /// The item at the address of the waiter's item is not ours; nothing was written.
    ForeignItem,
    /// The item of this waiter is this by now, or none: another than was read; nothing was written.
    Found(Option<TokenItem>),
    /// This holder came later, and the request was superseded; nothing was written.
    Superseded(Holder),
    /// Somebody was writing one of the two items at that moment; nothing was written. Ask again.
    Conflict,
}

/// The outcome of storing the token of a request that waits.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Renewed {
    /// It is stored, and the item is this.
    Done(TokenItem),
    /// The item is this by now, or none: another than was read; nothing was written.
    Found(Option<TokenItem>),
}

/// The outcome of storing a task that waits for the result of a start.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum PutResult {
    /// It is stored.
    Done,
    /// The item is this by now, or none: another than was read; nothing was written.
    Found(Option<ResultItem>),
}

/// The outcome of storing a start, alone or with its place or its grant.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub enum PutStart {
    /// It is stored.
    Done,
    /// There is one of this name already, or another than the one that was read.
    Found(StartItem),
    /// The one that was read is gone; nothing was written.
    Gone,
    /// The item at its address is not ours; nothing was written.
    Foreign,
    /// The row, which is this, refused the change; nothing was written.
    Refused(Stored),
    /// This task waits for its result, or none does: another than was read; nothing was written.
    Awaited(Option<ResultItem>),
    /// Somebody was writing one of the two items at that moment; nothing was written. Ask again.
    Conflict,
}

/// What becomes of a start that waits, or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// Its execution has begun.
    Begun {
        /// When DynamoDB may delete the item, in epoch seconds.
        purge_at: u64,
    },
    /// Somebody held the key, and nobody was to wait.
    Skipped {
        /// When DynamoDB may delete the item, in epoch seconds.
        purge_at: u64,
    },
    /// This one came later and waits instead.
    Superseded {
        /// The later one.
        by: Holder,
        /// When DynamoDB may delete the item, in epoch seconds.
        purge_at: u64,
    },
    /// It will not begin, for this reason. The item stays until it is repeated or dismissed.
    Failed(String),
    /// It has failed, and nobody has to see to it: the task knows that waited for its result, or an operator says so. The item is not
    /// listed any more, and still answers its calls.
    Dismissed {
        /// When DynamoDB may delete the item, in epoch seconds.
        purge_at: u64,
    },
}

/// The outcome of settling a start, or of superseding a waiter.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub enum Settled {
    /// It is settled, and the change of the row is written, if there was one.
    Done,
    /// It did not wait any more, had asked again, had not failed, or there is no item; nothing was written.
    NotWaiting,
    /// The row refused the change; nothing was written.
    Refused(Stored),
    /// Somebody was writing one of the two items at that moment; nothing was written. Ask again.
    Conflict,
}

/// One page of the held rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows, in no particular order.
    pub entries: Vec<Entry>,
    /// Where the next page starts; none at the end.
    pub next: Option<Position>,
}

/// A held row or a waiter, according to the index. The index may lag behind: read the item before a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is; none of an item that this library did not write.
    pub address: Option<ItemAddress>,
    /// Before this instant the lease cannot have expired, and the waiter cannot have given up.
    pub sweep_after: Option<Timestamp>,
}

/// A position in a walk through the held rows: the last row that was read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    pub(crate) holder: String,
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl Position {
    /// That of an item of the index.
    #[must_use]
    pub fn of(pk: &str, sk: &str, item: &Item) -> Option<Self> {
        Some(Self {
            holder: item.get(attributes::HOLDER)?.as_s().ok()?.clone(),
            pk: pk.to_owned(),
            sk: sk.to_owned(),
        })
    }

    /// The partition key and the sort key of the item.
    #[must_use]
    pub fn keys(&self) -> (&str, &str) {
        (&self.pk, &self.sk)
    }
}

/// A part of the held rows, as of a parallel scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSegment {
    /// Counted from 0.
    pub segment: u8,
    /// The number of parts.
    pub total: u8,
}

/// What became of writes that happen together or not at all.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Written {
    /// All happened. If there was only one: what it found.
    Done(Slot),
    /// Some conditions failed; nothing was written. For each write: what it found, or none if its own condition held.
    Refused(Vec<Option<Slot>>),
    /// Somebody was writing one of several items at that moment; nothing was written. Ask again.
    Conflict,
}

/// A table: what a provider of another one implements.
///
/// An implementation guarantees three things. A write is atomic: it applies [`Write::after`] to the items that are stored at
/// that moment, or does nothing. A refusal returns the items that were stored, from the same moment. A read is consistent: it
/// sees every write whose response arrived before the read began. The suite in `leasehold-conformance` tests them. [`Memory`] is the
/// shortest one.
///
/// A failed call leaves the outcome open, and so does a dropped future. To resolve it, call again with the same writes.
pub trait Store: Send + Sync {
    /// The name of the table in messages.
    fn name(&self) -> &str;

    /// Writes up to 100 different items within `limit`, all or none. One alone waits for others that are writing the item.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Misconfigured`], [`Error::Throttled`], [`Error::Unavailable`],
    /// or [`Error::Corrupt`] for an item so large that it cannot be ours.
    fn write(
        &self,
        writes: &[Write],
        limit: Duration,
    ) -> impl Future<Output = Result<Written, Error>> + Send;

    /// Reads up to 100 items, as they were at one moment, in the order given. Returns none if there are several and somebody
    /// was writing one of them at that moment: ask again.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn read(
        &self,
        items: &[ItemAddress],
        limit: Duration,
    ) -> impl Future<Output = Result<Option<Vec<Slot>>, Error>> + Send;

    /// Reads all rows of a key: one, or one for each permit of a semaphore that was ever granted.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn read_key(
        &self,
        key: &Key,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<(u16, Stored)>, Error>> + Send;

    /// Reads a part of the index, up to `most` entries at a time: every item that has a `holder`.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn scan(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Page, Error>> + Send;

    /// Reads what the index has under `holder`, up to `most` entries at a time: what it holds or waits for.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Page, Error>> + Send;
}

/// Another program's item is in the place of the rules.
pub(crate) fn foreign_rules(table: &str) -> Error {
    Error::Misconfigured {
        problem: format!(
            "the item {} {} of the table {table} does not have the table's rules: delete it; the sweep of the table's \
             stack writes it again when it next starts",
            TableRules::PK,
            TableRules::SK
        ),
        source: None,
    }
}

impl Entry {
    /// Of an item of the index.
    #[must_use]
    pub fn of(pk: &str, sk: &str, item: &Item) -> Self {
        let millis = item
            .get(attributes::SWEEP_AFTER)
            .and_then(|at| at.as_n().ok());
        Self {
            address: ItemAddress::of(pk, sk),
            sweep_after: millis.and_then(|millis| millis.parse().ok().map(Timestamp::from_millis)),
        }
    }
}

/// The item at the address of the waiter's item is not ours.
pub(crate) fn foreign_item(key: &Key, request: &RequestDigest) -> Error {
    let sk = attributes::wait_sk(request);
    Error::Corrupt {
        key: key.clone(),
        reason: format!("it is stored at {sk}, the address of a waiter's item"),
    }
}

impl Settlement {
    /// The word in the item.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Begun { .. } => "begun",
            Self::Skipped { .. } => "skipped",
            Self::Superseded { .. } => "superseded",
            Self::Failed(_) | Self::Dismissed { .. } => "failed",
        }
    }

    /// The word in the item until then; none if it may have any: that it has begun comes before all else.
    pub(crate) const fn before(&self) -> Option<&'static str> {
        match self {
            Self::Begun { .. } => None,
            Self::Dismissed { .. } => Some("failed"),
            _ => Some("waiting"),
        }
    }
}
