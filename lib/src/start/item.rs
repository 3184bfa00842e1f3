//! The item of a start: it waits for its key or has it, or it is settled.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{ExecutionInput, ExecutionName, PassLease, StateMachineArn};
use crate::{
    clock::Timestamp,
    error::Error,
    request::Request,
    row::attributes as at,
    row::{Item, Row, instant, n, s, text, time},
    values::{Holder, Key, RequestDigest},
};

/// A start, as it is stored from when it has its place until after its execution has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartItem {
    /// The key.
    pub key: Key,
    /// What to start.
    pub state_machine: StateMachineArn,
    /// Under which name.
    pub name: ExecutionName,
    /// With which input.
    pub input: ExecutionInput,
    /// What of the lease the input gets as well.
    pub pass_lease: PassLease,
    /// The request of the execution that it is to become.
    pub request: Request,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it gives up its place in the queue; the instant at which it was asked for, if it was not to wait.
    pub deadline: Timestamp,
    /// The execution that waits for its result, if it need not begin without that.
    pub stop_with: Option<Holder>,
    /// What became of it.
    pub status: StartStatus,
}

/// Between why a wait was over and who had the key then.
const HAD_BY: &str = ", and was held by ";

/// EventBridge and SQS deliver again for at most 14 days: so long the item of a start that is settled answers duplicates.
pub(crate) const ANSWERS_FOR: Duration = Duration::from_hours(15 * 24);

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StartStatus {
    /// It waits for its key, or has it and may not have begun.
    Waiting,
    /// Its execution has begun.
    Begun,
    /// Somebody held the key, and nobody was to wait.
    Skipped,
    /// This one came later and waited instead.
    Superseded(Holder),
    /// It will not begin, for this reason, unless it is repeated.
    Failed(String),
}

impl StartStatus {
    /// The word in the item.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Begun => "begun",
            Self::Skipped => "skipped",
            Self::Superseded(_) => "superseded",
            Self::Failed(_) => "failed",
        }
    }

    fn read(item: &Item) -> Option<Self> {
        Some(match text(item, at::STATUS)? {
            "waiting" => Self::Waiting,
            "begun" => Self::Begun,
            "skipped" => Self::Skipped,
            "superseded" => Self::Superseded(Holder::stored(text(item, at::SUPERSEDED_BY)?)),
            "failed" => Self::Failed(text(item, at::REASON).unwrap_or_default().to_owned()),
            _ => return None,
        })
    }
}

/// The holder under which the index has starts that have failed.
pub(crate) const FAILED: &str = "failed starts";

impl StartItem {
    /// The execution that it is to become.
    #[must_use]
    pub fn execution(&self) -> Holder {
        self.request.holder.clone()
    }

    /// What rows call it.
    #[must_use]
    pub fn digest(&self) -> RequestDigest {
        self.request.digest.clone()
    }

    /// The same, as one that was asked for at this instant, or a moment later: no two places of a start have the same instant.
    pub(crate) fn placed_at(&self, now: Timestamp) -> Self {
        Self {
            asked_at: now.max(self.asked_at.plus(Duration::from_millis(1))),
            status: StartStatus::Waiting,
            ..self.clone()
        }
    }

    /// Why it fails, once its wait has ended; with who had the key then.
    pub(crate) fn waited_too_long(&self, for_whom: Option<&Holder>) -> String {
        let waited = self.deadline.since(self.asked_at).as_secs();
        let late = format!("the key was not free within its waiting time of {waited} seconds");
        for_whom.map_or_else(|| late.clone(), |holder| format!("{late}{HAD_BY}{holder}"))
    }

    /// The error of a start that failed for this reason.
    pub(crate) fn failure(&self, reason: &str) -> Error {
        let key = self.key.clone();
        match reason.strip_prefix(&self.waited_too_long(None)) {
            Some(rest) => Error::QueueTimeout {
                key,
                held_by: rest.strip_prefix(HAD_BY).map(Holder::stored),
            },
            None => Error::NotStarted {
                key,
                reason: reason.to_owned(),
            },
        }
    }

    /// Whether another call asks for the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.state_machine == other.state_machine
            && self.pass_lease == other.pass_lease
            && self.input.is(other.input.as_str(), self.pass_lease)
    }

    /// Reads an item; none if this library did not write it.
    #[must_use]
    pub fn read(item: &Item) -> Option<Self> {
        let state_machine = StateMachineArn::stored(text(item, at::STATE_MACHINE)?);
        let name = ExecutionName::stored(text(item, at::NAME)?);
        // One that has failed is listed under another holder.
        let execution = state_machine.execution(&name);
        let digest = RequestDigest::of_start(&execution);
        Some(Self {
            key: at::key_of_start(text(item, at::PK)?)?,
            request: Request::read(item, execution, digest)?,
            state_machine,
            name,
            input: ExecutionInput::stored(text(item, at::INPUT)?),
            pass_lease: item.get(at::PASS_LEASE).and_then(PassLease::read)?,
            asked_at: time(item, at::ASKED_AT)?,
            deadline: time(item, at::DEADLINE)?,
            stop_with: text(item, at::STOP_WITH).map(Holder::stored),
            status: StartStatus::read(item)?,
        })
    }

    /// Every attribute of one that waits or is skipped, but the address.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, AttributeValue)> {
        let own = [
            (at::STATE_MACHINE, s(self.state_machine.as_str())),
            (at::NAME, s(self.name.as_str())),
            (at::INPUT, s(self.input.as_str())),
            (at::PASS_LEASE, self.pass_lease.stored()),
            (at::ASKED_AT, instant(self.asked_at)),
            (at::DEADLINE, instant(self.deadline)),
            (at::STATUS, s(self.status.word())),
            if self.status == StartStatus::Waiting {
                // Sweep examines every start that has it.
                (at::SWEEP_AFTER, instant(self.sweep_after()))
            } else {
                (at::PURGE_AT, n(self.purge_at()))
            },
        ];
        let caller = self.stop_with.as_ref();
        let caller = caller.map(|caller| (at::STOP_WITH, s(caller.as_str())));
        let listed =
            |(name, _): &(&str, _)| *name != at::HOLDER || self.status == StartStatus::Waiting;
        let request = self.request.attributes().filter(listed);
        own.into_iter().chain(caller).chain(request).collect()
    }

    /// The one that takes the place of others may have died before it did.
    fn sweep_after(&self) -> Timestamp {
        if self.request.instead_of.is_some() {
            self.asked_at
        } else {
            self.deadline
        }
    }

    fn purge_at(&self) -> u64 {
        let until = self.asked_at.plus(ANSWERS_FOR);
        until.as_seconds_rounded_up().min(Row::NEVER)
    }

    /// The address.
    pub(crate) fn address(key: &Key, request: &RequestDigest) -> (String, String) {
        (at::start_pk(key), at::start_sk(request))
    }
}
