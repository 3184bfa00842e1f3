//! Several leases at once: acquired together or not at all, extended and released separately.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    leases::{Freed, Leases},
    outcomes::{
        Contention, Extended, GrantKind, Lease, Previous, ReleaseOutcome, Released, as_millis,
    },
    requests::ExtendOptions,
    retry::{AT_ONCE, some_at_a_time},
    store::Store,
    values::{BadValue, one_to_a_hundred},
};

mod acquiring;

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

/// The result of an acquire of several keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use = "somebody else may hold one of them"]
pub enum AcquiredAll {
    /// All leases are the caller's.
    #[serde(rename = "acquired")]
    Granted(GrantedAll),
    /// Somebody else holds one of the keys; the first such key in the order asked. No lease was granted.
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

/// Several leases, and how they were granted. Every list is in the order asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantedAll {
    /// The handles.
    pub leases: Vec<Lease>,
    /// Taken over if any lease was; replayed if none was granted by this call; re-entered if all of them are of other requests.
    pub grant: GrantKind,
    /// For each key, the grant before this one.
    pub previous: Vec<Option<Previous>>,
}

/// The result of an extend of several leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[must_use = "the new handles carry the new deadlines"]
pub struct ExtendedAll {
    /// Revived if any lease was.
    pub outcome: ExtendOutcome,
    /// The handles with the current deadlines, in the order given.
    pub leases: Vec<Lease>,
    /// The longest time by which a deadline had passed, in milliseconds.
    #[serde(
        rename = "lapsed_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "some_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub lapsed: Option<Duration>,
}

/// The outcome of an extend of several leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExtendOutcome {
    /// All extends were in time.
    Extended,
    /// The deadline of one had passed, and nobody held it in between.
    Revived,
}

#[expect(clippy::ref_option, reason = "required by serde")]
fn some_millis<S: serde::Serializer>(
    length: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    as_millis(&length.unwrap_or_default(), serializer)
}

/// The result of a release of several leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[must_use = "one of them may have been lost to somebody else"]
pub struct ReleasedAll {
    /// The worst of the outcomes.
    pub outcome: ReleaseOutcome,
    /// The deadline of one of the handles had passed.
    pub expired: bool,
    /// The outcome of each release, in the order given.
    pub outcomes: Vec<ReleaseOutcome>,
}

impl<S: Store> Leases<S> {
    /// As [`Leases::extend`], several leases at a time; each is independent of the others.
    ///
    /// # Errors
    /// As [`Leases::extend`]: [`Error::Lost`] if any is lost, otherwise the worst error. All were tried, and
    /// [`Error::Multiple`] gives the outcome of each.
    pub async fn extend_all(
        &self,
        leases: &LeaseSet,
        options: ExtendOptions,
    ) -> Result<ExtendedAll, Error> {
        self.extend_or_end_all(leases, options).await.0
    }

    /// The same, with the rows whose leases this call ended.
    pub(crate) async fn extend_or_end_all(
        &self,
        leases: &LeaseSet,
        options: ExtendOptions,
    ) -> (Result<ExtendedAll, Error>, Vec<Freed>) {
        // Check all before the first write, so that a malformed request changes nothing.
        for lease in &leases.0 {
            if let Err(error) = self.check_extend(lease, options) {
                return (Err(error), Vec::new());
            }
        }
        // Once, and not by each of the extends that run at the same time.
        if let Err(error) = self.follow_rules_if_possible().await {
            return (Err(error), Vec::new());
        }
        let extends = leases.0.iter().map(|lease| async move {
            let mut freed = None;
            let extended = self.extend_or_end(lease, options, &mut freed).await;
            (extended, freed)
        });
        let (tried, freed): (Vec<_>, Vec<_>) = some_at_a_time(AT_ONCE, extends.collect())
            .await
            .into_iter()
            .unzip();
        (
            extended_all(leases, tried),
            freed.into_iter().flatten().collect(),
        )
    }

    /// As [`Leases::release`], several leases at a time; each is independent of the others.
    ///
    /// # Errors
    /// As [`Leases::release`], the worst error. All were tried, and [`Error::Multiple`] gives the outcome of each.
    pub async fn release_all(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        self.end_all(leases, false).await.0
    }

    /// As [`Leases::release_strictly`], several leases at a time; each is independent of the others.
    ///
    /// # Errors
    /// As [`Leases::release_all`], and [`Error::Lost`] if any was granted to somebody else.
    pub async fn release_all_strictly(&self, leases: &LeaseSet) -> Result<ReleasedAll, Error> {
        self.end_all(leases, true).await.0
    }

    /// The same, with the rows that are free.
    pub(crate) async fn end_all(
        &self,
        leases: &LeaseSet,
        strictly: bool,
    ) -> (Result<ReleasedAll, Error>, Vec<Freed>) {
        if let Err(error) = self.follow_rules_if_possible().await {
            return (Err(error), Vec::new());
        }
        let ends = leases.0.iter().map(|lease| self.end(lease, strictly));
        let mut all_freed = Vec::new();
        let ended = some_at_a_time(AT_ONCE, ends.collect()).await.into_iter();
        let tried = ended.map(|ended| {
            ended.map(|(released, freed)| {
                all_freed.extend(freed);
                released
            })
        });
        let tried = tried.collect();
        (released_all(leases, tried), all_freed)
    }
}

fn extended_all(
    leases: &LeaseSet,
    tried: Vec<Result<Extended, Error>>,
) -> Result<ExtendedAll, Error> {
    let outcomes = outcomes_of(leases, &tried, |extended| match extended {
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

fn released_all(
    leases: &LeaseSet,
    tried: Vec<Result<Released, Error>>,
) -> Result<ReleasedAll, Error> {
    let outcomes = outcomes_of(leases, &tried, |released| released.outcome.as_str());
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
fn outcomes_of<T>(
    leases: &LeaseSet,
    tried: &[Result<T, Error>],
    word: impl Fn(&T) -> &'static str,
) -> String {
    const MOST: usize = 4000;
    let mut line = String::from("of several leases, ");
    for (at, (lease, outcome)) in leases.0.iter().zip(tried).enumerate() {
        if line.len() > MOST {
            let _ = write!(line, ", and {} more", tried.len() - at);
            break;
        }
        let comma = if at == 0 { "" } else { ", " };
        let word = outcome.as_ref().map_or_else(Error::name, &word);
        let key: String = lease.key.as_str().chars().take(100).collect();
        // Writing to a string does not fail.
        let _ = write!(line, "{comma}{key}: {word}");
    }
    line
}

/// All results, or the worst of the errors.
fn all_well<T>(tried: Vec<Result<T, Error>>, outcomes: String) -> Result<Vec<T>, Error> {
    let (mut well, mut worst) = (Vec::with_capacity(tried.len()), None::<Error>);
    for outcome in tried {
        match outcome {
            Ok(outcome) => well.push(outcome),
            Err(error)
                if worst
                    .as_ref()
                    .is_none_or(|w| error.kind().severity > w.kind().severity) =>
            {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    match worst {
        None => Ok(well),
        Some(worst) => Err(Error::Multiple {
            worst: Box::new(worst),
            outcomes,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AcquireAll, Settings,
        store::wire::{ROUND_TRIP, Wire},
        test_support::make,
    };

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
    async fn sets_send_ten_at_once() {
        let leases = Leases::new(Wire::default(), Settings::default());
        let keys = (0..100).map(|n| make::key(format!("k{n}")));
        let keys = make::keys(keys.collect());
        let ttl = make::ttl(Duration::from_mins(1));
        let set = AcquireAll::new(keys, make::holder("h"), ttl);
        let set = leases.acquire_all(set).await.expect("an answer").granted();
        let set = LeaseSet::new(set.expect("a grant").leases).expect("valid");
        let start = tokio::time::Instant::now();
        let extended = leases.extend_all(&set, ExtendOptions::default()).await;
        assert_eq!(extended.expect("extended").leases.len(), 100);
        assert_eq!(start.elapsed(), 10 * ROUND_TRIP);
        let _ = leases.release_all(&set).await.expect("released");
        assert_eq!(start.elapsed(), 20 * ROUND_TRIP);
    }
}
