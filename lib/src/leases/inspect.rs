//! Inspect: what the table stores, without anything that would let the reader change it.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    outcomes::{LifetimeKind, Previous},
    pagination::Cursor,
    pool::KeyOrPool,
    row::{Limit, Record, Row, Stored, Term},
    store::{Address, Entry, ItemAddress, Operations, Store},
    values::{Counter, Holder, KeepTime, Key, Metadata, Permits, Ttl},
};

#[cfg(test)]
mod tests;

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and usually the large variant"
)]
pub enum Inspected {
    /// It was leased before.
    Found {
        /// The lease; for a semaphore, that of its first permit.
        #[serde(flatten)]
        first: Inspection,
        /// For a semaphore, every permit that was ever granted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        permits: Vec<Inspection>,
    },
    /// It was never leased, or so long ago that its row is gone.
    Absent,
}

/// The state of one lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inspection {
    /// Held, expired by the reader's clock but not taken, closed, or free.
    pub state: LeaseState,
    /// The lease, without its secret.
    pub lease: LeaseView,
    /// The last grant that has ended.
    pub previous: Option<Previous>,
    /// Whether an operator froze the key, so that it cannot be granted.
    pub frozen: bool,
    /// How many may hold the key at once, if an operator has set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Box<Limit>>,
    /// Until when it is in the cooldown of its last grant, if it is: nobody is granted it before, and up to the clock margin
    /// after, also if it is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
    /// How many requests wait in the queue.
    pub waiting: u64,
    /// What an operator last did to the row, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<Record>,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Held, and its deadline is in the future.
    Held,
    /// Held, and its deadline has passed.
    Expired,
    /// Held by nobody, and not granted again yet.
    Closed,
    /// Held by nobody.
    Free,
}

/// A lease without its secret. While the key is free, it has only the fields that outlast a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseView {
    /// What is leased. As JSON a place in a pool has `pool`, with the pool's name, in place of `key`.
    #[serde(flatten, with = "KeyOrPool")]
    #[cfg_attr(feature = "schema", schemars(with = "KeyOrPool"))]
    pub key: Key,
    /// Who holds it, and until when.
    #[serde(flatten)]
    pub held: Option<HeldView>,
    /// The token of the current or last grant.
    pub fencing_token: Counter,
    /// Increases with every write of the row, except when a request joins or leaves the queue, or a look leaves the lease as it is.
    pub version: Counter,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
    /// Of how many permits the current or last grant asked for one; none for the mutex, and where a version granted it that did
    /// not store this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<Permits>,
}

/// What a lease shows only while it is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    /// Who holds it.
    pub holder: Holder,
    /// Until when it lasts.
    #[serde(flatten)]
    pub until: ViewUntil,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it was last extended, if it ever was: the last sign of a holder that renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_at: Option<Timestamp>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// The pool that it is in besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_pool: Option<Key>,
    /// The pool in which it waits: nobody has been notified of the lease yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_in_pool: Option<Key>,
}

/// Until when a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ViewUntil {
    /// Until a deadline.
    Ttl {
        /// The requested length, in seconds.
        #[serde(rename = "ttl_seconds")]
        ttl: Ttl,
        /// The deadline.
        expires_at: Timestamp,
        /// The deadline minus the guard.
        safe_until: Timestamp,
    },
    /// While the holder's execution runs.
    Execution {
        /// Always "execution".
        lifetime: LifetimeKind,
        /// How long it stays after the execution failed, was stopped or timed out, in seconds.
        #[serde(rename = "keep_seconds")]
        keep: KeepTime,
        /// When Step Functions was last asked about the execution.
        #[serde(skip_serializing_if = "Option::is_none")]
        looked_at: Option<Timestamp>,
        /// The execution has ended, and something of it may still be at work: when it is asked about again.
        #[serde(skip_serializing_if = "Option::is_none")]
        look_again_at: Option<Timestamp>,
        /// When sweep asks about the execution next, if no event comes before and nobody waits for the key.
        #[serde(skip_serializing_if = "Option::is_none")]
        look_due_at: Option<Timestamp>,
    },
}

impl HeldView {
    /// The deadline; none while the holder's execution decides.
    #[must_use]
    pub const fn expires_at(&self) -> Option<Timestamp> {
        match self.until {
            ViewUntil::Ttl { expires_at, .. } => Some(expires_at),
            ViewUntil::Execution { .. } => None,
        }
    }
}

impl LeaseView {
    /// Whether it is held, expired or free at this instant, as far as the lease shows it: whether it is closed, shows the key's
    /// [`Inspection`].
    #[must_use]
    pub fn state(&self, now: Timestamp) -> LeaseState {
        match &self.held {
            None => LeaseState::Free,
            Some(held) if held.expires_at().is_some_and(|at| at <= now) => LeaseState::Expired,
            Some(_) => LeaseState::Held,
        }
    }
}

impl LeaseState {
    /// Its word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Free => "free",
        }
    }
}

/// Leases that are held, or expired and not yet taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Listed"))]
pub struct LeasePage {
    /// The leases.
    pub leases: Vec<LeaseView>,
    /// Where the list continues, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// How many rows to read before the size of the response and the time are checked again.
const PAGE: u32 = 100;

impl LeasePage {
    /// Whether another page might exceed the 6 MB that a Lambda response may have.
    fn is_large(&self) -> bool {
        const MOST: usize = 4_000_000;
        let text = |view: &LeaseView| {
            let held = view
                .held
                .as_ref()
                .map_or(0, |held| held.holder.as_str().len() + held.metadata.bytes());
            // Names, numbers and instants. The factor is for characters that JSON escapes.
            500 + 2 * (view.key.as_str().len() + held)
        };
        self.leases.iter().map(text).sum::<usize>() > MOST
    }
}

impl<S: Store> Leases<S> {
    pub(crate) fn inspection(&self, address: Address, row: &Row) -> Inspection {
        let passed = self.takeover_deadline();
        let lease = self.view(address, row);
        Inspection {
            state: match lease.state(self.now()) {
                LeaseState::Free if row.is_closed(passed) => LeaseState::Closed,
                state => state,
            },
            previous: row.last_ended(),
            frozen: row.frozen.is_some(),
            limit: row.limit.clone(),
            opens_at: row.opens_at.filter(|_| row.is_closed(passed)),
            waiting: (row.waiting().len() + row.in_pool().waiting.len()) as u64,
            operator: row.operator.clone(),
            lease,
        }
    }

    /// The leases that `holder` holds, at most `limit` at a time. The result says where to continue, as that of
    /// [`Leases::list`] does. The index lags a little behind the rows: a lease that was just granted may be missing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cursor of another holder's list, and those of [`Store::write`].
    pub async fn held_by(
        &self,
        holder: &Holder,
        limit: u32,
        cursor: Option<Cursor>,
    ) -> Result<LeasePage, Error> {
        let from = match cursor {
            None => Cursor::start(0),
            Some(cursor) => cursor.within(holder).map(Cursor::at).ok_or_else(|| {
                Error::invalid(
                    "cursor",
                    "is not a cursor of an earlier response about this holder",
                )
            })?,
        };
        self.listed(limit, from, Some(holder)).await
    }

    /// All held leases, at most `limit` at a time, in no particular order. If there is more, the result says where to
    /// continue. A page also ends when the response would grow too large for Lambda, or when the invocation is nearly
    /// over.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn list(&self, limit: u32, cursor: Option<Cursor>) -> Result<LeasePage, Error> {
        let from = cursor.unwrap_or_else(|| Cursor::start(0));
        self.listed(limit, from, None).await
    }

    /// Everything in the index from this position on, or what is this holder's.
    async fn listed(
        &self,
        mut left: u32,
        mut cursor: Cursor,
        of: Option<&Holder>,
    ) -> Result<LeasePage, Error> {
        let mut listed = LeasePage::default();
        loop {
            let (most, time) = (left.min(PAGE), self.limit());
            let (entries, next) = match of {
                None => self.page(cursor, most).await?,
                Some(holder) => {
                    let page = self.store().held_by(holder, cursor.after(), most, time);
                    let page = page.await?;
                    (page.entries, page.next.map(Cursor::at))
                }
            };
            left = left.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            let theirs = |view: &LeaseView| {
                of.is_none_or(|holder| view.held.as_ref().is_some_and(|h| h.holder == *holder))
            };
            let views = self.views(entries).await?;
            listed.leases.extend(views.into_iter().filter(theirs));
            match next {
                None => return Ok(listed),
                Some(next) if left == 0 || listed.is_large() || self.is_nearly_over() => {
                    listed.cursor = Some(next);
                    return Ok(listed);
                }
                Some(next) => cursor = next,
            }
        }
    }

    /// Reads the rows behind index entries. It omits rows that were freed in between, and items that are not ours:
    /// inspect of the key says more.
    async fn views(&self, entries: Vec<Entry>) -> Result<Vec<LeaseView>, Error> {
        let leases = entries
            .into_iter()
            .filter_map(|entry| match entry.address? {
                ItemAddress::Row(address) => Some(address),
                _ => None,
            });
        let mut views = Vec::new();
        for address in leases {
            match self.store().read_row(&address, self.limit()).await? {
                Stored::Row(row) if row.holding().is_some() => views.push(self.view(address, &row)),
                Stored::Foreign(reason) => {
                    tracing::warn!(key = %address.key, reason, "an item is not leasehold's");
                }
                Stored::Row(_) | Stored::Absent => {}
            }
        }
        Ok(views)
    }

    pub(crate) fn view(&self, address: Address, row: &Row) -> LeaseView {
        let is_key = address.key.pool_name().is_none();
        LeaseView {
            key: address.key,
            held: row.holding().map(|held| HeldView {
                holder: row.granted_to.clone(),
                until: match held.term {
                    Term::Execution {
                        keep,
                        looked_at,
                        look_again_at,
                    } => ViewUntil::Execution {
                        lifetime: LifetimeKind::Execution,
                        keep,
                        looked_at,
                        look_again_at,
                        look_due_at: held.sweep_after,
                    },
                    Term::Ttl { ttl, expires_at } => ViewUntil::Ttl {
                        ttl,
                        expires_at,
                        safe_until: expires_at.minus(self.settings().guard),
                    },
                },
                acquired_at: held.acquired_at,
                extended_at: held.extended_at,
                metadata: held.metadata.clone(),
                in_pool: held
                    .pool
                    .as_ref()
                    .filter(|_| is_key)
                    .and_then(|pool| pool.lease())
                    .map(|pool| pool.name),
                waits_in_pool: row.waited_for_pool().map(Key::stored),
            }),
            fencing_token: row.fencing_token,
            version: row.version,
            permit: address.permit,
            permits: row.permits,
        }
    }
}
