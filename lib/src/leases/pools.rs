//! The end of a permit of a pool, with the grant of the key that it belongs to.

use super::{Freed, Leases, TRIES};
use crate::{
    error::Error,
    outcomes::{Ended, PoolLease},
    pool::{Entry, Pool},
    request::Request,
    row::{InPool, PoolPermit, Row, Stored},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Leave, LeaveReason, Prove, Release},
    values::{AtLeast, Key, RequestDigest},
};

impl<S: Store> Leases<S> {
    /// Gives up what the grant in this row had in its pool: its permit, or its place in the queue. The grant has ended, or ends next. With the
    /// permit's row, if that is free now. It may be repeated.
    pub(crate) async fn leave_pool(
        &self,
        at: &Address,
        ended: &Row,
    ) -> Result<Option<Freed>, Error> {
        let Some(pool) = ended.holding().and_then(|held| held.pool.as_ref()) else {
            return Ok(None);
        };
        if let Some(permit) = &pool.permit {
            return self.release_permit(&pool.key, permit).await;
        }
        let entry = Entry::in_row(at, ended);
        self.leave_as(&pool.key, &entry.digest()).await
    }

    /// The same for a caller whose own work is done: what fails here is repaired by a check of the pool's row.
    pub(crate) async fn leave_pool_after(&self, at: &Address, ended: &Row) -> Option<Box<Freed>> {
        match self.leave_pool(at, ended).await {
            Ok(freed) => freed.map(Box::new),
            Err(error) => {
                error.count();
                let (key, problem) = (&at.key, error.in_full());
                tracing::error!(%key, problem, "its permit of the pool is left to sweep");
                None
            }
        }
    }

    /// The same for the permit in a handle.
    pub(crate) async fn release_pool(&self, lease: &PoolLease) -> Result<Option<Freed>, Error> {
        let permit = PoolPermit {
            permit: lease.permit,
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
        };
        self.release_permit(&Key::of_pool(&lease.name), &permit)
            .await
    }

    /// Whether it is the handle's still: as [`Change::Prove`].
    pub(crate) async fn prove_pool(&self, lease: &PoolLease) -> Result<bool, Error> {
        let at = Address {
            key: Key::of_pool(&lease.name),
            permit: lease.permit,
        };
        let change = Change::Prove(Prove {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            now: self.now(),
        });
        let applied = self.store().apply(&at, &change, self.limit()).await?;
        Ok(matches!(applied, Applied::Done { .. }))
    }

    /// Whether the grant in this row has its permit still, if it needs one: an operator may have taken it away.
    pub(crate) async fn has_its_permit(&self, row: &Row) -> Result<bool, Error> {
        let pool = row.holding().and_then(|held| held.pool.as_deref());
        match pool.and_then(InPool::lease) {
            Some(permit) => Box::pin(self.prove_pool(&permit)).await,
            None => Ok(true),
        }
    }

    async fn release_permit(
        &self,
        pool: &Key,
        permit: &PoolPermit,
    ) -> Result<Option<Freed>, Error> {
        let at = Address {
            key: pool.clone(),
            permit: permit.permit,
        };
        let change = Change::Release(Release {
            lease_id: permit.lease_id.clone(),
            fencing_token: permit.fencing_token,
            purge_at: self.purge_at(permit.fencing_token),
        });
        Ok(
            match self.store().apply(&at, &change, self.limit()).await? {
                Applied::Done { row, .. } => Some(Freed::of_execution(&at, row)),
                // Whoever released it may have died before it served the queue.
                Applied::Refused(Stored::Row(row))
                    if row.holding().is_none() && row.fencing_token == permit.fencing_token =>
                {
                    Some(Freed::of_execution(&at, row))
                }
                Applied::Refused(_) => None,
            },
        )
    }

    /// Takes an entry out of the queue of a pool; or ends the permit that it was granted, of which its key's row does not know.
    async fn leave_as(&self, pool: &Key, entry: &RequestDigest) -> Result<Option<Freed>, Error> {
        for _ in 0..TRIES {
            let rows = self.read_rows(pool).await?;
            if let Some((permit, row)) = rows.held_for(entry) {
                let at = Address {
                    key: pool.clone(),
                    permit,
                };
                if let Some(freed) = self.end_as_read(&at, row, Ended::Released).await? {
                    return Ok(Some(freed));
                }
                continue;
            }
            let Some(place) = rows.waiting().iter().position(|one| one == entry) else {
                return Ok(None);
            };
            let leave = Change::Leave(Leave {
                request: entry.clone(),
                place,
                because: LeaveReason::GaveUp,
            });
            let first = Address::first(pool);
            if let Applied::Done { .. } = self.store().apply(&first, &leave, self.limit()).await? {
                return Ok(None);
            }
        }
        Err(self.contention_error())
    }
}

impl Entry {
    /// That of the grant in this row.
    pub(crate) fn in_row(at: &Address, row: &Row) -> Self {
        Self {
            request: row.request.clone(),
            key: at.key.clone(),
            permit: at.permit,
            fencing_token: row.fencing_token,
        }
    }

    /// The row that has the grant.
    pub(crate) fn at(&self) -> Address {
        Address {
            key: self.key.clone(),
            permit: self.permit,
        }
    }

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

    /// Whether this row has the grant.
    pub(crate) fn is_held_in(&self, row: &Row) -> bool {
        row.holding().is_some()
            && row.request == self.request
            && row.fencing_token == self.fencing_token
    }

    /// Whether the grant has ended, as this row, that of the key, shows: then its permit ends too. A row that was restored from a backup
    /// shows nothing.
    pub(crate) fn has_ended_in(&self, row: &Row) -> bool {
        row.fencing_token >= self.fencing_token && !self.is_held_in(row)
    }
}
