//! Whoever may wait asks for the key, or a permit, first: most keys are free.

use super::Queue;
use crate::{
    error::Error,
    leases::{TriedPermit, corrupt, frozen_error, other_keys, stopped_error},
    row::{Row, Stored},
    store::{Address, Store},
    transition::{Grant, GrantRefusal},
    values::Key,
};

/// What became of it.
pub(super) enum Tried {
    Granted(Address, Row),
    /// The request has it already, or, if it is re-entrant, its holder.
    Replayed(Address, Row),
    /// The request waits, or somebody else waits or has it. The first row, with the queue.
    Held(Row),
    /// Somebody else wrote the row meanwhile: ask again.
    Changed,
}

impl<S: Store> Queue<S> {
    /// Asks for the key or a permit: it is granted if nobody has it and nobody waits. What has its place keeps it, whatever stops
    /// new grants.
    pub(super) async fn try_key(
        &self,
        key: &Key,
        grant: &Grant,
        reentrant: bool,
    ) -> Result<Tried, Error> {
        let request = &grant.request.digest;
        if let Some(permits) = grant.request.permits {
            return Ok(
                match self.try_permit(key, permits, grant, reentrant).await? {
                    TriedPermit::Granted(at, row) => Tried::Granted(at, row),
                    TriedPermit::Replayed(at, row) => Tried::Replayed(at, row),
                    TriedPermit::Taken(rows) => match rows.get(&0) {
                        Some(Stored::Row(row)) if row.waiting().contains(request) => {
                            Tried::Held(row.clone())
                        }
                        _ if self.settings().stopped => return Err(stopped_error(key.clone())),
                        Some(Stored::Row(row)) => Tried::Held(row.clone()),
                        Some(Stored::Foreign(reason)) => return Err(corrupt(key.clone(), reason)),
                        // An earlier version granted other permits before the first, or it was deleted while fewer were granted.
                        Some(Stored::Absent) | None => Tried::Changed,
                    },
                },
            );
        }
        if self.settings().stopped
            && let Some(row) = self.read_queue_row(key).await?
            && row.waiting().contains(request)
        {
            return Ok(Tried::Held(row));
        }
        let first = Address::first(key);
        Ok(match self.attempt_row(&first, grant, reentrant).await? {
            Ok(row) => Tried::Granted(first, row),
            Err(GrantRefusal::Replayed(row)) => Tried::Replayed(first, row),
            Err(GrantRefusal::Held(row)) => Tried::Held(row),
            Err(GrantRefusal::Frozen(row)) if row.waiting().contains(request) => Tried::Held(row),
            Err(GrantRefusal::Consumed) => return Err(Error::Consumed { key: key.clone() }),
            Err(GrantRefusal::OtherKeys) => return Err(other_keys()),
            Err(GrantRefusal::Frozen(row)) => return Err(frozen_error(key.clone(), row)),
            Err(GrantRefusal::Corrupt(reason)) => return Err(corrupt(key.clone(), reason)),
            Err(GrantRefusal::Grantable(_)) => Tried::Changed,
        })
    }
}
