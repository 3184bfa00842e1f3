//! What the rules need from a table, and the two tables that provide it.

use std::{future::Future, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    redrivable::Redrivable,
    row::attributes,
    row::{Row, Stored},
    rules::TableRules,
    start::StartItem,
    transition::{Change, Join, Leave},
    values::{Holder, Key, RequestDigest},
    waiter::Waiter,
};

mod dynamodb;
mod expressions;
mod failures;
mod memory;
#[cfg(test)]
pub(crate) mod wire;

pub use dynamodb::{Connection, DynamoDb};
pub(crate) use failures::failed;
// For the client of Step Functions in `leasehold-lambda`; not covered by versions.
#[doc(hidden)]
pub use failures::{lacks_credentials, refusal};
pub use memory::Memory;

/// The address of a lease row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The key.
    pub key: Key,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
}

impl Address {
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
    /// The same request has asked later, with another token; nothing was written.
    SupersededByLaterCall,
    /// This holder came later, and the request was sent away; nothing was written.
    Superseded(Holder),
    /// Somebody was writing one of the two items at that moment; nothing was written. Ask again.
    Conflict,
}

/// The outcome of storing a start.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum PutStart {
    /// It is stored.
    Done,
    /// There is one of this name already.
    Found(StartItem),
    /// The item at its address is not ours; nothing was written.
    Foreign,
}

/// What becomes of a start that waits, or has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// It was refused, and may be asked for anew: the item is deleted.
    Withdrawn,
    /// It had failed, and nobody will repeat it: the item is deleted.
    Dismissed,
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
    /// What it is, and where.
    pub what: What,
    /// Before this instant the lease cannot have expired, and the waiter cannot have given up.
    pub sweep_after: Option<Timestamp>,
}

/// See [`Entry::what`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A lease row.
    Lease(Address),
    /// The item of a waiter, or of a [start](RequestDigest::is_start).
    Waiter(Key, RequestDigest),
    /// The item of an execution whose lease has ended and that may be redriven.
    Redrivable(Key, RequestDigest),
    /// An item that this library did not write.
    Foreign,
}

/// A position in a walk through the held rows: the last row that was read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    pub(crate) holder: String,
    pub(crate) pk: String,
    pub(crate) sk: String,
}

/// A part of the held rows, as of a parallel scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSegment {
    /// Counted from 0.
    pub segment: u8,
    /// The number of parts.
    pub total: u8,
}

/// A table of lease rows.
///
/// An implementation guarantees three things. A write is atomic: it applies [`crate::transition::transition`] to the
/// item that is stored at that moment, or does nothing. A refusal returns the item that was stored, from the same
/// moment. A read is consistent: it sees every write whose response arrived before the read began. The suite in
/// `conformance` tests them.
///
/// A failed call leaves the outcome open, and so does a dropped future. To resolve it, call again with the same
/// change.
pub trait Store: Send + Sync {
    /// The name of the table in messages.
    fn name(&self) -> &str;

    /// Writes one row, within `limit`.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Misconfigured`], [`Error::Throttled`], [`Error::Unavailable`],
    /// or [`Error::Corrupt`] for an item so large that it cannot be ours.
    fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> impl Future<Output = Result<Applied, Error>> + Send;

    /// Reads one row.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn read(
        &self,
        address: &Address,
        limit: Duration,
    ) -> impl Future<Output = Result<Stored, Error>> + Send;

    /// Writes several rows within `limit`, all or none: at most 100, no two changes of one row. To learn the new
    /// rows, call [`Store::read_all`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> impl Future<Output = Result<AppliedAll, Error>> + Send;

    /// Reads several rows, at most 100, as they were at one moment, in the order given. Returns none if somebody was
    /// writing one of them at that moment. Ask again.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn read_all(
        &self,
        addresses: &[Address],
        limit: Duration,
    ) -> impl Future<Output = Result<Option<Vec<Stored>>, Error>> + Send;

    /// Reads all rows of a key: one, or one for each permit of a semaphore that was ever granted.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn read_key(
        &self,
        key: &Key,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<(u16, Stored)>, Error>> + Send;

    /// Puts a request at the end of the queue of `key`'s first permit, and stores the waiter's item, both or neither.
    /// The item of an earlier wait of the same request is replaced.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        limit: Duration,
    ) -> impl Future<Output = Result<Joined, Error>> + Send;

    /// Reads a waiter's item; none if there is none, or it is not ours.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<Waiter>, Error>> + Send;

    /// Stores the token of `waiter` in the item of the same request, unless the request has asked later with another
    /// token. Everything else of an existing item stays. Returns the item as it is then.
    ///
    /// # Errors
    /// As [`Store::apply`], and [`Error::Corrupt`] if the item is not ours.
    fn update_task_token(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> impl Future<Output = Result<Waiter, Error>> + Send;

    /// Deletes a waiter's item, if its token is still the one that was read. Of one that was
    /// superseded the note stays, and is no waiter any more.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn delete_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Takes a waiter out of the queue of `key`'s first permit, and notes in its item that `by` came later, both or neither; if
    /// its token is still the one that was read. From then on no copy of its request joins.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn supersede_waiter(
        &self,
        key: &Key,
        waiter: &Waiter,
        by: &Holder,
        leave: &Leave,
        limit: Duration,
    ) -> impl Future<Output = Result<Settled, Error>> + Send;

    /// Stores a start that waits, if there is no start under its name, or, to repeat it, one that has failed.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn put_start(
        &self,
        item: &StartItem,
        repeat: bool,
        limit: Duration,
    ) -> impl Future<Output = Result<PutStart, Error>> + Send;

    /// Reads a start's item; none if there is none, or it is not ours.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<StartItem>, Error>> + Send;

    /// Settles a start that waits, or dismisses one that has failed, and changes a row of its key, both or neither. That its
    /// execution has begun is written whatever became of it before.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        limit: Duration,
    ) -> impl Future<Output = Result<Settled, Error>> + Send;

    /// Reads the item of an execution whose lease has ended and that may be redriven; none if there is none, or it is not ours.
    ///
    /// # Errors
    /// As [`Store::apply`], and [`Error::Misconfigured`] of a store that keeps no such items.
    fn redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<Redrivable>, Error>> + Send {
        let _ = (key, request, limit);
        std::future::ready(Err(notes_nothing(self.name())))
    }

    /// Stores such an item, with when to look next and when to purge it, if its version is the one that was seen, or if there is none
    /// and none was seen. Returns whether it did.
    ///
    /// # Errors
    /// As [`Store::redrivable`].
    fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        limit: Duration,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        let _ = (noted, seen, times, limit);
        std::future::ready(Err(notes_nothing(self.name())))
    }

    /// Deletes such an item, if its version is still the same.
    ///
    /// # Errors
    /// As [`Store::redrivable`].
    fn forget_redrivable(
        &self,
        noted: &Redrivable,
        limit: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (noted, limit);
        std::future::ready(Err(notes_nothing(self.name())))
    }

    /// Reads held rows and waiters, up to `most` at a time.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn scan_held(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Page, Error>> + Send;

    /// Reads the rows that `holder` holds or waits for, up to `most` at a time.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Page, Error>> + Send;

    /// Reads the rules that all users of the table share; none if nobody has published any.
    ///
    /// # Errors
    /// As [`Store::apply`], and [`Error::Misconfigured`] if the item is not ours.
    fn rules(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<TableRules>, Error>> + Send;

    /// Publishes the rules, unless that would lower the token floor. Returns whether it did.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn publish_rules(
        &self,
        rules: &TableRules,
        limit: Duration,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
}

fn notes_nothing(table: &str) -> Error {
    Error::Misconfigured {
        problem: format!("the store {table} does not note executions that may be redriven"),
        source: None,
    }
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

/// When sweep has to examine an item of the index.
fn sweep_after(item: &crate::row::Item) -> Option<Timestamp> {
    let millis = item.get(attributes::SWEEP_AFTER)?.as_n().ok()?;
    millis.parse().ok().map(Timestamp::from_millis)
}

/// The kind of an item of the index.
pub(crate) fn what(pk: &str, sk: &str) -> What {
    if let (Some(key), Some(request)) = (attributes::key_of_start(pk), attributes::start_of(sk)) {
        return What::Waiter(key, request);
    }
    if let (Some(key), Some(request)) = (attributes::key_of_start(pk), attributes::ended_of(sk)) {
        return What::Redrivable(key, request);
    }
    let Ok(key) = Key::new(pk) else {
        return What::Foreign;
    };
    match (attributes::permit_of(sk), attributes::request_of(sk)) {
        (Some(permit), _) => What::Lease(Address { key, permit }),
        (None, Some(request)) => What::Waiter(key, request),
        (None, None) => What::Foreign,
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
            Self::Failed(_) => "failed",
            Self::Withdrawn => "withdrawn",
            Self::Dismissed => "dismissed",
        }
    }

    /// The word in the item until then; none if it may have any: that it has begun comes before all else.
    pub(crate) const fn before(&self) -> Option<&'static str> {
        match self {
            Self::Begun { .. } => None,
            Self::Dismissed => Some("failed"),
            _ => Some("waiting"),
        }
    }

    /// Whether no item is left.
    pub(crate) const fn deletes(&self) -> bool {
        matches!(self, Self::Withdrawn | Self::Dismissed)
    }
}
