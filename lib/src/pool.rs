//! Pools: a limit that many keys share. "At most one import of a tenant, and ten in total" is a key for each tenant and one pool.
//!
//! A pool is a semaphore of its own kind, under a name that no key can have. Whoever has been granted its key asks for a permit of its pool before
//! it is notified, and has the key while it waits there. So nobody who waits has a permit of a pool, and no order of requests can
//! deadlock; and a key is in a pool's queue as often at most as it has permits, which makes that queue a round robin.
//!
//! The pool's rows and queue have a name for each grant of a key (`Entry`), and not for each request: one that was taken back and is
//! granted again is another. The name says which row has the grant, so that who waits in a pool has no item there.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use crate::{
    row::attributes as at,
    row::{Item, n, s, text, whole},
    values::{Counter, Key, Permits, RequestDigest},
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

/// The grant of a key for which a permit of a pool is asked for: its name in the pool's rows and queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The request that was granted the key.
    pub(crate) request: RequestDigest,
    /// The key.
    pub(crate) key: Key,
    /// Which of its rows has the grant.
    pub(crate) permit: u16,
    /// Its token.
    pub(crate) fencing_token: Counter,
}

const MARK: u8 = b':';

impl Entry {
    pub(crate) fn digest(&self) -> RequestDigest {
        let mut bytes = self.request.as_bytes().to_vec();
        bytes.push(MARK);
        bytes.extend(self.permit.to_be_bytes());
        bytes.extend(self.fencing_token.get().to_be_bytes());
        bytes.extend(self.key.as_str().as_bytes());
        RequestDigest::stored(&bytes)
    }

    /// None for the request of a key.
    pub(crate) fn of(digest: &RequestDigest) -> Option<Self> {
        let bytes = digest.as_bytes();
        let mark = [16, 17]
            .into_iter()
            .find(|at| bytes.get(*at) == Some(&MARK))?;
        let (request, rest) = (&bytes[..mark], &bytes[mark + 1..]);
        let (permit, rest) = rest.split_first_chunk()?;
        let (token, key) = rest.split_first_chunk()?;
        Some(Self {
            request: RequestDigest::stored(request),
            key: Key::new(std::str::from_utf8(key).ok()?).ok()?,
            permit: u16::from_be_bytes(*permit),
            fencing_token: Counter::new(u64::from_be_bytes(*token))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestId, test_support::make};

    #[test]
    fn entry_is_read_as_written() {
        let token = RequestDigest::of(&make::holder("h"), &RequestId::random());
        let start = RequestDigest::of_start(&make::execution("one"));
        for request in [token, start] {
            let entry = Entry {
                request: request.clone(),
                key: make::key("tenants/a"),
                permit: 300,
                fencing_token: Counter::new(7).expect("valid"),
            };
            let digest = entry.digest();
            assert_eq!(Entry::of(&digest), Some(entry));
            assert!(!digest.is_start());
            assert_eq!(Entry::of(&request), None);
        }
    }
}
