//! The queue: first come, first served, by notification instead of polling.
//!
//! The queue is a list in the lease row. A release with a queue behind it:
//!
//! 1. `end` ends the grant and reserves the key for the first waiter, in one write.
//! 2. `wake` reads the waiter's item; `call_back` sends the lease to its task token.
//! 3. If that waiter is gone, `pass_on` reserves the key for the next one, and `wake` continues with it.
//! 4. The waiter's first `extend` is the grant; `retire` then takes its item out of the index.
//! 5. If it does not extend in time, sweep's `tend` notifies it once more and then passes it over: `see_to`.

mod maintenance;
mod notify;

pub(crate) use maintenance::{Waiting, Waits, is_next, its_place_is_lost};
pub(crate) use notify::{Sender, first_of, is_kept_by};
