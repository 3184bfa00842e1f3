//! A lease as a position of the walk knows it.

use crate::check::calls::Left;
use crate::check::handle_flow::HandleFlow;
use crate::read::machine::StateId;
use crate::read::timing::FOREVER;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Status {
    Held,
    Released,
    Lost,
    /// `on_held: "result"`, and somebody else has it.
    Refused,
    /// Its acquire failed.
    Failed,
}

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// Which acquire it comes from: that is who it is.
    pub acquire: StateId,
    /// How long it can be trusted, in ms; `None` if its ttl is not written out.
    pub budget: Option<u64>,
    pub status: Status,
    pub left: Left,
    /// Granted in line: a reservation until the first extend.
    pub unconfirmed: bool,
    /// A branch beside this one extends it for as long as this one runs.
    pub kept: bool,
    /// Its time has been complained of since the last extend.
    pub reported: bool,
    pub handle: Rc<HandleFlow>,
    /// At worst so many ms since it was granted or extended.
    pub age: u64,
    /// How much of this is acquire's, asked again after an answer was lost.
    pub unsure: u64,
    /// What made the age grow beyond bounds.
    pub cause: Option<StateId>,
    /// The link of the trail where the age began anew.
    pub since: usize,
}

/// Everything of a lease but its age: two positions that agree in it differ in time alone.
pub(crate) type Key = Vec<(
    StateId,
    Option<u64>,
    Status,
    Left,
    [bool; 3],
    Rc<HandleFlow>,
)>;

pub(crate) type Env = Vec<Lease>;

impl Lease {
    pub(crate) fn is_held(&self) -> bool {
        self.status == Status::Held
    }

    /// Whether there ever was a handle on this path.
    pub(crate) fn was_granted(&self) -> bool {
        !matches!(self.status, Status::Refused | Status::Failed)
    }

    /// Left to run out by itself: what it was taken for may still be at work, and its handle was set to null on purpose.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.is_held() && self.left > Left::Over && self.handle.dropped
    }

    /// Over, in one way or the other: nothing runs out any more.
    pub(crate) fn end(&mut self, status: Status) {
        self.status = status;
        self.left = Left::Over;
        (self.unconfirmed, self.kept, self.reported) = (false, false, false);
        (self.age, self.unsure, self.cause) = (0, 0, None);
    }

    /// A new deadline, so long ago at worst.
    pub(crate) fn renew(&mut self, age: u64, cause: Option<StateId>, since: usize) {
        (self.age, self.unsure, self.cause, self.since) = (age, 0, cause, since);
        (self.unconfirmed, self.reported) = (false, false);
    }

    /// Without bound from here on.
    pub(crate) fn lapse(&mut self, cause: StateId) {
        if self.age < FOREVER {
            (self.age, self.cause) = (FOREVER, Some(cause));
        }
    }

    /// The later of two, where only the age differs.
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
            let flags = [lease.unconfirmed, lease.kept, lease.reported];
            (
                lease.acquire,
                lease.budget,
                lease.status,
                lease.left,
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

/// Takes over what is later of the same leases, and tells whether anything is.
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
