//! The queue: first come, first served, by notification instead of polling.
//!
//! The queue is a list in the lease row. The write that ends a grant also reserves the key for the first waiter. Then
//! that waiter is notified. Its first extend is the grant.

mod joining;
mod maintenance;
mod notify;

pub use joining::Queued;
pub(crate) use maintenance::{Waiting, Waits};
pub(crate) use notify::{Sender, first_of, is_kept_by};
