//! The rules: release, and every other end of a grant that its holder can prove.

use crate::{
    error::Error,
    leases::{Leases, TRIES, address_of, corrupt},
    line::{Sender, is_kept_by},
    outcomes::{Ended, Lease, ReleaseOutcome, Released},
    row::Row,
    store::{Applied, Store},
    transition::{Change, Next, Of, Release, ReleaseRefusal, why_not_released},
    values::{Counter, Key, LeaseId},
};

impl<S: Store> Leases<S> {
    /// Ends the lease, if it is still the caller's; an expired one too, for a clean hand-over.
    ///
    /// One conditional write. It never frees anybody else's lease, and may be repeated for ever.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::apply`]. A lease that somebody else was granted
    /// in the meantime is [`ReleaseOutcome::Lost`], not an error.
    pub async fn release(&self, lease: &Lease) -> Result<Released, Error> {
        let now = self.now();
        Ok(Released {
            outcome: self.end(lease, Ended::Released).await?,
            expired: lease.expires_at <= now,
        })
    }

    /// Ends the lease in the way that suits the row, and tells whoever is next in line.
    pub(crate) async fn end(&self, lease: &Lease, ended: Ended) -> Result<ReleaseOutcome, Error> {
        let key = &lease.key;
        let next = self.next();
        let ours = match &next {
            Next::Is(heir) => Some(heir.lease_id.clone()),
            Next::Later => None,
        };
        let mut release = Release {
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.fencing_token,
            of: if lease.looks_promised() {
                Of::Reservation(lease.holder.clone())
            } else {
                Of::Grant
            },
            ended,
            next,
            purge_at: self.purge_at(self.now()),
        };
        let address = address_of(lease);
        for _ in 0..TRIES {
            let change = Change::Release(release.clone());
            let stored = match self.store().apply(&address, &change, self.limit()).await? {
                Applied::Done { row, .. } => {
                    self.wake(key, row, Sender::First).await;
                    return Ok(ReleaseOutcome::Released);
                }
                Applied::Refused(stored) => stored,
            };
            match why_not_released(stored, &release, &lease.holder) {
                ReleaseRefusal::Suits(suited) => release = *suited,
                ReleaseRefusal::Already(row) => {
                    if let Some(row) = row {
                        self.wake_after_all(key, *row, ours.as_ref()).await?;
                    }
                    return Ok(ReleaseOutcome::AlreadyReleased);
                }
                ReleaseRefusal::Lost => return Ok(ReleaseOutcome::Lost),
                ReleaseRefusal::Corrupt(reason) => return Err(corrupt(key.clone(), reason)),
            }
        }
        Err(self.never_still())
    }

    /// After a release that was done before. If it was this very call that did it, and the answer
    /// was lost, nobody has told the next in line; if it was one before, that one may have died
    /// before it could.
    async fn wake_after_all(
        &self,
        key: &Key,
        row: Row,
        ours: Option<&LeaseId>,
    ) -> Result<(), Error> {
        if ours.is_some_and(|lease_id| is_kept_by(&row, lease_id)) {
            self.wake(key, row, Sender::First).await;
        } else if let Some(reserved) = row.reserved()
            && reserved.tries == Counter::MIN
            && ours.is_some()
            && let Some(row) = self.try_again(key, reserved).await?
        {
            self.wake(key, row, Sender::Again).await;
        }
        Ok(())
    }

    /// As [`Leases::release`], for a caller whose work must not end under somebody else's lease.
    ///
    /// # Errors
    /// As [`Leases::release`], and [`Error::Lost`] if somebody else was granted the key in the
    /// meantime.
    pub async fn release_strictly(&self, lease: &Lease) -> Result<Released, Error> {
        let released = self.release(lease).await?;
        match released.outcome {
            ReleaseOutcome::Lost => Err(Error::Lost {
                key: lease.key.clone(),
            }),
            _ => Ok(released),
        }
    }
}
