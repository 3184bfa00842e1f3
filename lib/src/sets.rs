//! Several leases at once: acquired together or not at all, extended and released one by one.

use std::{collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    acquire::{Wish, kind, other_keys},
    clock::Timestamp,
    error::{Cause, Error},
    leases::{Leases, corrupt, frozen},
    outcomes::{
        Contention, Extended, GrantKind, Lease, Previous, ReleaseOutcome, Released, as_millis,
    },
    requests::{AcquireAll, ExtendOptions},
    row::{Row, Stored},
    store::{Address, AppliedAll, Store},
    transition::{Change, Confirm, Grant, GrantRefusal, why_not_granted},
    values::{BadValue, LeaseId, one_to_a_hundred, up_to},
};

/// Handles of leases: 1 to 100, no two of the same key and permit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Lease>")]
pub struct LeaseSet(Vec<Lease>);

impl LeaseSet {
    /// Checks `leases`.
    ///
    /// # Errors
    /// [`BadValue`] for none, too many, or two of the same key and permit.
    pub fn new(leases: Vec<Lease>) -> Result<Self, BadValue> {
        one_to_a_hundred(leases.len())?;
        let mut seen = HashSet::new();
        match leases.iter().position(|l| !seen.insert((&l.key, l.permit))) {
            Some(at) => Err(BadValue(format!("lease {at} of the list is there twice"))),
            None => Ok(Self(leases)),
        }
    }

    /// The handles, in the order given.
    #[must_use]
    pub fn as_slice(&self) -> &[Lease] {
        &self.0
    }
}

impl TryFrom<Vec<Lease>> for LeaseSet {
    type Error = BadValue;

    fn try_from(leases: Vec<Lease>) -> Result<Self, BadValue> {
        Self::new(leases)
    }
}

/// The answer to an acquire of several keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use = "somebody else may hold one of them"]
pub enum AcquiredAll {
    /// All leases are the caller's.
    #[serde(rename = "acquired")]
    Granted(GrantedAll),
    /// Somebody else holds one of the keys; the first such, in the order asked. None was granted.
    Held(Contention),
}

impl AcquiredAll {
    /// The grant.
    ///
    /// # Errors
    /// [`Error::Held`] if somebody else holds one of the keys.
    pub fn granted(self) -> Result<GrantedAll, Error> {
        match self {
            Self::Granted(granted) => Ok(granted),
            Self::Held(contention) => Err(Error::Held(Box::new(contention))),
        }
    }
}

/// Several leases, and how they came about. Every list is in the order asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantedAll {
    /// The handles.
    pub leases: Vec<Lease>,
    /// Taken over if any was; replayed if all were.
    pub grant: GrantKind,
    /// Of each key, the grant before this one.
    pub previous: Vec<Option<Previous>>,
}

/// The answer to an extend of several leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use = "the new handles carry the new deadlines"]
pub struct ExtendedAll {
    /// Revived if any was.
    pub outcome: ExtendOutcome,
    /// The handles with the deadlines that now stand, in the order given.
    pub leases: Vec<Lease>,
    /// For how long the one that had lapsed longest had.
    #[serde(
        rename = "lapsed_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_millis"
    )]
    pub lapsed: Option<Duration>,
}

/// See [`ExtendedAll::outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtendOutcome {
    /// All had been in time.
    Extended,
    /// The deadline of one had passed, and nobody held it in between.
    Revived,
}

#[expect(clippy::ref_option, reason = "what serde calls")]
fn some_millis<S: serde::Serializer>(
    length: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    as_millis(&length.unwrap_or_default(), serializer)
}

/// The answer to a release of several leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReleasedAll {
    /// The worst of the outcomes.
    pub outcome: ReleaseOutcome,
    /// The deadline of one of the handles had passed.
    pub expired: bool,
    /// What became of each, in the order given.
    pub outcomes: Vec<ReleaseOutcome>,
}

/// What stood in the way of a set.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, for a moment"
)]
enum Verdict {
    /// Nothing does: these changes may be tried (again).
    Try(Vec<(Address, Change)>),
    /// The caller has the whole set already: these are its rows.
    Replayed(Vec<Row>),
    /// The same, but not all of the rows were told: these leases stand.
    Stands(Vec<(Address, Change)>),
    Held(Address, Row),
}

impl<S: Store> Leases<S> {
    /// Grants all of the leases or none, in one transaction, so that no order of keys can end in
    /// a deadlock; then reads the tokens, which a transaction does not tell.
    ///
    /// Repeated with the same holder, request id and keys, it brings the same leases, and
    /// [`Error::Consumed`] once any of them is over. A conflict of transactions is no contention
    /// of holders: it is asked through, with jitter, as long as a request may take.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a ttl that the guard uses up, or for a request id that was granted
    /// other keys; if several keys refuse, [`Error::Corrupt`] before [`Error::Consumed`] before
    /// [`Error::Frozen`], naming the first such key; [`Error::Throttled`] if the conflicts do not
    /// end; and those of [`Store::apply`]. Contention is [`AcquiredAll::Held`].
    pub async fn acquire_all(&self, request: AcquireAll) -> Result<AcquiredAll, Error> {
        let keys = request.keys.as_slice();
        let grant = self.grant(Wish {
            holder: &request.holder,
            request_id: request.request_id,
            set_size: u16::try_from(keys.len()).unwrap_or(u16::MAX),
            ttl: request.ttl,
            metadata: request.metadata,
            over: None,
        })?;
        let first = keys.iter().map(|key| {
            let address = Address {
                key: key.clone(),
                permit: 0,
            };
            (address, one_of(&grant))
        });
        let mut changes: Vec<_> = first.collect();
        let end = self.now().plus(self.limit());
        let mut pause = FIRST_PAUSE;
        loop {
            let left = end.since(self.now());
            match self.store().apply_all(&changes, left).await? {
                AppliedAll::Done => return self.read_back(&changes).await,
                AppliedAll::Conflict => {
                    let left = end.since(self.now());
                    if left < FOR_ANOTHER {
                        return Err(Error::Throttled {
                            action: "dynamodb:UpdateItem",
                            table: self.store().name().to_owned(),
                            source: Cause::said("others kept writing to the same rows"),
                        });
                    }
                    self.sleep(up_to(pause).min(left.saturating_sub(FOR_ANOTHER)))
                        .await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                AppliedAll::Refused(stood) => {
                    match judge(&changes, stood, &grant, request.reentrant)? {
                        Verdict::Try(again) => changes = again,
                        Verdict::Replayed(rows) => {
                            let addresses = changes.into_iter().map(|(address, _)| address);
                            let rows = addresses.zip(rows);
                            return self.together(rows, GrantKind::Replayed);
                        }
                        Verdict::Stands(leases) => return self.read_back(&leases).await,
                        Verdict::Held(address, row) => {
                            return self
                                .contention(address, row, &grant.holder)
                                .map(AcquiredAll::Held);
                        }
                    }
                }
            }
        }
    }

    /// The rows that a transaction wrote.
    async fn read_back(&self, changes: &[(Address, Change)]) -> Result<AcquiredAll, Error> {
        let addresses: Vec<_> = changes.iter().map(|(address, _)| address.clone()).collect();
        let rows = self.store().read_all(&addresses, self.limit()).await?;
        let mut ours = Vec::with_capacity(changes.len());
        for ((address, change), stored) in changes.iter().zip(rows) {
            let key = address.key.clone();
            match stored {
                Stored::Row(row) if is_of(&row, change) => ours.push((address.clone(), row)),
                Stored::Foreign(reason) => return Err(corrupt(key, reason)),
                // It took longer to read it than the lease lasted, and somebody has ended it.
                Stored::Row(_) | Stored::Absent => return Err(Error::Consumed { key }),
            }
        }
        let granted = changes.iter().zip(&ours);
        let granted = granted.filter(|((_, change), _)| matches!(change, Change::Grant(_)));
        let grant = granted
            .map(|(_, (_, row))| kind(row.previous.as_ref()))
            .max_by_key(|kind| *kind == GrantKind::Takeover)
            .unwrap_or(GrantKind::Replayed);
        self.together(ours.into_iter(), grant)
    }

    fn together(
        &self,
        rows: impl Iterator<Item = (Address, Row)>,
        grant: GrantKind,
    ) -> Result<AcquiredAll, Error> {
        let (mut leases, mut previous) = (Vec::new(), Vec::new());
        for (address, row) in rows {
            previous.push(row.previous.clone());
            leases.push(self.handle(address, row)?);
        }
        Ok(AcquiredAll::Granted(GrantedAll {
            leases,
            grant,
            previous,
        }))
    }

    /// As [`Leases::extend`], one lease after the other; each stands for itself.
    ///
    /// # Errors
    /// As [`Leases::extend`]: [`Error::Lost`] if any is lost, else the worst that happened. All of
    /// them were tried, and [`Error::OfSeveral`] says what became of each.
    pub async fn extend_all(
        &self,
        leases: &LeaseSet,
        options: ExtendOptions,
    ) -> Result<ExtendedAll, Error> {
        let mut tried = Vec::with_capacity(leases.0.len());
        for lease in &leases.0 {
            tried.push(self.extend(lease, options).await);
        }
        let outcomes = told(leases, &tried, |extended| match extended {
            Extended::Extended { .. } => "extended",
            Extended::Revived { .. } => "revived",
        });
        let extended = all_well(tried, outcomes)?;
        let lapsed = extended.iter().filter_map(|extended| match extended {
            Extended::Extended { .. } => None,
            Extended::Revived { lapsed, .. } => Some(*lapsed),
        });
        let lapsed = lapsed.max();
        Ok(ExtendedAll {
            outcome: match lapsed {
                None => ExtendOutcome::Extended,
                Some(_) => ExtendOutcome::Revived,
            },
            lapsed,
            leases: extended.into_iter().map(Extended::into_lease).collect(),
        })
    }

    /// As [`Leases::release`], one lease after the other; each stands for itself.
    ///
    /// # Errors
    /// As [`Leases::release`], the worst that happened. All of them were tried, and
    /// [`Error::OfSeveral`] says what became of each.
    pub async fn release_all(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        let mut tried = Vec::with_capacity(leases.0.len());
        for lease in &leases.0 {
            tried.push(self.release(lease).await);
        }
        released_all(leases, tried)
    }

    /// As [`Leases::release_strictly`], one lease after the other; each stands for itself.
    ///
    /// # Errors
    /// As [`Leases::release_all`], and [`Error::Lost`] if any was granted to somebody else.
    pub async fn release_all_strictly(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        let mut tried = Vec::with_capacity(leases.0.len());
        for lease in &leases.0 {
            tried.push(self.release_strictly(lease).await);
        }
        released_all(leases, tried)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// What has to be left of the time for one more attempt.
const FOR_ANOTHER: Duration = Duration::from_millis(200);

/// Each lease of the set has a proof of its own.
fn one_of(grant: &Grant) -> Change {
    Change::Grant(Grant {
        lease_id: LeaseId::random(),
        ..grant.clone()
    })
}

fn is_of(row: &Row, change: &Change) -> bool {
    let lease_id = match change {
        Change::Grant(grant) => &grant.lease_id,
        Change::Confirm(confirm) => &confirm.lease_id,
        _ => return false,
    };
    row.holding().is_some_and(|held| held.lease_id == *lease_id)
}

/// What stands in the way of a set, the worst first: `stood` has what stood in the place of each
/// change that was refused.
fn judge(
    changes: &[(Address, Change)],
    stood: Vec<Option<Stored>>,
    grant: &Grant,
    reentrant: bool,
) -> Result<Verdict, Error> {
    let mut again = Vec::with_capacity(changes.len());
    let (mut consumed, mut others, mut ice, mut held) = (None, false, None, None);
    let (mut own, mut rows) = (false, Vec::new());
    for ((address, change), stood) in changes.iter().zip(stood) {
        let Some(stood) = stood else {
            again.push((address.clone(), change.clone()));
            continue;
        };
        // A lease of the holder's own that was to stay as it was: it did not. Ask for it anew.
        if matches!(change, Change::Confirm(_)) {
            again.push((address.clone(), one_of(grant)));
            continue;
        }
        let key = &address.key;
        let tried = match change {
            Change::Grant(tried) => tried,
            _ => grant,
        };
        match why_not_granted(stood, tried, reentrant) {
            GrantRefusal::Corrupt(reason) => return Err(corrupt(key.clone(), reason)),
            GrantRefusal::Consumed => {
                consumed = consumed.or_else(|| Some(Error::Consumed { key: key.clone() }));
            }
            GrantRefusal::OtherKeys => others = true,
            GrantRefusal::Suits(tokens) => {
                let grant = one_of(&grant.suited_to(tokens));
                again.push((address.clone(), grant));
            }
            GrantRefusal::Frozen(row) => ice = ice.or_else(|| Some(frozen(key.clone(), row))),
            GrantRefusal::Held(row) => held = held.or_else(|| Some((address.clone(), row))),
            GrantRefusal::Replayed(row) => {
                own |= row.request == grant.request;
                if let Some(held) = row.holding() {
                    let change = confirm(&row, &held.lease_id, grant.now);
                    again.push((address.clone(), change));
                }
                rows.push(row);
            }
        }
    }
    if let Some(error) = consumed {
        return Err(error);
    }
    let missing = again
        .iter()
        .any(|(_, change)| matches!(change, Change::Grant(_)));
    if others || (own && (missing || ice.is_some() || held.is_some())) {
        return Err(other_keys());
    }
    if let Some(error) = ice {
        return Err(error);
    }
    Ok(match held {
        Some((address, row)) => Verdict::Held(address, row),
        None if missing => Verdict::Try(again),
        None if rows.len() == changes.len() => Verdict::Replayed(rows),
        None => Verdict::Stands(again),
    })
}

/// That a lease which the holder has already goes on while the others are granted.
fn confirm(row: &Row, lease_id: &LeaseId, now: Timestamp) -> Change {
    Change::Confirm(Confirm {
        lease_id: lease_id.clone(),
        fencing_token: row.fencing_token,
        now,
    })
}

fn released_all(
    leases: &LeaseSet,
    tried: Vec<Result<Released, Error>>,
) -> Result<ReleasedAll, Error> {
    let outcomes = told(leases, &tried, |released| released.outcome.as_str());
    let released = all_well(tried, outcomes)?;
    let outcomes: Vec<_> = released.iter().map(|released| released.outcome).collect();
    Ok(ReleasedAll {
        outcome: outcomes
            .iter()
            .copied()
            .max()
            .unwrap_or(ReleaseOutcome::Released),
        expired: released.iter().any(|released| released.expired),
        outcomes,
    })
}

/// Each key's outcome in words, as many as fit in a message.
fn told<T>(
    leases: &LeaseSet,
    tried: &[Result<T, Error>],
    word: impl Fn(&T) -> &'static str,
) -> String {
    const MOST: usize = 4000;
    let mut line = String::new();
    for (at, (lease, outcome)) in leases.0.iter().zip(tried).enumerate() {
        if line.len() > MOST {
            return format!("{line}, and {} more", tried.len() - at);
        }
        let comma = if at == 0 { "" } else { ", " };
        let word = outcome.as_ref().map_or_else(Error::name, &word);
        let key: String = lease.key.as_str().chars().take(100).collect();
        line = format!("{line}{comma}{key}: {word}");
    }
    line
}

/// What all of them came to, or the worst of the errors.
fn all_well<T>(tried: Vec<Result<T, Error>>, outcomes: String) -> Result<Vec<T>, Error> {
    let (mut well, mut worst) = (Vec::with_capacity(tried.len()), None::<Error>);
    for outcome in tried {
        match outcome {
            Ok(outcome) => well.push(outcome),
            Err(error) if worst.as_ref().is_none_or(|w| badness(&error) > badness(w)) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    match worst {
        None => Ok(well),
        // The whole request is wrong, not one of its leases.
        Some(error @ Error::Invalid { .. }) => Err(error),
        Some(worst) => Err(Error::OfSeveral {
            worst: Box::new(worst),
            outcomes,
        }),
    }
}

/// What the caller has to know first: that it must stop.
const fn badness(error: &Error) -> u8 {
    match error {
        Error::Lost { .. } => 6,
        Error::Corrupt { .. } => 5,
        Error::Expired { .. } => 4,
        Error::Frozen { .. } => 3,
        Error::Denied { .. } | Error::Misconfigured { .. } => 2,
        Error::Unavailable { .. } => 1,
        _ => 0,
    }
}
