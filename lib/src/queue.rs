//! Waiting in line: first come, first served; woken, not polling.
//!
//! The line is a list in the lease row. Whoever ends a grant keeps the row for the first in line, in
//! the same write, and tells that one; its first extend is the grant.

mod joining;
mod maintenance;
mod notify;

pub use joining::Queued;
pub(crate) use maintenance::{Waiting, Waits};
pub(crate) use notify::{Sender, first_of, is_kept_by};
