//! Freeze and unfreeze.

use serde::Serialize;

use super::AuditReason;
use crate::{
    error::Error,
    leases::Leases,
    row::Act,
    row::{Frozen, Row},
    store::Store,
    values::Key,
};

/// The answer to a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Freeze {
    /// It is frozen as of now.
    Frozen,
    /// It was frozen before; who did it and why stays.
    AlreadyFrozen,
}

/// The answer to an unfreeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Unfreeze {
    /// It can be granted again.
    Unfrozen,
    /// It was not frozen.
    NotFrozen,
}

impl<S: Store> Leases<S> {
    /// Keeps `key` from being granted, taken over or revived, until [`Leases::unfreeze`]. Whoever
    /// holds it may extend in time, and release. A key that was never leased can be frozen too.
    ///
    /// Of a semaphore all permits are frozen; an acquire that is under way at that very moment
    /// may still be granted one that was never granted before. Repeated, or cut short and called
    /// again, it goes on where it was.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Throttled`] if others kept writing to a row, and those of
    /// [`Store::apply`].
    pub async fn freeze(&self, key: &Key, because: &AuditReason) -> Result<Freeze, Error> {
        let frozen = Some(Frozen::By(self.record(Act::Freeze, because)));
        let froze = self
            .change_all(key, Act::Freeze, because, |_, row| {
                let row = match row {
                    Some(row) if row.frozen.is_some() => return Ok(None),
                    Some(row) => row.clone(),
                    None => self.untouched(because),
                };
                Ok(Some(Row {
                    frozen: frozen.clone(),
                    purge_at: Some(Row::NEVER),
                    ..row
                }))
            })
            .await?;
        Ok(if froze {
            Freeze::Frozen
        } else {
            Freeze::AlreadyFrozen
        })
    }

    /// Lets `key` be granted again.
    ///
    /// # Errors
    /// As [`Leases::freeze`].
    pub async fn unfreeze(&self, key: &Key, because: &AuditReason) -> Result<Unfreeze, Error> {
        let thawed = self
            .change_all(key, Act::Unfreeze, because, |_, row| {
                Ok(row.filter(|row| row.frozen.is_some()).map(|row| Row {
                    frozen: None,
                    // What is held is not purged, and has no need to say when.
                    purge_at: match row.holding() {
                        Some(_) => None,
                        None => Some(self.purge_at(self.now())),
                    },
                    ..row.clone()
                }))
            })
            .await?;
        Ok(if thawed {
            Unfreeze::Unfrozen
        } else {
            Unfreeze::NotFrozen
        })
    }
}
