//! Extends a lease while a command runs under it.

use std::cell::Cell;
use std::time::Duration;

use leasehold::{Clock as _, Error, ExtendOptions, Lease, SystemClock};

use super::guard_pipe::GuardCommands;
use super::limit::{Limit, length_of};
use crate::connect::TableClient;
use crate::durations::render;
use crate::exit::in_full;
use crate::instants::Instants;
use crate::output::print_error;

/// Why a lease could not be kept.
#[derive(Debug)]
pub(crate) enum LeaseEnd {
    /// It is lost, or cannot be extended any more.
    Lost(Error),
    /// No extend succeeded in time, for this reason.
    Late(String),
    /// It ended before the command did, by time or by somebody else.
    Over,
    /// The guard was killed.
    Unguarded,
}

/// The lease as last confirmed, and the grace of the command.
pub(crate) struct HeldLease {
    pub(crate) lease: Lease,
    pub(crate) grace: Duration,
}

impl HeldLease {
    /// Extends the lease whenever a third of it has passed, until that fails for good or for too long. It sends each new
    /// deadline to the guard as soon as the extend succeeds.
    pub(crate) async fn extend_until_lost(
        &mut self,
        table_client: &TableClient,
        commands: &mut GuardCommands,
        limit: &Cell<Limit>,
    ) -> LeaseEnd {
        loop {
            let length = length_of(&self.lease);
            let end = limit.get().warning();
            let due = limit.get().kill.minus(length * 2 / 3);
            due.earlier(end).wait_until().await;
            let mut failed = None;
            let late = |failed: Option<String>| {
                LeaseEnd::Late(failed.unwrap_or_else(|| "the table does not answer".to_owned()))
            };
            loop {
                let before = Instants::now();
                if end.left(before).is_zero() {
                    return late(failed);
                }
                let extend = async {
                    table_client.credentials.refresh_if_expiring().await;
                    let options = ExtendOptions::default();
                    table_client.leases.extend(&self.lease, options).await
                };
                let extended = tokio::select! {
                    extended = extend => extended,
                    () = end.wait_until() => return late(failed),
                };
                match extended {
                    Ok(extended) => {
                        self.lease = extended.into_lease();
                        limit.set(Limit::of(&self.lease, before, self.grace));
                        commands.limit(limit.get()).await;
                        break;
                    }
                    Err(
                        over @ (Error::Lost { .. } | Error::Expired { .. } | Error::Frozen { .. }),
                    ) => return LeaseEnd::Lost(over),
                    Err(error) => {
                        let why = in_full(&error);
                        if failed.is_none() {
                            let left = render(end.left(Instants::now()));
                            print_error(&format!("cannot extend, and retries for {left}: {why}"));
                        }
                        failed = Some(why);
                        let pause = length / 20;
                        let pause = pause.clamp(Duration::from_millis(50), Duration::from_secs(2));
                        SystemClock
                            .sleep(pause.min(end.left(Instants::now())))
                            .await;
                    }
                }
            }
        }
    }
}
