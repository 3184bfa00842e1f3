//! One who waits in line: what is to be known of it beyond its place, in an item of its own.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    row::attributes as at,
    row::{Item, b, bytes, instant, metadata, metadata_value, n, s, text, time, ttl, whole},
    values::{Holder, Metadata, RequestDigest, TaskToken, Ttl},
};

/// One who waits in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// For which request: its name in the line, and in the item's sort key.
    pub request: RequestDigest,
    /// Whom to call back.
    pub task_token: TaskToken,
    /// Who waits.
    pub holder: Holder,
    /// The length of the lease to come.
    pub ttl: Ttl,
    /// What the holder will want others to see.
    pub metadata: Metadata,
    /// When it came, in milliseconds since the epoch by the clock of the function that took it in.
    /// A label: the order is the line's.
    pub ticket: u64,
    /// When it last asked: of two calls for one waiter the later has the token that counts.
    pub asked_at: Timestamp,
    /// When it gives up.
    pub deadline: Timestamp,
    /// When DynamoDB may delete the item, in epoch seconds.
    pub purge_at: u64,
}

impl Waiter {
    /// The attributes that an item loses when its waiter is served: what the index goes by, what is for nobody's eyes,
    /// and since when it waited, so that whoever asks again takes its place.
    pub(crate) const WHILE_IT_WAITS: [&str; 4] =
        [at::HOLDER, at::TASK_TOKEN, at::METADATA, at::ASKED_AT];

    /// Reads an item; none if this library did not write it, or its waiter was served.
    #[must_use]
    pub fn read(item: &Item) -> Option<Self> {
        Some(Self {
            request: RequestDigest::stored(bytes(item, at::REQUEST)?),
            task_token: TaskToken::stored(text(item, at::TASK_TOKEN)?),
            holder: Holder::stored(text(item, at::HOLDER)?),
            ttl: ttl(item)?,
            metadata: item.get(at::METADATA).and_then(metadata)?,
            ticket: whole(item, at::TICKET)?,
            asked_at: time(item, at::ASKED_AT)?,
            deadline: time(item, at::DEADLINE)?,
            purge_at: whole(item, at::PURGE_AT)?,
        })
    }

    /// Every attribute but the address.
    pub(crate) fn attributes(&self) -> [(&'static str, AttributeValue); 10] {
        [
            (at::REQUEST, b(self.request.as_bytes())),
            (at::TASK_TOKEN, s(self.task_token.expose())),
            (at::HOLDER, s(self.holder.as_str())),
            (at::TTL_MS, n(self.ttl.as_millis())),
            (at::METADATA, metadata_value(&self.metadata)),
            (at::TICKET, n(self.ticket)),
            (at::ASKED_AT, instant(self.asked_at)),
            (at::DEADLINE, instant(self.deadline)),
            // As that of a held row: before it sweep need not read the item.
            (at::SWEEP_AFTER, instant(self.deadline)),
            (at::PURGE_AT, n(self.purge_at)),
        ]
    }
}
