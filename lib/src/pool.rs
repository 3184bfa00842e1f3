//! Pools: a limit that many keys share. "At most one import of a tenant, and ten in total" is a key for each tenant and one pool.
//!
//! A waiter that has been granted its key enters the pool before it is notified, and has the key while it waits there. So nobody who waits is in
//! a pool, and no order of requests can deadlock; and a key is in a pool's queue as often at most as it has permits, which makes that
//! queue a round robin.
//!
//! A pool is one item, under a name that no key can have: who is inside, and who waits ([`Entries`](crate::row::Entries)), each by the name of the grant of its
//! key. Nothing in it has a lease or a token of its own: an entry is valid as long as the row of its key has that grant.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use crate::{
    row::attributes as at,
    row::{Item, n, s, text, whole},
    values::{Key, Permits},
};

/// Of which pool a request needs a permit besides its key, and how many it says there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "NamedPool")]
#[non_exhaustive]
pub struct Pool {
    /// The key of the pool.
    pub key: Key,
    /// How many executions may have a permit at once.
    pub permits: Permits,
}

/// A pool as requests name it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Pool"))]
#[serde(deny_unknown_fields)]
struct NamedPool {
    /// The name. Pools and keys never share one.
    name: Key,
    /// How many may have a permit of it at once.
    permits: Permits,
}

impl From<NamedPool> for Pool {
    fn from(NamedPool { name, permits }: NamedPool) -> Self {
        Self::new(&name, permits)
    }
}

/// What a lease is of, as views show it: `key`, or of a permit of a pool `pool` with the pool's name.
#[derive(Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum KeyOrPool {
    /// A lease of a key.
    Key {
        /// What is leased.
        key: Key,
    },
    /// A permit of a pool.
    Pool {
        /// The pool's name.
        pool: Key,
    },
}

impl KeyOrPool {
    pub(crate) fn serialize<S: serde::Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
        let shown = match key.pool_name() {
            Some(name) => Self::Pool {
                pool: Key::stored(name),
            },
            None => Self::Key { key: key.clone() },
        };
        Serialize::serialize(&shown, to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
        Ok(match <Self as Deserialize>::deserialize(from)? {
            Self::Key { key } => key,
            Self::Pool { pool } => Key::of_pool(&pool),
        })
    }
}

impl Pool {
    /// The pool of this name.
    #[must_use]
    pub fn new(name: &Key, permits: Permits) -> Self {
        let key = Key::of_pool(name);
        Self { key, permits }
    }

    /// That of somebody who waits, from its item.
    pub(crate) fn read(item: &Item) -> Option<Self> {
        let key = Key::stored(text(item, at::POOL)?);
        let permits = whole(item, at::POOL_PERMITS)?.try_into().ok()?;
        let permits = Permits::new(permits).ok()?;
        Some(Self { key, permits })
    }

    /// What [`Pool::read`] reads.
    pub(crate) fn attributes(&self) -> [(&'static str, AttributeValue); 2] {
        [
            (at::POOL, s(self.key.as_str())),
            (at::POOL_PERMITS, n(self.permits.get().into())),
        ]
    }
}
