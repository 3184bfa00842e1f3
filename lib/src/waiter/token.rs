//! A task token that waits: an item of its own, with everything except its place in the queue.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    request::Request,
    row::attributes as at,
    row::{Item, b, bytes, instant, n, s, text, time, whole},
    values::{Holder, RequestDigest, TaskToken},
};

/// A task token, or the id of a durable callback, that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenItem {
    /// The request that waits. Its digest is its name in the queue, and in the item's sort key.
    pub request: Request,
    /// The task token to notify. Of the attempts of a task one waits, and its token takes the place of another's by the service's word:
    /// no clock says which came later.
    pub task_token: TaskToken,
    /// When it joined the queue, in milliseconds since the epoch by the clock of the function that added it. It names
    /// this wait: a row whose holder may not have been notified has the same. It does not order the queue.
    pub ticket: u64,
    /// When it gives up.
    pub deadline: Timestamp,
    /// When DynamoDB may delete the item, in epoch seconds.
    pub purge_at: u64,
    /// Who came later and waits instead. This one has left the queue, and may not have been notified.
    pub superseded_by: Option<Holder>,
}

impl TokenItem {
    /// Reads an item; none if this library did not write it.
    #[must_use]
    pub fn read(item: &Item) -> Option<Self> {
        let digest = RequestDigest::stored(bytes(item, at::REQUEST)?);
        Some(Self {
            request: Request::read(item, Request::holder_in(item)?, digest)?,
            task_token: TaskToken::stored(text(item, at::TASK_TOKEN)?),
            ticket: whole(item, at::TICKET)?,
            deadline: time(item, at::DEADLINE)?,
            purge_at: whole(item, at::PURGE_AT)?,
            superseded_by: Self::superseded_by(item),
        })
    }

    /// The same, also in what is left of the item once it was notified.
    pub(crate) fn superseded_by(item: &Item) -> Option<Holder> {
        text(item, at::SUPERSEDED_BY).map(Holder::stored)
    }

    /// Every attribute but the address, of one that waits.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, AttributeValue)> {
        let own = [
            (at::REQUEST, b(self.request.digest.as_bytes())),
            (at::TASK_TOKEN, s(self.task_token.expose())),
            (at::TICKET, n(self.ticket)),
            (at::DEADLINE, instant(self.deadline)),
            // As in a held row: sweep need not read the item before this instant.
            (
                at::SWEEP_AFTER,
                instant(if self.request.instead_of.is_some() {
                    Timestamp::from_millis(self.ticket)
                } else {
                    self.deadline
                }),
            ),
            (at::PURGE_AT, n(self.purge_at)),
        ];
        own.into_iter().chain(self.request.attributes()).collect()
    }
}
