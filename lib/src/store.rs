//! What the rules ask of a table, and the two tables that give it.

use std::{future::Future, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    row::attributes,
    row::{Row, Stored},
    transition::{Change, Join},
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
#[cfg(feature = "workflows")]
pub(crate) use failures::{is_denial, is_throttling, lacks_credentials};
pub use memory::Memory;

/// Where a lease row lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The key.
    pub key: Key,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
}

/// What became of a conditional write.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Applied {
    /// The write happened.
    Done {
        /// What is stored there now.
        row: Row,
        /// The deadline that stood there before. A grant does not say: its answer is the new row.
        deadline_before: Option<Timestamp>,
    },
    /// The condition refused it; nothing was written.
    Refused(Stored),
}

/// What became of several conditional writes that happen together or not at all.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum AppliedAll {
    /// All of them happened.
    Done,
    /// Some conditions refused; nothing was written. For each change what stood there, or nothing
    /// if its own condition held.
    Refused(Vec<Option<Stored>>),
    /// Somebody was writing one of the rows at that moment; nothing was written, and nothing is
    /// known about who holds what. Ask again.
    Conflict,
}

/// What became of a request to wait in line.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, for a moment"
)]
pub enum Joined {
    /// It is in line, and the item that tells who waits is there.
    Done,
    /// The row refused it; nothing was written.
    Refused(Stored),
    /// What is stored in the place of the waiter's item is not ours; nothing was written.
    Occupied,
    /// The same request has asked later than that, by another token; nothing was written.
    Overtaken,
    /// Somebody was writing one of the two at that moment; nothing was written. Ask again.
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

/// A held row or a waiter, as the index knows it. The index may lag behind: read it before judging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is, and where.
    pub what: What,
    /// Before this instant the lease cannot have expired, or the waiter given up, whatever else
    /// happened to it.
    pub sweep_after: Option<Timestamp>,
}

/// See [`Entry::what`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A lease row.
    Lease(Address),
    /// An item in which somebody waits for a key.
    Waiter(Key, RequestDigest),
    /// Neither.
    Foreign,
}

/// A place in a walk through the held rows: the last row that was seen.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    pub(crate) holder: String,
    pub(crate) pk: String,
    pub(crate) sk: String,
}

/// Which part of the held rows to walk through: part `part` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Counted from 0.
    pub part: u8,
    /// How many there are.
    pub of: u8,
}

/// A table of lease rows.
///
/// An implementation promises three things. A write is atomic: it happens as
/// [`crate::transition::transition`] says of what is stored there at that moment, or not at all. A
/// refusal brings back what stood there, from the same moment. A read is consistent: it sees every
/// write that was answered before it was asked. The suite in `conformance` holds it to them.
///
/// A failed call leaves the outcome open; so does a dropped future. Both are resolved by asking
/// again with the same change.
pub trait Store: Send + Sync {
    /// What to call the table in a message.
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

    /// Writes several rows within `limit`, all or none: at most 100, no two changes of one row.
    /// What the rows became is for [`Store::read_all`] to tell.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> impl Future<Output = Result<AppliedAll, Error>> + Send;

    /// Reads several rows, at most 100, as they stood at one moment, in the order asked; none if
    /// somebody was writing one of them just then. Ask again.
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

    /// Puts a request at the end of the line of `key`'s first permit, and the waiter's item beside
    /// it, both or neither. An item of an earlier wait of the same request is replaced.
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

    /// Has the waiter of this request be called back by the token of `waiter`, unless it has asked
    /// later than that by another; everything else of an item that is there stays. What stands
    /// there now.
    ///
    /// # Errors
    /// As [`Store::apply`], and [`Error::Corrupt`] if the item is not ours.
    fn call_back_by(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> impl Future<Output = Result<Waiter, Error>> + Send;

    /// Deletes a waiter's item, if its token is still the one that was read.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn forget(
        &self,
        key: &Key,
        waiter: &Waiter,
        limit: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Takes the item of a waiter who was served by `now` out of the index, without its task token and metadata,
    /// for DynamoDB to purge: unless it asked at that instant or later, in a wait that is another.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn served(
        &self,
        key: &Key,
        request: &RequestDigest,
        now: Timestamp,
        limit: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Walks through held rows and waiters, `most` at a time.
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn held(
        &self,
        part: Part,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Page, Error>> + Send;

    /// Walks through the rows that `holder` holds or waits for, `most` at a time.
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
}

/// When an item of the index wants to be looked at.
fn sweep_after(item: &crate::row::Item) -> Option<Timestamp> {
    let millis = item.get(attributes::SWEEP_AFTER)?.as_n().ok()?;
    millis.parse().ok().map(Timestamp::from_millis)
}

/// What an item of the index is.
pub(crate) fn what(pk: &str, sk: &str) -> What {
    let Ok(key) = Key::new(pk) else {
        return What::Foreign;
    };
    match (attributes::permit_of(sk), attributes::request_of(sk)) {
        (Some(permit), _) => What::Lease(Address { key, permit }),
        (None, Some(request)) => What::Waiter(key, request),
        (None, None) => What::Foreign,
    }
}

/// What is stored in the place of a waiter's item was written by somebody else.
pub(crate) fn occupied(key: &Key, request: &RequestDigest) -> Error {
    let sk = attributes::wait_sk(request);
    Error::Corrupt {
        key: key.clone(),
        reason: format!("it stands at {sk}, where one who waits in line would stand"),
    }
}
