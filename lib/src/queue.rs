//! The queue: first come, first served, by notification instead of polling.
//!
//! The queue is a list in the lease row. The write that ends a grant also reserves the key for the first waiter. Then
//! that waiter is notified. Its first extend is the grant.

mod maintenance;
mod notify;

pub(crate) use maintenance::{Waiting, Waits, is_next, its_place_is_lost};
pub(crate) use notify::{Sender, first_of, is_kept_by};
