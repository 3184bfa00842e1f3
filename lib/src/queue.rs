//! The queue: first come, first served, by notification instead of polling.
//!
//! One that waits (`Waiter`) is a task token or a start, with a request that both have, and an item of its kind. Both take the same way:
//! they ask (`ask`), wait in the row's queue, are granted the key (`serve`), and are notified: a token gets its lease, a start is started
//! (`begin`). Sweep sees to both (`maintenance`), a newer one sends both away (`supersede`), and how one stands to its rows is `Standing`. What
//! its caller is answered is in `wait` for a token, and in `starts` for a start.
//!
//! The queue is a list in the lease row. A holder that ends its grant leaves the queue as it is, and so does an operator. Then, and in every sweep:
//!
//! 1. `grant_to_next` reads the first waiter's item, and grants it the free row in one write (`grant_to`). Reap, sweep and
//!    a look have read the row, and end the grant before with the same write (`pass_on`).
//! 2. `put_into_effect` notifies it: `tell_first` sends the lease to its task token, and deletes the item. Of a start it calls
//!    `StartExecution` (`begin`).
//! 3. If the token is dead, and nobody else may have notified the waiter, it never knew: `take_back` frees the row, and the next
//!    waiter is granted it.
//! 4. If it is not known whether the waiter was notified, its item stays, and sweep's `maintain_queue` notifies it again:
//!    `tell_again`, and of a start `begin_again`. If the token is dead by then, `note_refusal` leaves the decision to a check of its history, half a minute later
//!    (`may_know` in `execution_check`), and the item goes.
//!
//! Every write of a row raises its version, but for two: who joins, and a task token that leaves. So a caller that writes a row as it was read says
//! besides who has to wait first (`Head`).
//!
//! The row counts the calls, and says when the last was and whether it was refused: `mark` and `note_refusal`, in
//! `leases/notification.rs`. A mark raises the version, so that no earlier caller can end anything any more.
//!
//! Where only the newest is to wait, it joins as everybody does, and then supersedes everybody who waits before it (`supersede`).
//!
//! What is due at an instant for those who wait (a key opens, a lease expires, a wait or a grace ends) has nobody who could notify them: a
//! scheduled sweep that finds it due before its own time has passed stays for it (`stay`).
//!
//! # If a process dies between two writes
//!
//! The index has held rows and the items of those who wait. Sweep finds a free row by the items of its waiters alone, so an item
//! leaves the index only after, or together with, its place in the queue. A repeated release, start or acquire serves the queue too;
//! after any other end (reap, an operator's act) a repetition finds nothing to do, and sweep serves.
//!
//! | after | and before | what is left | who does the rest |
//! |---|---|---|---|
//! | a release | the grant to the next | a free row with a queue | sweep, a repeated release, the next caller that asks |
//! | a grant from the queue | the call | a held row, `notification`, the item | sweep marks the row and calls again |
//! | the mark of a row whose holder was notified before | the call | the same | sweep marks it again, and calls |
//! | a call that was refused | `take_back`, or the note of it | the same | sweep notifies it again, refused once more, and a check finds no lease in the history |
//! | the call | the deletion of the item | the same | sweep: the token is dead by then, and the history shows the lease |
//! | a grant at once to a token | the call | a held row without an item | the repeated request; else a check, when no task waits with a token any more, or those that do wait since a redrive |
//! | `take_back`, or that a start failed | the deletion, the next grant | a free row, an item without a place | sweep grants, and fails the token of the item |
//! | a place is left | its token is failed | an item without a place | sweep fails it |
//! | a start's grant | the call, or that it began | a held row, `notification`, an item that waits | sweep and checks call again, under the same name |
//! | the newest has its place | it has sent the others away, or stopped whom it replaces | all of them wait | sweep: its item says so, and is due at once |
//!
//! A place and its item are one transaction. A start leaves with its item in one too; the item of a token goes afterwards, once it was
//! notified or failed. What a start has at once is stored with its item. So a start without a place has lost it with a row that was
//! deleted by hand, and gets another (`accept_again`).

mod ask;
mod begin;
mod ends;
pub(crate) mod engine;
mod execution_check;
mod maintenance;
mod pool;
mod reap;
mod redriven;
mod results;
pub(crate) mod serve;
mod starts;
mod stay;
mod supersede;
mod sweep;
mod wait;

pub use engine::{
    Answer, Begun, Call, Delivery, Engine, Execution, Failure, Outcome, Question, Receipt,
    Redrives, Stands, StopFor,
};
pub use reap::Reaped;
pub use starts::{IfHeld, Start, Started};
pub use sweep::{SweepBounds, Swept};
pub use wait::Queued;

use std::{ops::Deref, sync::Arc};

use crate::{
    clock::{Clock, Timestamp},
    error::Error,
    leases::Leases,
    pagination::SweptTo,
    start::StartRules,
    store::Store,
    values::Key,
};

/// Leases whose waiters are notified: [`Leases`], and the engine that runs the waiters.
///
/// It can do what the leases can. What ends a grant it does itself, with the same name, and afterwards grants the key to the
/// first waiter: [`Queue::release`], [`Queue::force_release`] and the others. Like the leases it runs nothing in the
/// background.
#[derive(Debug)]
pub struct Queue<S> {
    leases: Leases<S>,
    engine: Arc<dyn Engine>,
    starts: StartRules,
    swept_to: SweptTo,
    /// The pool whose queue this call walks: what happens meanwhile begins no other walk of it.
    serving: Option<Key>,
    own_grants: stay::OwnGrants,
    looks: sweep::Looks,
}

// Not derived: a derived impl would require `S: Clone`.
impl<S> Clone for Queue<S> {
    fn clone(&self) -> Self {
        Self {
            leases: self.leases.clone(),
            engine: Arc::clone(&self.engine),
            starts: self.starts.clone(),
            swept_to: self.swept_to.clone(),
            serving: self.serving.clone(),
            own_grants: self.own_grants.clone(),
            looks: self.looks.clone(),
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
    pub fn with_engine(self, engine: Arc<dyn Engine>) -> Queue<S> {
        Queue {
            leases: self,
            engine,
            starts: StartRules::default(),
            swept_to: SweptTo::default(),
            serving: None,
            own_grants: stay::OwnGrants::default(),
            looks: sweep::Looks::default(),
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

    /// Asks the engine, and reads its answer.
    async fn engine<T>(&self, question: Question) -> Result<T, Error>
    where
        T: TryFrom<Answer, Error = Error>,
    {
        self.engine.ask(question, self.limit()).await?.try_into()
    }
}
