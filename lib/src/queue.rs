//! The queue: first come, first served, by notification instead of polling.
//!
//! The queue is a list in the lease row. Whoever ends a grant leaves the queue as it is. Then, and in every sweep:
//!
//! 1. `grant_to_next` reads the first waiter's item, and grants it the free row in one write (`grant_to`).
//! 2. `tell_first` sends the lease to its task token, and deletes the item.
//! 3. If the token is dead, the waiter never knew: `take_back` frees the row, and the next waiter is granted it.
//! 4. If it is not known whether the waiter was told, its item stays, and sweep's `maintain_queue` tells it again:
//!    `tell_again`. If the token is dead by then, `note_refusal` leaves the decision to a look at its history.
//!
//! Where only the newest is to wait, it joins as everybody does, and then sends away who waits before it (`supersede`).

mod ask;
mod begin;
mod ends;
mod execution_check;
mod maintenance;
mod reap;
mod redriven;
pub(crate) mod serve;
mod starts;
mod supersede;
mod sweep;
mod wait;
mod workflows;

pub use reap::Reaped;
pub use starts::{IfHeld, Start, Started};
pub use sweep::{SweepBounds, Swept};
pub use wait::Queued;
pub use workflows::{
    Begun, Call, Delivery, Execution, GrantOf, Receipt, Redrives, Stands, WaiterOf, Workflows,
};

use std::{ops::Deref, sync::Arc};

use crate::{
    clock::{Clock, Timestamp},
    leases::Leases,
    pagination::SweptTo,
    start::StartRules,
    store::Store,
};

/// Leases whose waiters are notified: [`Leases`], and the engine that runs whoever waits.
///
/// It can do what the leases can. What ends a grant it does itself, with the same name, and afterwards grants the key to whoever
/// waits first: [`Queue::release`], [`Queue::force_release`] and the others. Like the leases it runs nothing in the
/// background.
#[derive(Debug)]
pub struct Queue<S> {
    leases: Leases<S>,
    workflows: Arc<dyn Workflows>,
    starts: StartRules,
    swept_to: SweptTo,
}

// Not derived: a derived impl would require `S: Clone`.
impl<S> Clone for Queue<S> {
    fn clone(&self) -> Self {
        Self {
            leases: self.leases.clone(),
            workflows: Arc::clone(&self.workflows),
            starts: self.starts.clone(),
            swept_to: self.swept_to.clone(),
        }
    }
}

impl<S> Deref for Queue<S> {
    type Target = Leases<S>;

    fn deref(&self) -> &Leases<S> {
        &self.leases
    }
}

impl<S: Store> Leases<S> {
    /// These leases with an engine that notifies waiters. A call that ends a grant without it leaves the notification of
    /// the next waiter to the next sweep.
    #[must_use]
    pub fn with_workflows(self, workflows: Arc<dyn Workflows>) -> Queue<S> {
        Queue {
            leases: self,
            workflows,
            starts: StartRules::default(),
            swept_to: SweptTo::default(),
        }
    }
}

/// The leases without the engine.
impl<S> From<Queue<S>> for Leases<S> {
    fn from(queue: Queue<S>) -> Self {
        queue.leases
    }
}

impl<S: Store> Queue<S> {
    /// The same, through which these state machines may be started. Without, none may.
    #[must_use]
    pub fn with_starts(self, starts: StartRules) -> Self {
        Self { starts, ..self }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self {
            leases: self.leases.with_clock(clock),
            ..self
        }
    }

    /// As [`Leases::for_call`].
    #[must_use]
    pub fn for_call(&self, deadline: Timestamp) -> Self {
        Self {
            leases: self.leases.for_call(deadline),
            ..self.clone()
        }
    }

    fn workflows(&self) -> &dyn Workflows {
        &*self.workflows
    }
}
