//! What the rules are asked for.

use crate::values::{Holder, Key, Metadata, RequestId, Ttl};

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
    /// Random if not given, and then a repeated call is another request.
    pub request_id: Option<RequestId>,
    /// What others may see.
    pub metadata: Metadata,
}

impl Acquire {
    /// An acquire of `key` by `holder` for `ttl`.
    #[must_use]
    pub fn new(key: Key, holder: Holder, ttl: Ttl) -> Self {
        Self {
            key,
            holder,
            ttl,
            request_id: None,
            metadata: Metadata::default(),
        }
    }

    /// With this request id.
    #[must_use]
    pub fn request_id(self, request_id: RequestId) -> Self {
        Self {
            request_id: Some(request_id),
            ..self
        }
    }

    /// With this metadata.
    #[must_use]
    pub fn metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
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
