//! The results of the calls: the portable handle of a lease, and one type per call. Serialized, they are the JSON of
//! the functions, field for field.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    clock::Timestamp,
    values::{BadValue, Counter, Holder, Key, LeaseId, Metadata, Ttl},
};

/// The handle of a lease: plain data that any later process may extend or release with.
///
/// The handle is as powerful as the lease: anybody who has it can end the lease. `Debug` omits the `lease_id`;
/// serialization does not. Fields that this version does not know are ignored, because a newer function may have
/// granted the lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Handle", into = "Handle")]
#[non_exhaustive]
pub struct Lease {
    /// What is leased.
    pub key: Key,
    /// Who holds it.
    pub holder: Holder,
    /// Proof of ownership: a secret.
    pub lease_id: LeaseId,
    /// Public and ordered: every later grant of the key has a larger one. Store it with the data that the lease
    /// protects, and refuse smaller ones.
    pub fencing_token: Counter,
    /// Increases with every write of the row, except when a request joins or leaves the queue, or a look leaves the lease as it is.
    pub version: Counter,
    /// Its deadline. None for an execution lease, which lasts while its holder runs.
    pub deadline: Option<Deadline>,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
    /// It is the lease of another request of the same holder, by a request that is [`reentrant`](crate::Acquire::reentrant). Release
    /// keeps it, for that request to end.
    pub reentered: bool,
    /// The pool that it is in besides. Release and extend are for both.
    pub pool: Option<PoolLease>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
}

/// The pool that a lease is in besides its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolLease {
    /// Its name.
    pub name: Key,
}

/// The deadline of a lease, and how it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The requested length.
    pub ttl: Ttl,
    /// The deadline. After it, and after the clock margin, anybody may be granted the key.
    pub expires_at: Timestamp,
    /// The deadline minus the guard: the holder must not touch the resource after it.
    pub safe_until: Timestamp,
}

/// What ends a lease: its deadline, or the end of the execution that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LifetimeKind {
    /// A deadline.
    Ttl,
    /// The end of the execution.
    Execution,
}

/// The handle as JSON: with `"lifetime": "execution"`, or with a length and a deadline.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Lease"))]
#[cfg_attr(feature = "schema", schemars(transform = one_or_the_other))]
pub(crate) struct Handle {
    /// What is leased.
    key: Key,
    /// Who holds it.
    holder: Holder,
    /// Proof of ownership: a secret.
    lease_id: LeaseId,
    /// Public and ordered: every later grant of the key has a larger one.
    fencing_token: Counter,
    /// Increases with every write of the row, except when a request joins or leaves the queue, or a look leaves the lease as it is.
    version: Counter,
    /// "execution" if the lease lasts while its holder, an execution, runs; then it has no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime: Option<LifetimeKind>,
    /// The requested length, in seconds.
    #[serde(
        rename = "ttl_seconds",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    ttl: Option<Ttl>,
    /// When it was granted.
    acquired_at: Timestamp,
    /// The deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// The deadline minus the guard: the holder must not touch the resource after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    safe_until: Option<Timestamp>,
    /// Which of a semaphore's permits; 0 for a mutex.
    #[serde(default, deserialize_with = "crate::values::small")]
    permit: u16,
    /// It is the lease of another request of the same holder: release keeps it, for that request to end.
    #[serde(default, skip_serializing_if = "is_false")]
    reentered: bool,
    /// The pool that it is in besides, if it asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<PoolLease>,
    /// What the holder wants others to see.
    #[serde(default)]
    metadata: Metadata,
}

/// In the schema: a length and a deadline, or the lifetime of an execution.
#[cfg(feature = "schema")]
fn one_or_the_other(schema: &mut schemars::Schema) {
    let none = serde_json::json!({"ttl_seconds": false, "expires_at": false, "safe_until": false});
    let lifetime = serde_json::json!({"lifetime": {"const": "execution"}});
    let rules = [
        (
            "if",
            serde_json::json!({"properties": lifetime, "required": ["lifetime"]}),
        ),
        ("then", serde_json::json!({"properties": none})),
        (
            "else",
            serde_json::json!({"required": ["ttl_seconds", "expires_at", "safe_until"]}),
        ),
    ];
    let object = schema.ensure_object();
    object.extend(rules.map(|(name, rule)| (name.to_owned(), rule)));
}

impl From<Lease> for Handle {
    fn from(lease: Lease) -> Self {
        let deadline = lease.deadline;
        Self {
            key: lease.key,
            holder: lease.holder,
            lease_id: lease.lease_id,
            fencing_token: lease.fencing_token,
            version: lease.version,
            lifetime: deadline.is_none().then_some(LifetimeKind::Execution),
            ttl: deadline.map(|deadline| deadline.ttl),
            acquired_at: lease.acquired_at,
            expires_at: deadline.map(|deadline| deadline.expires_at),
            safe_until: deadline.map(|deadline| deadline.safe_until),
            permit: lease.permit,
            reentered: lease.reentered,
            pool: lease.pool,
            metadata: lease.metadata,
        }
    }
}

impl TryFrom<Handle> for Lease {
    type Error = BadValue;

    fn try_from(handle: Handle) -> Result<Self, BadValue> {
        let of_execution = handle.lifetime == Some(LifetimeKind::Execution);
        let deadline = match (handle.ttl, handle.expires_at, handle.safe_until) {
            (None, None, None) if of_execution => None,
            (Some(ttl), Some(expires_at), Some(safe_until)) if !of_execution => Some(Deadline {
                ttl,
                expires_at,
                safe_until,
            }),
            _ if of_execution => {
                let problem = "a lease with lifetime \"execution\" has no ttl_seconds, expires_at, safe_until";
                return Err(BadValue(problem.to_owned()));
            }
            (ttl, expires_at, _) => {
                let missing = match (ttl, expires_at) {
                    (None, _) => "ttl_seconds",
                    (_, None) => "expires_at",
                    _ => "safe_until",
                };
                return Err(BadValue(format!("missing field `{missing}`")));
            }
        };
        Ok(Self {
            key: handle.key,
            holder: handle.holder,
            lease_id: handle.lease_id,
            fencing_token: handle.fencing_token,
            version: handle.version,
            deadline,
            acquired_at: handle.acquired_at,
            permit: handle.permit,
            reentered: handle.reentered,
            pool: handle.pool,
            metadata: handle.metadata,
        })
    }
}

/// What a holder should do about its lease now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// More than a third of the ttl is left: continue.
    Safe,
    /// A third of the ttl or less is left: extend before anything else.
    Danger,
    /// `safe_until` has passed: stop touching the resource.
    Stop,
}

impl Lease {
    /// The deadline. An execution lease has none, which is one that never passes: [`Timestamp::MAX`].
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.deadline.map_or(Timestamp::MAX, |it| it.expires_at)
    }

    /// The holder must not touch the resource after this instant. An execution lease lasts while its holder runs:
    /// [`Timestamp::MAX`].
    #[must_use]
    pub fn safe_until(&self) -> Timestamp {
        self.deadline.map_or(Timestamp::MAX, |it| it.safe_until)
    }

    /// The requested length; none for an execution lease.
    #[must_use]
    pub fn ttl(&self) -> Option<Ttl> {
        self.deadline.map(|deadline| deadline.ttl)
    }

    /// How long the holder may still touch the resource: until `safe_until`.
    #[must_use]
    pub fn remaining(&self, now: Timestamp) -> Duration {
        self.safe_until().since(now)
    }

    /// When the next extend is due: a third of the ttl before `safe_until`, so that two attempts may fail before the
    /// holder has to stop.
    #[must_use]
    pub fn extend_due(&self) -> Timestamp {
        let third = self.ttl().map(|ttl| ttl.as_duration() / 3);
        self.safe_until().minus(third.unwrap_or_default())
    }

    /// Whether to continue, to extend, or to stop.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> LeaseStatus {
        let left = self.remaining(now);
        if left.is_zero() {
            LeaseStatus::Stop
        } else if self.ttl().is_some_and(|ttl| left <= ttl.as_duration() / 3) {
            LeaseStatus::Danger
        } else {
            LeaseStatus::Safe
        }
    }
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its holder released it, or its execution ended, also by a failure, and every task of it had answered.
    Released,
    /// Its deadline passed, or its execution ended while something of it might be at work: its holder may have left its
    /// work unfinished.
    Expired,
    /// An operator ended it.
    Forced,
}

impl Ended {
    pub(crate) const ALL: [Self; 3] = [Self::Released, Self::Expired, Self::Forced];

    /// Its word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Forced => "forced",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ended| ended.as_str() == name)
    }
}

/// An earlier grant of the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Previous {
    /// Who held it.
    pub holder: Holder,
    /// Its token.
    pub fencing_token: Counter,
    /// How it ended. Unless that is `released`, its holder may have left its work unfinished: repair that first.
    pub ended: Ended,
}

/// The result of an acquire. Contention is a result, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use = "somebody else may hold it"]
pub enum Acquired {
    /// The lease is the caller's.
    #[serde(rename = "acquired")]
    Granted(Granted),
    /// Somebody else holds it.
    Held(Contention),
}

/// A lease, and how it was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Granted {
    /// The handle.
    pub lease: Lease,
    /// New, replayed, re-entered, or taken over.
    pub grant: GrantKind,
    /// The grant before this one. A replay returns the same: branch on this, not on `grant`.
    pub previous: Option<Previous>,
}

/// How a lease was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrantKind {
    /// The key was free.
    New,
    /// The same request had it already: a response was lost, or the call was repeated.
    Replayed,
    /// The holder had it by another request, and this one is reentrant: nothing was granted, and its release keeps the lease.
    Reentered,
    /// The grant before it did not end as `released`.
    Takeover,
}

impl GrantKind {
    /// The kind of a grant follows from how the grant before it ended.
    pub(crate) const fn after(previous: Option<&Previous>) -> Self {
        match previous {
            None
            | Some(Previous {
                ended: Ended::Released,
                ..
            }) => Self::New,
            Some(_) => Self::Takeover,
        }
    }
}

/// Who holds the key, and when to ask again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contention {
    /// The lease that is in the way.
    pub held: HeldLease,
    /// When to ask again; none if an execution lease is in the way, which no clock ends.
    #[serde(flatten)]
    pub retry: Option<Retry>,
}

/// When to ask again for a lease that has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retry {
    /// The first instant at which a request by the clock can succeed without a release.
    pub retry_at: Timestamp,
    /// The holder's ttl in seconds, rounded up, and one more for each 1000 begun: how long to wait before the next request by
    /// observation. Of a key in a cooldown, the seconds until `retry_at`.
    pub wait_seconds: u64,
}

/// The length and the deadline of somebody else's lease; an execution lease says so instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum HeldUntil {
    /// Until a deadline.
    Ttl {
        /// The requested length, in seconds.
        #[serde(rename = "ttl_seconds")]
        ttl: Ttl,
        /// The deadline.
        expires_at: Timestamp,
    },
    /// While the holder's execution runs.
    Execution {
        /// Always "execution".
        lifetime: LifetimeKind,
    },
    /// Nobody holds it any more, and it is in a cooldown after its last grant.
    Closed {
        /// Until then.
        opens_at: Timestamp,
    },
}

impl HeldUntil {
    /// From the deadline of a lease.
    pub(crate) fn of(deadline: Option<Deadline>) -> Self {
        deadline.map_or(
            Self::Execution {
                lifetime: LifetimeKind::Execution,
            },
            |deadline| Self::Ttl {
                ttl: deadline.ttl,
                expires_at: deadline.expires_at,
            },
        )
    }
}

impl std::fmt::Display for HeldUntil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ttl { expires_at, .. } => write!(f, "until {expires_at}"),
            Self::Execution { .. } => f.write_str("while its execution runs"),
            Self::Closed { opens_at } => write!(f, "closed until {opens_at}"),
        }
    }
}

/// Somebody else's lease, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldLease {
    /// What is leased.
    pub key: Key,
    /// Who holds it; of a key in a cooldown, who held it last.
    pub holder: Holder,
    /// Its token.
    pub fencing_token: Counter,
    /// The version that an observer compares.
    pub version: Counter,
    /// Until when it lasts.
    #[serde(flatten)]
    pub until: HeldUntil,
    /// What the holder wants others to see.
    pub metadata: Metadata,
    /// How many requests wait in the queue.
    pub waiting: u64,
    /// Which of a semaphore's permits; 0 for a mutex.
    pub permit: u16,
    /// The caller's own holder holds it, by another request.
    pub by_you: bool,
}

impl std::fmt::Display for HeldLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, holder, until) = (&self.key, &self.holder, self.until);
        match until {
            HeldUntil::Closed { .. } => write!(f, "{key} is {until}, after its grant to {holder}"),
            _ if self.by_you => write!(
                f,
                "{key} is held by the caller itself, {holder}, by another request, {until}: release that lease first, or ask with reentrant"
            ),
            _ => write!(f, "{key} is held by {holder} {until}"),
        }
    }
}

/// The result of an extend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use = "the new handle carries the new deadline"]
pub enum Extended {
    /// The lease lasts at least as long as requested.
    Extended {
        /// The handle with the current deadline.
        lease: Lease,
    },
    /// The deadline had passed, and nobody held it in between.
    Revived {
        /// The handle with the new deadline.
        lease: Lease,
        /// How long ago the deadline had passed, in milliseconds.
        #[serde(rename = "lapsed_ms", serialize_with = "as_millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        lapsed: Duration,
    },
}

impl Extended {
    /// The handle with the current deadline.
    #[must_use]
    pub fn into_lease(self) -> Lease {
        match self {
            Self::Extended { lease } | Self::Revived { lease, .. } => lease,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
pub(crate) const fn is_zero(n: &u64) -> bool {
    *n == 0
}

pub(crate) fn as_millis<S: Serializer>(
    length: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[must_use = "it may have been lost to somebody else"]
pub struct Released {
    /// How the release ended.
    pub outcome: ReleaseOutcome,
    /// The deadline of the handle had passed.
    pub expired: bool,
}

/// How a release ended, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReleaseOutcome {
    /// The handle is of a re-entered lease: nothing was written, and the lease ends by the request that was granted it.
    Kept,
    /// It ended with this call.
    Released,
    /// It had ended before: released, swept, or the row is gone.
    AlreadyReleased,
    /// Somebody else was granted it in the meantime; their lease is untouched. The row remembers the last three
    /// releases, and this was none of them.
    Lost,
}

impl ReleaseOutcome {
    /// Its word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Released => "released",
            Self::AlreadyReleased => "already_released",
            Self::Lost => "lost",
        }
    }
}
