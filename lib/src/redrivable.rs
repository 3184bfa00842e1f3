//! The item that says that an execution whose lease has ended may be redriven.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    pool::Pool,
    row::attributes as at,
    row::{Item, instant, n, permits, permits_value, s, text, time, whole},
    values::{Holder, KeepTime, Key, Permits, RequestDigest},
};

/// An execution that ended without success, whose lease has ended too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redrivable {
    /// The key that it had.
    pub key: Key,
    /// The execution.
    pub execution: Holder,
    /// Whether it was started under the key; otherwise it acquires for itself.
    pub started: bool,
    /// Of how many permits it had one; none for the mutex.
    pub permits: Option<Permits>,
    /// Of which pool it had a permit besides.
    pub pool: Option<Pool>,
    /// How long its lease stays after a failure.
    pub keep: KeepTime,
    /// How often it had been redriven by the last look; none if nobody has looked.
    pub redrives: Option<u32>,
    /// When its lease ended.
    pub ended_at: Timestamp,
    /// Increases with every write.
    pub version: u64,
}

impl Redrivable {
    /// What rows would call the execution, if it was started under the key. It is part of the address.
    #[must_use]
    pub fn request(&self) -> RequestDigest {
        RequestDigest::of_start(&self.execution)
    }

    /// After a look.
    pub(crate) fn next(&self, redrives: Option<u32>) -> Self {
        Self {
            redrives,
            version: self.version + 1,
            ..self.clone()
        }
    }

    /// Reads an item; none if this library did not write it.
    #[must_use]
    pub fn read(item: &Item) -> Option<Self> {
        let count = |name| whole(item, name).and_then(|count| u32::try_from(count).ok());
        Some(Self {
            key: at::key_of_start(text(item, at::PK)?)?,
            execution: Holder::stored(text(item, at::HOLDER)?),
            started: whole(item, at::STARTED)? == 1,
            permits: permits(item),
            pool: Pool::read(item),
            keep: whole(item, at::KEEP_MS).and_then(KeepTime::stored)?,
            redrives: count(at::REDRIVES),
            ended_at: time(item, at::ENDED_AT)?,
            version: whole(item, at::VERSION)?,
        })
    }

    /// Every attribute but the address: what changes with each write comes with it.
    pub(crate) fn attributes(
        &self,
        (next, purge_at): (Timestamp, u64),
    ) -> Vec<(&'static str, AttributeValue)> {
        let mut all = vec![
            (at::HOLDER, s(self.execution.as_str())),
            (at::STARTED, n(self.started.into())),
            (at::PERMITS, permits_value(self.permits)),
            (at::KEEP_MS, n(self.keep.as_millis())),
            (at::ENDED_AT, instant(self.ended_at)),
            (at::VERSION, n(self.version)),
            (at::SWEEP_AFTER, instant(next)),
            (at::PURGE_AT, n(purge_at)),
        ];
        all.extend(self.pool.iter().flat_map(Pool::attributes));
        all.extend(self.redrives.map(|count| (at::REDRIVES, n(count.into()))));
        all
    }

    /// The address: in the partition of the starts, because a caller that may write the rows of a key must not have anything stopped.
    pub(crate) fn address(key: &Key, request: &RequestDigest) -> (String, String) {
        (at::start_pk(key), at::ended_sk(request))
    }
}
