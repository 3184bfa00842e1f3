//! Release, and every other end of a grant except an operator's.

use crate::{
    error::Error,
    leases::{Leases, TRIES, address_of, corrupt},
    metrics::{self, Metric},
    outcomes::{Ended, Lease, ReleaseOutcome, Released},
    queue::{NotifyAttempt, is_reserved_by},
    row::{Row, Stored, how_ended},
    store::{Address, Applied, Store},
    transition::{
        Change, EndIfUnchanged, HandOver, Release, ReleaseRefusal, ReleaseTarget, why_not_released,
    },
    values::{Counter, Key, LeaseId},
};

impl<S: Store> Leases<S> {
    /// Ends the lease if it is still the caller's, also after it expired.
    ///
    /// This takes one conditional write. It never frees somebody else's lease, and may be repeated for ever. If the
    /// queue is not empty, the same write reserves the key for the first waiter. Then that waiter is notified, which
    /// takes a read and a call to [`crate::Workflows`]. If the notification fails, the lease is released nevertheless
    /// and sweep notifies later. A repeated release notifies once more.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::apply`]. If somebody else was granted the key in the meantime, that
    /// is [`ReleaseOutcome::Lost`], not an error.
    pub async fn release(&self, lease: &Lease) -> Result<Released, Error> {
        self.follow_rules_if_possible().await?;
        let now = self.now();
        Ok(Released {
            outcome: self.end(lease).await?.0,
            expired: lease.expires_at() <= now,
        })
    }

    /// Ends the lease by the write that suits the row, and notifies the next waiter. A lease that is lost comes with the
    /// row that shows how.
    async fn end(&self, lease: &Lease) -> Result<(ReleaseOutcome, Option<Box<Row>>), Error> {
        let key = &lease.key;
        let reserved = lease.may_be_reservation();
        let token = lease.fencing_token;
        let next = self.hand_over_after(if reserved { token.before() } else { token });
        let ours = match &next {
            HandOver::Now(successor) => Some(successor.lease_id.clone()),
            HandOver::Later => None,
        };
        let mut release = Release {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            of: if reserved {
                ReleaseTarget::Reservation(lease.holder.clone())
            } else {
                ReleaseTarget::Grant
            },
            ended: Ended::Released,
            next,
            purge_at: self.purge_at(lease.fencing_token),
        };
        let address = address_of(lease);
        for _ in 0..TRIES {
            let change = Change::Release(release.clone());
            let stored = match self.store().apply(&address, &change, self.limit()).await? {
                Applied::Done { row, .. } => {
                    if release.of == ReleaseTarget::Grant {
                        let held = self.now().since(lease.acquired_at);
                        metrics::record_duration(Metric::HeldTime, held);
                    } else {
                        self.mark_served(key, &row).await;
                    }
                    self.notify_next_waiter(key, row, NotifyAttempt::First)
                        .await;
                    return Ok((ReleaseOutcome::Released, None));
                }
                Applied::Refused(stored) => stored,
            };
            match why_not_released(stored, &release, &lease.holder) {
                ReleaseRefusal::Releasable(suited) => release = *suited,
                ReleaseRefusal::Already(row) => {
                    if let Some(row) = row {
                        self.notify_after_all(key, *row, ours.as_ref()).await?;
                    }
                    return Ok((ReleaseOutcome::AlreadyReleased, None));
                }
                ReleaseRefusal::Lost(row) => return Ok((ReleaseOutcome::Lost, Some(row))),
                ReleaseRefusal::Corrupt(reason) => return Err(corrupt(key.clone(), reason)),
            }
        }
        Err(self.contention_error())
    }

    /// Handles a lease that was released before. If this call released it and the response was lost, nobody has
    /// notified the next waiter yet. If an earlier call released it, that call may have died before the notification.
    async fn notify_after_all(
        &self,
        key: &Key,
        row: Row,
        ours: Option<&LeaseId>,
    ) -> Result<(), Error> {
        if ours.is_some_and(|lease_id| is_reserved_by(&row, lease_id)) {
            self.notify_next_waiter(key, row, NotifyAttempt::First)
                .await;
        } else if let Some(reserved) = row.reserved()
            && reserved.tries == Counter::MIN
            && ours.is_some()
            && let Some(row) = self.renew_reservation(key, &row).await?
        {
            self.notify_next_waiter(key, row, NotifyAttempt::Repeat)
                .await;
        }
        Ok(())
    }

    /// Ends the grant that `row` carries, if the row has not changed since it was read, and notifies the next waiter.
    /// Returns whether a waiter was notified, or none if the row has changed.
    pub(crate) async fn end_as_read(
        &self,
        address: &Address,
        row: &Row,
        ended: Ended,
    ) -> Result<Option<bool>, Error> {
        let key = &address.key;
        // Waiters of a frozen key are not notified.
        let next = if row.frozen.is_none() {
            self.hand_over_after(row.fencing_token)
        } else {
            HandOver::Later
        };
        let change = Change::EndIfUnchanged(EndIfUnchanged {
            version: row.version,
            ended,
            next: next.clone(),
            purge_at: self.purge_at(row.fencing_token),
        });
        let row = match self.store().apply(address, &change, self.limit()).await? {
            Applied::Done { row, .. } => row,
            // Our own write, whose response was lost.
            Applied::Refused(Stored::Row(row)) if is_ours(&row, &next) => row,
            // Extended, released or taken over since it was read.
            Applied::Refused(_) => return Ok(None),
        };
        let token = row.fencing_token.get();
        tracing::info!(%key, holder = %row.granted_to, fencing_token = token, "freed");
        Ok(Some(
            self.notify_next_waiter(key, row, NotifyAttempt::First)
                .await,
        ))
    }

    /// As [`Leases::release`], for a caller that must know if somebody else was granted the key while it worked.
    ///
    /// # Errors
    /// As [`Leases::release`], and [`Error::Lost`] if somebody else was granted the key in the
    /// meantime.
    pub async fn release_strictly(&self, lease: &Lease) -> Result<Released, Error> {
        let now = self.now();
        match self.end(lease).await? {
            (ReleaseOutcome::Lost, row) => Err(Error::Lost {
                key: lease.key.clone(),
                how: how_ended(row.as_deref(), lease.fencing_token),
            }),
            (outcome, _) => Ok(Released {
                outcome,
                expired: lease.expires_at() <= now,
            }),
        }
    }
}

fn is_ours(row: &Row, next: &HandOver) -> bool {
    matches!(next, HandOver::Now(successor) if is_reserved_by(row, &successor.lease_id))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Acquire, Call, Delivery, Execution, Holder, ManualClock, Memory, Queue, Settings,
        SweepBounds, TaskToken, WaitTime, Workflows,
        conformance::{grant, make},
        store::wire::{Fate, Wire},
        values::{RequestDigest, RequestId},
    };

    #[tokio::test(start_paused = true)]
    async fn who_ends_a_grant_and_does_not_hear_so_tells_the_next_all_the_same() {
        let ttl = make::ttl(Duration::from_mins(1));
        let store = Wire::default();
        let leases = Leases::new(store.clone(), Settings::default())
            .with_workflows(Arc::new(crate::conformance::FakeStepFunctions::default()));
        let (key, holder) = (make::key("k"), make::holder("h"));
        let acquire = Acquire::new(key, holder.clone(), ttl);
        let granted = leases.acquire(acquire).await.expect("an answer");
        let address = address_of(&granted.granted().expect("a grant").lease);
        let row = Row {
            queue: vec![RequestDigest::of(&holder, &RequestId::random())],
            ..store.row().await
        };
        store.table.put(address.clone(), &row.to_item());
        store.script([Fate::SentAgain]);
        let ended = leases
            .end_as_read(&address, &row, Ended::Expired)
            .await
            .expect("an answer");
        assert!(ended.is_some(), "it was this call that ended it");
        // The row has changed, so nobody is notified.
        let again = leases
            .end_as_read(&address, &row, Ended::Expired)
            .await
            .expect("an answer");
        assert_eq!(again, None);
    }

    /// Nobody waits behind any token, and to learn that takes a second each time.
    struct Dead(Arc<ManualClock>);

    impl Workflows for Dead {
        fn succeed<'a>(&'a self, _: &'a TaskToken, _: String, _: Duration) -> Call<'a, Delivery> {
            self.0.advance(Duration::from_secs(1));
            Box::pin(std::future::ready(Ok(Delivery::Refused)))
        }

        fn fail<'a>(
            &'a self,
            _: &'a TaskToken,
            _: &'a str,
            _: String,
            _: Duration,
        ) -> Call<'a, Delivery> {
            Box::pin(std::future::ready(Ok(Delivery::Refused)))
        }

        fn describe_execution<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
            unreachable!("nobody asks")
        }
    }

    #[tokio::test]
    async fn a_release_leaves_a_queue_of_dead_waiters_to_sweep() {
        let clock = make::clock();
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_workflows(Arc::new(Dead(clock.clone())));
        let ask = |who: String| {
            let ttl = make::ttl(Duration::from_mins(1));
            Acquire::new(make::key("k"), make::holder(who), ttl)
        };
        let lease = grant(&leases, ask("holder".to_owned())).await.lease;
        for n in 0..10 {
            let queue = Queue {
                task_token: TaskToken::new(format!("t{n}")).expect("valid"),
                wait: WaitTime::new(Duration::from_hours(1)).expect("valid"),
            };
            let joined = leases.acquire_queued(ask(format!("w{n}")), queue).await;
            joined.expect("in line");
        }
        let began = leases.now();
        let released = leases.release(&lease).await.expect("an answer");
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        assert_eq!(leases.now().since(began), Duration::from_secs(2));
        // Sweep has the time of its invocation.
        let row = leases.read_queue_row(&lease.key).await.expect("a row");
        assert_eq!(row.expect("a row").waiting().len(), 8);
        clock.advance(2 * Settings::default().claim + Settings::default().clock_margin);
        for _ in 0..2 {
            let sweep = leases.for_call(leases.now().plus(Duration::from_mins(1)));
            let swept = sweep.sweep(SweepBounds::Schedule).await;
            swept.expect("swept");
            clock.advance(2 * Settings::default().claim);
        }
        let row = leases.read_queue_row(&lease.key).await.expect("a row");
        assert_eq!(row.expect("a row").waiting(), []);
    }
}
