//! Pools: a limit that many keys share. "At most one import of a tenant, and ten in total" is a key for each tenant and one pool.
//!
//! A pool is a semaphore of its own kind, under a name that no key can have. Whoever has been granted its key asks for a permit of its pool before
//! it is notified, and has the key while it waits there. So nobody who waits has a permit of a pool, and no order of requests can
//! deadlock; and a key is in a pool's queue as often at most as it has permits, which makes that queue a round robin.
//!
//! The pool's rows and queue have a name for each grant of a key ([`Entry`]), and not for each request: one that was taken back and is
//! granted again is another. The name says which row has the grant, so that who waits in a pool has no item there.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use crate::{
    outcomes::PoolLease,
    request::Request,
    row::attributes as at,
    row::{Item, n, s, text, whole},
    store::Address,
    values::{AtLeast, Counter, Key, LeaseId, Permits, RequestDigest},
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

/// What a held row says of the pool of its grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InPool {
    /// The key of the pool.
    pub key: Key,
    /// The permit; none while it waits for one. Then nobody has been notified of the grant.
    pub permit: Option<PoolPermit>,
}

/// A permit of a pool: what ends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolPermit {
    /// Which.
    pub permit: u16,
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
}

impl InPool {
    /// One that cannot be read is a pool without a name, which nobody enters.
    pub(crate) fn read(value: &AttributeValue) -> Self {
        let empty = Item::new();
        let fields = value.as_m().unwrap_or(&empty);
        let permit = || {
            Some(PoolPermit {
                permit: whole(fields, at::POOL_PERMIT)?.try_into().ok()?,
                lease_id: LeaseId::stored(text(fields, at::LEASE_ID)?),
                fencing_token: whole(fields, at::FENCING_TOKEN).and_then(Counter::new)?,
            })
        };
        Self {
            key: Key::stored(text(fields, at::NAME).unwrap_or_default()),
            permit: permit(),
        }
    }

    pub(crate) fn to_value(&self) -> AttributeValue {
        let mut fields = Item::from([(at::NAME.to_owned(), s(self.key.as_str()))]);
        if let Some(permit) = &self.permit {
            fields.extend([
                (at::POOL_PERMIT.to_owned(), n(permit.permit.into())),
                (at::LEASE_ID.to_owned(), s(permit.lease_id.expose())),
                (at::FENCING_TOKEN.to_owned(), n(permit.fencing_token.get())),
            ]);
        }
        AttributeValue::M(fields)
    }

    /// The same for the handle; none while it waits.
    pub(crate) fn lease(&self) -> Option<PoolLease> {
        let permit = self.permit.clone()?;
        Some(PoolLease {
            name: Key::stored(self.key.pool_name()?),
            permit: permit.permit,
            lease_id: permit.lease_id,
            fencing_token: permit.fencing_token,
        })
    }
}

/// The grant of a key for which a permit of a pool is asked for: its name in the pool's rows and queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The request that was granted the key.
    pub(crate) request: RequestDigest,
    /// The row that has the grant.
    pub(crate) at: Address,
    /// Its token.
    pub(crate) fencing_token: Counter,
}

const MARK: u8 = b':';

impl Entry {
    /// The request for a permit of the pool.
    pub(crate) fn request_in(&self, pool: &Pool, request: &Request) -> Request {
        Request {
            holder: request.holder.clone(),
            digest: self.digest(),
            keys: None,
            lifetime: request.lifetime,
            permits: Some(pool.permits),
            pool: None,
            at_least: AtLeast::default(),
            metadata: request.metadata.clone(),
            instead_of: None,
        }
    }

    pub(crate) fn digest(&self) -> RequestDigest {
        let mut bytes = self.request.as_bytes().to_vec();
        bytes.push(MARK);
        bytes.extend(self.at.permit.to_be_bytes());
        bytes.extend(self.fencing_token.get().to_be_bytes());
        bytes.extend(self.at.key.as_str().as_bytes());
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
            at: Address {
                key: Key::new(std::str::from_utf8(key).ok()?).ok()?,
                permit: u16::from_be_bytes(*permit),
            },
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
                at: Address {
                    key: make::key("tenants/a"),
                    permit: 300,
                },
                fencing_token: Counter::new(7).expect("valid"),
            };
            let digest = entry.digest();
            assert_eq!(Entry::of(&digest), Some(entry));
            assert!(!digest.is_start());
            assert_eq!(Entry::of(&request), None);
        }
    }

    #[test]
    fn pool_of_row_is_read_as_written() {
        let key = Key::of_pool(&make::key("imports"));
        let permit = PoolPermit {
            permit: 3,
            lease_id: LeaseId::random(),
            fencing_token: Counter::new(7).expect("valid"),
        };
        for permit in [None, Some(permit)] {
            let key = key.clone();
            let pool = InPool { key, permit };
            assert_eq!(InPool::read(&pool.to_value()), pool);
        }
        assert!(Key::new(key.as_str()).is_err(), "it is no key of a caller");
    }
}
