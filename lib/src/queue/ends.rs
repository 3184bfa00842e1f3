//! What ends a grant, or makes room: the leases do it, and the waiters are served afterwards.

use std::future::Future;

use crate::{
    error::Error,
    leases::{
        AuditReason, ExtendedAll, ForceReleaseOptions, ForceReleaseOutcome, Freed, Keeper,
        LeaseSet, LimitOutcome, NotBegun, ReleasedAll, UnfreezeOutcome, pool_of,
    },
    outcomes::{Extended, Lease, Released},
    queue::Queue,
    requests::ExtendOptions,
    retry::{AT_ONCE, some_at_a_time},
    start::{Known, StartStatus},
    store::Store,
    values::{Key, LimitedTo},
};

impl<S: Store> Queue<S> {
    /// As [`Leases::release`](crate::Leases::release), and the first waiter is granted the key and notified, which takes a read, two
    /// writes and a call to [`crate::Engine`]; of a permit of an execution lease one query more. If any of that fails, the
    /// lease is released nevertheless and sweep does it later. So does a repeated release.
    ///
    /// # Errors
    /// Those of [`Leases::release`](crate::Leases::release).
    pub async fn release(&self, lease: &Lease) -> Result<Released, Error> {
        let (released, freed) = self.end(lease, false).await?;
        self.serve(freed).await;
        Ok(released)
    }

    /// As [`Leases::release_strictly`](crate::Leases::release_strictly), with the queue as after [`Queue::release`].
    ///
    /// # Errors
    /// Those of [`Leases::release_strictly`](crate::Leases::release_strictly).
    pub async fn release_strictly(&self, lease: &Lease) -> Result<Released, Error> {
        let (released, freed) = self.end(lease, true).await?;
        self.serve(freed).await;
        Ok(released)
    }

    /// As [`Leases::release_all`](crate::Leases::release_all), with the queues as after [`Queue::release`].
    ///
    /// # Errors
    /// Those of [`Leases::release_all`](crate::Leases::release_all).
    pub async fn release_all(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        let (released, freed) = self.end_all(leases, false).await;
        self.serve_all(freed).await;
        released
    }

    /// As [`Leases::release_all_strictly`](crate::Leases::release_all_strictly), with the queues as after [`Queue::release`].
    ///
    /// # Errors
    /// Those of [`Leases::release_all_strictly`](crate::Leases::release_all_strictly).
    pub async fn release_all_strictly(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        let (released, freed) = self.end_all(leases, true).await;
        self.serve_all(freed).await;
        released
    }

    /// As [`Leases::extend`](crate::Leases::extend). A lease that has expired and that others wait for ends, and they are served.
    ///
    /// # Errors
    /// Those of [`Leases::extend`](crate::Leases::extend).
    pub async fn extend(&self, lease: &Lease, options: ExtendOptions) -> Result<Extended, Error> {
        let mut freed = None;
        let extended = self.extend_or_end(lease, options, &mut freed).await;
        self.serve(freed).await;
        extended
    }

    /// As [`Leases::extend_all`](crate::Leases::extend_all), with the queues as after [`Queue::extend`].
    ///
    /// # Errors
    /// Those of [`Leases::extend_all`](crate::Leases::extend_all).
    pub async fn extend_all(
        &self,
        leases: &LeaseSet,
        options: ExtendOptions,
    ) -> Result<ExtendedAll, Error> {
        let (extended, freed) = self.extend_or_end_all(leases, options).await;
        self.serve_all(freed).await;
        extended
    }

    /// As [`Leases::hold`](crate::Leases::hold), with the queue as after [`Queue::release`].
    ///
    /// # Errors
    /// Those of [`Leases::hold`](crate::Leases::hold).
    pub async fn hold<T, Work: Future<Output = T>>(
        &self,
        lease: Lease,
        work: impl FnOnce(Lease) -> Work,
    ) -> Result<T, Error> {
        self.hold_with(self, lease, work).await
    }

    /// As [`Leases::force_release`](crate::Leases::force_release), and the waiters are served. Of a start that may not have begun
    /// it asks the service first.
    ///
    /// # Errors
    /// Those of [`Leases::force_release`](crate::Leases::force_release) and of [`crate::Question::Input`].
    pub async fn force_release(
        &self,
        key: &Key,
        which: ForceReleaseOptions,
        because: &AuditReason,
    ) -> Result<ForceReleaseOutcome, Error> {
        let Some(evictable) = self.evictable(key, which).await? else {
            return Ok(ForceReleaseOutcome::NotHeld);
        };
        let place = evictable.place.clone();
        if let NotBegun::Start(item) = &evictable.start
            && item.status == StartStatus::Waiting
            && evictable.row.waits_in_pool()
        {
            let outcome = self.cancel_in_pool(&evictable, item, because).await?;
            return Ok(outcome.of(place));
        }
        let (pool, at) = (pool_of(&evictable.row), evictable.address.clone());
        let mut known = Known::No;
        if let NotBegun::Start(item) = &evictable.start
            && item.status == StartStatus::Waiting
        {
            known = self.known(item).await?;
            if known == Known::Ours {
                self.note_begun(item, None).await?;
            }
        }
        let outcome = self.evict(evictable, known, because).await?;
        if let ForceReleaseOutcome::Forced { .. } = outcome {
            self.serve_key(&at.key).await;
            if let Some(pool) = pool {
                let row = self.read_row(&at).await?;
                let rows = row.map(|row| (at, row)).into_iter().collect();
                Box::pin(self.serve_pool(&pool, rows)).await;
            }
        }
        Ok(outcome.of(place))
    }

    /// As [`Leases::unfreeze`](crate::Leases::unfreeze), and the waiters are served.
    ///
    /// # Errors
    /// Those of [`Leases::unfreeze`](crate::Leases::unfreeze).
    pub async fn unfreeze(
        &self,
        key: &Key,
        because: &AuditReason,
    ) -> Result<UnfreezeOutcome, Error> {
        let outcome = self.leases.unfreeze(key, because).await?;
        if outcome == UnfreezeOutcome::Unfrozen {
            self.serve_key(key).await;
            Box::pin(self.serve_pools_of(key)).await;
        }
        Ok(outcome)
    }

    /// As [`Leases::limit_to`](crate::Leases::limit_to), and the waiters are served.
    ///
    /// # Errors
    /// Those of [`Leases::limit_to`](crate::Leases::limit_to).
    pub async fn limit_to(
        &self,
        key: &Key,
        permits: Option<LimitedTo>,
        because: &AuditReason,
    ) -> Result<LimitOutcome, Error> {
        let outcome = self.leases.limit_to(key, permits, because).await?;
        if outcome != LimitOutcome::NotLimited {
            self.serve_key(key).await;
            Box::pin(self.serve_pools_of(key)).await;
        }
        Ok(outcome)
    }

    /// Several freed rows, some at a time.
    async fn serve_all(&self, freed: Vec<Freed>) {
        let serves = freed.into_iter().map(|freed| self.serve(Some(freed)));
        some_at_a_time(AT_ONCE, serves.collect()).await;
    }
}

impl<S: Store> Keeper for Queue<S> {
    async fn extended(&self, lease: &Lease) -> Result<Extended, Error> {
        self.extend(lease, ExtendOptions::default()).await
    }

    async fn released(&self, lease: &Lease) -> Result<Released, Error> {
        self.release(lease).await
    }
}
