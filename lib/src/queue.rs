//! The queue: first come, first served, by notification instead of polling.
//!
//! The queue is a list in the lease row. A release with a queue behind it:
//!
//! 1. `end` ends the grant and reserves the key for the first waiter, in one write.
//! 2. `notify_next_waiter` reads the waiter's item; `send_task_success` sends the lease to its task token.
//! 3. If that waiter is gone, `pass_on` reserves the key for the next one, and `notify_next_waiter` continues with it.
//! 4. The waiter's first `extend` is the grant; `mark_served` then takes its item out of the index.
//! 5. If it does not extend in time, sweep's `maintain_queue` notifies it once more and then passes it over:
//!    `notify_if_due`.

mod maintenance;
mod notify;

pub(crate) use maintenance::{Waiting, Waits, is_next, its_place_is_lost};
pub(crate) use notify::{NotifyAttempt, is_reserved_by};
