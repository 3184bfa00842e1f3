//! What a request names. Each request says it itself, for the boundary, the log and the error. Of an event that is no request only
//! the key is shown.

use leasehold::{Counter, Holder, Key, Keys, Lease, LeaseSet, Pool, RequestId, Timestamp};

/// The keys and holders that a request names, each with its path, and the rest that identifies it.
#[derive(Debug, Default)]
pub struct Names<'a> {
    pub(crate) keys: Vec<(&'static str, &'a Key)>,
    /// The names of pools.
    pub(crate) pools: Vec<(&'static str, &'a str)>,
    pub(crate) holders: Vec<(&'static str, &'a Holder)>,
    /// The key, if the request is about one; or the pool.
    pub(crate) key: Option<Key>,
    pub(crate) request_id: Option<&'a RequestId>,
    pub(crate) fencing_token: Option<Counter>,
    /// When the lease was granted, by its handle.
    pub(crate) acquired_at: Option<Timestamp>,
    /// The tokens of several leases.
    pub(crate) tokens: Vec<(&'a Key, Counter)>,
    pub(crate) reentrant: bool,
    pub(crate) list: bool,
}

impl<'a> Names<'a> {
    /// The field `key`.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<&'a Key>>) -> Self {
        if let Some(key) = key.into() {
            self.keys.push(("key", key));
            self.key = Some(key.clone());
        }
        self
    }

    /// The field `pool` of a request for a permit of one besides a key.
    #[must_use]
    pub fn pool(mut self, pool: impl Into<Option<&'a Pool>>) -> Self {
        let name = pool.into().and_then(|pool| pool.key.pool_name());
        self.pools.extend(name.map(|name| ("pool.name", name)));
        self
    }

    /// The field `pool` of a request about one, which stands in place of `key`.
    #[must_use]
    pub fn only_pool(mut self, name: impl Into<Option<&'a Key>>) -> Self {
        if let Some(name) = name.into() {
            self.pools.push(("pool", name.as_str()));
            self.key = Some(Key::of_pool(name));
        }
        self
    }

    /// The field `keys`.
    #[must_use]
    pub fn keys(mut self, keys: impl Into<Option<&'a Keys>>) -> Self {
        let keys = keys.into().into_iter().flat_map(Keys::as_slice);
        self.keys.extend(keys.map(|key| ("keys", key)));
        self
    }

    /// The field `holder`.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<Option<&'a Holder>>) -> Self {
        self.holders
            .extend(holder.into().map(|holder| ("holder", holder)));
        self
    }

    /// The field `lease`.
    #[must_use]
    pub fn lease(mut self, lease: impl Into<Option<&'a Lease>>) -> Self {
        if let Some(lease) = lease.into() {
            self.keys.push(("lease.key", &lease.key));
            self.holders.push(("lease.holder", &lease.holder));
            self.key = Some(lease.key.clone());
            let pool = lease.pool.as_ref();
            self.pools
                .extend(pool.map(|pool| ("lease.pool.name", pool.name.as_str())));
            self.fencing_token = Some(lease.fencing_token);
            self.acquired_at = Some(lease.acquired_at);
        }
        self
    }

    /// The field `leases`.
    #[must_use]
    pub fn leases(mut self, leases: impl Into<Option<&'a LeaseSet>>) -> Self {
        for lease in leases.into().into_iter().flat_map(LeaseSet::as_slice) {
            self.keys.push(("leases.key", &lease.key));
            self.holders.push(("leases.holder", &lease.holder));
            self.tokens.push((&lease.key, lease.fencing_token));
            let pool = lease.pool.as_ref();
            self.pools
                .extend(pool.map(|pool| ("leases.pool.name", pool.name.as_str())));
        }
        self
    }

    /// The field `request_id`.
    #[must_use]
    pub fn request_id(mut self, request_id: impl Into<Option<&'a RequestId>>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// The field `reentrant`.
    #[must_use]
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }

    /// The field `list`, which asks for everything.
    #[must_use]
    pub fn list(mut self, list: bool) -> Self {
        self.list = list;
        self
    }
}
