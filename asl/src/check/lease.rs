//! A lease at a position of the walk.

use crate::check::calls::StillRunning;
use crate::check::handle_flow::HandleFlow;
use crate::read::machine::StateId;
use crate::read::timing::FOREVER;
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Status {
    Held,
    Released,
    Lost,
    /// Somebody else holds it, and the acquire has `if_held: "skip"`.
    Refused,
    /// Its acquire failed.
    Failed,
}

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// The acquire that granted it, which identifies the lease.
    pub acquire: StateId,
    /// How long it is safe to use, in ms. `None` if its ttl is not a literal number.
    pub budget: Option<u64>,
    pub status: Status,
    /// What may run after failures, and after requests that only begin something.
    pub left: StillRunning,
    /// The services that have only accepted work, and were not asked about it since.
    pub begun: BTreeSet<String>,
    /// It lasts as long as the execution, so its age does not matter.
    pub of_execution: bool,
    /// Another branch extends it for as long as this one runs.
    pub kept: bool,
    /// A finding about its time was reported since the last extend.
    pub reported: bool,
    pub handle: Rc<HandleFlow>,
    /// The greatest possible time in ms since it was granted or extended.
    pub age: u64,
    /// The part of this that comes from retries of the acquire after a lost response.
    pub unsure: u64,
    /// The state that made the age unbounded.
    pub cause: Option<StateId>,
    /// The link of the trail at which the age restarted.
    pub since: usize,
}

/// Everything of a lease except its age. Two positions with equal keys differ only in time.
pub(crate) type Key = Vec<(
    StateId,
    Option<u64>,
    Status,
    StillRunning,
    BTreeSet<String>,
    [bool; 2],
    Rc<HandleFlow>,
)>;

pub(crate) type Env = Vec<Lease>;

impl Lease {
    pub(crate) fn is_held(&self) -> bool {
        self.status == Status::Held
    }

    /// Whether a handle ever existed on this path.
    pub(crate) fn was_granted(&self) -> bool {
        !matches!(self.status, Status::Refused | Status::Failed)
    }

    /// Whether it is left to expire: its work may still be running, and its handle was set to null.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.is_held() && self.left() > StillRunning::No && self.handle.dropped
    }

    /// What of its work may still be running.
    pub(crate) fn left(&self) -> StillRunning {
        if self.begun.is_empty() {
            self.left
        } else {
            StillRunning::Yes
        }
    }

    /// Ends the lease. Its time no longer matters.
    pub(crate) fn end(&mut self, status: Status) {
        self.status = status;
        self.left = StillRunning::No;
        self.begun.clear();
        (self.kept, self.reported) = (false, false);
        (self.age, self.unsure, self.cause) = (0, 0, None);
    }

    /// Sets a new deadline, which may already be `age` ms old.
    pub(crate) fn renew(&mut self, age: u64, cause: Option<StateId>, since: usize) {
        let age = if self.of_execution { 0 } else { age };
        (self.age, self.unsure, self.cause, self.since) = (age, 0, cause, since);
        self.reported = false;
    }

    /// Makes the age unbounded.
    pub(crate) fn lapse(&mut self, cause: StateId) {
        if self.age < FOREVER {
            (self.age, self.cause) = (FOREVER, Some(cause));
        }
    }

    /// Keeps the older of two leases that differ only in age. Returns whether it changed.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let grew = other.age > self.age;
        if grew {
            *self = other.clone();
        }
        grew
    }
}

pub(crate) fn key(env: &Env) -> Key {
    let leases = env.iter();
    leases
        .map(|lease| {
            let flags = [lease.kept, lease.reported];
            (
                lease.acquire,
                lease.budget,
                lease.status,
                lease.left,
                lease.begun.clone(),
                flags,
                lease.handle.clone(),
            )
        })
        .collect()
}

/// The lease of this acquire, if there is one.
pub(crate) fn find(env: &Env, acquire: StateId) -> Option<&Lease> {
    env.iter().find(|lease| lease.acquire == acquire)
}

pub(crate) fn put(env: &mut Env, lease: Lease) {
    env.retain(|other| other.acquire != lease.acquire);
    let at = env.partition_point(|other| other.acquire < lease.acquire);
    env.insert(at, lease);
}

/// Keeps the older of each pair of leases. Returns whether any changed.
pub(crate) fn join(env: &mut Env, other: &Env) -> bool {
    let mut later = false;
    for (old, new) in env.iter_mut().zip(other) {
        later |= old.join(new);
    }
    later
}

/// The leases that are held.
pub(crate) fn held_mut(env: &mut Env) -> impl Iterator<Item = &mut Lease> {
    env.iter_mut().filter(|lease| lease.is_held())
}

/// The held lease that was granted or extended last.
pub(crate) fn innermost(env: &Env) -> Option<StateId> {
    let held = env.iter().filter(|lease| lease.is_held());
    held.max_by_key(|lease| lease.since)
        .map(|lease| lease.acquire)
}
