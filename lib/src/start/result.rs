//! The item of a task that waits for the result of a start.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    row::attributes as at,
    row::{Item, Row, instant, n, s, text, time},
    values::{Holder, Key, RequestDigest, TaskToken},
};

/// Where the result of a start goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultTo {
    /// The task that waits for it.
    pub task_token: TaskToken,
    /// The execution of that task.
    pub caller: Holder,
    /// The started execution is stopped with the end of that.
    pub stop_with_caller: bool,
}

/// A task that waits for the result of a start, and that may not have been answered. It is stored with the start, and deleted
/// after the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResultItem {
    /// The key of the start.
    pub key: Key,
    /// The execution that the start becomes.
    pub execution: Holder,
    /// The token of the task: as of [`TokenItem`](crate::waiter::TokenItem).
    pub task_token: TaskToken,
    /// The execution with whose end the started one is stopped.
    pub stop_with: Option<Holder>,
    /// When the task asked.
    pub asked_at: Timestamp,
    /// Since when the service does not know the execution, though it has begun.
    pub missing_since: Option<Timestamp>,
}

/// A caller runs for a year at most, and may be redriven for two weeks after it has ended.
const CALLS_FOR: Duration = Duration::from_hours(24 * 400);

impl ResultItem {
    /// What rows call the start. It is part of the address.
    #[must_use]
    pub fn request(&self) -> RequestDigest {
        RequestDigest::of_start(&self.execution)
    }

    /// Reads an item; none if this library did not write it.
    #[must_use]
    pub fn read(item: &Item) -> Option<Self> {
        Some(Self {
            key: at::key_of_start(text(item, at::PK)?)?,
            execution: Holder::stored(text(item, at::HOLDER)?),
            task_token: TaskToken::stored(text(item, at::TASK_TOKEN)?),
            stop_with: text(item, at::STOP_WITH).map(Holder::stored),
            asked_at: time(item, at::ASKED_AT)?,
            missing_since: time(item, at::MISSING_SINCE),
        })
    }

    /// What the task has asked for. What is left out is to be removed, because an earlier call may have stored it.
    pub(crate) fn asked(&self) -> (Vec<(&'static str, AttributeValue)>, Vec<&'static str>) {
        let mut set = vec![
            (at::HOLDER, s(self.execution.as_str())),
            (at::TASK_TOKEN, s(self.task_token.expose())),
            (at::ASKED_AT, instant(self.asked_at)),
        ];
        let mut remove = vec![at::MISSING_SINCE];
        match &self.stop_with {
            Some(caller) => set.push((at::STOP_WITH, s(caller.as_str()))),
            None => remove.push(at::STOP_WITH),
        }
        (set, remove)
    }

    /// What lists it under its caller.
    pub(crate) fn called(&self, caller: &Holder) -> Vec<(&'static str, AttributeValue)> {
        let until = self.asked_at.plus(CALLS_FOR).as_seconds_rounded_up();
        vec![
            (at::HOLDER, s(caller.as_str())),
            (at::ASKED_AT, instant(self.asked_at)),
            (at::PURGE_AT, n(until.min(Row::NEVER))),
        ]
    }

    /// When sweep looks at it next, and when DynamoDB may delete it.
    pub(crate) fn looks((next, purge_at): (Timestamp, u64)) -> [(&'static str, AttributeValue); 2] {
        [
            (at::SWEEP_AFTER, instant(next)),
            (at::PURGE_AT, n(purge_at)),
        ]
    }

    /// The address: in the partition of the starts, because a caller that may write the rows of a key must not have anything answered
    /// or stopped.
    pub(crate) fn address(key: &Key, request: &RequestDigest) -> (String, String) {
        (at::start_pk(key), at::result_sk(request))
    }
}
