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

mod hand_over;
mod maintenance;
mod rows;
mod supersede;
mod turn;
mod view;

pub use view::WaiterView;

pub(crate) use hand_over::{EndedTerm, Told};
pub(crate) use maintenance::{Waiting, Waits, its_place_is_lost, place_in};
pub(crate) use rows::{Rows, number, numbers};
pub(crate) use turn::{
    Begins, CALLS_WITHIN, Known, has_failed, is_untold, not_started_reason, shows_all_calls,
};
