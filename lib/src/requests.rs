//! The arguments of the calls.

use std::time::Duration;

use crate::error::Error;
use crate::pool::Pool;
use crate::values::{
    AtLeast, Holder, KeepTime, Key, Keys, Metadata, ObservedVersion, Permits, RequestId, TaskToken,
    Ttl, WaitTime,
};

/// How long a lease is to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// So long, unless it is extended: for a process, which may die unseen.
    Ttl(Ttl),
    /// While the holder, an execution of a standard state machine, runs. It needs no extend, and no clock ends it: it ends
    /// by its release, or after Step Functions has said that the execution has ended ([`crate::Queue::reap`],
    /// [`crate::Queue::sweep`]).
    Execution {
        /// How long it stays after the execution failed, was stopped or timed out, so that a redrive finds it.
        keep: KeepTime,
    },
}

impl From<Ttl> for Lifetime {
    fn from(ttl: Ttl) -> Self {
        Self::Ttl(ttl)
    }
}

/// What to acquire: one key, or several [`Keys`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acquire<K = Key> {
    /// What to lease.
    pub key: K,
    /// Who asks.
    pub holder: Holder,
    /// How long the lease lasts.
    pub lifetime: Lifetime,
    /// The idempotency key of this logical acquire: with the same id, the same holder gets the same lease, or the same set
    /// of leases. Random if not set. A clone has the same id, and so is the same request.
    pub request_id: RequestId,
    /// What others may see of the lease.
    pub metadata: Metadata,
    /// How many may hold the key at once. If requests for a key differ, the smallest number of the caller and of those who
    /// hold it counts, unless an operator has stored one: a lower number takes effect as permits are returned, and a higher
    /// one when those with a lower one have ended. If not set, the key is a mutex: the request uses
    /// the first permit and does not look at others, which saves the query. Not with several keys.
    pub permits: Option<Permits>,
    /// A permit of this pool besides, for a request that waits ([`crate::Queue::acquire_queued`]). It takes the key first, and is notified
    /// once it has both.
    pub pool: Option<Pool>,
    /// Cooldown: for so long after the grant nobody is granted the key, even if it is released before. With
    /// [`Acquire::permits`] each permit has its own, so that so many are granted in each span. By the clocks of two functions the
    /// distance is at least this one, as long as neither is wrong by more than half the margin.
    pub at_least: AtLeast,
    /// Take the lease over if its version is still this one, and compare no clock. The caller must have waited for
    /// [`Retry::wait_seconds`](crate::Retry::wait_seconds) since it saw that version; the library cannot
    /// check that. [`ObservedVersion::NONE`] takes nothing over, so it suits the first request of a caller that
    /// trusts no clock. Not with [`Acquire::permits`] or several keys.
    pub observed_version: Option<ObservedVersion>,
    /// Return the lease that the same holder has by another request, as long as it has not expired, instead of
    /// [`Acquired::Held`](crate::Acquired::Held); of several keys, for each.
    pub reentrant: bool,
}

/// What to acquire together: all keys or none.
pub type AcquireAll = Acquire<Keys>;

impl<K> Acquire<K> {
    /// An acquire of `key` by `holder` for a [`Ttl`] or another [`Lifetime`].
    #[must_use]
    pub fn new(key: K, holder: Holder, lifetime: impl Into<Lifetime>) -> Self {
        Self {
            key,
            holder,
            lifetime: lifetime.into(),
            request_id: RequestId::random(),
            metadata: Metadata::default(),
            permits: None,
            pool: None,
            at_least: AtLeast::default(),
            observed_version: None,
            reentrant: false,
        }
    }

    /// With this request id.
    #[must_use]
    pub fn request_id(self, request_id: RequestId) -> Self {
        Self { request_id, ..self }
    }

    /// With this metadata.
    #[must_use]
    pub fn metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
    }

    /// As a semaphore with so many permits.
    #[must_use]
    pub fn permits(self, permits: Permits) -> Self {
        Self {
            permits: Some(permits),
            ..self
        }
    }

    /// With a permit of this pool besides.
    #[must_use]
    pub fn pool(self, pool: Pool) -> Self {
        Self {
            pool: Some(pool),
            ..self
        }
    }

    /// With the key closed for at least so long after the grant.
    #[must_use]
    pub fn at_least(self, at_least: AtLeast) -> Self {
        Self { at_least, ..self }
    }

    /// Takeover by observation instead of by the clock.
    #[must_use]
    pub fn observed_version(self, version: impl Into<ObservedVersion>) -> Self {
        Self {
            observed_version: Some(version.into()),
            ..self
        }
    }

    /// Accept the lease that the holder already has.
    #[must_use]
    pub fn reentrant(self) -> Self {
        Self {
            reentrant: true,
            ..self
        }
    }
}

impl Acquire {
    /// An acquire of one key, from plain strings and a duration.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the field whose value is out of range.
    pub fn of(key: &str, holder: &str, ttl: Duration) -> Result<Self, Error> {
        let key = Key::new(key).map_err(|problem| Error::invalid("key", problem))?;
        let holder = Holder::new(holder).map_err(|problem| Error::invalid("holder", problem))?;
        let ttl = Ttl::new(ttl).map_err(|problem| Error::invalid("ttl", problem))?;
        Ok(Self::new(key, holder, ttl))
    }
}

/// How to wait in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task token that the lease is sent to, or for a durable execution the id of its callback.
    pub task_token: TaskToken,
    /// How long the request stays in the queue, counted from the first call. In a workflow, at most the task's own
    /// timeout: a token that has timed out cannot be notified.
    pub wait: WaitTime,
    /// Only the newest waits: everybody who waits already fails with [`Error::Superseded`](crate::Error::Superseded).
    pub latest: bool,
}

/// How to extend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendOptions {
    /// The new length from now; the lease's own if not set.
    pub ttl: Option<Ttl>,
    /// Refuse with [`Error::Expired`](crate::Error::Expired) instead of reviving a lease whose deadline has passed.
    pub require_unexpired: bool,
}
