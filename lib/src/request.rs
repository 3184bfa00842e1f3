//! A request for a key: what of it is stored, in the item of a waiter and in the row that it is granted.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    pool::Pool,
    requests::Lifetime,
    row::attributes as at,
    row::{
        InPool, Item, Row, Term, at_least, metadata, metadata_value, n, permits, permits_value, s,
        text, whole,
    },
    values::{AtLeast, Holder, KeepTime, KeysDigest, Metadata, Permits, RequestDigest},
};

/// A request for a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Who asks.
    pub holder: Holder,
    /// Its name, in rows and queues.
    pub digest: RequestDigest,
    /// Which keys it asks for, if for several.
    pub keys: Option<KeysDigest>,
    /// How long the lease is to last.
    pub lifetime: Lifetime,
    /// Of how many permits it asks for one; none for the mutex.
    pub permits: Option<Permits>,
    /// Of which pool it needs a permit besides.
    pub pool: Option<Pool>,
    /// The cooldown of the row after the grant; with a pool, after the grant there.
    pub at_least: AtLeast,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// Whom it takes the place of, once it waits.
    pub instead_of: Option<InsteadOf>,
}

/// Whom one that waits takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsteadOf {
    /// Everybody who waits before it is superseded.
    Waiters,
    /// And the execution that has the key is stopped.
    Holder,
}

impl InsteadOf {
    fn read(item: &Item) -> Option<Self> {
        match text(item, at::IF_HELD)? {
            LATEST => Some(Self::Waiters),
            REPLACE => Some(Self::Holder),
            _ => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Waiters => LATEST,
            Self::Holder => REPLACE,
        }
    }
}

const LATEST: &str = "latest";
const REPLACE: &str = "replace";

impl Request {
    /// How long the lease stays after a failure.
    #[must_use]
    pub fn keep(&self) -> KeepTime {
        match self.lifetime {
            Lifetime::Ttl(_) => KeepTime::default(),
            Lifetime::Execution { keep } => keep,
        }
    }

    /// The term of a lease that is granted now.
    #[must_use]
    pub fn term(&self, now: Timestamp) -> Term {
        match self.lifetime {
            Lifetime::Ttl(ttl) => Term::Ttl {
                ttl,
                expires_at: now.plus(ttl.as_duration()),
            },
            Lifetime::Execution { keep } => Term::Execution {
                keep,
                looked_at: None,
                look_again_at: None,
            },
        }
    }

    /// What the row that it is granted says of its pool at first.
    pub(crate) fn in_pool(&self) -> Option<InPool> {
        let pool = self.pool.as_ref()?;
        Some(InPool {
            key: pool.key.clone(),
            permits: pool.permits,
            entered: false,
        })
    }

    /// The field by which it asks for what the lease in this row has not: its holder has that by another request. A lease with a
    /// pool serves a request without one.
    pub(crate) fn asks_for_more_than(&self, row: &Row) -> Option<&'static str> {
        let pool = row.holding().and_then(|held| held.pool.as_ref());
        let has_pool = |asked: &Pool| pool.is_some_and(|pool| pool.key == asked.key);
        if self.pool.as_ref().is_some_and(|asked| !has_pool(asked)) {
            return Some("pool");
        }
        let number = |permits: Option<Permits>| permits.map_or(1, Permits::get);
        (number(self.permits) != number(row.permits)).then_some("permits")
    }

    /// Until when the row that is granted now is in a cooldown; none if it has none.
    pub(crate) fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let closed = self.at_least > AtLeast::default();
        closed.then(|| now.plus(self.at_least.as_duration()))
    }

    /// That of somebody who waits, from its item.
    pub(crate) fn read(item: &Item, holder: Holder, digest: RequestDigest) -> Option<Self> {
        let keep = whole(item, at::KEEP_MS).and_then(KeepTime::stored)?;
        Some(Self {
            holder,
            digest,
            keys: None,
            lifetime: Lifetime::Execution { keep },
            permits: permits(item),
            pool: Pool::read(item),
            at_least: at_least(item),
            metadata: item.get(at::METADATA).and_then(metadata)?,
            instead_of: InsteadOf::read(item),
        })
    }

    /// The holder of an item.
    pub(crate) fn holder_in(item: &Item) -> Option<Holder> {
        text(item, at::HOLDER).map(Holder::stored)
    }

    /// What [`Request::read`] reads, and the holder.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'static str, AttributeValue)> {
        let instead_of = self.instead_of.map(|whom| (at::IF_HELD, s(whom.word())));
        let all = [
            (at::HOLDER, s(self.holder.as_str())),
            (at::KEEP_MS, n(self.keep().as_millis())),
            (at::PERMITS, permits_value(self.permits)),
            (at::AT_LEAST_MS, n(self.at_least.as_millis())),
            (at::METADATA, metadata_value(&self.metadata)),
        ];
        let pool = self.pool.as_ref().map(Pool::attributes);
        all.into_iter()
            .chain(pool.into_iter().flatten())
            .chain(instead_of)
    }
}
