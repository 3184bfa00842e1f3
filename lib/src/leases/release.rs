//! Release, and every other end of a grant except an operator's.

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Leases, address_of, corrupt},
    metrics::{self, Metric},
    outcomes::{Ended, Lease, ReleaseOutcome, Released},
    row::{Act, Row, Stored, Term, how_ended},
    store::{Address, Applied, Operations, Store},
    transition::{Change, EndIfUnchanged, Release, ReleaseRefusal, why_not_released},
    values::Key,
};

/// A row whose grant has ended: the first waiter for it is to be served.
#[derive(Debug)]
pub(crate) struct Freed {
    pub(crate) at: Address,
    pub(crate) row: Row,
    /// Whether the grant had a deadline. Few semaphores with deadlines have a queue.
    pub(crate) had_deadline: bool,
    /// The pool that the grant was in, or waited for.
    pub(crate) pool: Option<Key>,
}

impl Freed {
    /// The row now, and as it was with its grant, which lasted as long as its execution.
    pub(crate) fn of_execution(at: &Address, row: Row, was: &Row) -> Self {
        Self {
            at: at.clone(),
            row,
            had_deadline: false,
            pool: pool_of(was),
        }
    }
}

/// The pool that the grant in this row is in, or waits for.
pub(crate) fn pool_of(row: &Row) -> Option<Key> {
    let pool = row.holding()?.pool.as_ref()?;
    Some(pool.key.clone())
}

impl<S: Store> Leases<S> {
    /// Ends the lease if it is still the caller's, also after it expired.
    ///
    /// The lease of a handle that was [re-entered](Lease::reentered) is kept, and nothing is written. Any other release
    /// takes one conditional write. It never frees somebody else's lease, and may be repeated for ever. The first waiter for the
    /// key is left to the next sweep; [`Queue::release`](crate::Queue::release) grants it at once.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::write`]. If somebody else was granted the key in the meantime, that
    /// is [`ReleaseOutcome::Lost`], not an error.
    pub async fn release(&self, lease: &Lease) -> Result<Released, Error> {
        self.end(lease, false).await.map(|(released, _)| released)
    }

    /// As [`Leases::release`], for a caller that must know if somebody else was granted the key while it worked.
    ///
    /// # Errors
    /// As [`Leases::release`], and [`Error::Lost`] if somebody else was granted the key in the
    /// meantime.
    pub async fn release_strictly(&self, lease: &Lease) -> Result<Released, Error> {
        self.end(lease, true).await.map(|(released, _)| released)
    }

    /// Ends the lease. The row comes back also if an earlier call freed it, which may have died before it served the queue.
    pub(crate) async fn end(
        &self,
        lease: &Lease,
        strictly: bool,
    ) -> Result<(Released, Option<Freed>), Error> {
        let expired = lease.expires_at() <= self.now();
        if lease.reentered {
            let outcome = ReleaseOutcome::Kept;
            return Ok((Released { outcome, expired }, None));
        }
        self.follow_rules_if_possible().await?;
        let key = &lease.key;
        let release = Release {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            purge_at: self.purge_at(lease.fencing_token),
        };
        let change = Change::Release(release.clone());
        let at = address_of(lease);
        let (outcome, row) = match self.store().apply(&at, &change, self.limit()).await? {
            Applied::Done { row, .. } => {
                let held = self.now().since(lease.acquired_at);
                metrics::record_duration(Metric::HeldTime, held);
                (ReleaseOutcome::Released, Some(row))
            }
            Applied::Refused(stored) => match why_not_released(stored, &release) {
                // This call released it and lost the response, or an earlier call that died since.
                ReleaseRefusal::Already(row) => {
                    (ReleaseOutcome::AlreadyReleased, row.map(|row| *row))
                }
                ReleaseRefusal::Lost(row) if strictly => {
                    return Err(Error::Lost {
                        key: key.clone(),
                        how: how_ended(Some(&row), lease.fencing_token),
                    });
                }
                ReleaseRefusal::Lost(_) => (ReleaseOutcome::Lost, None),
                ReleaseRefusal::Corrupt(reason) => return Err(corrupt(key.clone(), reason)),
            },
        };
        let freed = row.map(|row| Freed {
            at,
            row,
            had_deadline: lease.deadline.is_some(),
            pool: lease.pool.as_ref().map(|pool| Key::of_pool(&pool.name)),
        });
        Ok((Released { outcome, expired }, freed))
    }

    /// Ends the grant that `row` carries, if the row has not changed since it was read.
    pub(crate) async fn end_as_read(
        &self,
        address: &Address,
        row: &Row,
        ended: Ended,
    ) -> Result<Option<Freed>, Error> {
        let key = &address.key;
        let Some(held) = row.holding() else {
            return Ok(None);
        };
        let change = Change::EndIfUnchanged(EndIfUnchanged {
            version: row.version,
            ended,
            purge_at: self.purge_at(row.fencing_token),
        });
        let free = match self.store().apply(address, &change, self.limit()).await? {
            Applied::Done { row, .. } => row,
            // Ended by this very write, whose response was lost, or by another that did the same.
            Applied::Refused(Stored::Row(found))
                if found.version == row.version.plus(1)
                    && found.holding().is_none()
                    && found.last_grant().ended == ended =>
            {
                found
            }
            // Extended, released or taken over since it was read.
            Applied::Refused(_) => return Ok(None),
        };
        log_freed(key, row, ended, self.now());
        Ok(Some(Freed {
            at: address.clone(),
            row: free,
            had_deadline: matches!(held.term, Term::Ttl { .. }),
            pool: pool_of(row),
        }))
    }
}

/// The grant that `row` carries has ended, and not by a call of its holder: that has a line of its own.
pub(crate) fn log_freed(key: &Key, row: &Row, ended: Ended, ended_at: Timestamp) {
    let Some(held) = row.holding() else {
        return;
    };
    let token = row.fencing_token.get();
    let ended_by = match (held.term, ended) {
        (Term::Ttl { .. }, Ended::Expired) => "deadline",
        _ => "execution",
    };
    let acquired_at = held.acquired_at;
    let stop = row.operator.as_ref();
    let stop = stop.filter(|record| record.act == Act::Stop && record.at >= acquired_at);
    let who = stop.map(|record| record.who.as_str());
    let why = stop.map(|record| record.why.as_str());
    tracing::info!(%key, holder = %row.granted_to, fencing_token = token, %acquired_at, %ended_at, ended_by, who, why, "freed");
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Acquire, Answer, Call, Delivery, Engine, ManualClock, Memory, Question, Settings,
        SweepBounds, TaskToken, Wait, WaitTime,
        row::State,
        store::wire::{Before, Fate, Wire},
        test_support::{grant, make},
        values::{RequestDigest, RequestId},
    };

    #[tokio::test]
    async fn strict_release_reports_passed_deadline() {
        let clock = make::clock();
        let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock.clone());
        let minute = Duration::from_mins(1);
        for (after, expired) in [(Duration::ZERO, false), (minute, true)] {
            let request = make::request(make::key("k"), "h", minute);
            let lease = grant(&leases, request).await.lease;
            clock.advance(after);
            let released = leases.release_strictly(&lease).await.expect("released");
            assert_eq!(released.expired, expired);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_release_notifies_next() {
        let ttl = make::ttl(Duration::from_mins(1));
        let store = Wire::default();
        let leases = Leases::new(store.clone(), Settings::default())
            .with_engine(Arc::new(crate::test_support::FakeStepFunctions::default()));
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
        leases.serve(ended).await;
        // The row has changed since, because who waited has no item.
        let again = leases
            .end_as_read(&address, &row, Ended::Expired)
            .await
            .expect("an answer");
        assert!(again.is_none());
    }

    /// Who was notified by a release, with these fates of its writes, if the first of two who wait has a dead token.
    async fn notified_after(store: &Wire, fates: &[Fate]) -> Vec<String> {
        let calls = Arc::new(crate::test_support::FakeStepFunctions::default());
        let leases = Leases::new(store.clone(), Settings::default()).with_engine(calls.clone());
        let (key, ttl) = (make::key("k"), Duration::from_mins(1));
        let holder = grant(&leases, make::request(key.clone(), "holder", ttl)).await;
        for n in 1..3 {
            let queue = Wait {
                task_token: TaskToken::new(format!("t{n}")).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            let waits = make::of_execution(key.clone(), n);
            leases.acquire_queued(waits, queue).await.expect("queued");
        }
        calls.expire_token("t1");
        store.script(fates.iter().copied());
        let _ = leases.release(&holder.lease).await.expect("released");
        let told = calls.take_answers().into_iter();
        told.map(|answer| answer.token).collect()
    }

    /// The answer to the write that takes a grant back is lost.
    #[tokio::test(start_paused = true)]
    async fn unanswered_take_back_notifies_next() {
        // The release, the grant, and that it is taken back.
        let fates = [Fate::Answered, Fate::Answered, Fate::SentAgain];
        assert_eq!(notified_after(&Wire::default(), &fates).await, ["t2"]);
    }

    /// The answer to a grant is lost, and others notify its holder before it is sent again.
    #[tokio::test(start_paused = true)]
    async fn repeated_grant_spares_notified_waiter() {
        // The holder's grant, the release, the grant, and that once more.
        let store = Wire::meddled(Before::Apply, 4, |table| {
            let mut items = table.all().into_iter();
            let found = items.find(|(_, sk, _)| sk.starts_with("LEASE#"));
            let mut row = Row::read(&found.expect("a row").2).expect("ours");
            row.version = row.version.plus(1);
            let State::Held(held) = &mut row.state else {
                panic!("nobody has it");
            };
            let told = held.notification.as_mut().expect("it is counted");
            told.tries = told.tries.plus(1);
            table.put(Address::first(&make::key("k")), &row.to_item());
        });
        let fates = [Fate::Answered, Fate::SentAgain];
        assert!(notified_after(&store, &fates).await.is_empty());
        assert!(store.is_done(), "others did");
        assert_eq!(store.row().await.granted_to, make::execution(1));
    }

    /// Nobody waits behind any token, and to learn that takes a second each time.
    struct Dead(Arc<ManualClock>);

    impl Engine for Dead {
        fn ask(&self, question: Question, _: Duration) -> Call<'_, Answer> {
            assert!(question.acts(), "nobody asks");
            self.0.advance(Duration::from_secs(1));
            Box::pin(std::future::ready(Ok(Delivery::Refused.into())))
        }
    }

    #[tokio::test]
    async fn release_leaves_dead_waiters_to_sweep() {
        let clock = make::clock();
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(Dead(clock.clone())));
        let key = make::key("k");
        let ttl = Duration::from_mins(1);
        let lease = grant(&leases, make::request(key.clone(), "holder", ttl))
            .await
            .lease;
        for n in 0..10 {
            let queue = Wait {
                task_token: TaskToken::new(format!("t{n}")).expect("valid"),
                wait: WaitTime::new(Duration::from_hours(1)).expect("valid"),
                latest: false,
            };
            let waits = make::of_execution(key.clone(), n);
            let joined = leases.acquire_queued(waits, queue).await;
            joined.expect("queued");
        }
        let began = leases.now();
        let released = leases.release(&lease).await.expect("an answer");
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        assert_eq!(leases.now().since(began), Duration::from_secs(2));
        // Sweep has the time of its invocation.
        let row = leases.read_queue_row(&lease.key).await.expect("a row");
        assert_eq!(row.expect("a row").waiting().len(), 8);
        let sweep = leases.for_call(leases.now().plus(Duration::from_mins(1)));
        let swept = sweep.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        let row = leases.read_queue_row(&lease.key).await.expect("a row");
        assert_eq!(row.expect("a row").waiting(), []);
    }
}
