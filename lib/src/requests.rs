//! What the rules are asked for.

use std::time::Duration;

use crate::error::Error;
use crate::values::{
    Holder, Key, Keys, Metadata, ObservedVersion, Permits, RequestId, TaskToken, Ttl, WaitTime,
};

/// What to acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acquire {
    /// What to lease.
    pub key: Key,
    /// Who asks.
    pub holder: Holder,
    /// The length of the lease.
    pub ttl: Ttl,
    /// Names this one logical acquire: with the same id, the same holder gets the same lease.
    /// Random if not given; a clone has the same one, and so is the same request.
    pub request_id: RequestId,
    /// What others may see.
    pub metadata: Metadata,
    /// How many may hold the key at once. All who ask for a key should give the same number; it
    /// may be lowered at any time, and takes effect as permits come back. Not given, it is a mutex:
    /// the first permit and no look at any other, which saves the query.
    pub permits: Option<Permits>,
    /// Take the lease over if its version is still this one, and compare no clock. The caller has
    /// waited for [`Contention::wait_seconds`](crate::Contention::wait_seconds) since it saw that
    /// version; nobody can check that. [`ObservedVersion::NONE`] takes nothing over, and so is
    /// how a caller that trusts no clock asks first. Not for semaphores.
    pub observed_version: Option<ObservedVersion>,
    /// To get the lease that the same holder has by another request, as long as it has not
    /// expired, instead of [`Acquired::Held`](crate::Acquired::Held).
    pub reentrant: bool,
}

impl Acquire {
    /// An acquire of `key` by `holder` for `ttl`.
    #[must_use]
    pub fn new(key: Key, holder: Holder, ttl: Ttl) -> Self {
        Self {
            key,
            holder,
            ttl,
            request_id: RequestId::random(),
            metadata: Metadata::default(),
            permits: None,
            observed_version: None,
            reentrant: false,
        }
    }

    /// The same from plain texts.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the field that has a value it cannot have.
    pub fn of(key: &str, holder: &str, ttl: Duration) -> Result<Self, Error> {
        let key = Key::new(key).map_err(|problem| Error::invalid("key", problem))?;
        let holder = Holder::new(holder).map_err(|problem| Error::invalid("holder", problem))?;
        let ttl = Ttl::new(ttl).map_err(|problem| Error::invalid("ttl", problem))?;
        Ok(Self::new(key, holder, ttl))
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

    /// One of so many permits.
    #[must_use]
    pub fn permits(self, permits: Permits) -> Self {
        Self {
            permits: Some(permits),
            ..self
        }
    }

    /// By observation instead of by the clock.
    #[must_use]
    pub fn observed_version(self, version: impl Into<ObservedVersion>) -> Self {
        Self {
            observed_version: Some(version.into()),
            ..self
        }
    }

    /// Or the lease that the holder has already.
    #[must_use]
    pub fn reentrant(self) -> Self {
        Self {
            reentrant: true,
            ..self
        }
    }
}

/// How to wait in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Whom to call back when its turn has come.
    pub task_token: TaskToken,
    /// How long it stays in line, counted from the first call. In a workflow at most the task's own
    /// time limit: a token that has timed out is told in vain.
    pub wait: WaitTime,
}

/// What to acquire together: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcquireAll {
    /// What to lease.
    pub keys: Keys,
    /// Who asks.
    pub holder: Holder,
    /// The length of each lease.
    pub ttl: Ttl,
    /// As [`Acquire::request_id`]; it names the whole set.
    pub request_id: RequestId,
    /// What others may see, of each of them.
    pub metadata: Metadata,
    /// As [`Acquire::reentrant`], for each key by itself.
    pub reentrant: bool,
}

impl AcquireAll {
    /// An acquire of all `keys` by `holder` for `ttl`.
    #[must_use]
    pub fn new(keys: Keys, holder: Holder, ttl: Ttl) -> Self {
        Self {
            keys,
            holder,
            ttl,
            request_id: RequestId::random(),
            metadata: Metadata::default(),
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

    /// Or, of each key, the lease that the holder has already.
    #[must_use]
    pub fn reentrant(self) -> Self {
        Self {
            reentrant: true,
            ..self
        }
    }
}

/// How to extend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendOptions {
    /// The new length from now; the lease's own if not given.
    pub ttl: Option<Ttl>,
    /// Refuse with [`Error::Expired`](crate::Error::Expired) instead of reviving a lease whose deadline has passed.
    pub require_unexpired: bool,
}
